"""Results of a session that is none any more: its traces turned out to belong to another."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import evidence, records, revisions, units
from otel_drift.ledger.schema import unit, unit_is_current
from otel_drift.model import Session, Unit
from otel_drift.reasons import SESSION_CHANGED
from otel_drift.redaction import opaque


def retire(connection: Connection, key: str, run_id: int | None) -> int:
    """Replace the current results of a session by ones that say it is no more; returns how many that were.

    History stays; what the results said is withdrawn wherever it went, and review items nobody decided are too.
    """
    retired = 0
    for gone in list(_current(connection, key)):
        sinks = revisions.sinks_of(connection, records.column(gone.unit_id))
        units.commit(connection, run_id, gone, (), sinks)
        revisions.say(connection, gone.unit_id, {}, sinks)  # nor what people said of it as a whole
        retired += 1
    return retired


def _current(connection: Connection, key: str) -> Iterator[Unit]:
    names = {records.column(key), opaque(key)}  # a redacted key, or one whose texts were erased, is a hash
    query = sa.select(unit).where(unit.c.session_key.in_(sorted(names)), unit_is_current)
    query = query.where(sa.or_(unit.c.reason.is_(None), unit.c.reason != SESSION_CHANGED))
    for row in connection.execute(query.order_by(unit.c.result_id)).all():
        session = evidence.session_of(connection, row.result_id)
        yield Unit(
            unit_id=row.unit_id,
            audit=row.audit,
            session=session or Session(row.session_key, row.session_id, (), ()),
            outcome="not_applicable",
            reason=SESSION_CHANGED,
            severity="NONE",
            report=None,
            findings=(),
            judge="",
            cost=0.0,
            content_sha256=SESSION_CHANGED,  # the fingerprint of no session: should it come back, it is audited
        )
