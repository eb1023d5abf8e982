"""Spans as an OTLP/JSON request, to send to servers, and captures moved to another time."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otel_drift.model import Span


def request_of(spans: Iterable[Span]) -> dict[str, Any]:
    """An ``ExportTraceServiceRequest`` with these spans, each with its resource and scope."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(span.resource)},
                "scopeSpans": [{"scope": {"name": span.scope}, "spans": [_span(span)]}],
            }
            for span in spans
        ]
    }


def moved(spans: Sequence[Span], ends: int) -> list[Span]:
    """The same spans and events, the last of them ending at `ends` (nanoseconds since the epoch)."""
    by = ends - max(span.end for span in spans)
    return [
        dataclasses.replace(
            span,
            start=span.start + by,
            end=span.end + by,
            events=tuple(dataclasses.replace(event, time=event.time + by) for event in span.events),
        )
        for span in spans
    ]


def _span(span: Span) -> dict[str, Any]:
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **({"parentSpanId": span.parent_id} if span.parent_id else {}),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
        "status": {"code": ("unset", "ok", "error").index(span.status), "message": span.status_message},
        "events": [
            {"name": event.name, "timeUnixNano": str(event.time), "attributes": _attributes(event.attributes)}
            for event in span.events
        ],
    }


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": _attributes(value)}}
    return {"arrayValue": {"values": [_value(one) for one in value]}}
