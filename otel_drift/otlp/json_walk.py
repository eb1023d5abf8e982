"""Walks JSON of any size: requests one after the other, one on each line, in a list, or one without end.

Documents that are small (nearly all: a line of the Collector's file exporter) are parsed as a whole. Of the others only
the outer levels are walked here and each span is parsed on its own, so memory holds a few spans at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from otel_drift.errors import RecordError
from otel_drift.model import Record
from otel_drift.otlp.envelope import Envelope
from otel_drift.otlp.json_values import LINE, NOTHING, JsonValues, MalformedError
from otel_drift.otlp.mlflow import is_mlflow_trace, trace_from_mlflow
from otel_drift.otlp.records import (
    ENTRY_KEYS,
    LOG_KEYS,
    METRIC_KEYS,
    NO_REQUEST,
    RECORD_ARRAY_KEYS,
    SCOPE_ARRAY_KEYS,
    SCOPE_KEYS,
    TRACE_KEYS,
    Signal,
    no_payload,
    record_from_json,
    request_from_json,
    resource_entries,
    resource_from_json,
    scope_from_json,
)
from otel_drift.otlp.usual import UsualRequests
from otel_drift.otlp.values import Decoding
from otel_drift.otlp.window import ByteWindow

PAGE = 16

_SPACE = re.compile(rb"[\s,\x1e]*")
_LINE_END = b" \t\r\n,]"
_KEY = re.compile(rb'"([^"\\]{0,200})"\s*:')
_KEY_BYTES = 300
_DOCUMENT = rb'\{\s*"(?P<document>resource(?:Spans|Logs|Metrics|_spans|_logs|_metrics)|info|data)"\s*:'
_PARTS = rb'|\{\s*"(?:(?P<resource>resource)|(?P<scope>scope|instrumentationLibrary)|(?P<record>%s))"\s*:'
_NEXT_DOCUMENT = re.compile(_DOCUMENT + rb"|\n[ \t\r]*(?=[\[{])")
_NEXT_PART = {
    "traces": re.compile(_DOCUMENT + _PARTS % rb"traceId|trace_id|spanId|span_id"),
    "logs": re.compile(
        _DOCUMENT + _PARTS % rb"(?:observedT|t)imeUnixNano|(?:observed_)?time_unix_nano|traceId|trace_id"
    ),
}
_LINE_FOLLOWS = re.compile(rb"\n\s*(?:\Z|" + _DOCUMENT + rb")")
_DOCUMENT_HERE = re.compile(_DOCUMENT)
_MLFLOW = re.compile(rb'\{\s*"(?:info|data)"\s*:')
_OVERLAP = 256
_HOPELESS = 10_000
_LISTS = 16
"""Lists in lists at the top that are still put up with."""

# Where in a document the walk is; lists and the objects in them alternate.
_TOP, _REQUEST, _RESOURCES, _RESOURCE, _SCOPES, _SCOPE, _RECORDS = range(7)
_OBJECTS = frozenset((_REQUEST, _RESOURCE, _SCOPE))
_INTO = {
    _REQUEST: TRACE_KEYS + LOG_KEYS + METRIC_KEYS,
    _RESOURCE: SCOPE_ARRAY_KEYS,
    _SCOPE: RECORD_ARRAY_KEYS,
}


def whole_document(document: Any, decoding: Decoding, where: str = "") -> Iterator[Record]:
    """Yield the records of one JSON document; broken ones are counted.

    Raises:
        RecordError: it is neither an OTLP request nor an MLflow trace.
    """
    if is_mlflow_trace(document):
        return trace_from_mlflow(document, decoding, where)
    return request_from_json(document, decoding, where)


class JsonWalk:
    """One walk over one stream of JSON text."""

    def __init__(self, window: ByteWindow, decoding: Decoding) -> None:
        self._window = window
        self._decoding = decoding
        self._values = JsonValues(window, decoding)
        self._usual = UsualRequests(decoding)
        self._envelope = Envelope(decoding)
        self._level = _TOP
        self._signal: Signal = "traces"
        self._ordinal = 0
        self._no_line_before = 0
        self._resynchronised = False
        self._last_fault = -1
        self._faults = 0
        self._lists_open = 0
        self._payload_seen: dict[int, bool] = {}
        self._unknown: dict[int, str] = {}

    def records(self) -> Iterator[list[Record]]:
        """Yield the records in small lists, as they come; broken ones are counted."""
        envelope = self._envelope
        while self._skip_space():
            try:
                if self._level == _TOP:
                    yield from self._top()
                else:
                    self._step()
            except MalformedError as problem:
                self._faults += 1
                self._decoding.log.report(problem.reason, self._window.place(problem.ahead))
                if self._faults > _HOPELESS:
                    self._decoding.log.report(f"{_HOPELESS} faults and no record between them; the rest was skipped")
                    break
                self._resynchronise(problem.ahead)
            if len(envelope.ready) >= PAGE:
                yield envelope.take()
        if self._level != _TOP or (self._lists_open > 0 and not self._resynchronised):
            self._decoding.log.report("the document ends early; what came before was read", self._window.place())
        envelope.close_resource()
        if envelope.ready:
            yield envelope.take()

    # Documents as a whole

    def _top(self) -> Iterator[list[Record]]:
        window = self._window
        first = window.data[window.pos]
        if first == ord("[") or (first == ord("]") and self._lists_open > 0):
            self._lists_open += 1 if first == ord("[") else -1
            window.pos += 1
            if self._lists_open > _LISTS:
                self._lists_open = 0
                raise MalformedError("nothing but lists in lists")
        elif first in b"]}" and self._resynchronised:
            window.pos += 1
        elif first != ord("{"):
            raise MalformedError("neither an object nor a list begins here")
        elif window.offset >= self._no_line_before:
            yield from self._line()
        else:
            yield from self._document()

    def _line(self) -> Iterator[list[Record]]:
        """Read the line as one document; failing that, say so, and its documents are walked."""
        window = self._window
        end = self._values.line_end()
        piece: bytes | memoryview = memoryview(window.data)[window.pos : end]
        if piece and piece[-1] in _LINE_END:
            piece = bytes(piece).rstrip(_LINE_END)
        spans = self._usual.spans(piece)
        if spans is not None:
            self._faults = 0
            self._envelope.ready += spans
            window.skip_in_line(len(piece))
            return
        document = self._values.parsed(piece) if piece else NOTHING
        if document is not NOTHING:
            where = window.place()
            yield from self._whole(document, where)
            window.skip_in_line(len(piece))
            return
        self._no_line_before = window.offset + (end - window.pos or LINE)
        piece = bytes(piece)
        if len(piece) > 1 and self._line_follows(end):
            # A broken line must not take its neighbours along: walk it on its own.
            inner = JsonWalk(ByteWindow.over(piece, offset=window.offset, line=window.line), self._decoding)
            inner._no_line_before = self._no_line_before
            yield from inner.records()
            window.pos += len(piece)

    def _line_follows(self, end: int) -> bool:
        """Whether the next line begins a document; then this one is not just the first line of a longer one."""
        window = self._window
        size = end - window.pos
        window.have(size + _OVERLAP)
        return bool(_LINE_FOLLOWS.match(window.data, window.pos + size))

    def _document(self) -> Iterator[list[Record]]:
        window = self._window
        self._resynchronised = False
        where = window.place()
        document = self._values.quick(_TOP)
        if document is NOTHING:
            window.have(_KEY_BYTES)
            if not _MLFLOW.match(window.data, window.pos):
                window.pos += 1
                self._enter(_REQUEST)
                return
            document = self._values.value()
        yield from self._whole(document, where)

    def _whole(self, document: Any, where: str) -> Iterator[list[Record]]:
        try:
            for record in whole_document(document, self._decoding, where):
                self._faults = 0
                self._envelope.ready.append(record)
                if len(self._envelope.ready) >= PAGE:
                    yield self._envelope.take()
        except RecordError as problem:
            self._decoding.log.no_telemetry(problem.reason, where)

    # Documents level by level

    def _step(self) -> None:
        """Take the next key or element of the current level."""
        window = self._window
        byte = window.data[window.pos]
        if self._level in _OBJECTS:
            if byte == ord('"'):
                self._member()
            elif byte == ord("}") or (byte == ord("]") and self._resynchronised):
                window.pos += 1
                self._close_object()
            else:
                raise MalformedError("there must be a key or the end of an object here")
        elif byte == ord("{"):
            self._element()
        elif byte == ord("]") or (byte == ord("}") and self._resynchronised):
            window.pos += 1
            self._level -= 1
        else:
            value = self._values.value()
            if value is not None:
                self._decoding.log.report("list member is no object", window.place())

    def _member(self) -> None:
        window = self._window
        window.have(_KEY_BYTES)
        match = _KEY.match(window.data, window.pos)
        if match is None:
            raise MalformedError("broken key")
        key = match[1].decode("latin-1")
        window.pos = match.end()
        self._skip_space()
        if key in _INTO[self._level]:
            self._payload_seen[self._level] = True
            if self._level == _REQUEST and key in TRACE_KEYS + LOG_KEYS:
                self._signal = "traces" if key in TRACE_KEYS else "logs"
            if key not in METRIC_KEYS and window.data[window.pos : window.pos + 1] == b"[":
                window.pos += 1
                self._level += 1
                return
            if key not in METRIC_KEYS:
                self._decoding.log.report(f"{key} is no list", window.place())
        elif key not in ENTRY_KEYS:
            self._unknown[self._level] = key
        self._no_document_here()
        self._decoding.where = window.place()
        value = self._values.value()
        if self._level == _RESOURCE and key == "resource":
            self._envelope.set_resource(resource_from_json(value, self._decoding))
        elif self._level == _SCOPE and key in SCOPE_KEYS:
            self._envelope.set_scope(scope_from_json(value, self._decoding))

    def _element(self) -> None:
        window = self._window
        self._no_document_here()
        self._decoding.where = where = window.place()
        if self._level == _RECORDS:
            self._record(where)
            return
        if self._level == _RESOURCES:
            self._envelope.close_resource()
            entry = self._values.quick(_RESOURCES)
            if entry is not NOTHING:
                self._envelope.ready += resource_entries([entry], self._signal, self._decoding, where)
                return
        window.pos += 1
        self._enter(self._level + 1)
        if self._level == _RESOURCE:
            self._envelope.open_resource()
        else:
            self._envelope.open_scope()

    def _no_document_here(self) -> None:
        """A document where a part of one belongs: the one before was cut off."""
        if _DOCUMENT_HERE.match(self._window.data, self._window.pos):
            raise MalformedError("the document ends early")

    def _enter(self, level: int) -> None:
        self._level = level
        self._payload_seen[level] = False
        self._unknown.pop(level, None)

    def _record(self, where: str) -> None:
        before = self._window.offset
        self._ordinal += 1
        item = self._values.quick(_RECORDS)
        if item is NOTHING:
            item = self._values.value()
            self._values.learn_separator(_RECORDS)
        self._decoding.where = f"{where}, record {self._ordinal}"
        record = record_from_json(item, self._signal, self._envelope.resource, self._envelope.scope, self._decoding)
        if record is not None:
            self._faults = 0
            self._envelope.add(record, self._window.offset - before)

    def _close_object(self) -> None:
        if self._level == _RESOURCE:
            self._envelope.close_resource()
        elif self._level == _SCOPE:
            self._envelope.close_scope()
        if not self._payload_seen.get(self._level, True):
            if self._level == _REQUEST:
                self._decoding.log.no_telemetry(NO_REQUEST, self._window.place())
            elif self._level in self._unknown:
                reason = no_payload(_INTO[self._level], self._unknown[self._level])
                self._decoding.log.report(reason, self._window.place())
        self._level -= 1
        if self._level in (_TOP, _RESOURCES):
            self._values.learn_separator(self._level)

    # Between documents, and after broken ones

    def _skip_space(self) -> bool:
        """Go to the next byte that is no white space or comma; False at the end."""
        window = self._window
        while True:
            match = _SPACE.match(window.data, window.pos)
            assert match is not None
            window.pos = match.end()
            if window.pos < len(window.data):
                return True
            if not window.fill():
                return False

    def _resynchronise(self, ahead: int) -> None:
        """Go on at the next thing that can only be the beginning of a document, an entry or a record.

        A quote in JSON text is escaped, so ``{"traceId":`` is never part of one.
        """
        window = self._window
        if window.offset + ahead == self._last_fault:
            ahead += 1
        self._last_fault = window.offset + ahead
        self._payload_seen.clear()
        window.pos = min(window.pos + ahead, len(window.data))
        self._resynchronised = True
        pattern = _NEXT_DOCUMENT if self._level == _TOP else _NEXT_PART[self._signal]
        while True:
            match = pattern.search(window.data, window.pos)
            if match is not None:
                break
            window.pos = max(window.pos, len(window.data) - _OVERLAP)
            if not window.fill():
                window.pos = len(window.data)
                self._level = _TOP
                return
        window.pos = match.start()
        part = match.lastgroup or "document"
        self._level = {"document": _TOP, "resource": _RESOURCES, "scope": _SCOPES, "record": _RECORDS}[part]
        if part == "resource":
            self._envelope.close_resource()
        elif part == "scope":
            self._envelope.close_scope()
        elif part == "document":
            self._envelope.close_resource()
