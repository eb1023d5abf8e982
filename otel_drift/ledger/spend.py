"""What judges took on each day (UTC), of all processes together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger.schema import spend


def day_of(now: int) -> str:
    """The day (UTC) of a time in nanoseconds since the epoch: ``2026-11-30``."""
    return datetime.fromtimestamp(now // 10**9, UTC).date().isoformat()


def add(connection: Connection, day: str, *, calls: int, input_tokens: int, output_tokens: int, cost: float) -> None:
    """Count what was taken."""
    more = {"calls": calls, "input_tokens": input_tokens, "output_tokens": output_tokens, "cost": cost}
    grown = {name: spend.c[name] + value for name, value in more.items()}
    if not connection.execute(sa.update(spend).where(spend.c.day == day).values(grown)).rowcount:
        connection.execute(sa.insert(spend).values(day=day, **more))


def of_day(connection: Connection, day: str) -> dict[str, Any]:
    """What was taken on a day: calls, tokens (in and out, and of both kinds) and cost in US dollars."""
    row = connection.execute(sa.select(spend).where(spend.c.day == day)).one_or_none()
    calls, input_tokens, output_tokens, cost = (0, 0, 0, 0.0) if row is None else tuple(row)[1:]
    return {
        "day": day,
        "calls": calls,
        "tokens": input_tokens + output_tokens,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cost": cost,
    }
