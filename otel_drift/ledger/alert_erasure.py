"""What stays of alerts whose finding's texts were erased, once nobody is to be told of them any more."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import records
from otel_drift.ledger.schema import alert, unit

ENDED = ("resolved", "expired", "done")
"""States of alerts that end by nothing more; only one that is found again fires again, with a new body."""
_KEPT = ("type", "severity")


def reduce_bodies(connection: Connection, where: sa.ColumnElement[bool] | None = None) -> None:
    """Take ids, names and links out of the bodies of such alerts.

    One that fires, or whose end is still to be told, keeps them: receivers know it by them. Whoever notes that it was
    told has to ask again.

    Args:
        connection: In a writing transaction.
        where: Which alerts to look at; None for all.
    """
    query = (
        sa.select(alert.c.alerter, alert.c.alert_key, alert.c.body)
        .join(unit, unit.c.result_id == alert.c.result_id)
        .where(alert.c.state.in_(ENDED), alert.c.due.is_(None), unit.c.erased.is_not(None))
    )
    for row in connection.execute(query if where is None else query.where(where)).all():
        held = records.from_json(row.body)
        if held.keys() == set(_KEPT):
            continue
        here = sa.and_(alert.c.alerter == row.alerter, alert.c.alert_key == row.alert_key)
        body = records.to_json({name: held[name] for name in _KEPT})
        connection.execute(sa.update(alert).where(here).values(body=body))
