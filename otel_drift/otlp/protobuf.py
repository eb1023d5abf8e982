"""Span and log record from OTLP protobuf, and whole requests from theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from otel_drift.errors import RecordError
from otel_drift.model import LogRecord, Record, Span, SpanEvent
from otel_drift.otlp.records import STATUSES, Signal, parent_id_of, put_right
from otel_drift.otlp.values import (
    TRUNCATED,
    Decoding,
    any_value,
    identifier,
    inner_path,
    nanoseconds,
    shortened,
    text_of,
)

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


class _Message(Protocol):
    @classmethod
    def FromString(cls, raw: bytes, /) -> Self: ...  # noqa: N802


_M = TypeVar("_M", bound=_Message)


def record_from_protobuf(
    raw: bytes, signal: Signal, resource: Mapping[str, Any], scope: str, decoding: Decoding
) -> Record | None:
    """Return one record from its protobuf message, or None (counted, where it is broken)."""
    try:
        if signal == "traces":
            return _span(raw, resource, scope, decoding)
        return _log(raw, scope, decoding)
    except RecordError as problem:
        decoding.report(problem.reason, lost=True)
    decoding.truncated = []
    return None


def resource_from_protobuf(raw: bytes, decoding: Decoding) -> dict[str, Any]:
    """Return a resource's attributes; empty (and counted) where it is broken."""
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

    try:
        return _attributes(_parsed(Resource, raw).attributes, decoding)
    except RecordError as problem:
        decoding.report(f"resource left empty: {problem.reason}")
        return {}


def scope_from_protobuf(raw: bytes, decoding: Decoding) -> str:
    """Return a scope's name; empty (and counted) where it is broken."""
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

    try:
        return text_of(_parsed(InstrumentationScope, raw).name, decoding, "scope")
    except RecordError as problem:
        decoding.report(f"scope left empty: {problem.reason}")
        return ""


def _parsed(message: type[_M], raw: bytes) -> _M:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        return message.FromString(raw)
    except DecodeError as problem:
        raise RecordError(f"no protobuf {message.__name__} ({str(problem)[:80]})") from None


def _span(raw: bytes, resource: Mapping[str, Any], scope: str, decoding: Decoding) -> Span:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

    message = _parsed(SpanMessage, raw)
    trace_id = identifier(message.trace_id, 16, "trace id")
    span_id = identifier(message.span_id, 8, "span id")
    if len(message.events) > decoding.limits.max_events:
        decoding.report(f"{len(message.events)} events, only {decoding.limits.max_events} kept")
    span = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_parent(message.parent_span_id, decoding),
        name=text_of(message.name, decoding, "name"),
        start=message.start_time_unix_nano,
        end=message.end_time_unix_nano,
        attributes=_attributes(message.attributes, decoding),
        resource=resource,
        scope=scope,
        kind=message.kind,
        status=STATUSES[message.status.code] if 0 <= message.status.code < 3 else "unset",
        status_message=text_of(message.status.message, decoding, "status message"),
        events=tuple(
            SpanEvent(
                text_of(event.name, decoding, "event name"),
                event.time_unix_nano,
                _attributes(event.attributes, decoding),
            )
            for event in message.events[: decoding.limits.max_events]
        ),
    )
    return put_right(span, decoding)


def _log(raw: bytes, scope: str, decoding: Decoding) -> LogRecord | None:
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage

    log = _parsed(LogMessage, raw)
    if not any(log.trace_id) or not any(log.span_id):
        return None
    attributes = _attributes(log.attributes, decoding)
    record = LogRecord(
        trace_id=identifier(log.trace_id, 16, "trace id"),
        span_id=identifier(log.span_id, 8, "span id"),
        event_name=text_of(log.event_name or attributes.get("event.name"), decoding, "event name"),
        time=nanoseconds(log.time_unix_nano or log.observed_time_unix_nano),
        body=_value(log.body, decoding, "body", 1),
        attributes=attributes,
        scope=scope,
    )
    if decoding.truncated:
        attributes[TRUNCATED] = decoding.truncated
        decoding.truncated = []
    return record


def _parent(raw: bytes, decoding: Decoding) -> str | None:
    return parent_id_of(raw, decoding) if any(raw) else None


def _attributes(items: Iterable[KeyValue], decoding: Decoding, parent: str = "", depth: int = 0) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    most = decoding.limits.max_text
    for item in _bounded(items, decoding):
        key, value = item.key, item.value
        if value.WhichOneof("value") == "string_value":
            # Nearly all are plain texts, and protobuf's are valid UTF-8: that leaves NUL and length.
            text = value.string_value
            if len(text) <= most and "\x00" not in text and "\x00" not in key and len(key) <= most:
                attributes[key] = text
                continue
        path = inner_path(parent, key) if parent else key
        attributes[text_of(key, decoding)] = _value(value, decoding, path, depth + 1)
    return attributes


def _bounded(items: Any, decoding: Decoding) -> Iterator[KeyValue]:
    if len(items) > decoding.limits.max_attributes:
        decoding.report(f"{len(items)} attributes, only {decoding.limits.max_attributes} kept")
        return iter(items[: decoding.limits.max_attributes])
    return iter(items)


def _value(value: AnyValue, decoding: Decoding, key: str, depth: int) -> Any:
    shape = value.WhichOneof("value")
    if shape == "string_value":
        return text_of(value.string_value, decoding, key)
    if shape == "int_value":
        return value.int_value
    if shape == "bool_value":
        return value.bool_value
    if shape is None:
        return None
    if shape == "array_value":
        if depth <= decoding.limits.max_depth:
            return [_value(member, decoding, key, depth + 1) for member in value.array_value.values]
    elif shape == "kvlist_value":
        if depth <= decoding.limits.max_depth:
            return _attributes(value.kvlist_value.values, decoding, key, depth)
    elif shape == "bytes_value":
        return value.bytes_value[: decoding.limits.max_text]
    else:
        return any_value({shape: getattr(value, shape)}, decoding, key)
    decoding.report(f"value of {shortened(key)} nested deeper than {decoding.limits.max_depth}; left out")
    return None
