"""Review items read: the list, and one item with everything a reviewer needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import mutes, records
from otel_drift.ledger.schema import evidence, finding, passage, unit
from otel_drift.ledger.schema import review as item
from otel_drift.ledger.schema import review_log as log
from otel_drift.model import SEVERITY_SCORES

_JOINED = item.join(unit, unit.c.result_id == item.c.result_id).outerjoin(
    finding, sa.and_(finding.c.result_id == item.c.result_id, finding.c.event_id == item.c.event_id)
)
_SHOWN = (
    item,
    unit.c.audit,
    unit.c.session_id,
    unit.c.session_key,
    unit.c.outcome,
    unit.c.reason,
    unit.c.severity.label("unit_severity"),
    unit.c.created,
    unit.c.erased,
    finding.c.type,
    finding.c.severity,
    finding.c.span_ref,
    finding.c.fingerprint,
    finding.c.position,
    finding.c.body.label("finding_body"),
)


def listed(
    connection: Connection, statuses: Sequence[str], audit: str | None = None, severity: str | None = None
) -> list[dict[str, Any]]:
    """Items of these statuses: those that need a person first, then the worst, then the oldest.

    Args:
        connection: In a transaction.
        statuses: See `policy.ItemStatus`; empty for all but withdrawn.
        audit: Only of this audit.
        severity: Only findings at least this severe.
    """
    query = sa.select(*_SHOWN).select_from(_JOINED)
    query = query.where(item.c.status.in_(statuses) if statuses else item.c.status != "withdrawn")
    if audit is not None:
        query = query.where(unit.c.audit == records.column(audit))
    found = connection.execute(query).all()
    muted = mutes.holding(connection, [row.fingerprint for row in found if row.fingerprint])
    made = [_summary(row, muted) for row in found]
    if severity is not None:
        made = [one for one in made if SEVERITY_SCORES[one["severity"]] >= SEVERITY_SCORES[severity]]
    return sorted(made, key=_rank)


def ids_like(connection: Connection, ref: str) -> list[str]:
    """The items whose id begins with `ref`, or whose event has this id."""
    ref = records.column(ref)
    exact = sa.or_(item.c.item_id == ref, item.c.event_id == ref)
    found = list(connection.execute(sa.select(item.c.item_id).where(exact)).scalars())
    if found or len(ref) < 4 or not ref.isalnum():
        return found
    beginning = item.c.item_id.startswith(ref)
    return list(connection.execute(sa.select(item.c.item_id).where(beginning).limit(3)).scalars())


def shown(connection: Connection, item_id: str) -> dict[str, Any]:
    """One item with finding, report, texts and history; texts that were erased are None."""
    row = connection.execute(sa.select(*_SHOWN).select_from(_JOINED).where(item.c.item_id == item_id)).one()
    return _details(connection, row)


def decided(connection: Connection, audit: str | None) -> Iterator[dict[str, Any]]:
    """Every confirmed or rejected item in full, oldest decision first."""
    query = sa.select(*_SHOWN).select_from(_JOINED).where(item.c.status.in_(("confirmed", "rejected")))
    if audit is not None:
        query = query.where(unit.c.audit == records.column(audit))
    for row in connection.execute(query.order_by(item.c.resolved, item.c.item_id)).all():
        yield _details(connection, row)


def decisions(connection: Connection, audit: str) -> Iterator[dict[str, Any]]:
    """Every current result of an audit that decides (`abstain` in its report), with texts and verdicts on it."""
    query = (
        sa.select(unit, evidence.c.packet)
        .join(evidence, evidence.c.result_id == unit.c.result_id)
        .where(unit.c.audit == records.column(audit), unit.c.current, unit.c.body.is_not(None))
        .order_by(unit.c.result_id)
    )
    for row in connection.execute(query).all():
        body = records.from_json(row.body)
        report = body.get("report")
        if not isinstance(report, Mapping) or "abstain" not in report or row.packet is None:
            continue
        said = connection.execute(
            sa.select(item.c.event_id, item.c.status, item.c.resolved_by, item.c.why, item.c.resolved).where(
                item.c.unit_id == row.unit_id, item.c.status.in_(("confirmed", "rejected"))
            )
        ).all()
        yield {
            "unit_id": row.unit_id,
            "session_key": row.session_key,
            "session_id": row.session_id,
            "audit": row.audit,
            "created": row.created,
            "judge": body.get("judge"),
            "report": report,
            "packet": records.from_json(row.packet),
            "verdicts": [dict(one._mapping) for one in said],
        }


def _summary(row: sa.Row[Any], muted: Mapping[str, str]) -> dict[str, Any]:
    body = None if row.finding_body is None else records.from_json(row.finding_body)
    return {
        "item_id": row.item_id,
        "kind": "unit" if row.event_id is None else "finding",
        "status": row.status,
        "reasons": records.from_json(row.reasons),
        "audit": row.audit,
        "type": row.type,
        "severity": row.severity or row.unit_severity,
        "confidence": None if body is None else body["confidence"],
        "event_id": row.event_id,
        "unit_id": row.unit_id,
        "session_id": row.session_id,
        "session_key": row.session_key,
        "outcome": row.outcome,
        "reason": row.reason,
        "turn_number": None if body is None else body["turn_number"],
        "span_ref": row.span_ref,
        "opened": row.opened,
        "resolved": None if row.resolved is None else {"at": row.resolved, "by": row.resolved_by, "why": row.why},
        "muted": muted.get(row.fingerprint),
        "erased": row.erased,
    }


def _details(connection: Connection, row: sa.Row[Any]) -> dict[str, Any]:
    one = _summary(row, mutes.holding(connection, [row.fingerprint] if row.fingerprint else []))
    held = connection.execute(sa.select(unit.c.body).where(unit.c.result_id == row.result_id)).scalar()
    body = {} if held is None else records.from_json(held)
    kept = connection.execute(
        sa.select(evidence.c.packet, evidence.c.packet_sha256).where(evidence.c.result_id == row.result_id)
    ).one_or_none()
    behind = sa.select(passage.c.passage_id, passage.c.turn, passage.c.title).where(
        passage.c.result_id == row.result_id, passage.c.position == row.position
    )
    history = sa.select(log.c.at, log.c.status, log.c.said_by, log.c.why).where(log.c.item_id == row.item_id)
    return {
        **one,
        "finding": None if row.finding_body is None else records.from_json(row.finding_body),
        "fingerprint": row.fingerprint,
        "passages": [dict(ref._mapping) for ref in connection.execute(behind)],
        "judge": body.get("judge"),
        "judge_note": body.get("judge_note"),
        "prompts": body.get("prompts"),
        "report": body.get("report"),
        "packet": None if kept is None or kept.packet is None else records.from_json(kept.packet),
        "packet_sha256": None if kept is None else kept.packet_sha256,
        "history": [dict(said._mapping) for said in connection.execute(history.order_by(log.c.log_id))],
    }


def _rank(one: Mapping[str, Any]) -> tuple[bool, float, int, str]:
    ordinary = set(one["reasons"]) <= {"suspected", "low_confidence"}
    return ordinary, -SEVERITY_SCORES[one["severity"]], one["opened"], one["item_id"]
