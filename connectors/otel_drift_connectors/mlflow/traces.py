"""MLflow: from a trace as the server gives it to the spans the instrumentation wrote."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from otel_drift.model import Span
from otel_drift.otlp.mlflow import trace_from_mlflow
from otel_drift.otlp.values import Decoding, plain_value
from otel_drift_connectors.mlflow.server import SESSION

SOURCE_ID = "otel-drift"
"""Whose assessments are ours."""
SEVERITY_TAG = "drift_severity"
USER = "mlflow.trace.user"
PROJECT = "openinference.project.name"
FEEDBACK = "user.feedback"

_COMPUTED = frozenset(
    {
        "mlflow.traceRequestId",
        "mlflow.spanType",
        "mlflow.spanInputs",
        "mlflow.spanOutputs",
        "mlflow.llm.model",
        "mlflow.llm.provider",
        "mlflow.llm.cost",
        "mlflow.chat.tokenUsage",
        "mlflow.chat.tools",
        "mlflow.message.format",
    }
)
"""What the server computes for spans that came by OTLP (mlflow/tracing/otel/translation, 3.17)."""
_CONVENTIONS = (
    "openinference.span.kind",
    "llm.",
    "gen_ai.",
    "traceloop.",
    "langfuse.observation.",
    "ai.operationId",
    "pydantic_ai.",
    "logfire.",
)
"""Attributes of conventions that are read better from themselves than from what MLflow makes of them."""
_STATES_SESSION = ("session.id", "gen_ai.conversation.id", SESSION)
"""Where MLflow takes a trace's session from."""


def spans_of(trace: Mapping[str, Any], project: str, decoding: Decoding) -> list[Span]:
    """The spans of one trace, with attributes, session, user and feedback as the normalisers know them.

    MLflow parses every attribute that is JSON text, adds its own, keeps the resource as tags of the trace and drops
    scopes and span kinds; for traces of its own SDK, session and user are metadata of the trace.

    Args:
        trace: ``trace_info`` and ``spans``.
        project: The experiment's name.
        decoding: Limits, and where broken spans are counted.
    """
    info = trace.get("trace_info") or {}
    where = str(info.get("trace_id") or "trace")[:100]
    spans = list(trace_from_mlflow({"data": {"spans": trace.get("spans") or []}}, decoding, where))
    tags = _texts(info.get("tags"), decoding)
    metadata = _texts(info.get("trace_metadata"), decoding)
    resource: dict[str, Any] = {PROJECT: project}
    if "mlflow.trace_schema.version" in metadata:  # by MLflow's SDK; otherwise tags hold the resource
        shared = {**tags, **metadata}
    else:
        resource = {**{k: v for k, v in tags.items() if not k.startswith("mlflow.")}, **resource}
        shared = _unsaid(metadata, spans)
    if feedback := feedback_of(info.get("assessments") or ()):
        shared[FEEDBACK] = plain_value(feedback, decoding, FEEDBACK)
    known = {span.span_id for span in spans}
    restored = []
    for span in spans:
        attributes = original_attributes(span.attributes)
        if span.parent_id is None or span.parent_id not in known:
            attributes = _with_shared(attributes, shared)
        restored.append(dataclasses.replace(span, attributes=attributes, resource=resource))
    return restored


def original_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as the instrumentation wrote them.

    What MLflow parsed is JSON text again; what it computed from a convention we know is left out, so that the span is
    read as that convention. Its white space, and whether a list of texts was JSON text, are lost.
    """
    computed: frozenset[str] = _COMPUTED if _is_translated(attributes) else frozenset()
    return {
        key: _json(value) if key.startswith("mlflow.") else _text_again(value)
        for key, value in attributes.items()
        if key not in computed
    }


def feedback_of(assessments: Iterable[Mapping[str, Any]]) -> str:
    """What people said of a trace, as lines ``name: value``; verdicts on our own findings are none on the answer."""
    given = [one for one in assessments if isinstance(one, dict)]
    ours = {one.get("assessment_name") for one in given if (one.get("source") or {}).get("source_id") == SOURCE_ID}
    lines = []
    for one in given:
        name, feedback = one.get("assessment_name") or "feedback", one.get("feedback")
        by_person = str((one.get("source") or {}).get("source_type")).upper() == "HUMAN"
        if not by_person or not isinstance(feedback, dict) or one.get("valid") is False or name in ours:
            continue
        lines.append(f"{name}: {_shown(feedback.get('value'))}")
        if note := one.get("rationale"):
            lines.append(f"{name} (comment): {_shown(note)}")
    return "\n".join(lines)


def _is_translated(attributes: Mapping[str, Any]) -> bool:
    """Whether MLflow's attributes on this span only repeat those of a convention we know."""
    foreign = [value for key, value in attributes.items() if not key.startswith("mlflow.")]
    return any(key.startswith(_CONVENTIONS) for key in attributes) and all(
        attributes[key] in foreign for key in ("mlflow.spanInputs", "mlflow.spanOutputs") if key in attributes
    )


def _unsaid(metadata: Mapping[str, Any], spans: list[Span]) -> dict[str, Any]:
    """Session and user of a trace where none of its spans says them."""
    shared = {}
    for key, stated in ((SESSION, _STATES_SESSION), (USER, ("user.id", USER))):
        if key in metadata and not any(str(span.attributes.get(name, "")) for span in spans for name in stated):
            shared[key] = metadata[key]
    return shared


def _with_shared(attributes: dict[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    own = attributes.get(FEEDBACK)
    merged = {**shared, **attributes}
    if own and FEEDBACK in shared:
        merged[FEEDBACK] = f"{own}\n{shared[FEEDBACK]}"
    return merged


def _texts(values: Any, decoding: Decoding) -> dict[str, Any]:
    if not isinstance(values, dict):
        return {}
    return {str(key): plain_value(value, decoding, str(key)) for key, value in values.items() if key != SEVERITY_TAG}


def _text_again(value: Any) -> Any:
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict | list) for one in value)):
        return _json(value)
    return value


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # MLflow gives every number with a point
    return _json(value)
