"""Normalise: spans of any convention into `Step`s, the convention chosen by what the attributes say."""

from __future__ import annotations

from collections.abc import Sequence

from otel_drift.model import Span
from otel_drift.normalise.app import Application
from otel_drift.normalise.gen_ai import GenAI
from otel_drift.normalise.google_adk import GoogleADK
from otel_drift.normalise.langfuse import Langfuse
from otel_drift.normalise.litellm import LiteLLM
from otel_drift.normalise.mlflow import Mlflow
from otel_drift.normalise.names import scalar
from otel_drift.normalise.openinference import OpenInference
from otel_drift.normalise.pydantic_ai import PydanticAI
from otel_drift.normalise.step import Reader, Step
from otel_drift.normalise.traceloop import Traceloop
from otel_drift.normalise.vectordb import STORES, VectorStore
from otel_drift.normalise.vercel import Vercel

__all__ = ["Step", "conventions", "read"]

_OPENINFERENCE, _LANGFUSE, _MLFLOW, _VERCEL = OpenInference(), Langfuse(), Mlflow(), Vercel()
_PYDANTIC, _TRACELOOP, _VECTOR, _GENAI = PydanticAI(), Traceloop(), VectorStore(), GenAI()
_LITELLM, _ADK, _APP = LiteLLM(), GoogleADK(), Application()
_APP_ONLY: tuple[Reader, ...] = (_APP,)


def read(span: Span, session_attributes: Sequence[str] = ()) -> Step:
    """Read one span.

    Args:
        span: the span with its joined log records.
        session_attributes: attribute names that hold the session id whatever else the span says.
    """
    step = Step(span, conventions(span))
    for name in session_attributes:
        own = scalar(span.attributes.get(name)) or scalar(span.resource.get(name))
        if own is not None:
            step.session = (-1, own)
            break
    return step


def conventions(span: Span) -> tuple[Reader, ...]:
    """The readers that know this span, richest first; the application's own as the last resort."""
    a = span.attributes
    found: list[Reader] = []
    if "openinference.span.kind" in a or "llm.input_messages.0.message.role" in a:
        found.append(_OPENINFERENCE)
    if "langfuse.observation.type" in a or "langfuse.observation.input" in a:
        found.append(_LANGFUSE)
    if "mlflow.spanType" in a or "mlflow.spanInputs" in a:
        found.append(_MLFLOW)
    if "ai.operationId" in a:
        found.append(_VERCEL)
    if "pydantic_ai.all_messages" in a or "final_result" in a or "tool_response" in a or "events" in a:
        found.append(_PYDANTIC)
    store = a.get("db.system") or a.get("db.system.name")
    if (isinstance(store, str) and store.lower() in STORES) or "db.vector.query.top_k" in a or _has_hits(span):
        found.append(_VECTOR)
    gen_ai = False
    traceloop = litellm = False
    if "gen_ai.operation.name" in a:
        gen_ai = True
    for key in a:
        if key.startswith("gen_ai."):
            gen_ai = True
        elif key.startswith("traceloop."):
            traceloop = True
        elif key.startswith("llm.") and not found:
            litellm = True
    if span.logs and not gen_ai:
        gen_ai = any(record.event_name.startswith("gen_ai.") for record in span.logs)
    if gen_ai:
        found.append(_GENAI)
        if "gcp.vertex.agent.invocation_id" in a or span.scope == "gcp.vertex.agent":
            found.append(_ADK)
    if traceloop:
        found.append(_TRACELOOP)
    if litellm:
        found.append(_LITELLM)
    if not found:
        return _APP_ONLY
    found.append(_APP)
    return tuple(found)


def _has_hits(span: Span) -> bool:
    return any(event.name == "db.query.result" for event in span.events)
