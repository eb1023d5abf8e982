"""Span and log record from their OTLP/JSON objects, and whole requests from theirs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from otel_drift.errors import RecordError
from otel_drift.model import LogRecord, Record, Span, SpanEvent
from otel_drift.new_span import new_span
from otel_drift.otlp.values import (
    TRUNCATED,
    Decoding,
    any_value,
    attributes_of,
    enum_value,
    identifier,
    nanoseconds,
    optional_identifier,
    shortened,
    text_of,
)

KINDS = {
    name: number
    for number, kind in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
    for name in (kind, f"SPAN_KIND_{kind}")
}
STATUSES: tuple[Literal["unset", "ok", "error"], ...] = ("unset", "ok", "error")
STATUS_CODES = {
    name: number
    for number, code in enumerate(("UNSET", "OK", "ERROR"))
    for name in (code, f"STATUS_CODE_{code}")
}  # fmt: skip

TRACE_KEYS = ("resourceSpans", "resource_spans", "batches")
"""``batches`` is what Tempo calls them in a trace downloaded from it."""
LOG_KEYS = ("resourceLogs", "resource_logs")
METRIC_KEYS = ("resourceMetrics", "resource_metrics", "resourceProfiles", "resource_profiles")
SCOPE_ARRAY_KEYS = (
    "scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans",
    "scopeLogs", "scope_logs", "instrumentationLibraryLogs", "instrumentation_library_logs",
)  # fmt: skip
SCOPE_KEYS = ("scope", "instrumentationLibrary", "instrumentation_library")
RECORD_ARRAY_KEYS = ("spans", "logRecords", "log_records", "logs")
ENTRY_KEYS = frozenset((*SCOPE_ARRAY_KEYS, *SCOPE_KEYS, *RECORD_ARRAY_KEYS, "resource", "schemaUrl", "schema_url"))

OWN_RESULT = "otel_drift.result.id"
"""Key of the records that the ``jsonl`` sink writes."""
NO_REQUEST = "no OTLP request (neither resourceSpans nor resourceLogs) and no MLflow trace"

_PLAIN_SPAN_ID = re.compile(r"[0-9a-f]{16}\Z").match
_NO_PARENT = "0" * 16

Signal = Literal["traces", "logs"]


def span_from_json(item: Any, resource: Mapping[str, Any], scope: str, decoding: Decoding) -> Span:
    """Return one span.

    Raises:
        RecordError: it is no object, or has no usable id.
    """
    if not isinstance(item, dict):
        raise RecordError("span is no object")
    get = item.get
    trace_id = get("traceId") or get("trace_id")
    if trace_id != decoding.trace_id or not trace_id:
        trace_id = decoding.trace_id = identifier(trace_id, 16, "trace id")
    span_id = get("spanId") or get("span_id")
    if type(span_id) is not str or not _PLAIN_SPAN_ID(span_id) or span_id == _NO_PARENT:
        span_id = identifier(span_id, 8, "span id")
    parent = get("parentSpanId") or get("parent_span_id")
    items = get("attributes")
    attributes = attributes_of(items, decoding) if items else {}
    status = get("status")
    state, message = _status(status, decoding) if status else ("unset", "")
    events = get("events")
    name = get("name")
    start = get("startTimeUnixNano") or get("start_time_unix_nano")
    if not name and start is None and "startTimeUnixNano" not in item and "start_time_unix_nano" not in item:
        raise RecordError("no span: neither a name nor a start time")
    kind = get("kind", 0)
    span = new_span(
        trace_id,
        span_id,
        parent_id_of(parent, decoding) if parent else None,
        text_of(name, decoding, "name"),
        nanoseconds(start),
        nanoseconds(get("endTimeUnixNano") or get("end_time_unix_nano")),
        attributes,
        resource,
        scope,
        kind if type(kind) is int and 0 <= kind < 6 else enum_value(kind, KINDS),
        state,
        message,
        _events(events, decoding) if events else (),
    )
    return put_right(span, decoding)


def put_right(span: Span, decoding: Decoding) -> Span:
    """Return the span with times and parent that make sense, and the names of its texts that were cut.

    A span without an end has not ended and gets its start; one without a start gets its end.
    """
    start, end = span.start, span.end
    if 0 < start <= end and span.parent_id != span.span_id and not decoding.truncated:
        return span
    if not start:
        start = end
        decoding.report("span without a start time; its end was taken" if end else "span without start and end time")
    elif end < start:
        if end:
            decoding.report("span ends before it starts; its start was taken as its end")
        end = start
    parent_id = span.parent_id
    if parent_id == span.span_id:
        decoding.report("span is its own parent; taken as a root")
        parent_id = None
    attributes = span.attributes
    if decoding.truncated:
        attributes = {**attributes, TRUNCATED: decoding.truncated}
        decoding.truncated = []
    return dataclasses.replace(span, start=start, end=end, parent_id=parent_id, attributes=attributes)


def parent_id_of(value: Any, decoding: Decoding) -> str | None:
    """Return the parent's id; None for a root, and (counted) for an id that is none."""
    if type(value) is str and _PLAIN_SPAN_ID(value) and value != _NO_PARENT:
        return value
    parent = optional_identifier(value, 8)
    if parent is None and str(value).strip("0A="):
        decoding.report("parent span id is malformed; span taken as a root")
    return parent


