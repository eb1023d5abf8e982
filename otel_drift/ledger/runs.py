"""Runs and the cursors of sources."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import records
from otel_drift.ledger.schema import cursor as cursor_table
from otel_drift.ledger.schema import run


def begin(connection: Connection, description: Mapping[str, Any]) -> int:
    """Add a run and return its id."""
    row = {"started": time.time_ns(), "description": records.to_json(description)}
    run_id: int = connection.execute(sa.insert(run).values(row).returning(run.c.run_id)).scalar_one()
    return run_id


def end(connection: Connection, run_id: int, totals: Mapping[str, Any]) -> None:
    """Note a run's end."""
    values = {"ended": time.time_ns(), "totals": records.to_json(totals)}
    connection.execute(sa.update(run).where(run.c.run_id == run_id).values(values))


def cursor(connection: Connection, source: str) -> str | None:
    """The cursor of a source."""
    query = sa.select(cursor_table.c.cursor).where(cursor_table.c.source == records.column(source))
    found: str | None = connection.execute(query).scalar()
    return found


def cursors(connection: Connection) -> dict[str, tuple[str | None, int]]:
    """Every source's cursor and when it was set."""
    return {row.source: (row.cursor, row.updated) for row in connection.execute(sa.select(cursor_table))}


def set_cursor(connection: Connection, source: str, cursor: str | None) -> None:
    """Replace the cursor of a source."""
    source = records.column(source)
    connection.execute(sa.delete(cursor_table).where(cursor_table.c.source == source))
    connection.execute(sa.insert(cursor_table).values(source=source, cursor=cursor, updated=time.time_ns()))
