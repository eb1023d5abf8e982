"""Mutes: a fingerprint that makes no annotation and no alert, with a reason, until a day or until taken back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import records
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import finding, mute, unit

_HOLDING = sa.select(mute.c.fingerprint, mute.c.why).where(
    mute.c.fingerprint.in_(sa.bindparam("keys", expanding=True)),
    mute.c.removed.is_(None),
    sa.or_(mute.c.until.is_(None), mute.c.until > sa.bindparam("now")),
)


def holding(connection: Connection, fingerprints: Sequence[str]) -> dict[str, str]:
    """Which of these fingerprints are muted now, and why."""
    now, found = time.time_ns(), {}
    for chunk in chunks(list(dict.fromkeys(fingerprints))):
        rows = connection.execute(_HOLDING, {"keys": chunk, "now": now})
        found.update({row.fingerprint: row.why for row in rows})
    return found


def add(connection: Connection, event_id: str, why: str, until: int | None) -> dict[str, Any] | None:
    """Mute what the finding of an event is; None if no current finding has that id, or not enough is known of it."""
    query = (
        sa.select(finding.c.fingerprint, finding.c.audit, finding.c.type)
        .join(unit, unit.c.result_id == finding.c.result_id)
        .where(finding.c.event_id == records.column(event_id), unit.c.current, finding.c.fingerprint.is_not(None))
    )
    row = connection.execute(query.order_by(finding.c.result_id.desc()).limit(1)).one_or_none()
    if row is None:
        return None
    values = {**row._mapping, "event_id": records.column(event_id), "why": records.column(why)}
    values |= {"created": time.time_ns(), "until": until}
    mute_id = connection.execute(sa.insert(mute).values(values).returning(mute.c.mute_id)).scalar_one()
    return {"mute_id": mute_id, **values, "removed": None}


def remove(connection: Connection, mute_id: int) -> str | None:
    """Take a mute back and return its fingerprint; None if there is no such mute in force."""
    query = sa.update(mute).where(mute.c.mute_id == mute_id, mute.c.removed.is_(None)).values(removed=time.time_ns())
    found: str | None = connection.execute(query.returning(mute.c.fingerprint)).scalar()
    return found


def listed(connection: Connection, everything: bool) -> list[dict[str, Any]]:
    """Mutes, oldest first, each with the number of current findings it holds for; `everything`: also those over."""
    now = time.time_ns()
    counted = (
        sa.select(finding.c.fingerprint, sa.func.count().label("findings"))
        .join(unit, unit.c.result_id == finding.c.result_id)
        .where(unit.c.current)
        .group_by(finding.c.fingerprint)
        .subquery()
    )
    query = sa.select(mute, counted.c.findings).outerjoin(counted, counted.c.fingerprint == mute.c.fingerprint)
    if not everything:
        query = query.where(in_force(now))
    rows = connection.execute(query.order_by(mute.c.mute_id))
    return [
        {
            **row._mapping,
            "findings": row.findings or 0,
            "in_force": row.removed is None and (row.until is None or row.until > now),
        }
        for row in rows
    ]


def units_with(connection: Connection, fingerprint: str) -> list[str]:
    """The units that hold such a finding now."""
    query = (
        sa.select(unit.c.unit_id)
        .join(finding, finding.c.result_id == unit.c.result_id)
        .where(unit.c.current, finding.c.fingerprint == fingerprint)
        .distinct()
    )
    return list(connection.execute(query).scalars())


def in_force(now: int | sa.BindParameter[int]) -> sa.ColumnElement[bool]:
    """Whether a mute holds at a time."""
    return sa.and_(mute.c.removed.is_(None), sa.or_(mute.c.until.is_(None), mute.c.until > now))
