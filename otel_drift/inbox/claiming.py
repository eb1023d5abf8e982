"""Inbox: who audits what is due; one at a time, for a while, and given back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.inbox.arrival import read
from otel_drift.inbox.claim import REST, SKEW, Claim, TraceState
from otel_drift.inbox.settling import note_audited
from otel_drift.inbox.tables import group, member, tally, trace

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
    # a place always receives something: what waits there longest counts
    idle_since = sa.case((group.c.session_id.is_(None), group.c.open_since), else_=group.c.received)
    rows = connection.execute(query.order_by(group.c.priority.desc(), idle_since).limit(limit)).all()
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
    connection: Connection,
    claimed: Claim,
    audited: Mapping[str, str | None],
    elsewhere: Mapping[str, str],
    now: int,
) -> None:
    """See `Inbox.finish`."""
    note_audited(connection, claimed, audited, elsewhere)
    values = {**_GIVEN_BACK, "attempts": 0, "priority": 0.0, "put_off_since": None, "put_off_for": None}
    pause = min(max(claimed.settle // REST, 2 * (now - claimed.now)), claimed.settle)
    connection.execute(
        sa.update(group)
        .where(_is_held_by(claimed))
        .values(**values, rests_since=claimed.now, rests_until=claimed.now + pause)
    )


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


def resume(connection: Connection, reason: str) -> None:
    """See `Inbox.resume`."""
    waiting = sa.update(group).where(group.c.open_since.is_not(None), group.c.put_off_for == reason)
    connection.execute(waiting.values(rests_since=None, rests_until=None))


def _free(now: int, settle: int, cap: int, cap_spans: int, lease: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Whether a group is due and nobody holds it; a lease far beyond a lease's time was made before a clock was set."""
    held = sa.and_(group.c.held_until > now, group.c.held_until <= now + 2 * lease + SKEW)
    unheld = sa.or_(group.c.held_until.is_(None), ~held)
    return is_open(), is_due(now, settle, cap, cap_spans), ~rests(now), unheld


def is_open() -> sa.ColumnElement[bool]:
    """Whether a group has records that were not audited."""
    return group.c.open_since.is_not(None)


def rests(now: int) -> sa.ColumnElement[bool]:
    """Whether it is put off; not by a time that was written before the clock was set back."""
    return sa.and_(group.c.rests_until.is_not(None), group.c.rests_until > now, group.c.rests_since <= now + SKEW)


def is_due(now: int, settle: int, cap: int, cap_spans: int) -> sa.ColumnElement[bool]:
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


def _is_held_by(claimed: Claim) -> sa.ColumnElement[bool]:
    return sa.and_(group.c.group_id == claimed.group, group.c.ticket == claimed.ticket)


_STATES = sa.select(trace.c.trace_id, member.c.received, member.c.open_since, member.c.open_spans).join(
    trace, trace.c.trace_number == member.c.trace_number
)