def log_from_json(item: Any, scope: str, decoding: Decoding) -> LogRecord | None:
    """Return one log record; None where it belongs to no span.

    Raises:
        RecordError: it is no object, or its ids are malformed.
    """
    if not isinstance(item, dict):
        raise RecordError("log record is no object")
    get = item.get
    trace = get("traceId") or get("trace_id")
    span = get("spanId") or get("span_id")
    if not trace or not span or not str(trace).strip("0A=") or not str(span).strip("0A="):
        return None
    attributes = attributes_of(get("attributes") or [], decoding)
    name = get("eventName") or get("event_name") or attributes.get("event.name")
    body = get("body")
    time = get("timeUnixNano") or get("time_unix_nano")
    observed = get("observedTimeUnixNano") or get("observed_time_unix_nano")
    record = LogRecord(
        trace_id=identifier(trace, 16, "trace id"),
        span_id=identifier(span, 8, "span id"),
        event_name=text_of(name, decoding, "event name"),
        time=nanoseconds(time) or nanoseconds(observed),
        body=any_value(body, decoding, "body") if body else None,
        attributes=attributes,
        scope=scope,
    )
    if decoding.truncated:
        attributes[TRUNCATED] = decoding.truncated
        decoding.truncated = []
    return record


def resource_from_json(resource: Any, decoding: Decoding) -> dict[str, Any]:
    """Return a resource's attributes."""
    return attributes_of(resource.get("attributes") or [], decoding) if isinstance(resource, dict) else {}


def scope_from_json(scope: Any, decoding: Decoding) -> str:
    """Return a scope's name."""
    return text_of(scope.get("name"), decoding, "scope") if isinstance(scope, dict) else ""


def request_from_json(document: Mapping[str, Any], decoding: Decoding, where: str = "") -> Iterator[Record]:
    """Yield the records of one export request (traces, logs or both); broken ones are counted.

    Raises:
        RecordError: it is no OTLP request.
    """
    known = False
    for key in TRACE_KEYS:
        if key in document:
            known = True
            yield from resource_entries(document[key], "traces", decoding, where)
    for key in LOG_KEYS:
        if key in document:
            known = True
            yield from resource_entries(document[key], "logs", decoding, where)
    if not known and OWN_RESULT in document:
        decoding.log.own_results += 1
    elif not known and not any(key in document for key in METRIC_KEYS):
        raise RecordError(NO_REQUEST)


def resource_entries(entries: Any, signal: Signal, decoding: Decoding, where: str) -> Iterator[Record]:
    """Yield the records of a list of ``ResourceSpans`` or ``ResourceLogs``; broken ones are counted."""
    ordinal = 0
    for entry in _objects(entries, "resource entry", decoding, where):
        resource = resource_from_json(entry.get("resource"), decoding)
        for scoped in _objects(_first(entry, SCOPE_ARRAY_KEYS, decoding, where), "scope entry", decoding, where):
            scope = scope_from_json(next((scoped[key] for key in SCOPE_KEYS if key in scoped), None), decoding)
            for item in _list(_first(scoped, RECORD_ARRAY_KEYS, decoding, where), "records", decoding, where):
                ordinal += 1
                decoding.where = f"{where}, record {ordinal}" if where else f"record {ordinal}"
                record = record_from_json(item, signal, resource, scope, decoding)
                if record is not None:
                    yield record


def record_from_json(
    item: Any, signal: Signal, resource: Mapping[str, Any], scope: str, decoding: Decoding
) -> Record | None:
    """Return one record, or None (counted, where it is broken)."""
    try:
        if signal == "traces":
            return span_from_json(item, resource, scope, decoding)
        return log_from_json(item, scope, decoding)
    except RecordError as problem:
        decoding.truncated = []
        decoding.report(problem.reason, lost=True)
        return None


def _objects(entries: Any, what: str, decoding: Decoding, where: str) -> Iterator[dict[str, Any]]:
    for entry in _list(entries, what, decoding, where):
        if isinstance(entry, dict):
            yield entry
        elif entry is not None:
            decoding.log.report(f"{what} is no object", where)


def _list(entries: Any, what: str, decoding: Decoding, where: str) -> list[Any]:
    if isinstance(entries, list):
        return entries
    if entries is not None:
        decoding.log.report(f"{what} not in a list", where)
    return []


def _first(entry: Mapping[str, Any], keys: tuple[str, ...], decoding: Decoding, where: str) -> Any:
    for key in keys:
        if key in entry:
            return entry[key]
    for key in entry:
        if key not in ENTRY_KEYS:  # proto3 JSON says ignore unknown fields, but here something is missing too
            decoding.log.report(no_payload(keys, key), where)
            break
    return None


def no_payload(keys: tuple[str, ...], unknown: str) -> str:
    """Why an entry without any of `keys`, but with an unknown field, is a problem."""
    return f"no {keys[0]}, but an unknown field {shortened(unknown)}"


def _status(status: Any, decoding: Decoding) -> tuple[Literal["unset", "ok", "error"], str]:
    if not isinstance(status, dict) or not status:
        return "unset", ""
    code = enum_value(status.get("code", 0), STATUS_CODES)
    message = status.get("message")
    return STATUSES[code] if code < 3 else "unset", text_of(message, decoding, "status message") if message else ""


def _events(events: Any, decoding: Decoding) -> tuple[SpanEvent, ...]:
    if not isinstance(events, list):
        decoding.report("events are no list; left out")
        return ()
    if len(events) > decoding.limits.max_events:
        decoding.report(f"{len(events)} events, only {decoding.limits.max_events} kept")
    return tuple(
        SpanEvent(
            text_of(event.get("name"), decoding, "event name"),
            nanoseconds(event.get("timeUnixNano") or event.get("time_unix_nano")),
            attributes_of(event.get("attributes") or [], decoding),
        )
        for event in events[: decoding.limits.max_events]
        if isinstance(event, dict)
    )
