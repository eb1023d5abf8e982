"""Normalise: LangSmith's OpenTelemetry spans, content as JSON in `gen_ai.prompt` and `gen_ai.completion`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.messages import read_answer, read_messages
from otel_drift.normalise.names import (
    NOT_ASKED,
    QUESTION_KEYS,
    SESSION_NAMESPACED,
    SESSION_THREAD,
    is_thread,
    leaves,
    named_sessions,
)
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Document, Kind, Step, Tool

_KINDS: dict[str, Kind] = {
    "llm": "llm",
    "chat_model": "llm",
    "retriever": "retriever",
    "tool": "tool",
    "embedding": "embedding",
    "chain": "chain",
    "prompt": "chain",
    "parser": "chain",
}
_METADATA = "langsmith.metadata."


class LangSmith(Reader):
    """Spans with `langsmith.span.kind`."""

    name = "langsmith"

    def kind(self, step: Step) -> Kind:
        """From `langsmith.span.kind`."""
        return _KINDS.get(str(step.span.attributes.get("langsmith.span.kind", "")).lower(), "chain")

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """Session, conversation or thread ids in the metadata."""
        return [(SESSION_THREAD if is_thread(k) else SESSION_NAMESPACED, k) for _, k in named_sessions(keys, _METADATA)]

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages in `gen_ai.prompt`."""
        return (read_messages(self.input(step), "user") or None) if step.kind == "llm" else None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages in `gen_ai.completion`."""
        return (read_answer(self.output(step)) or None) if step.kind == "llm" else None

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """What a retriever returned."""
        return read_documents(self.output(step), strings=True) if step.kind == "retriever" else None

    def query(self, step: Step) -> str | None:
        """What a retriever was asked."""
        if step.kind != "retriever":
            return None
        return next(iter(leaves(self.input(step), QUESTION_KEYS, NOT_ASKED)), None)

    def tool(self, step: Step) -> Tool | None:
        """A tool run."""
        return Tool(step.span.name, self.input(step), self.output(step)) if step.kind == "tool" else None

    def input(self, step: Step) -> Any:
        """`gen_ai.prompt`."""
        return step.json("gen_ai.prompt")

    def output(self, step: Step) -> Any:
        """`gen_ai.completion`."""
        return step.json("gen_ai.completion")
