"""What each sink is owed, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import records
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import annotation, delivery
from otel_drift.model import Annotation, Rejection, WriteReport
from otel_drift.times import SECOND

GIVEN_UP_AFTER = 7 * 24 * 3600
"""Seconds after which a value that a sink always puts off is owed no longer."""
PATIENCE = ((1, 10), (2, 30), (4, 120), (7, 600), (2**31 - 1, 3600))
"""How long (seconds) a value waits that was put off, by how often it was tried: spans may come late."""

_SUPERSEDE = (  # made once: making a statement takes longer than running it
    sa.update(delivery)
    .where(
        delivery.c.sink == sa.bindparam("to"),
        delivery.c.annotation_id.in_(sa.bindparam("keys", expanding=True)),
        delivery.c.state == "owed",
    )
    .values(state="superseded")
)
_FIRST_OWED = (
    sa.select(annotation.c.created)
    .join(
        delivery,
        sa.and_(annotation.c.annotation_id == delivery.c.annotation_id, annotation.c.revision == delivery.c.revision),
    )
    .where(delivery.c.sink == sa.bindparam("to"), delivery.c.state == "owed")
    .order_by(delivery.c.delivery_id)
    .limit(1)
)


class Current(NamedTuple):
    """The current revision of an annotation."""

    annotation_id: str
    revision: int
    withdrawn: bool


class Owed(NamedTuple):
    """What a sink was owed of an annotation before: the newest revision, and whether it may have got any."""

    revision: int
    attempted: bool


def owe(connection: Connection, current: Sequence[Current], sink: str, before: Mapping[str, Owed]) -> None:
    """Owe a sink the current revision of each annotation, unless it was owed there before.

    A revision that was still owed is superseded. A withdrawal is owed only where an earlier revision may have
    arrived.

    Args:
        connection: In a transaction.
        current: The annotations, in the order they are to be owed.
        sink: The sink's name, as the column holds it.
        before: What the sink was owed of them.
    """
    new = [
        one for one in current if one.annotation_id not in before or before[one.annotation_id].revision < one.revision
    ]
    for chunk in chunks([one.annotation_id for one in new if one.annotation_id in before]):
        connection.execute(_SUPERSEDE, {"to": sink, "keys": chunk})
    records.insert(
        connection,
        delivery,
        [
            {
                "annotation_id": one.annotation_id,
                "revision": one.revision,
                "sink": sink,
                "state": "owed",
                "attempts": 0,
            }
            for one in new
            if not one.withdrawn or (one.annotation_id in before and before[one.annotation_id].attempted)
        ],
    )


def hand_out(
    connection: Connection, sink: str, limit: int, after: int, *, patient: bool = False
) -> list[tuple[int, Annotation]]:
    """The next annotations owed, oldest first, each with its place in the queue, and counted as attempted now.

    `after`: only what is behind this place. `patient`: one that was put off before waits for its time, the longer the
    oftener it was.
    """
    query = (
        sa.select(delivery.c.delivery_id, annotation.c.body, annotation.c.revision)
        .join(
            annotation,
            sa.and_(
                annotation.c.annotation_id == delivery.c.annotation_id, annotation.c.revision == delivery.c.revision
            ),
        )
        .where(delivery.c.sink == records.column(sink), delivery.c.state == "owed", annotation.c.body.is_not(None))
        .where(delivery.c.delivery_id > after)
        .order_by(delivery.c.delivery_id)
        .limit(limit)
    )
    now = time.time_ns()
    if patient:
        # reason is set where the sink put this one off; without, the sink as a whole was down, which is no delay here
        waits = [
            sa.and_(delivery.c.attempts <= tries, delivery.c.attempted <= now - seconds * SECOND)
            for tries, seconds in PATIENCE
        ]
        ahead = delivery.c.attempted > now  # by a clock that was set back since
        query = query.where(sa.or_(delivery.c.reason.is_(None), ahead, *waits))
    rows = connection.execute(query).all()
    for chunk in chunks([row.delivery_id for row in rows]):
        connection.execute(
            sa.update(delivery)
            .where(delivery.c.delivery_id.in_(chunk))
            .values(attempts=delivery.c.attempts + 1, attempted=now)
        )
    return [(row.delivery_id, records.annotation_from_json(row.body, row.revision)) for row in rows]


def settle(connection: Connection, sink: str, report: WriteReport) -> None:
    """Record what a sink made of the annotations handed out to it; those it does not mention stay owed."""
    _close(connection, sink, report.written, "written", None)
    _close(connection, sink, report.unchanged, "unchanged", None)
    for rejection in report.rejected:
        state = "owed" if rejection.retryable else "rejected"
        _close(connection, sink, (rejection.annotation_id,), state, rejection.reason)


def give_up(connection: Connection, sink: str) -> list[Rejection]:
    """Let go of what a sink has put off for `GIVEN_UP_AFTER`, mostly of spans it never had; it stays in the record."""
    said = sa.select(annotation.c.created).where(
        annotation.c.annotation_id == delivery.c.annotation_id, annotation.c.revision == delivery.c.revision
    )
    long_ago = time.time_ns() - GIVEN_UP_AFTER * SECOND
    query = sa.select(delivery.c.delivery_id, delivery.c.annotation_id, delivery.c.reason).where(
        delivery.c.sink == records.column(sink),
        delivery.c.state == "owed",
        delivery.c.reason.is_not(None),
        said.scalar_subquery() < long_ago,
    )
    rows = connection.execute(query).all()
    for chunk in chunks([row.delivery_id for row in rows]):
        connection.execute(
            sa.update(delivery)
            .where(delivery.c.delivery_id.in_(chunk))
            .values(state="rejected", settled=time.time_ns())
        )
    days = GIVEN_UP_AFTER // (24 * 3600)
    return [Rejection(row.annotation_id, f"given up after {days} days: {row.reason}") for row in rows]


def owed_to(connection: Connection, sink: str) -> int:
    """How many values a sink is owed; asked often, so it reads no more than these of the index."""
    query = sa.select(sa.func.count()).where(delivery.c.sink == records.column(sink), delivery.c.state == "owed")
    number: int = connection.execute(query).scalar_one()
    return number


def put_off(connection: Connection) -> dict[str, int]:
    """How many values each sink has put off, mostly of spans it does not have (yet)."""
    query = sa.select(delivery.c.sink, sa.func.count()).where(
        delivery.c.sink.in_(_sinks(connection)), delivery.c.state == "owed", delivery.c.reason.is_not(None)
    )
    return {row[0]: row[1] for row in connection.execute(query.group_by(delivery.c.sink))}


def lags(connection: Connection) -> dict[str, int]:
    """When the first annotation that each sink is still owed was made (nanoseconds)."""
    found = {sink: connection.execute(_FIRST_OWED, {"to": sink}).scalar() for sink in _sinks(connection)}
    return {sink: made for sink, made in found.items() if made is not None}


def counts(connection: Connection, since: int) -> dict[str, dict[str, int]]:
    """Deliveries of every sink by state: those that are owed, and those that were settled since a time.

    It reads no more than these, of indexes.
    """
    sinks = _sinks(connection)
    found: dict[str, dict[str, int]] = {sink: {} for sink in sinks}
    owed = sa.select(delivery.c.sink, delivery.c.state, sa.func.count()).where(
        delivery.c.sink.in_(sinks), delivery.c.state == "owed"
    )
    settled = sa.select(delivery.c.sink, delivery.c.state, sa.func.count()).where(
        delivery.c.sink.in_(sinks), delivery.c.settled >= since
    )
    for query in (owed, settled):
        for sink, state, number in connection.execute(query.group_by(delivery.c.sink, delivery.c.state)):
            found[sink][state] = number
    return found


def _sinks(connection: Connection) -> list[str]:
    """Every sink that was ever owed something, found by one look into the index for each."""
    one = sa.select(sa.func.min(delivery.c.sink).label("sink")).cte("one", recursive=True)
    after = sa.select(sa.func.min(delivery.c.sink)).where(delivery.c.sink > one.c.sink).scalar_subquery()
    every = one.union_all(sa.select(after).where(one.c.sink.is_not(None)))
    return list(connection.execute(sa.select(every.c.sink).where(every.c.sink.is_not(None))).scalars())


def _close(connection: Connection, sink: str, annotation_ids: Sequence[str], state: str, reason: str | None) -> None:
    # `attempts > 0` leaves a revision alone that another process committed while this one was being written.
    for chunk in chunks(annotation_ids):
        connection.execute(
            sa.update(delivery)
            .where(
                delivery.c.sink == records.column(sink),
                delivery.c.annotation_id.in_(chunk),
                delivery.c.state == "owed",
                delivery.c.attempts > 0,
            )
            .values(
                state=state,
                reason=None if reason is None else records.column(reason),
                settled=None if state == "owed" else time.time_ns(),
            )
        )
