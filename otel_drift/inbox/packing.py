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
_NO_PARENT = 0
_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
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
            trace_id, span_id, None if parent_id == _NO_PARENT else parent_id, name, start, end, attributes,
            resources[place], scope, kind, status, message,
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
    for record in records:
        if isinstance(record, LogRecord):
            logs.append(_log_fields(record))
            continue
        resource = record.resource
        place = places.get(id(resource))
        if place is None:
            place = places[id(resource)] = _shared(resource, resources)
        spans.append(
            (
                record.span_id, _NO_PARENT if record.parent_id is None else record.parent_id, record.name,
                record.start, record.end, _plain(record.attributes), place,
                record.scope, record.kind, record.status, record.status_message,
                [(event.name, event.time, _plain(event.attributes)) for event in record.events],
                [_log_fields(log) for log in record.logs],
            )
        )  # fmt: skip
    content = {"resources": [_plain(resource) for resource in resources], "spans": spans, "logs": logs}
    try:
        text = orjson.dumps(content, option=_OPTIONS)
    except (TypeError, ValueError):  # bytes, a lone surrogate, a number beyond 64 bits, a key that is no text
        pass
    else:
        if b"null" not in text or _is_finite(content):  # orjson writes null for NaN and infinities
            return PLAIN, text
    return TAGGED, json.dumps(_tagged(content), separators=(",", ":"), allow_nan=False).encode("ascii")


def _shared(resource: Mapping[str, Any], resources: list[Mapping[str, Any]]) -> int:
    for number, other in enumerate(resources):
        if other is resource or other == resource:
            return number
    resources.append(resource)
    return len(resources) - 1


def _log_fields(log: LogRecord) -> tuple[Any, ...]:
    return log.span_id, log.event_name, log.time, log.body, _plain(log.attributes), log.scope


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return attributes if type(attributes) is dict else dict(attributes)


def _is_finite(value: Any) -> bool:
    """Whether every number in what JSON could hold is finite."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return _SIMPLE.issuperset(map(type, value.values())) or all(map(_is_finite, value.values()))
    return kind not in (list, tuple) or all(map(_is_finite, value))


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
