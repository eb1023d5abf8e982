"""Runs and what belonged to them, units found again included."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger.schema import membership


def join(connection: Connection, run_id: int, unit_id: str, result_id: int) -> None:
    """Note that a unit belongs to a run, with this result."""
    connection.execute(sa.delete(membership).where(membership.c.run_id == run_id, membership.c.unit_id == unit_id))
    connection.execute(sa.insert(membership).values(run_id=run_id, unit_id=unit_id, result_id=result_id))
