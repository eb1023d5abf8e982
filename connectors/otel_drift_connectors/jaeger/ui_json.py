"""Traces in the JSON of Jaeger's user interface (``/api/traces`` of older servers), as OTLP JSON and so as spans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from otel_drift.errors import RecordError
from otel_drift.model import Span
from otel_drift.otlp import OnProblem, decode_traces_json
from otel_drift_connectors.trace_stores import mapping

_KINDS = {kind: number for number, kind in enumerate(("internal", "server", "client", "producer", "consumer"), 1)}
_STATUS = {"OK": 1, "ERROR": 2}
_SCOPE = ("otel.scope.name", "otel.library.name")
_VERSION = ("otel.scope.version", "otel.library.version")
_NO_ATTRIBUTES = frozenset(("span.kind", "otel.status_code", "otel.status_description", "error", *_SCOPE, *_VERSION))
_LISTS = ("tags", "finish_reasons", "stop_sequences", "otel_drift.links", "otel_drift.types")
"""Ends of the names of attributes that conventions define as lists; other texts may be meant as JSON text."""
_HEX = re.compile(r"[0-9a-fA-F]{1,32}\Z")


def spans_of(trace: Any, *, on_problem: OnProblem) -> list[Span]:
    """The spans of one trace; broken ones are told and left out."""
    if not isinstance(trace, Mapping) or not isinstance(trace.get("spans"), list):
        on_problem(RecordError("a trace without a list of spans"))
        return []
    processes = mapping(trace.get("processes"))
    entries = [_entry(span, processes) for span in trace["spans"] if isinstance(span, Mapping)]
    if len(entries) < len(trace["spans"]):
        on_problem(RecordError("a span that is no object"))
    try:
        return decode_traces_json({"resourceSpans": entries}, on_problem=on_problem) if entries else []
    except RecordError:  # nothing but problems, each of which was told
        return []


def padded(value: Any, digits: int) -> Any:
    """An id with the leading zeros that old stores leave out."""
    return value.rjust(digits, "0") if isinstance(value, str) and _HEX.match(value) else value


def _entry(span: Mapping[str, Any], processes: Mapping[str, Any]) -> dict[str, Any]:
    """A span as OTLP's entry of a resource, with the process it names as the resource."""
    process = mapping(processes.get(str(span.get("processID")))) or mapping(span.get("process"))
    resource = [*_attributes(process.get("tags"))]
    if isinstance(process.get("serviceName"), str):
        resource.append({"key": "service.name", "value": {"stringValue": process["serviceName"]}})
    tags = {str(tag.get("key")): tag.get("value") for tag in _mappings(span.get("tags"))}
    scope = next((tags[key] for key in _SCOPE if key in tags), "")
    return {
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": str(scope)}, "spans": [_span(span, tags)]}],
    }


def _span(span: Mapping[str, Any], tags: Mapping[str, Any]) -> dict[str, Any]:
    trace_id = padded(span.get("traceID"), 32)
    start, duration = _micros(span.get("startTime")), _micros(span.get("duration"))
    failed = tags.get("error") in (True, "true")
    return {
        "traceId": trace_id,
        "spanId": padded(span.get("spanID"), 16),
        "parentSpanId": _parent(span, trace_id),
        "name": span.get("operationName"),
        "kind": _KINDS.get(str(tags.get("span.kind")), 1 if "span.kind" in tags else 0),
        "startTimeUnixNano": str(start * 1000),
        "endTimeUnixNano": str((start + duration) * 1000),
        "attributes": _attributes(tag for tag in _mappings(span.get("tags")) if tag.get("key") not in _NO_ATTRIBUTES),
        "status": {
            "code": _STATUS.get(str(tags.get("otel.status_code")), 2 if failed else 0),
            "message": str(tags.get("otel.status_description") or ""),
        },
        "events": [_event(log) for log in _mappings(span.get("logs"))],
    }


def _parent(span: Mapping[str, Any], trace_id: Any) -> Any:
    """The first CHILD_OF reference of the same trace."""
    for reference in _mappings(span.get("references")):
        if reference.get("refType") == "CHILD_OF" and padded(reference.get("traceID"), 32) == trace_id:
            return padded(reference.get("spanID"), 16)
    return None


def _event(log: Mapping[str, Any]) -> dict[str, Any]:
    fields = list(_mappings(log.get("fields")))
    name = next((field.get("value") for field in fields if field.get("key") == "event"), "")
    return {
        "name": name,
        "timeUnixNano": str(_micros(log.get("timestamp")) * 1000),
        "attributes": _attributes(field for field in fields if field.get("key") != "event"),
    }


def _attributes(tags: Any) -> list[dict[str, Any]]:
    return [{"key": tag.get("key"), "value": _value(tag)} for tag in _mappings(tags)]


def _value(tag: Mapping[str, Any]) -> dict[str, Any]:
    kind, value = tag.get("type"), tag.get("value")
    if kind == "bool" or isinstance(value, bool):
        return {"boolValue": value}
    if kind == "int64":
        return {"intValue": value}  # beyond 2^53 as text
    if kind == "float64":
        return {"doubleValue": value}
    if kind == "binary":
        return {"bytesValue": value}
    if isinstance(value, str) and value.startswith("[") and str(tag.get("key")).endswith(_LISTS):
        return _list(value)
    return {"stringValue": value}


def _list(text: str) -> dict[str, Any]:
    """A list that arrived as JSON text."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        return {"stringValue": text}
    if not all(isinstance(item, str) for item in items):
        return {"stringValue": text}
    return {"arrayValue": {"values": [{"stringValue": item} for item in items]}}


def _micros(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return 0


def _mappings(value: Any) -> Iterable[Mapping[str, Any]]:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        return ()
    return (one for one in value if isinstance(one, Mapping))
