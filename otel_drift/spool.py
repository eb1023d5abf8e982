"""Collects spans and log records in any order, however many, and gives them back trace by trace.

Up to a bound they stay in memory; beyond it they go to a private temporary file, grouped by trace, with an index in
SQLite beside it, so that the memory needed is that of the traces being loaded. The files have no name where the system
allows it: nothing of them is left even if the process is killed.
"""

from __future__ import annotations

import dataclasses
import marshal
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from otel_drift.errors import SourceError
from otel_drift.model import LogRecord, Record, Span, SpanEvent
from otel_drift.new_span import new_span

DEFAULT_MEMORY = 8 * 1024 * 1024

_OVERHEAD = 100
"""What keeping a record costs beside its own bytes."""
_SHARED_RESOURCES = 256
_SHARED_RESOURCE_BYTES = 8192
_PLAIN = 2
"""The marshal format in which equal values have equal bytes."""
_MARSHALLED = 0
"""The extension type of a record that only marshal can hold: lone surrogates, integers beyond 64 bits."""
_DEEPEST = 150
"""Levels of lists and maps that are kept where marshal cannot hold them all (2,000); our own decoders stop at 64."""
_DATA = (str, bytes, bool, int, float, type(None))
_LIST = b"\xdd"
"""MessagePack's first byte of a list; four bytes that say how long it is come next."""
_BLOCK = 256 * 1024
"""Bytes that are written at once: in smaller pieces the system takes three times as long."""
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -4096;
CREATE TABLE chunk (trace NOT NULL, place INTEGER NOT NULL, size INTEGER NOT NULL, are_spans INTEGER NOT NULL);
BEGIN;
"""
_INDEX = "CREATE INDEX IF NOT EXISTS chunk_trace ON chunk (trace, place, size, are_spans)"
_CHUNKS = "SELECT place, size, are_spans FROM chunk WHERE trace = ? ORDER BY place"
_TRACES = "SELECT trace FROM chunk WHERE are_spans GROUP BY trace ORDER BY min(place)"


class SpanSpool:
    """Spans and log records by trace. Use as a context manager: leaving it deletes what it wrote.

    Args:
        memory_bytes: how much to keep before writing to disk.
        directory: where its private file goes (the system's temporary folder if None).
    """

    def __init__(self, memory_bytes: int = DEFAULT_MEMORY, directory: str | Path | None = None) -> None:
        self.span_count = 0
        self.duplicate_spans = 0
        self.orphan_logs = 0
        self._memory_bytes = memory_bytes
        self._directory = directory
        self._spans: dict[str, list[bytes]] = {}
        self._logs: dict[str, list[bytes]] = {}
        self._pending_bytes = 0
        self._database: sqlite3.Connection | None = None
        self._lookup: sqlite3.Cursor | None = None
        self._data: IO[bytes] | None = None
        self._resources: list[Any] = []
        self._resource_numbers: dict[bytes, int] = {}
        self._last_resource: Any = None
        self._last_number: Any = None

    def __enter__(self) -> SpanSpool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, record: Record) -> None:
        """Take one record.

        Raises:
            SourceError: the disk refuses it.
        """
        if isinstance(record, Span):
            self.span_count += 1
            packed = _packed(self._span_fields(record))
            pending = self._spans
        else:
            packed = _packed(_log_fields(record))
            pending = self._logs
        records = pending.get(record.trace_id)
        if records is None:
            pending[record.trace_id] = [packed]
        else:
            records.append(packed)
        self._pending_bytes += len(packed) + _OVERHEAD
        if self._pending_bytes > self._memory_bytes:
            self._spill()

    def trace_ids(self) -> Iterator[str]:
        """Yield the ids of the traces that have a span, in the order they were first seen."""
        if self._database is None:
            yield from list(self._spans)
            return
        self._spill()
        for (trace,) in self._database.execute(_TRACES):
            yield trace.hex() if isinstance(trace, bytes) else trace

    def load(self, trace_ids: str | Iterable[str]) -> list[Span]:
        """Return the spans of whole traces with their log records joined, by start, end (latest first) and span id.

        Of spans with equal ids the more complete one stays. Parent links that go round in a circle are cut at the
        span that started first.
        """
        if self._database is not None and (self._spans or self._logs):
            self._spill()
        wanted = [trace_ids] if isinstance(trace_ids, str) else list(dict.fromkeys(trace_ids))
        if len(wanted) == 1:
            return self._trace(wanted[0])
        return sorted((span for trace_id in wanted for span in self._trace(trace_id)), key=_order)

    def close(self) -> None:
        """Forget everything and delete the files."""
        if self._database is not None:
            self._database.close()
            self._database = self._lookup = None
        if self._data is not None:
            self._data.close()
            self._data = None
        self._spans = {}
        self._logs = {}
        self._pending_bytes = 0

    # Records to bytes and back

    def _span_fields(self, span: Span) -> tuple[Any, ...]:
        if span.resource is not self._last_resource:
            self._last_resource = span.resource
            self._last_number = self._resource_number(span.resource)
        return (
            span.span_id,
            span.parent_id,
            span.name,
            span.start,
            span.end,
            span.attributes if type(span.attributes) is dict else dict(span.attributes),
            self._last_number,
            span.scope,
            span.kind,
            span.status,
            span.status_message,
            [(event.name, event.time, dict(event.attributes)) for event in span.events] if span.events else None,
            [_log_fields(log) for log in span.logs] if span.logs else None,
        )

    def _resource_number(self, resource: Any) -> Any:
        """A number for a resource many spans share; a rare or large one goes with its span instead."""
        resource = dict(resource)
        try:
            packed = marshal.dumps(resource, _PLAIN)
        except ValueError:
            return resource
        number = self._resource_numbers.get(packed)
        if number is None:
            if len(self._resources) >= _SHARED_RESOURCES or len(packed) > _SHARED_RESOURCE_BYTES:
                return resource
            number = self._resource_numbers[packed] = len(self._resources)
            self._resources.append(resource)
        return number

    def _trace(self, trace_id: str) -> list[Span]:
        spans: dict[str, Span] = {}
        logs: dict[str, list[LogRecord]] = {}
        for are_spans, records in self._unpacked(trace_id):
            if not are_spans:
                for fields in records:
                    logs.setdefault(fields[0], []).append(LogRecord(trace_id, *fields))
                continue
            for fields in records:
                (
                    span_id, parent_id, name, start, end, attributes,
                    resource, scope, kind, status, message, events, own,
                ) = fields  # fmt: skip
                span = new_span(
                    trace_id, span_id, parent_id, name, start, end, attributes,
                    resource if type(resource) is dict else self._resources[resource],
                    scope, kind, status, message,
                    tuple(SpanEvent(*event) for event in events) if events else (),
                    tuple(LogRecord(trace_id, *log) for log in own) if own else (),
                )  # fmt: skip
                known = spans.get(span_id)
                if known is not None:
                    self.duplicate_spans += 1
                    if _completeness(span) <= _completeness(known):
                        continue
                spans[span_id] = span
        for span_id, own in logs.items():
            if span_id in spans:
                spans[span_id] = _with_logs(spans[span_id], own)
            else:
                self.orphan_logs += len(own)
        ordered = sorted(spans.values(), key=_order)
        return ordered if _parents_come_first(ordered, spans) else sorted(_without_cycles(spans), key=_order)

    def _unpacked(self, trace_id: str) -> Iterator[tuple[bool, list[Any]]]:
        """The fields of a trace's spans or log records (and which of both), as often as some of it was written."""
        if self._database is None or self._data is None:
            yield True, [_unpack(packed) for packed in self._spans.get(trace_id, ())]
            yield False, [_unpack(packed) for packed in self._logs.get(trace_id, ())]
            return
        if self._lookup is None:
            self._database.execute(_INDEX)
            self._lookup = self._database.cursor()
        for place, size, are_spans in self._lookup.execute(_CHUNKS, (_key(trace_id),)).fetchall():
            yield are_spans, _unpack(_read_at(self._data, place, size))

    # The file

    def _spill(self) -> None:
        try:
            database, data = self._files()
            place = data.seek(0, os.SEEK_END)
            chunks = []
            block: list[bytes] = []
            written = place
            for pending in (self._spans, self._logs):
                for trace_id, records in pending.items():
                    size = len(_LIST) + 4 + sum(map(len, records))
                    chunks.append((_key(trace_id), place, size, int(pending is self._spans)))
                    block += (_LIST, len(records).to_bytes(4, "big"), *records)
                    place += size
                    if place - written > _BLOCK:
                        data.write(b"".join(block))
                        block.clear()
                        written = place
            data.write(b"".join(block))
            data.flush()
            database.executemany("INSERT INTO chunk VALUES (?, ?, ?, ?)", chunks)
        except (sqlite3.Error, OSError) as problem:
            raise SourceError(
                f"{self._directory or tempfile.gettempdir()}: cannot write the spans that do not fit "
                f"into memory ({problem}); free some space, or set TMPDIR to a folder that has it"
            ) from problem
        self._spans = {}
        self._logs = {}
        self._pending_bytes = 0

    def _files(self) -> tuple[sqlite3.Connection, IO[bytes]]:
        if self._database is None or self._data is None:
            self._data = tempfile.TemporaryFile(prefix="otel-drift-", dir=self._directory)  # noqa: SIM115
            # "": a file without a name, in the system's temporary folder, and only when its cache is full
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._database.executescript(_SCHEMA)
        return self._database, self._data


def _packed(fields: tuple[Any, ...]) -> bytes:
    """A record as MessagePack, which takes half the time that marshal takes."""
    try:
        return _pack(fields)
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:
        whole = marshal.dumps(fields, _PLAIN)
    except ValueError:
        whole = marshal.dumps(_as_data(fields), _PLAIN)
    return _pack(msgspec.msgpack.Ext(_MARSHALLED, whole))


def _as_data(value: Any, depth: int = 0) -> Any:
    """What a connector should have given: lists and maps not nested without end, and in them nothing but data."""
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        if depth == _DEEPEST:
            return "(nested too deeply)"
        if isinstance(value, Mapping):
            return {
                key if isinstance(key, _DATA) else str(key): _as_data(inner, depth + 1) for key, inner in value.items()
            }
        return [_as_data(inner, depth + 1) for inner in value]
    return value if isinstance(value, _DATA) else str(value)


def _unmarshalled(_: int, fields: memoryview) -> Any:
    return marshal.loads(fields)  # noqa: S302  (our own bytes, from memory or a private file)


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(ext_hook=_unmarshalled).decode


def _read_at(data: IO[bytes], place: int, size: int) -> bytes:
    if hasattr(os, "pread"):  # one call to the system
        return os.pread(data.fileno(), size, place)
    data.seek(place)
    return data.read(size)


def _key(trace_id: str) -> bytearray | str:
    """A trace id as it is kept: half as long where it is hex, as OTLP's are. sqlite3 is slow to accept bytes."""
    try:
        raw = bytearray.fromhex(trace_id)
    except ValueError:
        return trace_id
    return raw if raw.hex() == trace_id else trace_id


def _log_fields(log: LogRecord) -> tuple[Any, ...]:
    return log.span_id, log.event_name, log.time, log.body, dict(log.attributes), log.scope


def _order(span: Span) -> tuple[int, int, str]:
    return span.start, -span.end, span.span_id


def _completeness(span: Span) -> tuple[bool, int, int, int, int]:
    """Which of two spans with one id says more: one that ended, then the one with more in it."""
    return (
        span.end > span.start,
        len(span.attributes),
        len(span.events) + len(span.logs),
        sum(len(value) for value in span.attributes.values() if isinstance(value, str)),
        span.end,
    )


def _with_logs(span: Span, records: list[LogRecord]) -> Span:
    """Return the span with log records in the order of time, then arrival; identical ones once."""
    distinct: dict[bytes, LogRecord] = {}
    for record in (*span.logs, *records):
        distinct.setdefault(marshal.dumps(_log_fields(record), _PLAIN), record)
    return dataclasses.replace(span, logs=tuple(sorted(distinct.values(), key=lambda record: record.time)))


def _parents_come_first(ordered: list[Span], spans: dict[str, Span]) -> bool:
    """Whether each parent comes before its children: nearly always so, and then there are no circles."""
    seen: set[str] = set()
    for span in ordered:
        if span.parent_id not in seen and span.parent_id in spans:
            return False
        seen.add(span.span_id)
    return True


def _without_cycles(spans: dict[str, Span]) -> list[Span]:
    settled: set[str] = set()
    for start in list(spans):
        path: dict[str, None] = {}
        current: str | None = start
        while current in spans and current not in settled and current not in path:
            path[current] = None
            current = spans[current].parent_id
        if current in path:
            members = list(path)
            circle = members[members.index(current) :]
            first = min((spans[member] for member in circle), key=_order)
            spans[first.span_id] = dataclasses.replace(first, parent_id=None)
        settled.update(path)
    return list(spans.values())
