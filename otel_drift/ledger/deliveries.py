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
from otel_drift.model import Annotation, WriteReport

_SUPERSEDE = (  # made once: making a statement takes longer than running it
    sa.update(delivery)
    .where(
        delivery.c.sink == sa.bindparam("to"),
        delivery.c.annotation_id.in_(sa.bindparam("keys", expanding=True)),
        delivery.c.state == "owed",
    )
    .values(state="superseded")
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


def hand_out(connection: Connection, sink: str, limit: int, not_since: int | None) -> list[Annotation]:
    """The next annotations owed, oldest first, each counted as attempted now."""
    query = (
        sa.select(delivery.c.delivery_id, annotation.c.body, annotation.c.revision)
        .join(
            annotation,
            sa.and_(
                annotation.c.annotation_id == delivery.c.annotation_id, annotation.c.revision == delivery.c.revision
            ),
        )
        .where(delivery.c.sink == records.column(sink), delivery.c.state == "owed", annotation.c.body.is_not(None))
        .order_by(delivery.c.delivery_id)
        .limit(limit)
    )
    if not_since is not None:
        query = query.where(sa.or_(delivery.c.attempted.is_(None), delivery.c.attempted < not_since))
    rows = connection.execute(query).all()
    now = time.time_ns()
    for chunk in chunks([row.delivery_id for row in rows]):
        connection.execute(
            sa.update(delivery)
            .where(delivery.c.delivery_id.in_(chunk))
            .values(attempts=delivery.c.attempts + 1, attempted=now)
        )
    return [records.annotation_from_json(row.body, row.revision) for row in rows]


def settle(connection: Connection, sink: str, report: WriteReport) -> None:
    """Record what a sink made of the annotations handed out to it; those it does not mention stay owed."""
    _close(connection, sink, report.written, "written", None)
    _close(connection, sink, report.unchanged, "unchanged", None)
    for rejection in report.rejected:
        state = "owed" if rejection.retryable else "rejected"
        _close(connection, sink, (rejection.annotation_id,), state, rejection.reason)


def counts(connection: Connection) -> dict[str, dict[str, int]]:
    """Number of deliveries by sink and state."""
    found: dict[str, dict[str, int]] = {}
    query = sa.select(delivery.c.sink, delivery.c.state, sa.func.count()).group_by(delivery.c.sink, delivery.c.state)
    for sink, state, number in connection.execute(query):
        found.setdefault(sink, {})[state] = number
    return found


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
