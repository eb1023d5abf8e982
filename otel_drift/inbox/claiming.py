"""Inbox: who audits what is due; one at a time, for a while, and given back."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.inbox.arrival import group_id, place_id, read, trace_hash, written
from otel_drift.inbox.claim import SKEW, Claim, InboxCounts, TraceState
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import inbox_chunk as chunk
from otel_drift.ledger.schema import inbox_group as group
from otel_drift.ledger.schema import inbox_member as member
from otel_drift.ledger.schema import inbox_tally as tally
from otel_drift.ledger.schema import inbox_trace as trace
from otel_drift.sessions.facts import hash_of

REST = 3
"""What stays open after an audit is handed out again after this part of the time sessions settle in."""

_GIVEN_BACK: dict[str, Any] = {"owner": None, "ticket": None, "held_until": None}


def anything_due(connection: Connection, *, now: int, settle: int, cap: int, cap_spans: int, lease: int) -> bool:
    """Whether `claim` would hand out something; asked first, as it blocks nobody."""
    query = sa.select(group.c.group_id).where(*_free(now, settle, cap, cap_spans, lease)).limit(1)
    return connection.execute(query).first() is not None


def claim(
    connection: Connection, owner: str, *, now: int, settle: int, cap: int, cap_spans: int, lease: int, limit: int
) -> list[Claim]:
    """See `Inbox.claim`."""
    query = sa.select(group).where(*_free(now, settle, cap, cap_spans, lease))
    rows = connection.execute(query.order_by(group.c.priority.desc(), group.c.received).limit(limit)).all()
    if not rows:
        return []
    revision = connection.execute(sa.select(tally.c.chunks)).scalar_one()
    claims = []
    for row in rows:
        made = Claim(
            group=row.group_id,
            origin=read(row.origin),
            project=read(row.project),
            environment=None if row.environment is None else read(row.environment),
            session_id=None if row.session_id is None else read(row.session_id),
            attempts=row.attempts,
            priority=row.priority,
            put_off_since=row.put_off_since,
            revision=revision,
            now=now,
            settle=settle,
            ticket=uuid.uuid4().hex,
        )
        taken = {"owner": owner, "ticket": made.ticket, "held_until": now + lease, "attempts": row.attempts + 1}
        connection.execute(sa.update(group).where(group.c.group_id == row.group_id).values(taken))
        states = _STATES.where(member.c.group_id == row.group_id)
        if row.session_id is None:
            states = states.where(member.c.open_since.is_not(None), _settled(member, now, settle, cap, cap_spans))
        for state in connection.execute(states):
            made.traces[read(state.trace_id)] = TraceState(
                row.group_id, state.received, state.open_since, state.open_spans, is_own=True
            )
        claims.append(made)
    return claims


def renew(connection: Connection, claims: Iterable[Claim], owner: str, until: int) -> set[str]:
    """Hold on to claims; returns the groups that another has by now."""
    lost = set()
    for one in claims:
        renewed = sa.update(group).where(_is_held_by(one), group.c.owner == owner).values(held_until=until)
        if not connection.execute(renewed).rowcount:
            lost.add(one.group)
    return lost


def finish(
    connection: Connection, claimed: Claim, audited: Mapping[str, str | None], elsewhere: Mapping[str, str]
) -> None:
    """See `Inbox.finish`."""
    settle(connection, claimed, audited, elsewhere)
    values = {**_GIVEN_BACK, "attempts": 0, "priority": 0.0, "put_off_since": None, "put_off_for": None}
    rest = {"rests_since": claimed.now, "rests_until": claimed.now + claimed.settle // REST}
    connection.execute(sa.update(group).where(_is_held_by(claimed)).values(**values, **rest))


def settle(
    connection: Connection, claimed: Claim, audited: Mapping[str, str | None], elsewhere: Mapping[str, str]
) -> None:
    """Note what was audited, and what is to be audited elsewhere."""
    touched = {claimed.group} | settle_traces(connection, claimed, audited)
    touched |= _adopt(connection, claimed, elsewhere)
    recount(connection, touched)


def put_off(
    connection: Connection, claimed: Claim, *, now: int, reason: str, retry_at: int, priority: float | None
) -> None:
    """See `Inbox.put_off`."""
    values: dict[str, Any] = {
        **_GIVEN_BACK,
        "put_off_since": sa.func.coalesce(group.c.put_off_since, now),
        "put_off_for": reason,
        "rests_since": now,
        "rests_until": min(retry_at, 2**63 - 1),
    }
    if priority is not None:
        values["priority"] = priority
    if reason == "budget":
        values["attempts"] = group.c.attempts - 1
    connection.execute(sa.update(group).where(_is_held_by(claimed)).values(values))


def release(connection: Connection, owner: str) -> None:
    """See `Inbox.release`."""
    values = {**_GIVEN_BACK, "attempts": group.c.attempts - 1}
    connection.execute(sa.update(group).where(group.c.owner == owner).values(values))


def settle_traces(connection: Connection, claimed: Claim, audited: Mapping[str, str | None]) -> set[str]:
    """Note that traces were audited as they were when claimed; returns the groups they count for.

    A trace without a session id that was audited in a session with one counts at its place too. Where a trace was in
    another session before, that one is open again, to be audited without it.
    """
    place = _place(claimed)
    rows = [
        {**row, "its_group": its_group, "audited_key": key and written(key), "audited_hash": key and hash_of(key)}
        for trace_id, row in _done(connection, claimed, audited)
        for key in [audited[trace_id]]
        for its_group in {row["its_group"], place if key else row["its_group"]}
    ]
    left = _sessions_left(connection, rows)
    _many(connection, _AUDITED, rows)
    return {row["its_group"] for row in rows} | reopen(connection, left, claimed.now, claimed.revision)


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


def _sessions_left(connection: Connection, rows: list[dict[str, Any]]) -> set[int]:
    """The sessions that traces were audited in before, and are not in now, unless they were audited anew just now."""
    now = {(row["number"], row["its_group"]): row["audited_hash"] for row in rows}
    left = set()
    for some in chunks(sorted({number for number, _ in now})):
        query = sa.select(member.c.trace_number, member.c.group_id, member.c.audited_hash)
        for row in connection.execute(query.where(member.c.trace_number.in_(some), member.c.audited_hash.is_not(None))):
            if now.get((row.trace_number, row.group_id), row.audited_hash) != row.audited_hash:
                left.add(row.audited_hash)
    return left - set(now.values())


def recount(connection: Connection, groups: Iterable[str]) -> None:
    """Say of groups whether anything of them is open, from their traces."""
    for its_group in groups:
        row = connection.execute(_OPEN_TRACES, {"its_group": its_group}).one()
        values: dict[str, Any] = {"open_since": row.since, "open_spans": int(row.spans or 0)}
        connection.execute(sa.update(group).where(group.c.group_id == its_group, group.c.relevant).values(values))


def earlier_keys(connection: Connection, trace_ids: Collection[str], origin: str) -> dict[str, str]:
    """See `Inbox.earlier_keys`."""
    names = {number: trace_id for trace_id, number in _numbers(connection, trace_ids, origin).items()}
    found: dict[str, set[str]] = {}
    for some in chunks(list(names)):
        query = sa.select(member.c.trace_number, member.c.audited_key).where(member.c.trace_number.in_(some))
        for row in connection.execute(query.where(member.c.audited_key.is_not(None))):
            found.setdefault(names[row.trace_number], set()).add(row.audited_key)
    return {trace_id: read(next(iter(keys))) for trace_id, keys in found.items() if len(keys) == 1}


def traces_of(connection: Connection, key: str, origin: str) -> set[str]:
    """See `Inbox.traces_of`."""
    query = sa.select(trace.c.trace_id).join(member, member.c.trace_number == trace.c.trace_number)
    query = query.where(member.c.audited_hash == hash_of(key), member.c.audited_key == written(key))
    return {read(name) for name in connection.execute(query.where(trace.c.origin == written(origin))).scalars()}


def resume(connection: Connection, reason: str) -> None:
    """See `Inbox.resume`."""
    waiting = sa.update(group).where(group.c.open_since.is_not(None), group.c.put_off_for == reason)
    connection.execute(waiting.values(rests_since=None, rests_until=None))


def counts(connection: Connection, now: int, *, settle: int, cap: int, cap_spans: int) -> InboxCounts:
    """See `Inbox.counts`."""
    held = sa.and_(group.c.held_until.is_not(None), group.c.held_until > now)
    due = sa.and_(_due(now, settle, cap, cap_spans), ~_rests(now), ~held)
    total = sa.select(
        sa.func.count().label("open"),
        sa.func.coalesce(sa.func.sum(sa.case((held, 1), else_=0)), 0).label("held"),
        sa.func.coalesce(sa.func.sum(sa.case((due, 1), else_=0)), 0).label("due"),
    ).where(_open())
    row = connection.execute(total).one()
    waiting = sa.select(group.c.put_off_for, sa.func.count()).where(_open(), _rests(now))
    waiting = waiting.where(group.c.put_off_for.is_not(None)).group_by(group.c.put_off_for)
    put_off = {row[0]: row[1] for row in connection.execute(waiting)}
    became = sa.select(sa.func.min(_when_due(group, settle, cap))).where(_open(), due, group.c.session_id.is_not(None))
    one = member.alias()
    lone = sa.select(sa.func.min(_when_due(one, settle, cap))).join(group, group.c.group_id == one.c.group_id)
    lone = lone.where(_open(), due, group.c.session_id.is_(None), one.c.open_since.is_not(None))
    oldest = [when for query in (became, lone) if row.due and (when := connection.execute(query).scalar()) is not None]
    kept = connection.execute(sa.select(tally.c.spans, tally.c.bytes)).one_or_none() or (0, 0)
    return InboxCounts(
        open=row.open,
        due=int(row.due),
        held=int(row.held),
        put_off=put_off,
        oldest_due=max(0, now - min(oldest)) if oldest else 0,
        spans=kept[0],
        bytes=kept[1],
    )


def _adopt(connection: Connection, claimed: Claim, elsewhere: Mapping[str, str]) -> set[str]:
    """Open the sessions that traces without an id turned out to belong to, where they were not audited in them."""
    waiting = {
        trace_id: session
        for trace_id, session in elsewhere.items()
        if (state := claimed.traces.get(trace_id)) is not None and state.first_unaudited is not None
    }
    done = dict(_done(connection, claimed, waiting))
    _many(connection, _AUDITED, list(done.values()))
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


def _done(connection: Connection, claimed: Claim, trace_ids: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What becomes of traces that are done as they were when claimed: open only by what came later."""
    numbers = _numbers(connection, trace_ids, claimed.origin)
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


