"""Normalise: Haystack's own tracer (`haystack.component.*`, `.pipeline.*`, `.agent.*`), content as JSON text.

A component's role is told by its class name, as Haystack's are named: `…Retriever`, `…Ranker`, `…Generator`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.messages import read_answer, read_messages
from otel_drift.normalise.names import NOT_ASKED, QUESTION_KEYS, leaves
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Document, Kind, Step

_KINDS: tuple[tuple[str, Kind], ...] = (
    ("Generator", "llm"),
    ("ChatLLM", "llm"),
    ("Retriever", "retriever"),
    ("WebSearch", "retriever"),
    ("Ranker", "reranker"),
    ("TextEmbedder", "embedding"),
    ("DocumentEmbedder", "index"),
    ("DocumentWriter", "index"),
    ("Agent", "agent"),
)
KEYS = frozenset({"haystack.component.type", "haystack.pipeline.input_data", "haystack.agent.max_steps"})


class Haystack(Reader):
    """Spans of Haystack's tracer."""

    name = "haystack"
    facts: ClassVar = {"model": ()}

    def kind(self, step: Step) -> Kind:
        """From the component's class name; a pipeline is a chain."""
        component = step.span.attributes.get("haystack.component.type")
        if isinstance(component, str):
            return next((kind for ending, kind in _KINDS if component.endswith(ending)), "chain")
        return "agent" if "haystack.agent.max_steps" in step.span.attributes else "chain"

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """What a generator was given: messages, or one prompt."""
        if step.kind != "llm":
            return None
        given = self.input(step)
        messages = read_messages(given, "user")
        system = given.get("system_prompt") if isinstance(given, dict) else None
        if isinstance(system, str) and system:
            messages = (ChatMessage("system", system), *messages)
        return messages or None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """A generator's replies."""
        said = self.output(step) if step.kind == "llm" else None
        return read_answer(said.get("replies", said) if isinstance(said, dict) else said) or None

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """Documents that a retriever or ranker returned."""
        said = self.output(step) if step.kind in {"retriever", "reranker"} else None
        return read_documents(said.get("documents", said) if isinstance(said, dict) else said, strings=True)

    def candidates(self, step: Step) -> tuple[Document, ...] | None:
        """Documents that a ranker was given."""
        given = self.input(step) if step.kind == "reranker" else None
        return read_documents(given.get("documents")) if isinstance(given, dict) else None

    def query(self, step: Step) -> str | None:
        """What a retriever, ranker or text embedder was given."""
        if step.kind not in {"retriever", "reranker", "embedding"}:
            return None
        return next(iter(leaves(self.input(step), QUESTION_KEYS, NOT_ASKED)), None)

    def input(self, step: Step) -> Any:
        """Inputs of a pipeline, an agent or a component."""
        return _first(step, "haystack.component.input", "haystack.pipeline.input_data", "haystack.agent.input")

    def output(self, step: Step) -> Any:
        """What it returned."""
        return _first(step, "haystack.component.output", "haystack.pipeline.output_data", "haystack.agent.output")

    def fact(self, step: Step, name: str) -> Any:
        """The model, as the first reply names it."""
        said = self.output(step) if step.kind == "llm" else None
        replies = said.get("replies") if isinstance(said, dict) else None
        reply = replies[0] if isinstance(replies, list) and replies else None
        meta = reply.get("meta") or reply.get("_meta") if isinstance(reply, dict) else None
        return meta.get("model") if isinstance(meta, dict) and name == "model" else None


def _first(step: Step, *keys: str) -> Any:
    return next((step.json(key) for key in keys if key in step.span.attributes), None)
