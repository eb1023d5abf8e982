"""Inbox: records of one trace as bytes that any later version can read, and back.

JSON, compressed; a first byte names the form. Plain: what JSON can hold exactly. Tagged: values that it cannot (bytes,
NaN, lone surrogates, numbers beyond 64 bits) are written as ``{"$": [kind, value]}``.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from otel_drift.errors import LedgerError
from otel_drift.model import LogRecord, Record, SpanEvent
from otel_drift.new_span import new_span

PLAIN = b"P"
TAGGED = b"T"
LEVEL = 1
"""Of zlib: a fifth of the size for a third of the time of level 6."""

MAX_DEPTH = 150
"""Levels of lists and maps; what decoders of OTLP let through is flatter."""

_TAG = "$"
_SIMPLE = frozenset((str, bool, int, type(None)))


def pack(records: Sequence[Record]) -> bytes:
    """Records of one trace as bytes; resources that several share are written once."""
    form, text = _encoded(records)
    return form + zlib.compress(text, LEVEL)


def unpack(trace_id: str, payload: bytes) -> Iterator[Record]:
    """The records that `pack` made `payload` of, spans first.

    Raises:
        LedgerError: it is damaged, or a newer version made it.
    """
    form = payload[:1]
    try:
        text = zlib.decompress(payload[1:])
        if form not in (PLAIN, TAGGED):
            raise ValueError("a form this version does not know")
        content = orjson.loads(text) if form == PLAIN else _untagged(json.loads(text))
    except (ValueError, zlib.error) as error:
        raise LedgerError(
            f"what was received of trace {trace_id} cannot be read ({error}): the ledger is damaged, or a newer "
            "otel-drift wrote it; upgrade, or let it be deleted by `otel-drift forget`"
        ) from error
    resources = content["resources"]
    for span_id, parent_id, name, start, end, attributes, place, *rest, events, logs in content["spans"]:
        scope, kind, status, message = rest
        yield new_span(
            trace_id, span_id, parent_id, name, start, end, attributes, resources[place], scope, kind, status, message,
            tuple(SpanEvent(*event) for event in events), tuple(LogRecord(trace_id, *log) for log in logs),
        )  # fmt: skip
    for log in content["logs"]:
        yield LogRecord(trace_id, *log)


def unlike(records: Iterable[Record], known: Iterable[Record]) -> list[Record]:
    """Those of `records` (of one trace) that equal none of `known`, each once."""
    seen = {_identity(record) for record in known}
    found = []
    for record in records:
        identity = _identity(record)
        if identity not in seen:
            seen.add(identity)
            found.append(record)
    return found


def _identity(record: Record) -> tuple[bytes, bytes]:
    return _encoded([record])


def _encoded(records: Sequence[Record]) -> tuple[bytes, bytes]:
    """The form, and the JSON."""
    resources: list[Mapping[str, Any]] = []
    places: dict[int, int] = {}
    spans: list[Any] = []
    logs: list[Any] = []
    exact = True
    for record in records:
        if isinstance(record, LogRecord):
            logs.append(_log_fields(record))
            exact = exact and _is_exact(logs[-1])
            continue
        resource = record.resource
        place = places.get(id(resource))
        if place is None:
            place = places[id(resource)] = _shared(resource, resources)
        attributes = record.attributes if type(record.attributes) is dict else dict(record.attributes)
        exact = exact and (_SIMPLE.issuperset(map(type, attributes.values())) or _is_exact(attributes))
        events = [(event.name, event.time, dict(event.attributes)) for event in record.events]
        joined = [_log_fields(log) for log in record.logs]
        if events or joined:
            exact = exact and _is_exact(events) and _is_exact(joined)
        spans.append(
            (
                record.span_id, record.parent_id, record.name, record.start, record.end, attributes, place,
                record.scope, record.kind, record.status, record.status_message, events, joined,
            )
        )  # fmt: skip
    content = {"resources": [dict(resource) for resource in resources], "spans": spans, "logs": logs}
    if exact and _is_exact(content["resources"]):
        try:
            return PLAIN, orjson.dumps(content)
        except (TypeError, ValueError):  # a lone surrogate, a number beyond 64 bits, a key that is no text
            pass
    text = json.dumps(_tagged(content), separators=(",", ":"), allow_nan=False)
    return TAGGED, text.encode("ascii")


def _shared(resource: Mapping[str, Any], resources: list[Mapping[str, Any]]) -> int:
    for number, other in enumerate(resources):
        if other is resource or other == resource:
            return number
    resources.append(resource)
    return len(resources) - 1


def _log_fields(log: LogRecord) -> tuple[Any, ...]:
    return log.span_id, log.event_name, log.time, log.body, dict(log.attributes), log.scope


def _is_exact(value: Any, depth: int = 0) -> bool:
    """Whether JSON gives back just this (orjson itself refuses lone surrogates and large numbers)."""
    kind = type(value)
    if kind in _SIMPLE:
        return True
    if kind is float:
        return math.isfinite(value)
    if depth == MAX_DEPTH:
        return False
    if kind is dict:
        return all(type(key) is str for key in value) and all(_is_exact(one, depth + 1) for one in value.values())
    return kind in (list, tuple) and all(_is_exact(one, depth + 1) for one in value)


def _tagged(value: Any, depth: int = 0) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {_TAG: ["bytes", base64.b64encode(value).decode("ascii")]}
    if isinstance(value, float) and not math.isfinite(value):
        return {_TAG: ["float", repr(value)]}
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        if depth == MAX_DEPTH:
            return "(nested too deeply)"
        if not isinstance(value, Mapping):
            return [_tagged(inner, depth + 1) for inner in value]
        if _TAG in value or not all(isinstance(key, str) for key in value):
            pairs = [[_tagged(key, depth + 1), _tagged(inner, depth + 1)] for key, inner in value.items()]
            return {_TAG: ["map", pairs]}
        return {key: _tagged(inner, depth + 1) for key, inner in value.items()}
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: _untagged(inner) for key, inner in value.items()}
    kind, inner = value[_TAG]
    if kind == "bytes":
        return base64.b64decode(inner)
    if kind == "float":
        return float(inner)
    return {_untagged(key): _untagged(one) for key, one in inner}
