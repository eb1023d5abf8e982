"""Inbox: what it says of itself: how much waits, and in which sessions traces were audited."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.inbox.arrival import read, written
from otel_drift.inbox.claim import InboxCounts
from otel_drift.inbox.claiming import is_due, is_open, rests
from otel_drift.inbox.settling import numbers_of
from otel_drift.inbox.tables import group, member, tally, trace
from otel_drift.ledger.records import chunks
from otel_drift.sessions.facts import hash_of


def counts(connection: Connection, now: int, *, settle: int, cap: int, cap_spans: int) -> InboxCounts:
    """See `Inbox.counts`."""
    held = sa.and_(group.c.held_until.is_not(None), group.c.held_until > now)
    due = sa.and_(is_due(now, settle, cap, cap_spans), ~rests(now), ~held)
    total = sa.select(
        sa.func.count().label("open"),
        sa.func.coalesce(sa.func.sum(sa.case((held, 1), else_=0)), 0).label("held"),
        sa.func.coalesce(sa.func.sum(sa.case((due, 1), else_=0)), 0).label("due"),
    ).where(is_open())
    row = connection.execute(total).one()
    waiting = sa.select(group.c.put_off_for, sa.func.count()).where(is_open(), rests(now))
    waiting = waiting.where(group.c.put_off_for.is_not(None)).group_by(group.c.put_off_for)
    put_off = {row[0]: row[1] for row in connection.execute(waiting)}
    became = sa.select(sa.func.min(_when_due(group, settle, cap))).where(
        is_open(), due, group.c.session_id.is_not(None)
    )
    one = member.alias()
    lone = sa.select(sa.func.min(_when_due(one, settle, cap))).join(group, group.c.group_id == one.c.group_id)
    lone = lone.where(is_open(), due, group.c.session_id.is_(None), one.c.open_since.is_not(None))
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


def earlier_keys(connection: Connection, trace_ids: Collection[str], origin: str) -> dict[str, str]:
    """See `Inbox.earlier_keys`."""
    names = {number: trace_id for trace_id, number in numbers_of(connection, trace_ids, origin).items()}
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


def _when_due(table: sa.FromClause, settle: int, cap: int) -> sa.ColumnElement[int]:
    """When it became due; for one that is by its size, when its last records came is near enough."""
    idle, capped = table.c.received + settle, table.c.open_since + cap
    return sa.case((idle < capped, idle), else_=capped)
