"""Mutes: a fingerprint that makes no annotation and no alert, with a reason, until a day or until taken back."""

from __future__ import annotations

import time
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import mute


def holding(connection: Connection, fingerprints: Sequence[str]) -> dict[str, str]:
    """Which of these fingerprints are muted now, and why."""
    now, found = time.time_ns(), {}
    for chunk in chunks(list(dict.fromkeys(fingerprints))):
        query = sa.select(mute.c.fingerprint, mute.c.why).where(mute.c.fingerprint.in_(chunk), _holds(now))
        found.update({row.fingerprint: row.why for row in connection.execute(query)})
    return found


def _holds(now: int) -> sa.ColumnElement[bool]:
    return sa.and_(mute.c.removed.is_(None), sa.or_(mute.c.until.is_(None), mute.c.until > now))
