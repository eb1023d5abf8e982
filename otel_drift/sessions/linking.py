"""Sessions: which traces belong to one session; by session id, else as `lone` says.

It works on the tables of a `TraceIndex`, so that memory holds one session at a time, and of a trace a few bytes.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from sqlite3 import Connection
from urllib.parse import quote

from otel_drift.sessions.digests import Units
from otel_drift.sessions.facts import Whose, unpacked
from otel_drift.sessions.lone import link_lone
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.owners import Owners, key_parts, parted, tenant_of, user_of
from otel_drift.sessions.trace_index import AT_ONCE, TraceIndex, blob, trace_id_of

_SCHEMA = """
CREATE TABLE named (name BLOB NOT NULL, whose INTEGER NOT NULL);
CREATE TABLE home (whose INTEGER NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (whose, session)) WITHOUT ROWID;
CREATE TABLE session (number INTEGER PRIMARY KEY, key TEXT NOT NULL, about BLOB NOT NULL);
CREATE TABLE member (session INTEGER NOT NULL, trace INTEGER NOT NULL, PRIMARY KEY (session, trace)) WITHOUT ROWID;
BEGIN;
"""
_SHARING = "SELECT name, whose, packed FROM named JOIN whose ON number = whose ORDER BY name, whose"
_MEMBERS = "INSERT INTO member SELECT session, number FROM trace JOIN home USING (whose) ORDER BY session, number"
_UNNAMED = """
SELECT session, id, packed FROM member JOIN trace ON trace.number = trace JOIN whose ON whose.number = whose
WHERE session < 0 ORDER BY session, trace
"""
_GROUPS = """
SELECT session.number, key, about FROM (SELECT session, min(trace) AS first FROM member GROUP BY session)
JOIN session ON session.number = session JOIN trace ON trace.number = first ORDER BY start, key
"""
_TRACES = """
SELECT id, packed FROM member JOIN trace ON trace.number = trace JOIN whose ON whose.number = whose
WHERE session = ? ORDER BY trace
"""


@dataclass(slots=True)
class Group:
    """Traces of one session, in the order of time, and whose they are."""

    key: str
    session_id: str | None
    project: str
    environment: str | None
    user: str | None
    tenant: str | None
    traces: Mapping[str, Whose]

    @property
    def trace_ids(self) -> list[str]:
        """The ids of the traces."""
        return list(self.traces)


def link(index: TraceIndex, units: Units, options: ReconstructOptions) -> Iterator[Group]:
    """Group traces into sessions, ordered by their first trace.

    Args:
        index: every trace's facts.
        units: the units of a trace, read again; asked for only where links are needed.
        options: the time gap.
    """
    database = index.database
    index.settle()
    database.executescript(_SCHEMA)
    _name_sessions(index)
    database.execute(_MEMBERS)
    database.executemany("INSERT INTO member VALUES (?, ?)", link_lone(index, units, options))
    database.executemany("INSERT INTO session VALUES (?, ?, ?)", _unnamed(index))
    found = database.execute(_GROUPS)
    while some := found.fetchmany(AT_ONCE):
        yield from [_group(database, *row) for row in some]


def _group(database: Connection, number: int, key: str, about: bytes) -> Group:
    traces = {trace_id_of(id_): unpacked(packed) for id_, packed in database.execute(_TRACES, (number,))}
    session_id, project, environment, user, tenant = marshal.loads(about)  # noqa: S302  (our own bytes)
    return Group(key, session_id, project, environment, user, tenant, traces)


def _name_sessions(index: TraceIndex) -> None:
    """Part what is said under one session id by project, environment and owners."""
    database = index.database
    database.executemany(
        "INSERT INTO named VALUES (?, ?)",
        (
            (blob(marshal.dumps((*whose.place, session), 2)), number)
            for number, packed in database.execute("SELECT number, packed FROM whose WHERE named")
            for whose in [unpacked(packed)]
            for session in whose.sessions
        ),
    )
    number = 0
    for name, rows in groupby(database.execute(_SHARING), key=itemgetter(0)):
        owners_of = {whose: unpacked(packed).owners for _, whose, packed in rows}
        customers = parted(set(owners_of.values()))
        project, environment, session = marshal.loads(name)  # noqa: S302  (our own bytes)
        numbers: dict[Owners, int] = {}
        for whose, owners in owners_of.items():
            customer = customers[owners]
            if customer not in numbers:
                number += 1
                numbers[customer] = number
                row = _session(number, session, project, environment, customer, session)
                database.execute("INSERT INTO session VALUES (?, ?, ?)", row)
            database.execute("INSERT INTO home VALUES (?, ?)", (whose, numbers[customer]))


def _unnamed(index: TraceIndex) -> Iterator[tuple[int, str, bytearray]]:
    """The sessions without an id: named after their first trace."""
    for number, rows in groupby(index.database.execute(_UNNAMED), key=itemgetter(0)):
        traces = [(id_, unpacked(packed)) for _, id_, packed in rows]
        first, whose = traces[0]
        owners = tuple(sorted({owner for _, one in traces for owner in one.owners}))
        yield _session(number, None, whose.project, whose.environment, owners, "trace:" + trace_id_of(first))


def _session(
    number: int, session: str | None, project: str, environment: str | None, owners: Owners, name: str
) -> tuple[int, str, bytearray]:
    key = _key(project, environment or "", *key_parts(owners), name)
    about = session, project, environment or None, user_of(owners), tenant_of(owners)
    return number, key, blob(marshal.dumps(about))


def _key(*parts: str) -> str:
    return "/".join(map(_quoted, parts))


@lru_cache(maxsize=1024)
def _quoted(part: str) -> str:
    return quote(part, safe=":@.-_", errors="replace") or "-"
