"""Who is at work on a ledger: each service says so again and again, and what state it is in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import records
from otel_drift.ledger.schema import process
from otel_drift.times import DAY

_FORGOTTEN_AFTER = 7 * DAY
"""A process that stopped or went silent so long ago (nanoseconds) is of no interest any more."""


def beat(connection: Connection, process_id: str, started: int, body: Mapping[str, Any]) -> None:
    """Say that a process is alive, and what it says of itself."""
    now = time.time_ns()
    values = {"heartbeat": now, "body": records.to_json(body), "stopped": None}
    known = connection.execute(sa.update(process).where(process.c.process_id == process_id).values(values)).rowcount
    if not known:
        connection.execute(sa.insert(process).values(process_id=process_id, started=started, **values))
        connection.execute(sa.delete(process).where(process.c.heartbeat < now - _FORGOTTEN_AFTER))


def stopped(connection: Connection, process_id: str) -> None:
    """Say that a process ended in good order."""
    connection.execute(sa.update(process).where(process.c.process_id == process_id).values(stopped=time.time_ns()))


def listed(connection: Connection) -> list[dict[str, Any]]:
    """Every process heard of lately, the newest first; `started`, `heartbeat` and `stopped` in nanoseconds."""
    rows = connection.execute(sa.select(process).order_by(process.c.started.desc(), process.c.process_id))
    return [
        {
            "process_id": row.process_id,
            "started": row.started,
            "heartbeat": row.heartbeat,
            "stopped": row.stopped,
            **records.from_json(row.body),
        }
        for row in rows
    ]
