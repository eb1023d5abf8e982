"""Collects spans and log records in any order, however many, and gives them back trace by trace.

Up to a bound they stay in memory; beyond it they go to a private temporary file, grouped by trace, with an index in
SQLite beside it, so that the memory needed is that of the traces being loaded. The files have no name where the system
allows it: nothing of them is left even if the process is killed.
"""

from __future__ import annotations

import dataclasses
import marshal
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from otel_drift.errors import SourceError
from otel_drift.model import Attributes, LogRecord, Record, Span, SpanEvent

DEFAULT_MEMORY = 8 * 1024 * 1024

_OVERHEAD = 100
"""What keeping a record costs beside its own bytes."""
_SHARED_RESOURCES = 256
_SHARED_RESOURCE_BYTES = 8192
_SHARED_KEYS = 200_000
"""How many attribute keys the sets of keys that spans share may hold in all."""
_SHARED_KEY = 256
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -4096;
CREATE TABLE trace (number INTEGER PRIMARY KEY, id UNIQUE NOT NULL, has_span INTEGER NOT NULL);
CREATE TABLE chunk (trace INTEGER NOT NULL, place INTEGER NOT NULL, size INTEGER NOT NULL,
                    PRIMARY KEY (trace, place)) WITHOUT ROWID;
"""


class SpanSpool:
    """Spans and log records by trace. Use as a context manager: leaving it deletes what it wrote.

    Args:
        memory_bytes: how much to keep before writing to disk.
        directory: where its private folder goes (the system's temporary folder if None).
    """

    def __init__(self, memory_bytes: int = DEFAULT_MEMORY, directory: str | Path | None = None) -> None:
        self.span_count = 0
        self.duplicate_spans = 0
        self.orphan_logs = 0
        self._memory_bytes = memory_bytes
        self._directory = directory
        self._pending: dict[str, list[bytes]] = {}
        self._with_spans: set[str] = set()
        self._pending_bytes = 0
        self._folder: Path | None = None
        self._database: sqlite3.Connection | None = None
        self._data: BinaryIO | None = None
        self._written = 0
        self._numbers = 0
        self._resources: list[Any] = []
        self._resource_numbers: dict[bytes, int] = {}
        self._keys: list[tuple[str, ...]] = []
        self._key_numbers: dict[tuple[str, ...], int] = {}
        self._key_count = 0
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
            packed = self._pack_span(record)
            self._with_spans.add(record.trace_id)
        else:
            packed = marshal.dumps(_log_fields(record))
        records = self._pending.get(record.trace_id)
        if records is None:
            self._pending[record.trace_id] = [packed]
            self._pending_bytes += _OVERHEAD
        else:
            records.append(packed)
        self._pending_bytes += len(packed) + _OVERHEAD
        if self._pending_bytes > self._memory_bytes:
            self._spill()

    def trace_ids(self) -> Iterator[str]:
        """Yield the ids of the traces that have a span, in the order they were first seen."""
        if self._database is None:
            yield from [trace_id for trace_id in self._pending if trace_id in self._with_spans]
            return
        self._spill()
        last = 0
        while True:
            rows = self._database.execute(
                "SELECT number, id FROM trace WHERE number > ? AND has_span ORDER BY number LIMIT 1000", (last,)
            ).fetchall()
            if not rows:
                return
            yield from [trace_id.hex() if isinstance(trace_id, bytes) else trace_id for _, trace_id in rows]
            last = rows[-1][0]

    def load(self, trace_ids: str | Iterable[str]) -> list[Span]:
        """Return the spans of whole traces with their log records joined, by start, end (latest first) and span id.

        Of spans with equal ids the more complete one stays. Parent links that go round in a circle are cut at the
        span that started first.
        """
        if self._database is not None and self._pending:
            self._spill()
        spans: list[Span] = []
        for trace_id in [trace_ids] if isinstance(trace_ids, str) else dict.fromkeys(trace_ids):
            spans += self._trace(trace_id)
        spans.sort(key=_order)
        return spans

    def close(self) -> None:
        """Forget everything and delete the files."""
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._data is not None:
            self._data.close()
            self._data = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._pending.clear()
        self._with_spans.clear()
        self._pending_bytes = 0

    # Records to bytes and back

    def _pack_span(self, span: Span) -> bytes:
        if span.resource is not self._last_resource:
            self._last_resource = span.resource
            self._last_number = self._resource_number(span.resource)
        return marshal.dumps(
            (
                span.span_id,
                span.parent_id,
                span.name,
                span.start,
                span.end,
                self._pack_attributes(span.attributes),
                self._last_number,
                span.scope,
                span.kind,
                span.status,
                span.status_message,
                [(event.name, event.time, dict(event.attributes)) for event in span.events] if span.events else None,
                [_log_fields(log) for log in span.logs] if span.logs else None,
            )
        )

    def _pack_attributes(self, attributes: Attributes) -> Any:
        """The number of a set of keys many spans share, before the values; rare keys go with their span instead."""
        keys = tuple(attributes)
        number = self._key_numbers.get(keys)
        if number is None:
            if self._key_count + len(keys) > _SHARED_KEYS or not all(len(key) <= _SHARED_KEY for key in keys):
                return attributes if type(attributes) is dict else dict(attributes)
            keys = tuple(map(sys.intern, keys))
            self._key_count += len(keys)
            number = self._key_numbers[keys] = len(self._keys)
            self._keys.append(keys)
        return (number, *attributes.values())

    def _resource_number(self, resource: Any) -> Any:
        """A number for a resource many spans share; a rare or large one goes with its span instead."""
        resource = dict(resource)
        packed = marshal.dumps(resource, 2)  # 2: equal values have equal bytes
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
        for packed in self._packed(trace_id):
            fields = marshal.loads(packed)  # noqa: S302  (our own bytes, from memory or a private file)
            if len(fields) == _LOG_FIELDS:
                logs.setdefault(fields[0], []).append(LogRecord(trace_id, *fields))
                continue
            span = self._unpack_span(trace_id, fields)
            known = spans.get(span.span_id)
            if known is not None:
                self.duplicate_spans += 1
                if _completeness(span) <= _completeness(known):
                    continue
            spans[span.span_id] = span
        for span_id, records in logs.items():
            if span_id in spans:
                spans[span_id] = _with_logs(spans[span_id], records)
            else:
                self.orphan_logs += len(records)
        ordered = sorted(spans.values(), key=_order)
        return ordered if _parents_come_first(ordered, spans) else _without_cycles(spans)

    def _unpack_span(self, trace_id: str, fields: Any) -> Span:
        resource = fields[6] if type(fields[6]) is dict else self._resources[fields[6]]
        events = tuple(SpanEvent(*event) for event in fields[11]) if fields[11] else ()
        logs = tuple(LogRecord(trace_id, *log) for log in fields[12]) if fields[12] else ()
        span_id, parent_id, name, start, end, attributes, _, scope, kind, status, message = fields[:11]
        if type(attributes) is tuple:
            attributes = dict(zip(self._keys[attributes[0]], attributes[1:], strict=True))
        return Span(
            trace_id, span_id, parent_id, name, start, end, attributes, resource, scope,
            kind, status, message, events, logs,
        )  # fmt: skip

    def _packed(self, trace_id: str) -> Iterator[bytes]:
        if self._database is None or self._data is None:
            yield from self._pending.get(trace_id, ())
            return
        rows = self._database.execute(
            "SELECT place, size FROM chunk WHERE trace = (SELECT number FROM trace WHERE id = ?) ORDER BY place",
            (_key(trace_id),),
        ).fetchall()
        for place, size in rows:
            self._data.seek(place)
            yield from marshal.loads(self._data.read(size))  # noqa: S302

    # The file

    def _spill(self) -> None:
        try:
            database, data = self._files()
            # Numbers say which trace was seen first; going by id visits each page of the index once.
            traces = [
                (_key(trace_id), self._numbers + place, trace_id) for place, trace_id in enumerate(self._pending, 1)
            ]
            traces.sort(key=lambda trace: trace[2])
            self._numbers += len(traces)
            database.execute("BEGIN")
            database.executemany(
                "INSERT INTO trace (id, number, has_span) VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET has_span = has_span OR excluded.has_span",
                [(key, number, trace_id in self._with_spans) for key, number, trace_id in traces],
            )
            data.seek(self._written)
            chunks = []
            for key, _, trace_id in traces:
                size = data.write(marshal.dumps(self._pending[trace_id], 2))
                chunks.append((key, self._written, size))
                self._written += size
            data.flush()
            database.executemany(
                "INSERT INTO chunk (trace, place, size) VALUES ((SELECT number FROM trace WHERE id = ?), ?, ?)", chunks
            )
            database.execute("COMMIT")
        except (sqlite3.Error, OSError) as problem:
            raise SourceError(
                f"{self._folder or self._directory or tempfile.gettempdir()}: cannot write the spans that do not fit "
                f"into memory ({problem}); free some space, or set TMPDIR to a folder that has it"
            ) from problem
        self._pending = {}
        self._with_spans = set()
        self._pending_bytes = 0

    def _files(self) -> tuple[sqlite3.Connection, BinaryIO]:
        if self._database is not None and self._data is not None:
            return self._database, self._data
        self._folder = Path(tempfile.mkdtemp(prefix="otel-drift-", dir=self._directory))  # mode 0700
        path = self._folder / "index.sqlite"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._data = open(self._folder / "spans", "x+b", 8192, opener=_private)  # noqa: SIM115
        self._database = sqlite3.connect(path, isolation_level=None, cached_statements=16, check_same_thread=False)
        self._database.executescript(_SCHEMA)
        if os.name == "posix":  # the open files live on without a name, and are gone whatever ends the process
            shutil.rmtree(self._folder, ignore_errors=True)
        return self._database, self._data


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _key(trace_id: str) -> bytes | str:
    """A trace id as it is kept: half as long where it is hex, as OTLP's are."""
    try:
        raw = bytes.fromhex(trace_id)
    except ValueError:
        return trace_id
    return raw if raw.hex() == trace_id else trace_id


def _log_fields(log: LogRecord) -> tuple[Any, ...]:
    return log.span_id, log.event_name, log.time, log.body, dict(log.attributes), log.scope


_LOG_FIELDS = 6


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
        distinct.setdefault(marshal.dumps(_log_fields(record), 2), record)
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
