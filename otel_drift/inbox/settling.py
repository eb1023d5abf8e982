"""Inbox: what an audit settles: which traces are done, and which sessions have to be audited again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.inbox.arrival import group_id, place_id, trace_hash, written
from otel_drift.inbox.claim import Claim
from otel_drift.inbox.tables import chunk, group, member, trace
from otel_drift.ledger.records import chunks
from otel_drift.sessions.facts import hash_of


def note_audited(
    connection: Connection, claimed: Claim, audited: Mapping[str, str | None], elsewhere: Mapping[str, str]
) -> None:
    """Note what was audited, and what is to be audited elsewhere."""
    touched = {claimed.group} | _settle_traces(connection, claimed, audited)
    touched |= _adopt(connection, claimed, elsewhere)
    recount(connection, touched)


def _settle_traces(connection: Connection, claimed: Claim, audited: Mapping[str, str | None]) -> set[str]:
    """Note that traces were audited as they were when claimed; returns the groups they count for.

    A trace without a session id that was audited in a session with one counts at its place too. Where a trace was in
    another session before, that one is open again, to be audited without it.
    """
    place = _place(claimed)
    done = list(_done(connection, claimed, audited))
    rows = [
        {**row, "its_group": its_group, "audited_key": key and written(key), "audited_hash": key and hash_of(key)}
        for trace_id, row in done
        for key in [audited[trace_id]]
        for its_group in {row["its_group"], place if key else row["its_group"]}
    ]
    left, gone = _moves(connection, rows, {row["number"]: row["its_group"] for _, row in done})
    many(connection, _AUDITED, rows)
    many(connection, _WAS_AUDITED, gone)
    touched = reopen(connection, {*left, *(row["audited_hash"] for row in gone)}, claimed.now, claimed.revision)
    return touched | {row["its_group"] for row in rows}


def _adopt(connection: Connection, claimed: Claim, elsewhere: Mapping[str, str]) -> set[str]:
    """Open the sessions that traces without an id turned out to belong to, where they were not audited in them."""
    waiting = {
        trace_id: session
        for trace_id, session in elsewhere.items()
        if (state := claimed.traces.get(trace_id)) is not None and state.first_unaudited is not None
    }
    done = dict(_done(connection, claimed, waiting))
    many(connection, _AUDITED, list(done.values()))
    place = _place(claimed)
    touched = set()
    for trace_id, row in done.items():
        home = group_id(place, waiting[trace_id])
        touched |= {row["its_group"], home}
        same = sa.and_(member.c.trace_number == row["number"], member.c.group_id == home)
        if (
            connection.execute(sa.select(group.c.group_id).where(group.c.group_id == home)).first() is None
            or connection.execute(sa.select(member.c.adopted).where(same)).first() is not None
        ):
            continue
        state = claimed.traces[trace_id]
        adopted = {
            "trace_number": row["number"], "group_id": home, "adopted": True, "received": state.last_received,
            "open_since": state.first_unaudited, "open_spans": state.unaudited_spans, "audited": 0,
        }  # fmt: skip
        connection.execute(sa.insert(member).values(adopted))
        later = sa.and_(group.c.group_id == home, group.c.received < state.last_received)
        connection.execute(sa.update(group).where(later).values(received=state.last_received))
    return touched


def reopen(connection: Connection, hashes: Collection[int], now: int, revision: int) -> set[str]:
    """Have the traces audited again that were audited in these sessions (hashes of their keys); returns their groups.

    They count as audited up to `revision`: an audit that was under way before does not close them.
    """
    groups: set[str] = set()
    for some in chunks(sorted(hashes)):
        mates = sa.and_(member.c.audited_hash.in_(some), member.c.open_since.is_(None))
        groups.update(connection.execute(sa.select(member.c.group_id).where(mates).distinct()).scalars())
        connection.execute(sa.update(member).where(mates).values(open_since=now, audited=revision))
    return groups


def recount(connection: Connection, groups: Iterable[str]) -> None:
    """Say of groups whether anything of them is open, from their traces."""
    for its_group in groups:
        row = connection.execute(_OPEN_TRACES, {"its_group": its_group}).one()
        values: dict[str, Any] = {"open_since": row.since, "open_spans": int(row.spans or 0)}
        connection.execute(sa.update(group).where(group.c.group_id == its_group, group.c.relevant).values(values))


def numbers_of(connection: Connection, trace_ids: Iterable[str], origin: str) -> dict[str, int]:
    """The numbers of those of these traces that are kept."""
    hashes = {trace_hash(origin, trace_id): trace_id for trace_id in trace_ids}
    found = {}
    for some in chunks(sorted(hashes)):
        query = sa.select(trace.c.trace_hash, trace.c.trace_number).where(trace.c.trace_hash.in_(some))
        for row in connection.execute(query):
            found[hashes[bytes(row.trace_hash)]] = row.trace_number
    return found


def _moves(
    connection: Connection, rows: list[dict[str, Any]], homes: Mapping[int, str]
) -> tuple[set[int], list[dict[str, Any]]]:
    """What does not fit what is known of traces that were audited.

    Args:
        connection: In a writing transaction.
        rows: What is to be noted.
        homes: By number of the trace, the group that was claimed with it.

    Returns:
        Hashes of the keys of sessions that they were audited in before, and are not in now, unless these were audited
        anew just now; and the keys of the traces that were taken out of their group since it was claimed.
    """
    now = {(row["number"], row["its_group"]): row["audited_hash"] for row in rows}
    left, known = set(), set()
    for some in chunks(sorted(homes)):
        query = sa.select(member.c.trace_number, member.c.group_id, member.c.audited_hash)
        for row in connection.execute(query.where(member.c.trace_number.in_(some))):
            known.add((row.trace_number, row.group_id))
            if now.get((row.trace_number, row.group_id), row.audited_hash) != row.audited_hash:
                left.add(row.audited_hash)
    gone = [
        {name: row[name] for name in ("number", "audited_key", "audited_hash")}
        for row in rows
        if row["audited_key"]
        and homes[row["number"]] == row["its_group"]
        and (row["number"], row["its_group"]) not in known
    ]
    return left - {None, *now.values()}, gone


def _done(connection: Connection, claimed: Claim, trace_ids: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What becomes of traces that are done as they were when claimed: open only by what came later."""
    numbers = numbers_of(connection, trace_ids, claimed.origin)
    later = {row.trace_number: row for row in _later_chunks(connection, list(numbers.values()), claimed.revision)}
    for trace_id, number in numbers.items():
        state, left = claimed.traces.get(trace_id), later.get(number)
        if state is not None and state.group:
            yield (
                trace_id,
                {
                    "number": number,
                    "its_group": state.group,
                    "revision": claimed.revision,
                    "audited": claimed.revision,
                    "open_since": None if left is None else left.since,
                    "open_spans": 0 if left is None else int(left.spans),
                },
            )


