"""The audit record: every result ever committed, with every ask and answer, what was delivered, and who reviewed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import records
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import (
    annotation,
    answer,
    attempt,
    contribution,
    delivery,
    evidence,
    finding,
    instructions,
    membership,
    passage,
    unit,
)
from otel_drift.ledger.schema import review as item
from otel_drift.ledger.schema import review_log as log
from otel_drift.redaction import opaque


def result_ids(connection: Connection, session: str | None, since: int | None) -> list[int]:
    """The results of a session (id or key), or committed since a time (nanoseconds), oldest first."""
    query = sa.select(unit.c.result_id).order_by(unit.c.result_id)
    if session is not None:
        name = records.column(session)
        query = query.where(sa.or_(unit.c.session_id == name, unit.c.session_key.in_((name, opaque(session)))))
    if since is not None:
        query = query.where(unit.c.created >= since)
    return list(connection.execute(query).scalars())


def entry(connection: Connection, result_id: int) -> dict[str, Any]:
    """One result in full. Of what was erased the hashes are left, and `erased` says when."""
    row = connection.execute(
        sa.select(unit, evidence.c.frame, evidence.c.packet_sha256, evidence.c.for_user)
        .outerjoin(evidence, evidence.c.result_id == unit.c.result_id)
        .where(unit.c.result_id == result_id)
    ).one()
    body = {} if row.body is None else records.from_json(row.body)
    frame = {} if row.frame is None else records.from_json(row.frame)
    runs = sa.select(membership.c.run_id).where(membership.c.result_id == result_id).order_by(membership.c.run_id)
    return {
        "record": "unit",
        "result_id": result_id,
        "unit_id": row.unit_id,
        "current": row.current,
        "run_id": row.run_id,
        "runs": list(connection.execute(runs).scalars()),
        "committed": row.created,
        "erased": row.erased,
        "audit": row.audit,
        "session_id": row.session_id,
        "session_key": row.session_key,
        "user": row.for_user,
        "outcome": row.outcome,
        "reason": row.reason,
        "severity": row.severity,
        "judge": body.get("judge", frame.get("judge")),
        "judge_note": body.get("judge_note"),
        "prompts": body.get("prompts", frame.get("prompts")),
        "fingerprint": row.fingerprint,
        "result_sha256": row.body_sha256,
        "report": body.get("report"),
        "findings": _findings(connection, result_id),
        "attempts": _attempts(connection, result_id),
        "usage": {
            "calls": row.calls,
            "input_tokens": row.input_tokens,
            "output_tokens": row.output_tokens,
            "cost": row.cost,
        },
        "sources": {
            "trace_ids": frame.get("trace_ids"),
            "turns": frame.get("turns"),
            "evidence_sha256": row.packet_sha256,
        },
        "deliveries": _deliveries(connection, row.unit_id),
        "review": _reviews(connection, row.unit_id),
    }


def _findings(connection: Connection, result_id: int) -> list[dict[str, Any]]:
    behind: dict[int, list[str]] = {}
    refs = sa.select(passage.c.position, passage.c.passage_id).where(passage.c.result_id == result_id)
    for ref in connection.execute(refs.order_by(passage.c.position, passage.c.passage_key)):
        behind.setdefault(ref.position, []).append(ref.passage_id)
    query = sa.select(finding).where(finding.c.result_id == result_id).order_by(finding.c.position)
    return [
        {
            "event_id": row.event_id,
            "type": row.type,
            "severity": row.severity,
            "span_ref": row.span_ref,
            "fingerprint": row.fingerprint,
            "passage_ids": behind.get(row.position, []),
            **({} if row.body is None else records.from_json(row.body)),
        }
        for row in connection.execute(query)
    ]


def _attempts(connection: Connection, result_id: int) -> list[dict[str, Any]]:
    query = (
        sa.select(attempt, answer.c.created.label("answered"))
        .outerjoin(answer, answer.c.cache_key == attempt.c.cache_key)
        .where(attempt.c.result_id == result_id)
        .order_by(attempt.c.attempt_id)
    )
    return [_attempt(connection, row) for row in connection.execute(query).all()]


def _attempt(connection: Connection, row: sa.Row[Any]) -> dict[str, Any]:
    given = None if row.answer is None else records.from_json(row.answer)
    return {
        "step": row.step,
        "number": row.number,
        "prompt": {"id": row.prompt_id, "version": row.prompt_version, "sha256": row.prompt_sha256},
        "messages": None if row.messages is None else _messages(connection, row.messages),
        "messages_sha256": row.messages_sha256,
        "answer": None if given is None else given["text"],
        "answer_sha256": row.answer_sha256,
        "answered": row.answered,
        "cached": row.cached,
        "cache_key": row.cache_key,
        "model": row.model,
        "parameters": None if given is None else given.get("parameters"),
        "finish_reason": None if given is None else given.get("finish_reason"),
        "seconds": None if given is None else given.get("seconds"),
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cost": row.cost,
        "errors": records.from_json(row.errors),
    }


def _messages(connection: Connection, text: str) -> list[Mapping[str, str]]:
    sent = records.from_json(text)
    wanted = [one["sha256"] for one in sent if "sha256" in one]
    query = sa.select(instructions).where(instructions.c.sha256.in_(wanted))
    known = {row.sha256: records.from_json(row.body) for row in connection.execute(query)}
    return [{"role": one["role"], "content": known[one["sha256"]]} if "sha256" in one else one for one in sent]


def _deliveries(connection: Connection, unit_id: str) -> list[dict[str, Any]]:
    ids = sa.union(
        sa.select(contribution.c.annotation_id).where(contribution.c.unit_id == unit_id),
        sa.select(annotation.c.annotation_id).where(annotation.c.unit_id == unit_id),
    )
    query = (
        sa.select(
            delivery.c.annotation_id,
            delivery.c.revision,
            delivery.c.sink,
            delivery.c.state,
            delivery.c.attempts,
            delivery.c.settled,
            delivery.c.reason,
            annotation.c.content_sha256,
            annotation.c.withdrawn,
        )
        .join(
            annotation,
            sa.and_(
                annotation.c.annotation_id == delivery.c.annotation_id, annotation.c.revision == delivery.c.revision
            ),
        )
        .where(delivery.c.annotation_id.in_(ids))
        .order_by(delivery.c.delivery_id)
    )
    return [dict(row._mapping) for row in connection.execute(query)]


def _reviews(connection: Connection, unit_id: str) -> list[dict[str, Any]]:
    rows = connection.execute(sa.select(item).where(item.c.unit_id == unit_id).order_by(item.c.opened, item.c.item_id))
    found = {row.item_id: row for row in rows}
    said: dict[str, list[dict[str, Any]]] = {key: [] for key in found}
    for chunk in chunks(list(found)):
        for one in connection.execute(sa.select(log).where(log.c.item_id.in_(chunk)).order_by(log.c.log_id)):
            said[one.item_id].append({"at": one.at, "status": one.status, "by": one.said_by, "why": one.why})
    return [
        {
            "item_id": row.item_id,
            "event_id": row.event_id,
            "status": row.status,
            "reasons": records.from_json(row.reasons),
            "by": row.resolved_by,
            "why": row.why,
            "resolved": row.resolved,
            "history": said[row.item_id],
        }
        for row in found.values()
    ]
