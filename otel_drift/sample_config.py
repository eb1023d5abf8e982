"""The settings as a file to start from (``otel-drift init``): each with what it does, its default and its variable."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from otel_drift.config import Settings


def sample_config() -> str:
    """Return a commented TOML file with every setting, its default and its environment variable."""
    lines = [
        "# otel-drift settings. Each one can also be given as the environment variable named beside it (lists",
        "# separated by commas); the environment wins over this file, the command line over both. API keys are",
        "# never read from here:",
        "# set OPENAI_API_KEY or whatever your provider's key is called.",
    ]
    for name, section in Settings.model_fields.items():
        model = section.annotation
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            lines += ["", f"# {section.description}", f"[{name}]", f"#[{name}.phoenix]", "#timeout = 60"]
            continue
        lines += ["", f"# {model.__doc__}", f"[{name}]"]
        for key, info in model.model_fields.items():
            value = info.get_default(call_default_factory=True)
            lines.append(f"# {info.description}  (OTEL_DRIFT_{name.upper()}__{key.upper()})")
            lines.append(f"#{key} =" if value is None else f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    return repr(value)