def _place(claimed: Claim) -> str:
    """The claim's place, which is the group of its traces without a session id."""
    return place_id(claimed.origin, claimed.project, claimed.environment)


def _numbers(connection: Connection, trace_ids: Iterable[str], origin: str) -> dict[str, int]:
    hashes = {trace_hash(origin, trace_id): trace_id for trace_id in trace_ids}
    found = {}
    for some in chunks(sorted(hashes)):
        query = sa.select(trace.c.trace_hash, trace.c.trace_number).where(trace.c.trace_hash.in_(some))
        for row in connection.execute(query):
            found[hashes[bytes(row.trace_hash)]] = row.trace_number
    return found


def _later_chunks(connection: Connection, numbers: list[int], revision: int) -> Iterable[Any]:
    for some in chunks(numbers):
        query = sa.select(
            chunk.c.trace_number,
            sa.func.min(chunk.c.received).label("since"),
            sa.func.sum(chunk.c.spans).label("spans"),
        ).where(chunk.c.trace_number.in_(some), chunk.c.chunk_number > revision)
        yield from connection.execute(query.group_by(chunk.c.trace_number))


def _many(connection: Connection, statement: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(statement, rows)


def _free(now: int, settle: int, cap: int, cap_spans: int, lease: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Whether a group is due and nobody holds it; a lease far beyond a lease's time was made before a clock was set."""
    held = sa.and_(group.c.held_until > now, group.c.held_until <= now + 2 * lease + SKEW)
    unheld = sa.or_(group.c.held_until.is_(None), ~held)
    return _open(), _due(now, settle, cap, cap_spans), ~_rests(now), unheld


def _open() -> sa.ColumnElement[bool]:
    return group.c.open_since.is_not(None)


def _rests(now: int) -> sa.ColumnElement[bool]:
    """Whether it is put off; not by a time that was written before the clock was set back."""
    return sa.and_(group.c.rests_until.is_not(None), group.c.rests_until > now, group.c.rests_since <= now + SKEW)


def _due(now: int, settle: int, cap: int, cap_spans: int) -> sa.ColumnElement[bool]:
    """Whether a group is due; of traces without a session id, whether one of them is."""
    lone = sa.select(member.c.trace_number).where(
        member.c.group_id == group.c.group_id,
        member.c.open_since.is_not(None),
        _settled(member, now, settle, cap, cap_spans),
    )
    named = sa.and_(group.c.session_id.is_not(None), _settled(group, now, settle, cap, cap_spans))
    return sa.or_(named, sa.and_(group.c.session_id.is_(None), sa.exists(lone)))


def _settled(table: sa.Table, now: int, settle: int, cap: int, cap_spans: int) -> sa.ColumnElement[bool]:
    return sa.or_(
        table.c.received <= now - settle,
        table.c.received > now + SKEW,
        table.c.open_since <= now - cap,
        table.c.open_spans >= cap_spans,
    )


def _when_due(table: sa.FromClause, settle: int, cap: int) -> sa.ColumnElement[int]:
    """When it became due; for one that is by its size, when its last records came is near enough."""
    idle, capped = table.c.received + settle, table.c.open_since + cap
    return sa.case((idle < capped, idle), else_=capped)


def _is_held_by(claimed: Claim) -> sa.ColumnElement[bool]:
    return sa.and_(group.c.group_id == claimed.group, group.c.ticket == claimed.ticket)


_STATES = sa.select(trace.c.trace_id, member.c.received, member.c.open_since, member.c.open_spans).join(
    trace, trace.c.trace_number == member.c.trace_number
)
_OPEN_TRACES = sa.select(
    sa.func.min(member.c.open_since).label("since"), sa.func.sum(member.c.open_spans).label("spans")
).where(member.c.group_id == sa.bindparam("its_group"), member.c.open_since.is_not(None))
_AUDITED = (
    sa.update(member)
    .where(member.c.trace_number == sa.bindparam("number"), member.c.group_id == sa.bindparam("its_group"))
    .where(member.c.audited <= sa.bindparam("revision"))
)
