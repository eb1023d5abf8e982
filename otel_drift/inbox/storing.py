"""Inbox: records into the database, and the sessions they open, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.inbox.arrival import Facts, Part, groups_of, part_of, place_id, read, written
from otel_drift.inbox.packing import unlike, unpack
from otel_drift.inbox.settling import many, recount, reopen
from otel_drift.inbox.tables import chunk, group, member, tally, trace
from otel_drift.ledger.records import chunks, insert

_NO_GROUP: dict[str, Any] = {
    "open_since": None,
    "open_spans": 0,
    "priority": 0.0,
    "attempts": 0,
    "put_off_since": None,
    "put_off_for": None,
    "rests_since": None,
    "rests_until": None,
    "owner": None,
    "ticket": None,
    "held_until": None,
}
_NO_MEMBER: dict[str, Any] = {"audited": 0, "audited_key": None, "audited_hash": None}


@dataclass(slots=True)
class _Trace:
    """A trace while records of it come in."""

    number: int
    origin: str
    trace_id: str
    facts: Facts | None
    spans: int = 0
    bytes: int = 0
    is_new: bool = False
    members: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class _Change:
    """What happened to a group."""

    facts: Facts
    origin: str
    session_id: str | None
    spans: int = 0
    relevant: bool = False
    grew: bool = False
    shrank: bool = False


def store(
    connection: Connection, calls: Sequence[Sequence[Part]], now: int, session_attributes: Sequence[str]
) -> list[int]:
    """Keep what came in several calls.

    Returns:
        For each call how many records (spans, or log records) were kept.
    """
    return _Storing(connection, now, session_attributes).store(calls)


class _Storing:
    def __init__(self, connection: Connection, now: int, session_attributes: Sequence[str]) -> None:
        self._connection = connection
        self._now = now
        self._session_attributes = session_attributes
        row = connection.execute(_TALLY).one_or_none()
        if row is None:
            connection.execute(sa.insert(tally), [{"tally_id": 1, "traces": 0, "chunks": 0, "spans": 0, "bytes": 0}])
        numbers: tuple[int, ...] = (0, 0, 0, 0) if row is None else tuple(row)
        self._last_trace, self._last_chunk, self._spans, self._bytes = numbers
        self._traces: dict[bytes, _Trace] = {}
        self._chunks: list[dict[str, Any]] = []
        self._changes: dict[str, _Change] = {}
        self._new_members: dict[tuple[int, str], dict[str, Any]] = {}
        self._grown_members: dict[tuple[int, str], dict[str, Any]] = {}
        self._lost_members: dict[tuple[int, str], int | None] = {}

    def store(self, calls: Sequence[Sequence[Part]]) -> list[int]:
        self._load({part.trace_hash for parts in calls for part in parts})
        kept = [sum(self._take(part) for part in parts) for parts in calls]
        self._write()
        return kept

    def _load(self, hashes: Collection[bytes]) -> None:
        by_number: dict[int, _Trace] = {}
        for row in _in_chunks(self._connection, _TRACES, sorted(hashes)):
            facts = Facts.from_json(row.facts, row.started, row.ended, row.relevant)
            found = _Trace(row.trace_number, row.origin, row.trace_id, facts, row.spans, row.bytes)
            self._traces[bytes(row.trace_hash)] = by_number[row.trace_number] = found
        for row in _in_chunks(self._connection, _MEMBERS, sorted(by_number)):
            by_number[row.trace_number].members[row.group_id] = dict(row._mapping)

    def _take(self, part: Part) -> int:
        """Take in a part, and return how many records of it are kept."""
        known = self._traces.get(part.trace_hash)
        count = part.spans if part.records is None else len(part.records)
        if part.records is not None:
            records = unlike(part.records, self._records(known) if known is not None else ())
            if not records:
                return 0
            if len(records) < len(part.records):
                part = replace(part_of(records, part.origin, self._session_attributes), records=records)
            count = len(records)
        if known is None:
            self._last_trace += 1
            origin, trace_id = written(part.origin), written(part.trace_id)
            known = self._traces[part.trace_hash] = _Trace(self._last_trace, origin, trace_id, None, is_new=True)
        self._last_chunk += 1
        self._chunks.append(
            {
                "chunk_number": self._last_chunk,
                "trace_number": known.number,
                "received": self._now,
                "spans": part.spans,
                "payload": part.payload,
            }
        )
        known.facts = part.facts if known.facts is None else known.facts.merged(part.facts)
        known.spans += part.spans
        known.bytes += len(part.payload)
        self._spans += part.spans
        self._bytes += len(part.payload)
        self._place(known, known.facts, part)
        return count

    def _records(self, known: _Trace) -> Iterator[Any]:
        trace_id = read(known.trace_id)
        for payload in self._connection.execute(_PAYLOADS, {"number": known.number}).scalars():
            yield from unpack(trace_id, payload)
        for row in self._chunks:
            if row["trace_number"] == known.number:
                yield from unpack(trace_id, row["payload"])

    def _place(self, known: _Trace, facts: Facts, part: Part) -> None:
        """Put a trace into the groups that have to audit it now, and take it out of others."""
        wanted = groups_of(facts, part.origin)
        key: dict[str, Any] = {}
        stays = None in wanted.values() and wanted.keys() <= known.members.keys()  # without an id, at the same place
        for group_id, row in list(known.members.items()):
            if group_id in wanted or (stays and row["adopted"]):
                row.update(
                    adopted=group_id not in wanted, received=self._now, open_since=_first(row["open_since"], self._now)
                )
                row["open_spans"] += part.spans
                if (known.number, group_id) not in self._new_members:
                    self._grown_members[known.number, group_id] = row
                self._change(group_id, facts, part.origin, wanted.get(group_id), part.spans)
            else:
                del known.members[group_id]
                if row["audited_key"] is not None:
                    key = {name: row[name] for name in ("audited_key", "audited_hash")}
                self._grown_members.pop((known.number, group_id), None)
                if self._new_members.pop((known.number, group_id), None) is None:
                    self._lost_members[known.number, group_id] = row["audited_hash"]
                self._change(group_id, facts, part.origin, None, 0, shrank=True)
        for group_id, session_id in wanted.items():
            if group_id not in known.members:
                row = {
                    "trace_number": known.number, "group_id": group_id, "adopted": False, "received": self._now,
                    "open_since": self._now, "open_spans": known.spans, **_NO_MEMBER, **key,
                }  # fmt: skip
                known.members[group_id] = self._new_members[known.number, group_id] = row
                self._change(group_id, facts, part.origin, session_id, known.spans)

    def _change(
        self, group_id: str, facts: Facts, origin: str, session_id: str | None, spans: int, *, shrank: bool = False
    ) -> None:
        change = self._changes.get(group_id)
        if change is None:
            change = self._changes[group_id] = _Change(facts, origin, session_id)
        change.spans += spans
        if shrank:
            change.shrank = True
            return
        if not change.grew:
            change.facts, change.session_id, change.grew = facts, session_id, True
        change.relevant = change.relevant or facts.relevant or facts.has_logs

    def _write(self) -> None:
        insert(self._connection, chunk, self._chunks)
        new, old = [], []
        for hash_, known in self._traces.items():
            facts = known.facts
            if facts is None:
                continue
            row = {
                "place": place_id(read(known.origin), *facts.whose.place),
                "facts": facts.to_json(),
                "named": bool(facts.whose.sessions),
                "relevant": facts.relevant,
                "started": facts.started,
                "ended": facts.ended,
                "received": self._now,
                "spans": known.spans,
                "bytes": known.bytes,
            }
            if known.is_new:
                row.update(trace_number=known.number, trace_hash=hash_, trace_id=known.trace_id, origin=known.origin)
                new.append(row)
            else:
                old.append({"number": known.number, **row})
        insert(self._connection, trace, new)
        many(self._connection, _GROWN_TRACE, old)
        for number, group_id in self._lost_members:
            self._connection.execute(_LOST_MEMBER, {"number": number, "its_group": group_id})
        insert(self._connection, member, list(self._new_members.values()))
        grown = [
            {
                "number": number, "its_group": group_id, "received": row["received"],
                "adopted": row["adopted"], "open_since": row["open_since"], "open_spans": row["open_spans"],
            }
            for (number, group_id), row in self._grown_members.items()
        ]  # fmt: skip
        many(self._connection, _GROWN_MEMBER, grown)
        self._write_groups()
        totals = {"traces": self._last_trace, "chunks": self._last_chunk, "spans": self._spans, "bytes": self._bytes}
        self._connection.execute(sa.update(tally).values(**totals))

    def _write_groups(self) -> None:
        known = {row.group_id: row for row in _in_chunks(self._connection, _GROUPS, sorted(self._changes))}
        new, old = [], []
        for group_id, change in self._changes.items():
            row = known.get(group_id)
            if not change.grew:
                continue
            if row is None:
                new.append(self._new_group(group_id, change))
                continue
            relevant = row.relevant or change.relevant
            old.append(
                {
                    "its_group": group_id,
                    "relevant": relevant,
                    "received": self._now,
                    "priority": 0.0,  # it was ranked without these records
                    "open_since": _first(row.open_since, self._now) if relevant else None,
                    "open_spans": row.open_spans + change.spans,
                }
            )
        insert(self._connection, group, new)
        many(self._connection, _GROWN_GROUP, old)
        shrunk = [group_id for group_id, change in self._changes.items() if change.shrank]
        for group_id in shrunk:
            self._connection.execute(_WITHOUT_MEMBERS, {"its_group": group_id})
        left = {hash_ for hash_ in self._lost_members.values() if hash_ is not None}
        recount(self._connection, {*shrunk, *reopen(self._connection, left, self._now, self._last_chunk)})

    def _new_group(self, group_id: str, change: _Change) -> dict[str, Any]:
        project, environment = change.facts.whose.project, change.facts.whose.environment
        return {
            **_NO_GROUP,
            "group_id": group_id,
            "place": place_id(change.origin, *change.facts.whose.place),
            "origin": written(change.origin),
            "project": written(project),
            "environment": None if environment is None else written(environment),
            "session_id": None if change.session_id is None else written(change.session_id),
            "relevant": change.relevant,
            "received": self._now,
            "open_since": self._now if change.relevant else None,
            "open_spans": change.spans,
        }


def _in_chunks(connection: Connection, statement: Any, values: Sequence[Any]) -> Iterator[Any]:
    for some in chunks(values):
        yield from connection.execute(statement, {"given": list(some)})


def _first(known: int | None, now: int) -> int:
    return now if known is None else known


_TALLY = sa.select(tally.c.traces, tally.c.chunks, tally.c.spans, tally.c.bytes)
_TRACES = sa.select(trace).where(trace.c.trace_hash.in_(sa.bindparam("given", expanding=True)))
_MEMBERS = sa.select(member).where(member.c.trace_number.in_(sa.bindparam("given", expanding=True)))
_GROUPS = sa.select(group.c.group_id, group.c.relevant, group.c.open_since, group.c.open_spans).where(
    group.c.group_id.in_(sa.bindparam("given", expanding=True))
)
_PAYLOADS = (
    sa.select(chunk.c.payload).where(chunk.c.trace_number == sa.bindparam("number")).order_by(chunk.c.chunk_number)
)
# The columns to set are the other names in the rows.
_GROWN_TRACE = sa.update(trace).where(trace.c.trace_number == sa.bindparam("number"))
_GROWN_MEMBER = sa.update(member).where(
    member.c.trace_number == sa.bindparam("number"), member.c.group_id == sa.bindparam("its_group")
)
_LOST_MEMBER = sa.delete(member).where(
    member.c.trace_number == sa.bindparam("number"), member.c.group_id == sa.bindparam("its_group")
)
_GROWN_GROUP = sa.update(group).where(group.c.group_id == sa.bindparam("its_group"))
_WITHOUT_MEMBERS = sa.delete(group).where(
    group.c.group_id == sa.bindparam("its_group"),
    ~sa.exists(sa.select(member.c.trace_number).where(member.c.group_id == sa.bindparam("its_group"))),
)
