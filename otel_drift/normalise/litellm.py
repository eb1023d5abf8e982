"""Normalise: LiteLLM's `raw_gen_ai_request` spans (`llm.<provider>.*`, Python reprs) and its `metadata.*` fields."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from otel_drift.model import Attributes
from otel_drift.normalise.messages import read_messages
from otel_drift.normalise.names import SESSION_NAMESPACED, named_sessions
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Kind, Step
from otel_drift.normalise.values import structured

_MESSAGES = (".messages", ".input", ".contents", ".prompt")
_ANSWERS = (".choices", ".output", ".candidates", ".content")


class LiteLLM(Reader):
    """`raw_gen_ai_request` spans, and LiteLLM's fields written onto an application's span."""

    name = "litellm"
    facts: ClassVar = {"model": ()}
    raw = True

    def kind(self, step: Step) -> Kind:
        """A raw request with messages is a model call; with embeddings it is none."""
        a = step.span.attributes
        if _find(a, _MESSAGES) is None and _find(a, _ANSWERS) is None:
            return "other"
        model = next((str(v) for k, v in a.items() if k.startswith("llm.") and k.endswith(".model")), "")
        return "embedding" if "embed" in model else "llm"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """A session id that a proxy put into the metadata."""
        return [(SESSION_NAMESPACED, key) for _, key in named_sessions(keys, "metadata.")]

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages of the raw request."""
        key = _find(step.span.attributes, _MESSAGES)
        if key is None:
            return None
        messages = read_messages(structured(step.json(key)), "user")
        system = step.span.attributes.get(key.rpartition(".")[0] + ".instructions")
        if isinstance(system, str) and system and system != "None":
            messages = (ChatMessage("system", system), *messages)
        return messages or None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Choices of the raw response."""
        key = _find(step.span.attributes, _ANSWERS)
        if key is None:
            return None
        value = structured(step.json(key))
        return None if isinstance(value, str) else read_messages(value, "assistant") or None

    def fact(self, step: Step, name: str) -> str | None:
        """Model."""
        if name != "model":
            return None
        found = next(
            (v for k, v in step.span.attributes.items() if k.startswith("llm.") and k.endswith(".model")), None
        )
        return found if isinstance(found, str) else None


def _find(a: Attributes, endings: tuple[str, ...]) -> str | None:
    raw = [key for key in a if key.startswith("llm.") and key.count(".") == 2]
    return next((key for ending in endings for key in raw if key.endswith(ending)), None)
