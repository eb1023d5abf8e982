"""Sessions: the facts of every trace, in a private temporary database that is on disk only once it is large."""

from __future__ import annotations

import sqlite3
from functools import reduce
from types import TracebackType

from otel_drift.errors import SourceError
from otel_drift.sessions.facts import TraceFacts, Whose, hash_of, unpacked

BATCH = 8192
"""Traces whose facts are gathered in memory before they are written."""

blob = bytearray
"""What bytes are given to sqlite3 as: bytes, as a bool, it first tries to adapt, half a microsecond each."""

AT_ONCE = 64
"""Rows that are looked up, or written, together: one by one, with a trace read or a session built in between, each
finds the processor's caches cold, and takes twice as long."""

_LAST_TIME = 2**63 - 1
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -4096;
CREATE TABLE part (id BLOB, start INTEGER, end INTEGER, place BLOB, whose BLOB, relevant INTEGER);
CREATE TABLE several (id BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE whose (number INTEGER PRIMARY KEY, packed BLOB UNIQUE NOT NULL, named INTEGER NOT NULL,
                    project INTEGER NOT NULL, place INTEGER NOT NULL);
CREATE TABLE trace (number INTEGER PRIMARY KEY, id BLOB, start INTEGER, end INTEGER, whose INTEGER, relevant INTEGER);
BEGIN;
"""
_SEVERAL = "INSERT INTO several SELECT id FROM part GROUP BY id HAVING count(*) > 1"
_WHOLE = """
INSERT INTO part SELECT id, min(start), max(end), NULL, merged(place, whose), max(relevant) FROM part
WHERE id IN several GROUP BY id
"""
_WITHOUT_PARTS = "DELETE FROM part WHERE place IS NOT NULL AND id IN several"
_IN_ORDER = """
INSERT INTO trace (id, start, end, whose, relevant)
SELECT id, start, end, number, relevant FROM part JOIN whose ON packed = whose ORDER BY start, id
"""


class TraceIndex:
    """Facts by trace. Use as a context manager: leaving it deletes everything.

    While records come in, `facts` gives what to add them to. After `settle` the table ``trace`` of `database` holds
    every trace, numbered in the order of time, and ``whose`` what `whose` unpacks.
    """

    def __init__(self) -> None:
        # "": a file without a name, in the system's temporary folder, and only when its cache is full
        self.database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self.database.executescript(_SCHEMA)
        self.database.create_aggregate("merged", 2, _Merged)  # type: ignore[arg-type]
        self._batch: dict[str, TraceFacts] = {}

    def __enter__(self) -> TraceIndex:
        return self

    def __exit__(self, _: type[BaseException] | None, problem: BaseException | None, __: TracebackType | None) -> None:
        self.database.close()
        if isinstance(problem, sqlite3.Error):
            raise SourceError(
                f"the temporary database of traces cannot be written ({problem}); free some space, or set TMPDIR to a "
                "folder that has it"
            ) from problem

    def facts(self, trace_id: str) -> TraceFacts:
        """What is known of a trace, to be added to; good until the next call."""
        facts = self._batch.get(trace_id)
        if facts is None:
            if len(self._batch) >= BATCH:
                self._write()
            facts = self._batch[trace_id] = TraceFacts()
        return facts

    def settle(self) -> None:
        """Put together what came in parts, and number the traces in the order of time."""
        self._write()
        self.database.execute(_SEVERAL)
        self.database.execute(_WHOLE)
        self.database.execute(_WITHOUT_PARTS)
        self.database.executemany(
            "INSERT INTO whose (packed, named, project, place) VALUES (?, ?, ?, ?)",
            (
                (blob(packed), int(bool(whose.sessions)), hash_of(whose.project), hash_of(*whose.place))
                for (packed,) in self.database.execute("SELECT DISTINCT whose FROM part")
                if (whose := unpacked(packed))
            ),
        )
        self.database.execute(_IN_ORDER)
        self.database.execute("DROP TABLE part")

    def _write(self) -> None:
        self.database.executemany(
            "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    blob(trace_id.encode("utf-8", "surrogatepass")),
                    min(facts.start, _LAST_TIME),
                    min(facts.end, _LAST_TIME),
                    blob(facts.place.to_bytes(9, "big")),
                    blob(facts.packed()),
                    int(facts.relevant),
                )
                for trace_id, facts in self._batch.items()
            ],
        )
        self._batch = {}


class _Merged:
    """SQL's aggregate: whose a trace is that came in several parts; project and environment are its root's."""

    def __init__(self) -> None:
        self._parts: list[tuple[bytes, bytes]] = []

    def step(self, place: bytes, packed: bytes) -> None:
        self._parts.append((place, packed))

    def finalize(self) -> bytes:
        parts = sorted(((place, unpacked(packed)) for place, packed in self._parts), key=lambda p: (p[0], p[1].place))
        return reduce(Whose.merged, (whose for _, whose in parts)).packed()


def trace_id_of(packed: bytes) -> str:
    """A trace's id as the table has it, as text."""
    return packed.decode("utf-8", "surrogatepass")
