"""Normalise: LiteLLM's `raw_gen_ai_request` spans (`llm.<provider>.*`, Python reprs) and its `metadata.*` fields."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, ClassVar

from otel_drift.normalise.messages import read_messages
from otel_drift.normalise.names import SESSION_NAMESPACED, named_sessions
from otel_drift.normalise.reader import Reader, Shape
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
        if _key(step.shape, _MESSAGES) is None and _key(step.shape, _ANSWERS) is None:
            return "other"
        return "embedding" if "embed" in str(_model(step)) else "llm"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """A session id that a proxy put into the metadata."""
        return [(SESSION_NAMESPACED, key) for _, key in named_sessions(keys, "metadata.")]

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages of the raw request."""
        key = _key(step.shape, _MESSAGES)
        if key is None:
            return None
        messages = read_messages(structured(step.json(key)), "user")
        system = step.span.attributes.get(key.rpartition(".")[0] + ".instructions")
        if isinstance(system, str) and system and system != "None":
            messages = (ChatMessage("system", system), *messages)
        return messages or None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Choices of the raw response."""
        key = _key(step.shape, _ANSWERS)
        if key is None:
            return None
        value = structured(step.json(key))
        return None if isinstance(value, str) else read_messages(value, "assistant") or None

    def fact(self, step: Step, name: str) -> str | None:
        """Model."""
        if name != "model":
            return None
        found = _model(step)
        return found if isinstance(found, str) else None


def _model(step: Step) -> Any:
    return next((step.span.attributes[key] for _, key in step.shape.below("llm.") if key.endswith(".model")), None)


@lru_cache(maxsize=256)
def _key(shape: Shape, endings: tuple[str, ...]) -> str | None:
    """The attribute of the raw request that ends in one of `endings`, the first of which is preferred."""
    raw = [key for rest, key in shape.below("llm.") if rest.count(".") == 1]
    return next((key for ending in endings for key in raw if key.endswith(ending)), None)
