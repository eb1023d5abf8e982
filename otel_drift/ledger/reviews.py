"""Review items: demanded with a unit, decided by people, applied whenever the finding is seen again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
_UNDECIDED = ("open", "triage")

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
    return apply(connection, result_id, result, verdicts), verdicts


def apply(
    connection: Connection,
    result_id: int,
    result: Unit,
    verdicts: Mapping[str, Verdict],
    prints: Mapping[str, str] | None = None,
) -> Unit:
    """A unit as it was judged, with these verdicts and the mutes in force put in.

    Args:
        connection: In a transaction.
        result_id: The result in the ledger.
        result: The unit as it was judged.
        verdicts: What people said of it, by item id.
        prints: The findings' fingerprints by event id, where they are known; else the ledger's.
    """
    if prints is None:
        rows = connection.execute(_PRINTS, {"of_result": result_id}) if result.findings else ()
        prints = {row.event_id: row.fingerprint for row in rows}
    why = mutes.holding(connection, list(prints.values()))
    muted = {
        one.event_id: why[key]
        for one in result.findings
        if (key := prints.get(records.column(one.event_id))) is not None and key in why
    }
    return review.settled(result, verdicts, muted)


def as_judged(connection: Connection, result: Unit) -> Unit:
    """A unit without what people said of it, where this ledger put that in."""
    if all(one.status == "suspected" and not one.muted for one in result.findings):
        return result
    return review.as_judged(result, _verdicts(connection, result))


def demand(
    connection: Connection, result_id: int, result: Unit, domain: str | None, *, is_new: bool = False
) -> dict[str, Verdict]:
    """Bring the review items of a unit in line with its result.

    A decided finding stays decided. A decided unit is opened again if it changed. What was not decided and is no
    longer found is withdrawn, unless the result is inconclusive, which takes nothing back. A unit that `is_new`,
    never committed before, has no items of its own yet.

    Returns:
        People's verdicts on the unit and its findings that hold after this, by item id.
    """
    wanted = {one.item_id: one for one in policy.demands(result, domain)}
    unit_id = records.column(result.unit_id)
    known: dict[str, Any] = {}
    if not is_new:
        known = {row.item_id: row for row in connection.execute(_OF_UNIT, {"of_unit": unit_id})}
    about = _item_ids(result)
    for chunk in chunks([key for key in dict.fromkeys([*wanted, *about]) if key not in known]):
        known |= {row.item_id: row for row in connection.execute(_ITEMS, {"keys": chunk})}
    verdicts = {key: _verdict(known[key]) for key in about if key in known and known[key].status in _DECIDED}
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
                verdicts.pop(key, None)
                values |= {"resolved": None, "resolved_by": None, "why": None}
            connection.execute(sa.update(item).where(item.c.item_id == key).values(values))
        if row is None or row.status != values["status"]:
            said.append({"item_id": key, "result_id": result_id, "at": now, "status": values["status"]})
    gone = [] if result.outcome == "inconclusive" else [key for key in known if key not in wanted]
    for key in gone:
        if known[key].status in _UNDECIDED:
            connection.execute(sa.update(item).where(item.c.item_id == key).values(status="withdrawn"))
            said.append({"item_id": key, "result_id": result_id, "at": now, "status": "withdrawn"})
    records.insert(connection, item, new)
    records.insert(connection, log, said)
    return verdicts


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


def withdraw(connection: Connection, result_ids: Sequence[int], now: int) -> int:
    """Withdraw the items about these results that nobody decided; returns how many that were."""
    query = sa.update(item).where(item.c.result_id.in_(result_ids), item.c.status.in_(_UNDECIDED))
    gone = connection.execute(query.values(status="withdrawn").returning(item.c.item_id, item.c.result_id)).all()
    said = [{"item_id": row.item_id, "result_id": row.result_id, "at": now, "status": "withdrawn"} for row in gone]
    records.insert(connection, log, said)
    return len(gone)


def _verdicts(connection: Connection, result: Unit) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    for chunk in chunks(_item_ids(result)):
        found |= {row.item_id: _verdict(row) for row in connection.execute(_VERDICTS, {"keys": chunk})}
    return found


def _verdict(row: sa.Row[Any]) -> Verdict:
    return Verdict(row.item_id, row.event_id, row.status, row.resolved_by or "", row.why or "", row.resolved or 0)


def _item_ids(result: Unit) -> list[str]:
    return [policy.unit_item_id(result.unit_id), *map(policy.finding_item_id, result.findings)]
