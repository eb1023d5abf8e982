"""Normalise: MLflow spans (`mlflow.*`), over OTLP or from its own trace JSON: every attribute value is JSON text."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from otel_drift.model import Attributes
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.messages import read_answer, read_messages
from otel_drift.normalise.names import (
    NOT_ASKED,
    QUESTION_KEYS,
    SESSION_NAMESPACED,
    SESSION_THREAD,
    leaves,
    session_in,
)
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Document, Kind, Step, Tool
from otel_drift.normalise.values import load

_KINDS: dict[str, Kind] = {
    "LLM": "llm",
    "CHAT_MODEL": "llm",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "TOOL": "tool",
    "EMBEDDING": "embedding",
    "AGENT": "agent",
    "CHAIN": "chain",
    "PARSER": "chain",
    "WORKFLOW": "chain",
    "TASK": "chain",
    "UNKNOWN": "chain",
}


class Mlflow(Reader):
    """Spans with `mlflow.spanType`."""

    name = "mlflow"
    facts: ClassVar = {"model": ("mlflow.llm.model",), "feedback": ("mlflow.trace.assessments",)}
    needs: ClassVar = {"input": "mlflow.spanInputs", "output": "mlflow.spanOutputs", "documents": "mlflow.spanOutputs"}

    def kind(self, step: Step) -> Kind:
        """From `mlflow.spanType`."""
        declared = step.span.attributes.get("mlflow.spanType")
        return _KINDS.get(declared.strip('"').upper(), "chain") if isinstance(declared, str) else "chain"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """`mlflow.trace.session` (trace metadata)."""
        return [(SESSION_NAMESPACED, "mlflow.trace.session")]

    def nested_session(self, a: Attributes) -> tuple[int, str] | None:
        """A thread id in the inner spans' metadata."""
        metadata = a.get("metadata")
        if isinstance(metadata, str) and ("thread_id" in metadata or "session" in metadata):
            details, _ = load(metadata)
            found = session_in(details) if isinstance(details, dict) else None
            return (SESSION_THREAD, found) if found else None
        return None

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages in the inputs of a model span."""
        return (read_messages(self.input(step), "user") or None) if step.kind == "llm" else None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages in the outputs of a model span."""
        return (read_answer(self.output(step)) or None) if step.kind == "llm" else None

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """Outputs of a retriever span."""
        if step.kind in {"retriever", "reranker"} and "mlflow.spanOutputs" in step.span.attributes:
            return read_documents(self.output(step), strings=True)
        return None

    def query(self, step: Step) -> str | None:
        """Inputs of a retriever span."""
        if step.kind in {"retriever", "embedding"}:
            found = leaves(self.input(step), QUESTION_KEYS, NOT_ASKED)
            return found[0] if found and (step.kind == "retriever" or len(found) == 1) else None
        return None

    def tool(self, step: Step) -> Tool | None:
        """A tool span."""
        return Tool(step.span.name, self.input(step), self.output(step)) if step.kind == "tool" else None

    def input(self, step: Step) -> Any:
        """`mlflow.spanInputs`."""
        return step.json("mlflow.spanInputs")

    def output(self, step: Step) -> Any:
        """`mlflow.spanOutputs`."""
        return step.json("mlflow.spanOutputs")

    def fact(self, step: Step, name: str) -> Any:
        """Model, and what people said of the trace."""
        if name == "feedback":
            return _feedback(step.json("mlflow.trace.assessments"))
        if name == "model":
            value = step.span.attributes.get("mlflow.llm.model")
            return value.strip('"') if isinstance(value, str) else None
        return None


def _feedback(assessments: Any) -> str | None:
    """People's feedback among MLflow's assessments, as ``name: value`` lines."""
    lines = []
    for item in assessments if isinstance(assessments, list) else ():
        source = item.get("source") if isinstance(item, dict) else None
        feedback = item.get("feedback") if isinstance(item, dict) else None
        if (
            isinstance(feedback, dict)
            and isinstance(source, dict)
            and str(source.get("source_type")).upper() == "HUMAN"
        ):
            value = feedback.get("value")
            note = item.get("rationale")
            lines.append(
                f"{item.get('assessment_name') or item.get('name') or 'feedback'}: {value}"
                + (f" ({note})" if note else "")
            )
    return "\n".join(lines) or None
