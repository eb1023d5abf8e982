"""otel-drift reads spans from a SQLite file and writes its findings into a table beside them.

Your platform has an HTTP API instead: `otel_drift.platform` has a client for that, with limits, retries, clear errors.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from otel_drift.errors import ConfigError, RecordError, SinkError, SourceError
from otel_drift.model import Annotation, Record, Rejection, Span, WriteReport
from otel_drift.protocols import Window

PAGE = 500

SPANS = """CREATE TABLE IF NOT EXISTS span (
    trace_id TEXT, span_id TEXT, parent_id TEXT, session_id TEXT, name TEXT, started INTEGER, ended INTEGER,
    attributes TEXT, resource TEXT, PRIMARY KEY (trace_id, span_id))"""
SCORES = """CREATE TABLE IF NOT EXISTS score (
    target TEXT, target_id TEXT, name TEXT, label TEXT, value REAL, explanation TEXT, author TEXT,
    PRIMARY KEY (target, target_id, name, author))"""

_SESSIONS = "SELECT DISTINCT session_id FROM span WHERE started < ? AND ended >= ?"
_OF_SESSIONS = """SELECT rowid, trace_id, span_id, parent_id, name, started, ended, attributes, resource FROM span
    WHERE session_id IN (SELECT value FROM json_each(?)) AND rowid > ? ORDER BY rowid LIMIT ?"""
_UPSERT = "INSERT OR REPLACE INTO score VALUES (?, ?, ?, ?, ?, ?, 'otel-drift')"
_DELETE = "DELETE FROM score WHERE target = ? AND target_id = ? AND name = ? AND author = 'otel-drift'"


class SqliteSource:
    """Spans of a SQLite file, session by session, each whole.

    Args:
        target: What follows ``sqlite-traces:`` on the command line: the file.
        on_problem: Told of every span that cannot be read; the rest goes on.
    """

    windowed = True  # more than one wants to read: `read` is given a window

    def __init__(self, target: str, *, on_problem=None) -> None:
        if not target:
            raise ConfigError("sqlite-traces needs a file: sqlite-traces:FILE")
        self.name = f"sqlite-traces:{target}"
        self._file = Path(target)
        self._on_problem = on_problem or (lambda problem: None)

    def check(self) -> str:
        """Say what is there, or raise before anything is paid for."""
        with closing(self._open()) as database:
            count = database.execute("SELECT count(DISTINCT session_id) FROM span").fetchone()[0]
        return f"{self.name}: {count} sessions"

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """Yield the spans of every session that has one in the window; the cursor is the last row read."""
        with closing(self._open()) as database:
            try:
                chosen = json.dumps(self._sessions(database, window))
                last = int(cursor or 0)
                while rows := database.execute(_OF_SESSIONS, (chosen, last, PAGE)).fetchall():
                    last = rows[-1][0]
                    yield [span for row in rows if (span := self._span(row))], str(last)
            except sqlite3.Error as error:
                raise SourceError(f"{self.name} cannot be read: {error}") from error

    def _sessions(self, database: sqlite3.Connection, window: Window | None) -> list[str]:
        if window is None:
            return [row[0] for row in database.execute("SELECT DISTINCT session_id FROM span")]
        if window.sessions:
            return list(window.sessions)
        return [row[0] for row in database.execute(_SESSIONS, (window.until, window.since))]

    def _span(self, row: tuple) -> Span | None:
        _, trace_id, span_id, parent_id, name, started, ended, attributes, resource = row
        try:
            values, of_resource = json.loads(attributes), json.loads(resource)
        except (TypeError, ValueError) as error:
            self._on_problem(RecordError(f"no JSON: {error}", file=self.name, record=f"span {trace_id}:{span_id}"))
            return None
        return Span(trace_id, span_id, parent_id, name, started, ended, values, of_resource)

    def _open(self) -> sqlite3.Connection:
        if not self._file.is_file():
            raise ConfigError(f"{self.name}: there is no such file")
        database = sqlite3.connect(f"{self._file.absolute().as_uri()}?mode=ro", uri=True)
        try:
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'span'").fetchone():
                return database
        except sqlite3.Error as error:
            database.close()
            raise SourceError(f"{self.name} cannot be read: {error}") from error
        database.close()
        raise ConfigError(f"{self.name} has no table of spans")


class SqliteSink:
    """Findings in the table ``score``: one row a target and name, ours told from other people's by `author`.

    Args:
        target: The file.
        wait: Seconds to wait for another writer: an option, ``[connectors.sqlite-traces] wait = 20`` in the settings.
    """

    upserts = True  # a second write replaces the first

    def __init__(self, target: str, *, wait: float = 5.0) -> None:
        if not target:
            raise ConfigError("sqlite-traces needs a file: sqlite-traces:FILE")
        self.name = f"sqlite-traces:{target}"
        self._file = Path(target)
        self._wait = wait

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Replace what stood there, remove what is withdrawn, all in one transaction."""
        written, rejected = [], []
        try:
            with closing(sqlite3.connect(self._file, timeout=self._wait)) as database, database:
                database.execute(SCORES)
                for one in annotations:
                    span = f"{one.trace_id}:{one.span_id}"
                    target_id = {"span": span, "trace": one.trace_id, "session": one.session_id}[one.target]
                    if target_id is None:
                        rejected.append(Rejection(one.id, "it says of no session what it is about"))
                    elif one.withdrawn:
                        database.execute(_DELETE, (one.target, target_id, one.name))
                        written.append(one.id)
                    else:
                        values = (one.target, target_id, one.name, one.label, one.score, one.explanation)
                        database.execute(_UPSERT, values)
                        written.append(one.id)
        except sqlite3.Error as error:  # nothing was written: all stays owed, and the next delivery tries again
            raise SinkError(f"{self.name} cannot be written: {error}") from error
        return WriteReport(written=tuple(written), rejected=tuple(rejected))

    def close(self) -> None:
        """Nothing is held between writes."""
