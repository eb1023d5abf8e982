"""Normalise: Langfuse SDK spans (`langfuse.observation.*`, `langfuse.trace.*`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.messages import read_answer, read_messages
from otel_drift.normalise.names import (
    NOT_ASKED,
    QUESTION_KEYS,
    SESSION_DELIBERATE,
    SESSION_THREAD,
    leaves,
    named_sessions,
)
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Document, Kind, Step, Tool
from otel_drift.normalise.traceloop import call_arguments

_KINDS: dict[str, Kind] = {
    "generation": "llm",
    "retriever": "retriever",
    "reranker": "reranker",
    "tool": "tool",
    "embedding": "embedding",
    "agent": "agent",
    "chain": "chain",
    "span": "chain",
    "event": "other",
    "evaluator": "chain",
    "guardrail": "chain",
}


class Langfuse(Reader):
    """Spans with `langfuse.observation.type` (or other `langfuse.*` keys)."""

    name = "langfuse"
    facts: ClassVar = {
        "model": ("langfuse.observation.model.name",),
        "app_version": ("langfuse.version", "langfuse.release"),
        "prompt_name": ("langfuse.observation.prompt.name",),
        "prompt_version": ("langfuse.observation.prompt.version",),
        "environment": ("langfuse.environment",),
        "tags": ("langfuse.trace.tags",),
    }
    needs: ClassVar = {"documents": "langfuse.observation.output"}

    def kind(self, step: Step) -> Kind:
        """From the observation type."""
        declared = step.span.attributes.get("langfuse.observation.type")
        return _KINDS.get(declared.lower(), "chain") if isinstance(declared, str) else "chain"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """`session.id`, else a session or thread id in the metadata."""
        own = [(SESSION_DELIBERATE, key) for key in ("session.id", "langfuse.session.id", "langfuse.trace.session_id")]
        nested = named_sessions(keys, "langfuse.trace.metadata.", "langfuse.observation.metadata.")
        return [*own, *((SESSION_THREAD, key) for _, key in nested)]

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages of a generation: a list, or a mapping with tools and messages."""
        if step.kind != "llm":
            return None
        return read_messages(step.json("langfuse.observation.input"), "user") or None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """The generation's answer."""
        if step.kind != "llm":
            return None
        return read_answer(step.json("langfuse.observation.output")) or None

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """Whatever a retriever observation returned."""
        if step.kind in {"retriever", "reranker"} and "langfuse.observation.output" in step.span.attributes:
            return read_documents(step.json("langfuse.observation.output"), strings=True)
        return None

    def query(self, step: Step) -> str | None:
        """What a retriever or embedding observation was called with."""
        if step.kind in {"retriever", "reranker"}:
            return next(iter(leaves(self.input(step), QUESTION_KEYS, NOT_ASKED)), None)
        if step.kind == "embedding":
            found = leaves(self.input(step), QUESTION_KEYS, frozenset())
            return found[0] if len(found) == 1 else None
        return None

    def tool(self, step: Step) -> Tool | None:
        """A tool observation."""
        if step.kind != "tool":
            return None
        return Tool(step.span.name, self.input(step), step.json("langfuse.observation.output"))

    def input(self, step: Step) -> Any:
        """The observation input; call arguments are unwrapped."""
        value = step.json("langfuse.observation.input")
        if isinstance(value, dict) and "args" in value and "kwargs" in value:
            return call_arguments(value)
        if value is None and step.span.parent_id is None:
            return step.json("langfuse.trace.input")
        return value

    def output(self, step: Step) -> Any:
        """The observation output."""
        value = step.json("langfuse.observation.output")
        if value is None and step.span.parent_id is None:
            return step.json("langfuse.trace.output")
        return value
