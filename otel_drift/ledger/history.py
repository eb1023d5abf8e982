"""Runs and what belonged to them, and findings over all sessions: what comparisons and overviews are made of."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import mutes, records
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import evidence, finding, membership, passage, run, unit
from otel_drift.ledger.schema import review as item

_OF_UNIT = item.alias("of_unit")
_WITH_VERDICTS = (
    finding.join(unit, unit.c.result_id == finding.c.result_id)
    .outerjoin(item, item.c.event_id == finding.c.event_id)
    .outerjoin(_OF_UNIT, sa.and_(_OF_UNIT.c.unit_id == unit.c.unit_id, _OF_UNIT.c.event_id.is_(None)))
)
_DECIDED = ("confirmed", "rejected")
_SAID = sa.case(
    (item.c.status.in_(_DECIDED), item.c.status), (_OF_UNIT.c.status.in_(_DECIDED), _OF_UNIT.c.status)
).label("said")
"""A person's verdict on a finding, or else on its unit."""
_LEAVE = sa.delete(membership).where(
    membership.c.run_id == sa.bindparam("of_run"), membership.c.unit_id == sa.bindparam("of_unit")
)


def join(connection: Connection, run_id: int, unit_id: str, result_id: int, *, is_new: bool = False) -> None:
    """Note that a unit belongs to a run, with this result; `is_new`: the unit was never committed before."""
    if not is_new:
        connection.execute(_LEAVE, {"of_run": run_id, "of_unit": unit_id})
    records.insert(connection, membership, [{"run_id": run_id, "unit_id": unit_id, "result_id": result_id}])


def runs(connection: Connection) -> list[dict[str, Any]]:
    """All runs, oldest first, with what they came to."""
    counted = sa.select(membership.c.run_id, sa.func.count().label("units")).group_by(membership.c.run_id).subquery()
    query = sa.select(run, counted.c.units).outerjoin(counted, counted.c.run_id == run.c.run_id).order_by(run.c.run_id)
    return [
        {
            "run_id": row.run_id,
            "started": row.started,
            "ended": row.ended,
            "description": records.from_json(row.description),
            "units": row.units or 0,
            "totals": None if row.totals is None else records.from_json(row.totals),
        }
        for row in connection.execute(query)
    ]


def members(connection: Connection, run_id: int) -> list[dict[str, Any]]:
    """The results of a run's units, with the turns' versions and models, the judge, and the findings that stand."""
    query = (
        sa.select(
            unit.c.result_id,
            unit.c.unit_id,
            unit.c.audit,
            unit.c.session_key,
            unit.c.outcome,
            unit.c.body,
            evidence.c.frame,
        )
        .join(membership, membership.c.result_id == unit.c.result_id)
        .outerjoin(evidence, evidence.c.result_id == unit.c.result_id)
        .where(membership.c.run_id == run_id)
        .order_by(unit.c.result_id)
    )
    rows = connection.execute(query).all()
    found = _standing(connection, [row.result_id for row in rows])
    made = []
    for row in rows:
        frame = {} if row.frame is None else records.from_json(row.frame)
        about = frame if "judge" in frame or row.body is None else records.from_json(row.body)
        made.append(
            {
                "unit_id": row.unit_id,
                "audit": row.audit,
                "session_key": row.session_key,
                "outcome": row.outcome,
                "judge": about.get("judge"),
                "prompts": [f"{one['id']} {one['version']} {one['sha256'][:8]}" for one in about.get("prompts") or ()],
                "turns": frame.get("turns") or [],
                "findings": found.get(row.result_id, []),
            }
        )
    return made


def findings(connection: Connection, since: int | None) -> list[dict[str, Any]]:
    """Every finding of current results, with the passages behind it, its status and mute."""
    query = (
        sa.select(finding, unit.c.session_key, unit.c.session_id, unit.c.created, item.c.item_id, _SAID)
        .select_from(_WITH_VERDICTS)
        .where(unit.c.current)
        .order_by(finding.c.result_id, finding.c.position)
    )
    if since is not None:
        query = query.where(unit.c.created >= since)
    rows = connection.execute(query).all()
    behind = _behind(connection, list(dict.fromkeys(row.result_id for row in rows)))
    muted = mutes.holding(connection, [row.fingerprint for row in rows if row.fingerprint])
    return [
        {
            "event_id": row.event_id,
            "item_id": row.item_id,
            "audit": row.audit,
            "type": row.type,
            "severity": row.severity,
            "status": row.said or row.status,
            "muted": muted.get(row.fingerprint),
            "session_key": row.session_key,
            "session_id": row.session_id,
            "committed": row.created,
            "passages": behind.get((row.result_id, row.position), []),
            "quotes": [] if row.body is None else records.from_json(row.body)["quotes"],
        }
        for row in rows
    ]


def _standing(connection: Connection, result_ids: list[int]) -> dict[int, list[dict[str, Any]]]:
    """The findings of results that nobody rejected or muted."""
    found: dict[int, list[dict[str, Any]]] = {}
    for chunk in chunks(result_ids):
        query = (
            sa.select(finding.c.result_id, finding.c.type, finding.c.severity, finding.c.fingerprint, _SAID)
            .select_from(_WITH_VERDICTS)
            .where(finding.c.result_id.in_(chunk))
        )
        rows = connection.execute(query.order_by(finding.c.result_id, finding.c.position)).all()
        muted = mutes.holding(connection, [row.fingerprint for row in rows if row.fingerprint])
        for row in rows:
            if row.fingerprint not in muted and row.said != "rejected":
                found.setdefault(row.result_id, []).append({"type": row.type, "severity": row.severity})
    return found


def _behind(connection: Connection, result_ids: list[int]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for chunk in chunks(result_ids):
        query = sa.select(passage).where(passage.c.result_id.in_(chunk)).order_by(passage.c.passage_key)
        for row in connection.execute(query):
            known = {"key": row.passage_key, "passage_id": row.passage_id, "title": row.title}
            found.setdefault((row.result_id, row.position), []).append(known)
    return found


def made_since(connection: Connection, since: int) -> dict[str, Any]:
    """What was committed since a time (nanoseconds): results by outcome, reason and severity, calls, tokens, cost."""
    query = (
        sa.select(
            unit.c.outcome,
            unit.c.reason,
            unit.c.severity,
            sa.func.count(),
            sa.func.sum(unit.c.calls),
            sa.func.sum(unit.c.input_tokens + unit.c.output_tokens),
            sa.func.sum(unit.c.cost),
        )
        .where(unit.c.created >= since)
        .group_by(unit.c.outcome, unit.c.reason, unit.c.severity)
    )
    made: dict[str, Any] = {"results": 0, "outcomes": {}, "severities": {}, "inconclusive": {}}
    spent = {"calls": 0, "tokens": 0, "cost": 0.0}
    for outcome, reason, severity, number, calls, tokens, cost in connection.execute(query):
        made["results"] += number
        _count(made["outcomes"], outcome, number)
        if outcome == "findings":
            _count(made["severities"], severity, number)
        if outcome == "inconclusive":
            _count(made["inconclusive"], (reason or "").partition(":")[0], number)
        spent = {
            "calls": spent["calls"] + int(calls or 0),
            "tokens": spent["tokens"] + int(tokens or 0),
            "cost": spent["cost"] + (cost or 0.0),
        }
    return made | spent


def _count(counts: dict[str, int], name: str, number: int) -> None:
    counts[name] = counts.get(name, 0) + number
