"""Inbox: the records of a claim, and of the neighbours that only reconstruction can tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.inbox.arrival import read, trace_hash
from otel_drift.inbox.claim import Claim, TraceState
from otel_drift.inbox.packing import unpack
from otel_drift.inbox.tables import chunk, group, member, trace
from otel_drift.ledger.database import Database
from otel_drift.ledger.records import chunks
from otel_drift.model import Record
from otel_drift.sessions.digests import ID_GAP

PLACE_SPANS = 100_000
"""Most spans that are read around the due traces of a place, the nearest in time: a day of it may have millions."""
NEAR_SPANS = 5_000
"""Most spans of others that are read with a session that has an id; of each kind, the nearest in time."""

_LAST = 2**63 - 1
_AT_ONCE = 500
"""About how many spans one query reads."""


def records(database: Database, claimed: Claim, gap: int) -> Iterator[Record]:
    """See `Inbox.records`."""
    with database.reading() as connection:
        rows = _of_claim(connection, claimed, gap)
    waiting = {read(row.trace_id) for row in rows if row.group_id == claimed.group and row.open_since is not None}
    for trace_id in claimed.traces.keys() - waiting:  # settled since: audited in the session it turned out to be of
        del claimed.traces[trace_id]
    for row in rows:
        its_group = row.group_id or ""
        is_own = its_group == claimed.group
        state = TraceState(its_group, row.member_received or row.received, row.open_since, row.open_spans or 0, is_own)
        claimed.traces.setdefault(read(row.trace_id), state)
    for some in _batches(rows):
        names = {row.trace_number: read(row.trace_id) for row in some}
        query = sa.select(chunk.c.trace_number, chunk.c.payload).order_by(chunk.c.trace_number, chunk.c.chunk_number)
        query = query.where(chunk.c.trace_number.in_(list(names)), chunk.c.chunk_number <= claimed.revision)
        with database.reading() as connection:
            found = connection.execute(query).all()
        for number, payload in found:
            yield from unpack(names[number], bytes(payload))


def origin_of(connection: Connection, trace_id: str, origins: Iterable[str]) -> str | None:
    """See `Inbox.origin_of`."""
    hashes = {trace_hash(origin, trace_id): origin for origin in origins}
    query = sa.select(trace.c.trace_hash).where(trace.c.trace_hash.in_(hashes)).order_by(trace.c.trace_number).limit(1)
    found = connection.execute(query).scalar()
    return None if found is None else hashes[bytes(found)]


def _of_claim(connection: Connection, claimed: Claim, gap: int) -> list[Any]:
    """The traces to read, the earliest first."""
    place = connection.execute(sa.select(group.c.place).where(group.c.group_id == claimed.group)).scalar()
    if place is None:  # deleted meanwhile
        return []
    if claimed.session_id is None:
        waiting = _traces(place).where(member.c.group_id == place, member.c.open_since.is_not(None))
        own = [row for row in connection.execute(waiting) if read(row.trace_id) in claimed.traces]
        near = _around(connection, place, own, gap, PLACE_SPANS)
        found = {row.trace_number: row for row in (*own, *near)}
        found |= {row.trace_number: row for row in _audited_together(connection, place, list(found.values()))}
    else:
        own = list(connection.execute(_traces(claimed.group).where(member.c.group_id == claimed.group)))
        gap = min(gap, ID_GAP)
        near = _around(connection, place, own, gap, NEAR_SPANS, named=False)
        if near:  # then others' traces may be what these belong to
            near += _around(connection, place, own, gap, NEAR_SPANS, named=True)
        found = {row.trace_number: row for row in (*near, *own)}
    return sorted(found.values(), key=lambda row: (row.started, row.trace_number))


def _around(
    connection: Connection, place: str, rows: Sequence[Any], gap: int, most_spans: int, *, named: bool | None = None
) -> list[Any]:
    """What else was at the place within `gap` of these traces, the nearest first, up to so many spans."""
    known = {row.trace_number for row in rows}
    found: dict[int, tuple[int, Any]] = {}
    kinds = (False, True) if named is None else (named,)
    for first, last in _windows(rows, gap):
        query = _traces(place).where(trace.c.place == place, trace.c.named.in_(kinds), trace.c.relevant)
        query = query.where(trace.c.ended >= max(first - gap, -_LAST), trace.c.started <= min(last + gap, _LAST))
        for row in connection.execute(query):
            distance = max(0, first - row.ended, row.started - last)
            nearer = found.get(row.trace_number)
            if row.trace_number not in known and (nearer is None or nearer[0] > distance):
                found[row.trace_number] = distance, row
    near = []
    left = most_spans
    for _, row in sorted(found.values(), key=lambda pair: (pair[0], pair[1].trace_number)):
        left -= row.spans
        if left < 0:
            break
        near.append(row)
    return near


def _windows(rows: Sequence[Any], gap: int) -> list[tuple[int, int]]:
    """The times of these traces, those joined whose surroundings meet."""
    windows: list[tuple[int, int]] = []
    for row in sorted(rows, key=lambda row: row.started):
        if row.ended < row.started:  # only log records came
            continue
        if windows and row.started - gap <= windows[-1][1] + gap:
            windows[-1] = windows[-1][0], max(windows[-1][1], row.ended)
        else:
            windows.append((row.started, row.ended))
    return windows


def _audited_together(connection: Connection, place: str, rows: Sequence[Any]) -> Iterator[Any]:
    """Traces that were audited in one session with these, however long before."""
    hashes = sorted({row.audited_hash for row in rows if row.audited_hash is not None and row.group_id == place})
    for some in chunks(hashes):
        query = _traces(place).where(member.c.audited_hash.in_(some), member.c.group_id == place)
        yield from connection.execute(query)


def _traces(its_group: str) -> sa.Select[Any]:
    """Traces, and what is known of them in a group if they are of it."""
    same = sa.and_(member.c.trace_number == trace.c.trace_number, member.c.group_id == its_group)
    return sa.select(
        trace.c.trace_number,
        trace.c.trace_id,
        trace.c.started,
        trace.c.ended,
        trace.c.received,
        trace.c.spans,
        trace.c.named,
        member.c.group_id,
        member.c.received.label("member_received"),
        member.c.open_since,
        member.c.open_spans,
        member.c.audited_hash,
    ).select_from(trace.outerjoin(member, same))


def _batches(rows: Sequence[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    spans = 0
    for row in rows:
        if batch and (spans + row.spans > _AT_ONCE or len(batch) >= _AT_ONCE):
            yield batch
            batch, spans = [], 0
        batch.append(row)
        spans += row.spans
    if batch:
        yield batch