def _later_chunks(connection: Connection, numbers: list[int], revision: int) -> Iterable[Any]:
    for some in chunks(numbers):
        query = sa.select(
            chunk.c.trace_number,
            sa.func.min(chunk.c.received).label("since"),
            sa.func.sum(chunk.c.spans).label("spans"),
        ).where(chunk.c.trace_number.in_(some), chunk.c.chunk_number > revision)
        yield from connection.execute(query.group_by(chunk.c.trace_number))


def _place(claimed: Claim) -> str:
    """The claim's place, which is the group of its traces without a session id."""
    return place_id(claimed.origin, claimed.project, claimed.environment)


def many(connection: Connection, statement: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Run a statement for each of these rows, if there are any."""
    if rows:
        connection.execute(statement, rows)


_OPEN_TRACES = sa.select(
    sa.func.min(member.c.open_since).label("since"), sa.func.sum(member.c.open_spans).label("spans")
).where(member.c.group_id == sa.bindparam("its_group"), member.c.open_since.is_not(None))
_AUDITED = (
    sa.update(member)
    .where(member.c.trace_number == sa.bindparam("number"), member.c.group_id == sa.bindparam("its_group"))
    .where(member.c.audited <= sa.bindparam("revision"))
)
_WAS_AUDITED = sa.update(member).where(member.c.trace_number == sa.bindparam("number"), member.c.audited_hash.is_(None))
