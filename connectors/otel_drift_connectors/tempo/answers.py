"""Tempo's answers as spans: both top keys, with and without the envelope, JSON and protobuf; what was cut is marked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_drift.errors import RecordError
from otel_drift.model import Span
from otel_drift.otlp import OnProblem, decode_traces_json, decode_traces_protobuf
from otel_drift.otlp.values import PARTIAL_TRACE, TRUNCATED
from otel_drift.platform import Answer

PROTOBUF = "application/protobuf"
_KEYS = ("resourceSpans", "batches")
_COMPLETE, _PARTIAL = 0, 1


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """The spans of a trace; `partial` says why it is not whole (empty = it is)."""

    spans: Sequence[Span]
    partial: str = ""


def trace_in(answer: Answer, *, enveloped: bool, on_problem: OnProblem) -> TraceAnswer:
    """Read a trace, whatever form it comes in.

    Args:
        answer: JSON or protobuf, as its ``Content-Type`` says.
        enveloped: Whether protobuf comes in v2's envelope.
        on_problem: Told of broken spans.

    Raises:
        PlatformError: it is neither.
    """
    if "protobuf" in answer.headers.get("content-type", ""):
        trace, status, message = _envelope(answer.body) if enveloped else (answer.body, _COMPLETE, "")
        return TraceAnswer(_decoded(decode_traces_protobuf, trace, on_problem), _why(status, message))
    document = answer.json()
    if not isinstance(document, Mapping):
        return TraceAnswer(())
    trace = document.get("trace", document)
    if not isinstance(trace, Mapping) or not any(key in trace for key in _KEYS):
        return TraceAnswer((), _why(document.get("status"), document.get("message")))
    spans = _decoded(decode_traces_json, trace, on_problem)
    return TraceAnswer(spans, _why(document.get("status"), document.get("message")))


def _decoded(decode: Any, trace: Any, on_problem: OnProblem) -> list[Span]:
    if not trace:
        return []
    try:
        found: list[Span] = decode(trace, on_problem=on_problem)
    except RecordError:  # nothing but problems, each of which was told
        return []
    return found


def _why(status: Any, message: Any) -> str:
    if status not in ("PARTIAL", _PARTIAL):
        return ""
    return str(message or "")[:200] or "no reason given"


def _envelope(body: bytes) -> tuple[bytes, int, str]:
    """Trace, status and message of v2's answer in protobuf (fields 1, 3 and 4)."""
    trace, status, message = b"", _COMPLETE, b""
    for number, value in _fields(body):
        if number == 1 and isinstance(value, bytes):
            trace += value  # a message that comes in parts is their concatenation
        elif number == 3 and isinstance(value, int):
            status = value
        elif number == 4 and isinstance(value, bytes):
            message = value
    return trace, status, message.decode("utf-8", "replace")


def _fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """The top fields of a protobuf message; what is no protobuf from some byte on is left there."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    try:
        while at < len(message):
            tag, at = _varint(message, at)
            kind = tag & 7
            if kind == 0:
                value, at = _varint(message, at)
                found.append((tag >> 3, value))
            elif kind == 2:
                size, at = _varint(message, at)
                if at + size > len(message):
                    break
                found.append((tag >> 3, message[at : at + size]))
                at += size
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                break
    except IndexError:
        pass
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise IndexError


def marked(span: Span, limit: int, *, partial: bool) -> Span:
    """The span with the names of the texts that the store cut, and whether its trace is only a part.

    Args:
        span: As it was read.
        limit: The store's ``max_attribute_bytes``.
        partial: Whether spans of its trace are missing.
    """
    cut = [key for key, value in span.attributes.items() if _any_cut(value, limit)]
    for event in span.events:
        cut += [f"{event.name}.{key}"[:200] for key, value in event.attributes.items() if _any_cut(value, limit)]
    if not cut and not partial:
        return span
    marks: dict[str, Any] = {TRUNCATED: [*span.attributes.get(TRUNCATED, ()), *cut]} if cut else {}
    if partial:
        marks[PARTIAL_TRACE] = True
    return dataclasses.replace(span, attributes={**span.attributes, **marks})


def _any_cut(value: Any, limit: int) -> bool:
    if isinstance(value, str):
        return is_cut(value, limit)
    return isinstance(value, list) and any(isinstance(one, str) and is_cut(one, limit) for one in value)


def is_cut(text: str, limit: int) -> bool:
    """Whether a text was cut at `limit` bytes: just as long, and no JSON that is whole.

    The cut is made in bytes: of a character in the middle of it replacement characters are left, or nothing.
    """
    if not limit // 4 - 4 <= len(text) <= limit + 4:
        return False
    kept = text.rstrip("\ufffd")
    size = len(kept.encode("utf-8", "replace"))
    if len(kept) < len(text):
        at_limit = limit - 3 <= size < limit or size + 3 * (len(text) - len(kept)) == limit
    else:
        at_limit = size == limit
    begins_json = text[:1] in ("[", "{", '"')
    if not at_limit and not (begins_json and limit - 3 <= size < limit):
        return False
    if not begins_json:
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False
