"""Normalise: spans of any convention into `Step`s, the convention chosen by what the attributes say."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from otel_drift.model import Attributes, Span
from otel_drift.normalise.app import Application
from otel_drift.normalise.cohere import SCOPE as COHERE
from otel_drift.normalise.cohere import CohereRerank
from otel_drift.normalise.crewai import CrewAI
from otel_drift.normalise.gen_ai import GenAI
from otel_drift.normalise.google_adk import GoogleADK
from otel_drift.normalise.haystack import KEYS as HAYSTACK_KEYS
from otel_drift.normalise.haystack import Haystack
from otel_drift.normalise.langfuse import Langfuse
from otel_drift.normalise.langsmith import LangSmith
from otel_drift.normalise.litellm import LiteLLM
from otel_drift.normalise.mlflow import Mlflow
from otel_drift.normalise.names import SESSION_CONVERSATION, SESSION_DELIBERATE, scalar
from otel_drift.normalise.openinference import OpenInference
from otel_drift.normalise.openlit import OpenLIT
from otel_drift.normalise.owners import Owner, owners_in
from otel_drift.normalise.pydantic_ai import PydanticAI
from otel_drift.normalise.reader import Reader, Shape
from otel_drift.normalise.step import Identity, Step
from otel_drift.normalise.traceloop import Traceloop
from otel_drift.normalise.vectordb import STORES, VectorStore
from otel_drift.normalise.vercel import Vercel

__all__ = ["Identity", "Step", "identify", "read"]

_OPENINFERENCE, _LANGFUSE, _MLFLOW, _VERCEL = OpenInference(), Langfuse(), Mlflow(), Vercel()
_PYDANTIC, _TRACELOOP, _VECTOR, _GENAI = PydanticAI(), Traceloop(), VectorStore(), GenAI()
_LANGSMITH, _HAYSTACK, _COHERE, _CREW = LangSmith(), Haystack(), CohereRerank(), CrewAI()
_LITELLM, _ADK, _OPENLIT, _APP = LiteLLM(), GoogleADK(), OpenLIT(), Application()
_APP_ONLY: tuple[Reader, ...] = (_APP,)
MAX_NAMES = 100_000
"""How many attribute names all shapes that are remembered may have together: some 30 MB."""
NAME_LENGTH = 64
"""Characters for which a name counts once: a sender may make them as long as a request."""


_shapes: dict[tuple[object, ...], Shape] = {}
_names = 0


def read(span: Span, session_attributes: Sequence[str] = ()) -> Step:
    """Read one span.

    Args:
        span: the span with its joined log records.
        session_attributes: attribute names that hold the session id whatever else the span says.
    """
    return Step(span, _shape_of(span), identify, session_attributes)


def identify(span: Span, session_attributes: Sequence[str] = ()) -> Identity:
    """Read who a span belongs to, and which conventions know it."""
    shape = _shape_of(span)
    if shape.anonymous and not (session_attributes or span.logs):
        return _identity(Identity, (shape.readers, None, owners_in(span.resource)))
    a = span.attributes
    session: tuple[int, str] | None = None
    for name in session_attributes:
        own = scalar(a.get(name)) or scalar(span.resource.get(name))
        if own is not None:
            session = (-1, own)
            break
    if session is None:
        for rank, name in shape.sessions:
            own = scalar(a[name])
            if own is not None:
                session = (rank, own)
                break
    if session is None or session[0] > SESSION_CONVERSATION:
        for reader in shape.nested:
            found = reader.nested_session(a)
            if found is not None and (session is None or found[0] < session[0]):
                session = found
    owners = owners_in(span.resource)
    if shape.owners.named:
        owners = shape.owners.read(a) + owners
    if span.logs:
        session, owners = _from_logs(span, session, owners)
    return _identity(Identity, (shape.readers, session, owners))


_identity = tuple.__new__
"""An `Identity` in half the time that its own constructor takes."""


def log_identity(attributes: Attributes) -> tuple[tuple[int, str] | None, tuple[Owner, ...]]:
    """Session id (with rank) and owners of a log record."""
    own = scalar(attributes.get("session.id"))
    session = (SESSION_DELIBERATE, own) if own else None
    if session is None:
        own = scalar(attributes.get("gen_ai.conversation.id"))
        session = (SESSION_CONVERSATION, own) if own else None
    return session, owners_in(attributes)


def _from_logs(
    span: Span, session: tuple[int, str] | None, owners: tuple[Owner, ...]
) -> tuple[tuple[int, str] | None, tuple[Owner, ...]]:
    for record in span.logs:
        found, who = log_identity(record.attributes)
        if found is not None and (session is None or found[0] < session[0]):
            session = found
        owners += who
    return session, owners


def _shape_of(span: Span) -> Shape:
    """What the span's attribute keys say."""
    a = span.attributes
    key: tuple[object, ...] = span.scope, *a
    store: object = None
    hits = logs = False
    if span.events or span.logs or "db.system" in a or "db.system.name" in a:
        store = a.get("db.system") or a.get("db.system.name")
        hits = any(event.name == "db.query.result" for event in span.events)
        logs = any(record.event_name.startswith("gen_ai.") for record in span.logs)
        key = (*key, store if isinstance(store, str) else None, hits, logs)
    shape = _shapes.get(key)
    if shape is None:
        global _names
        size = len(a) + 1 + sum(len(part) for part in key if isinstance(part, str)) // NAME_LENGTH
        _names += size
        if _names > MAX_NAMES:
            _shapes.clear()
            _names = size
        shape = _shapes[key] = Shape(tuple(a), _conventions(a.keys(), span.scope, store, hits, logs))
    return shape


def _conventions(keys: Collection[str], scope: str, store: object, hits: bool, logs: bool) -> tuple[Reader, ...]:
    """The readers that know a span of these keys, richest first; the application's own as the last resort."""
    found: list[Reader] = []
    if "openinference.span.kind" in keys or "llm.input_messages.0.message.role" in keys:
        found.append(_OPENINFERENCE)
    if any(key.startswith("langfuse.observation.") for key in keys):
        found.append(_LANGFUSE)
    if "mlflow.spanType" in keys or "mlflow.spanInputs" in keys or "mlflow.trace.session" in keys:
        found.append(_MLFLOW)
    if "langsmith.span.kind" in keys:
        found.append(_LANGSMITH)
    if not HAYSTACK_KEYS.isdisjoint(keys):
        found.append(_HAYSTACK)
    if "ai.operationId" in keys:
        found.append(_VERCEL)
    if (
        not {
            "pydantic_ai.all_messages",
            "final_result",
            "tool_response",
            "all_messages_events",
            "request_data",
        }.isdisjoint(keys)
        or ("events" in keys and "gen_ai.operation.name" in keys)
        or scope == "pydantic-ai"
    ):
        found.append(_PYDANTIC)
    if (isinstance(store, str) and store.lower() in STORES) or "db.vector.query.top_k" in keys or hits:
        found.append(_VECTOR)
    raw = not found and any(key.startswith("llm.") for key in keys)
    if logs or any(key.startswith("gen_ai.") for key in keys):
        found.append(_GENAI)
        if "gcp.vertex.agent.invocation_id" in keys or scope == "gcp.vertex.agent":
            found.append(_ADK)
        if scope.startswith("openlit"):
            found.append(_OPENLIT)
        if scope == COHERE:
            found.append(_COHERE)
    if "crewai.crew.tasks_output" in keys:
        found.append(_CREW)
    if any(key.startswith("traceloop.") for key in keys):
        found.append(_TRACELOOP)
    if raw:
        found.append(_LITELLM)
    return (*found, _APP) if found else _APP_ONLY
