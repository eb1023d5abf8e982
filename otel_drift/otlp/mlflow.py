"""MLflow's own trace JSON (``Trace.to_json()``), of tracing schema 3 and the older schema 2."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from otel_drift.errors import RecordError
from otel_drift.model import Span, SpanEvent
from otel_drift.otlp.records import KINDS, STATUS_CODES, STATUSES, parent_id_of, put_right
from otel_drift.otlp.values import Decoding, attributes_of, enum_value, identifier, nanoseconds, plain_value, text_of

SCOPE = "mlflow"
ASSESSMENTS = "mlflow.trace.assessments"
"""Root attribute that holds ``info.assessments`` (people's and judges' feedback), as MLflow stores it: a list."""
_PREFIXED = (len("0x") + 16, len("0x") + 32)
"""Characters of an id of schema 2; in base64 they are 12 and 24 at most."""


def is_mlflow_trace(document: Any) -> bool:
    """Whether a JSON document looks like one MLflow trace."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("data"), dict)
        and isinstance(document["data"].get("spans"), list)
    )


def trace_from_mlflow(trace: Mapping[str, Any], decoding: Decoding, where: str = "") -> Iterator[Span]:
    """Yield the spans of one MLflow trace; broken ones are counted.

    Attribute values stay the JSON texts MLflow makes of them. The trace's own metadata and tags, which hold session
    and user (``mlflow.trace.session``, ``mlflow.trace.user``), become attributes of its root spans under their own
    names, as plain values; an attribute of the span itself comes first.
    """
    decoding.careful = True
    info = trace.get("info")
    shared = _trace_attributes(info, decoding) if isinstance(info, dict) else {}
    spans = []
    for ordinal, item in enumerate(trace["data"]["spans"], 1):
        decoding.where = f"{where}, span {ordinal}" if where else f"span {ordinal}"
        try:
            spans.append(_span(item, decoding))
        except RecordError as problem:
            decoding.truncated = []
            decoding.report(problem.reason, lost=True)
    known = {span.span_id for span in spans}
    for span in spans:
        if shared and (span.parent_id is None or span.parent_id not in known):
            yield dataclasses.replace(span, attributes={**shared, **span.attributes})
        else:
            yield span


def _trace_attributes(info: Mapping[str, Any], decoding: Decoding) -> dict[str, Any]:
    shared: dict[str, Any] = {}
    for group in ("tags", "request_metadata", "trace_metadata"):
        values = info.get(group)
        if isinstance(values, list):  # schema 2 over REST: [{"key", "value"}]
            values = {entry.get("key"): entry.get("value") for entry in values if isinstance(entry, dict)}
        if isinstance(values, dict):
            shared.update({str(key): plain_value(value, decoding, str(key)) for key, value in values.items()})
    if isinstance(info.get("assessments"), list) and info["assessments"]:
        shared[ASSESSMENTS] = plain_value(info["assessments"], decoding, ASSESSMENTS)
    return shared


def _span(item: Any, decoding: Decoding) -> Span:
    if not isinstance(item, dict):
        raise RecordError("span is no object")
    context = item.get("context") if isinstance(item.get("context"), dict) else item
    assert isinstance(context, dict)
    parent = item.get("parent_span_id") or item.get("parent_id")
    status = item.get("status")
    if not isinstance(status, dict):
        status = {"code": item.get("status_code"), "message": item.get("status_message")}
    code = enum_value(str(status.get("code") or "").removeprefix("STATUS_CODE_"), STATUS_CODES)
    attributes = attributes_of(item.get("attributes") or {}, decoding)
    span = Span(
        trace_id=identifier(_bare(context.get("trace_id")), 16, "trace id"),
        span_id=identifier(_bare(context.get("span_id")), 8, "span id"),
        parent_id=parent_id_of(_bare(parent), decoding) if parent else None,
        name=text_of(item.get("name"), decoding, "name"),
        start=nanoseconds(item.get("start_time_unix_nano") or item.get("start_time")),
        end=nanoseconds(item.get("end_time_unix_nano") or item.get("end_time")),
        attributes=attributes,
        resource={},
        scope=SCOPE,
        kind=enum_value(item.get("kind", 0), KINDS),
        status=STATUSES[code] if code < 3 else "unset",
        status_message=text_of(status.get("message"), decoding, "status message"),
        events=tuple(_event(event, decoding) for event in item.get("events") or () if isinstance(event, dict)),
    )
    return put_right(span, decoding)


def _event(event: Mapping[str, Any], decoding: Decoding) -> SpanEvent:
    return SpanEvent(
        text_of(event.get("name"), decoding, "event name"),
        nanoseconds(event.get("time_unix_nano") or event.get("timestamp")),
        attributes_of(event.get("attributes") or {}, decoding),
    )


def _bare(value: Any) -> Any:
    """An id without schema 2's ``0x``; what is shorter is base64, which may begin so too."""
    if isinstance(value, str) and len(value) in _PREFIXED and value.startswith("0x"):
        return value[2:]
    return value
