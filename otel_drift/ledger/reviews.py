"""Review items: demanded with a unit, decided by people, applied whenever the finding is seen again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift import policy, review
from otel_drift.ledger import mutes, records
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import finding
from otel_drift.ledger.schema import review as item
from otel_drift.ledger.schema import review_log as log
from otel_drift.model import Unit
from otel_drift.review import Verdict

_DECIDED = ("confirmed", "rejected")

# Statements of every commit, made once: making one takes longer than running it.
_PRINTS = sa.select(finding.c.event_id, finding.c.fingerprint).where(
    finding.c.result_id == sa.bindparam("of_result"), finding.c.fingerprint.is_not(None)
)
_OF_UNIT = sa.select(item).where(item.c.unit_id == sa.bindparam("of_unit"))
_ITEMS = sa.select(item).where(item.c.item_id.in_(sa.bindparam("keys", expanding=True)))
_VERDICTS = _ITEMS.where(item.c.status.in_(_DECIDED))


def settled(connection: Connection, result_id: int, result: Unit) -> tuple[Unit, dict[str, Verdict]]:
    """A unit as it was judged, with what people said of it; and their verdicts by item id."""
    verdicts = _verdicts(connection, result)
    prints: dict[str, str] = {}
    if result.findings:
        rows = connection.execute(_PRINTS, {"of_result": result_id})
        prints = {row.event_id: row.fingerprint for row in rows}
    why = mutes.holding(connection, list(prints.values()))
    muted = {
        one.event_id: why[key]
        for one in result.findings
        if (key := prints.get(records.column(one.event_id))) is not None and key in why
    }
    return review.settled(result, verdicts, muted), verdicts


def as_judged(connection: Connection, result: Unit) -> Unit:
    """A unit without what people said of it, where this ledger put that in."""
    if all(one.status == "suspected" and not one.muted for one in result.findings):
        return result
    return review.as_judged(result, _verdicts(connection, result))


def demand(connection: Connection, result_id: int, result: Unit, domain: str | None, *, is_new: bool = False) -> None:
    """Bring the review items of a unit in line with its result.

    A decided finding stays decided. A decided unit is opened again if it changed. What was not decided and is no
    longer found is withdrawn, unless the result is inconclusive, which takes nothing back. A unit that `is_new`,
    never committed before, has no items of its own yet.
    """
    wanted = {one.item_id: one for one in policy.demands(result, domain)}
    unit_id = records.column(result.unit_id)
    known: dict[str, Any] = {}
    if not is_new:
        known = {row.item_id: row for row in connection.execute(_OF_UNIT, {"of_unit": unit_id})}
    for chunk in chunks([key for key in wanted if key not in known]):
        known |= {row.item_id: row for row in connection.execute(_ITEMS, {"keys": chunk})}
    now = time.time_ns()
    new, said = [], []
    for key, one in wanted.items():
        row = known.get(key)
        values: dict[str, Any] = {
            "unit_id": unit_id,
            "result_id": result_id,
            "status": one.status,
            "reasons": records.to_json(list(one.reasons)),
            "content_sha256": one.content_sha256,
        }
        if row is None:
            event_id = None if one.event_id is None else records.column(one.event_id)
            new.append({"item_id": key, "event_id": event_id, "opened": now, **values})
        else:
            if row.status in _DECIDED and (row.event_id is not None or row.content_sha256 == one.content_sha256):
                values["status"] = row.status
            if all(getattr(row, name) == value for name, value in values.items()):
                continue
            if values["status"] not in _DECIDED and row.status in _DECIDED:
                values |= {"resolved": None, "resolved_by": None, "why": None}
            connection.execute(sa.update(item).where(item.c.item_id == key).values(values))
        if row is None or row.status != values["status"]:
            said.append({"item_id": key, "result_id": result_id, "at": now, "status": values["status"]})
    gone = [] if result.outcome == "inconclusive" else [key for key in known if key not in wanted]
    for key in gone:
        if known[key].status in ("open", "triage"):
            connection.execute(sa.update(item).where(item.c.item_id == key).values(status="withdrawn"))
            said.append({"item_id": key, "result_id": result_id, "at": now, "status": "withdrawn"})
    _insert(connection, item, new)
    _insert(connection, log, said)


def resolve(connection: Connection, item_id: str, decision: review.Decision, by: str, why: str) -> str:
    """Record a person's decision, and return the unit concerned. A later one replaces it; the log keeps all."""
    now = time.time_ns()
    by, why = records.column(by), records.column(why)
    row = connection.execute(
        sa.update(item)
        .where(item.c.item_id == item_id)
        .values(status=decision, resolved=now, resolved_by=by, why=why)
        .returning(item.c.unit_id, item.c.result_id)
    ).one()
    said = {"item_id": item_id, "result_id": row.result_id, "at": now, "status": decision, "said_by": by, "why": why}
    connection.execute(sa.insert(log).values(said))
    unit_id: str = row.unit_id
    return unit_id


def _verdicts(connection: Connection, result: Unit) -> dict[str, Verdict]:
    keys = [policy.unit_item_id(result.unit_id), *map(policy.finding_item_id, result.findings)]
    found: dict[str, Verdict] = {}
    for chunk in chunks(keys):
        for row in connection.execute(_VERDICTS, {"keys": chunk}):
            by, why = row.resolved_by or "", row.why or ""
            found[row.item_id] = Verdict(row.item_id, row.event_id, row.status, by, why, row.resolved or 0)
    return found


def _insert(connection: Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        connection.execute(sa.insert(table), list(rows))
