"""litellm, loaded late and kept quiet and offline: the model table, and which options a model takes."""

from __future__ import annotations

import functools
import importlib
import logging
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from otel_drift.errors import ConfigError
from otel_drift.text.remembered import remembered

_ENVIRONMENT = {
    # Without these, importing litellm reads a .env file from a folder above it, and fetches price lists from GitHub.
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
}
_KEYLESS = frozenset({"azure", "azure_ai", "bedrock", "bedrock_converse", "sagemaker", "sagemaker_chat", "vertex_ai"})
"""Providers with other credentials than a key in the environment (instance roles, login files)."""
_SAMPLES, _SAMPLE_LENGTH = 5, 120
_OLLAMA = frozenset({"ollama", "ollama_chat"})
"""Takes a schema; litellm would ask its server about each model instead of its table."""


@functools.cache
def load() -> Any:
    """Import litellm (seconds) without network, `.env` files, banners or logs that could hold a prompt."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Answers with a field litellm does not expect make pydantic warn on stderr, with the value.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    library: Any = importlib.import_module("litellm")
    library.suppress_debug_info = True
    library.telemetry = False
    library.disable_hf_tokenizer_download = True
    for logger in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    return library


def provider_of(model: str) -> tuple[str, str]:
    """Split a litellm model name into the provider's name and the model's.

    Raises:
        ConfigError: litellm knows no such provider.
    """
    try:
        name, provider, *_ = load().get_llm_provider(model)
    except Exception:  # litellm raises BadRequestError, whose text is three paragraphs
        known = None
    else:
        known = str(provider), str(name)
    if known is None:
        raise ConfigError(
            f"judge model {model!r}: unknown provider; write provider/NAME as litellm does, or openai/NAME with "
            "an api_base for any OpenAI-compatible server"
        )
    return known


def table_entry(provider: str, name: str) -> Mapping[str, Any]:
    """What litellm's bundled table says about a model; empty where it is unknown."""
    table = load().model_cost
    for key in (f"{provider}/{name}", name):
        entry = table.get(key)
        if isinstance(entry, Mapping) and str(entry.get("litellm_provider", "")).startswith(provider):
            return entry
    return {}


def takes(provider: str, name: str, **option: Any) -> bool:
    """Whether the model takes an option with this value (a reasoning model takes no temperature of 0)."""
    optional = importlib.import_module("litellm.utils").get_optional_params
    asked = {"model": name, "custom_llm_provider": provider, "drop_params": True}
    return bool(optional(**asked, **option) != optional(**asked))


def response_kinds(provider: str, name: str, *, unknown_endpoint: bool) -> tuple[str, ...]:
    """The response formats to try, best first: ``json_schema``, ``json_object``, ``text``."""
    library = load()
    untold = provider in _OLLAMA or (unknown_endpoint and not table_entry(provider, name))
    if untold or library.supports_response_schema(name, provider):
        return ("json_schema", "json_object", "text")
    if "response_format" in (library.get_supported_openai_params(name, provider) or ()):
        return ("json_object", "text")
    return ("text",)


def missing_key(model: str, provider: str) -> str | None:
    """The environment variables a model lacks its key in, for people; None if it has all, or needs none."""
    if provider in _KEYLESS:
        return None
    library = load()
    with _without_empty_keys():  # which litellm takes for keys
        missing = library.validate_environment(model).get("missing_keys") or ()
    keys = [name for name in missing if name.endswith("_API_KEY")]
    return " or ".join(keys) or None


@contextmanager
def _without_empty_keys() -> Iterator[None]:
    empty = {name: value for name, value in os.environ.items() if name.endswith("_API_KEY") and not value.strip()}
    for name in empty:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(empty)


def count_tokens(text: str) -> int:
    """Tokens by the encoding litellm bundles (cl100k): exact for few models anyway, close for most.

    Counted line by line and remembered: a session's lines are counted when it is planned, asked and paid for. Of long
    lines samples are counted, because tokenizing a session would take longer than all the rest of us.
    """
    lines = text.split("\n")
    return sum(map(_tokens_of_line, lines)) + len(lines) - 1


@remembered(2048)
def _tokens_of_line(line: str) -> int:
    sampled = _SAMPLES * _SAMPLE_LENGTH
    if len(line) <= 2 * sampled:
        return _tokens_of(line)
    step = (len(line) - _SAMPLE_LENGTH) // (_SAMPLES - 1)
    samples = (line[at : at + _SAMPLE_LENGTH] for at in range(0, step * _SAMPLES, step))
    return math.ceil(sum(map(_tokens_of, samples)) / sampled * len(line))


def _tokens_of(text: str) -> int:
    try:
        return len(_encoding().encode(text, disallowed_special=()))
    except Exception:  # no encoding, or text it cannot take: three bytes a token is on the safe side
        return len(text.encode("utf-8", "replace")) // 3 + 1


@functools.cache
def _encoding() -> Any:
    load()
    # This module points tiktoken at the file litellm bundles; without it tiktoken would fetch it.
    return importlib.import_module("litellm.litellm_core_utils.default_encoding").encoding


def portable_schema(schema: Any) -> Any:
    """Reduce a JSON schema to what strict structured output accepts everywhere.

    Every property required, no other ones, no bounds on lengths (grammars of small servers blow up on them); our own
    validation checks all of that anyway.
    """
    if isinstance(schema, list):
        return [portable_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: portable_schema(part) for name, part in value.items()}
        elif key in ("items", "anyOf", "allOf", "oneOf"):
            kept["anyOf" if key == "oneOf" else key] = portable_schema(value)
        elif key in ("type", "enum", "const", "$ref", "description"):
            kept[key] = value
    if "properties" in kept:
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept
