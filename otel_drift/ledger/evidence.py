"""What results rest on: frames, packets for reviewers, and the passages behind each finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift import evidence as rests_on
from otel_drift import policy
from otel_drift.ledger import records
from otel_drift.ledger.schema import evidence, finding, passage
from otel_drift.model import Session, Unit

_PRINT = (
    sa.update(finding)
    .where(finding.c.result_id == sa.bindparam("of_result"), finding.c.position == sa.bindparam("at"))
    .values(fingerprint=sa.bindparam("print"))
)

_KNOWN = sa.select(evidence.c.result_id).where(evidence.c.result_id == sa.bindparam("of_result"))
Behind: TypeAlias = tuple[str, tuple[rests_on.PassageRef, ...]]
"""A finding's fingerprint and its passages."""


def behind(result: Unit) -> list[Behind]:
    """The fingerprint of each finding of a result, and the passages it rests on."""
    refs = rests_on.passages_behind(result)
    return [(rests_on.fingerprint(one, known), known) for one, known in zip(result.findings, refs, strict=True)]


def keep(connection: Connection, result_id: int, result: Unit, behind: Sequence[Behind]) -> None:
    """Store what a new result rests on; its texts only where a person may have to read them."""
    wanted = result.findings or result.outcome == "inconclusive" or _is_decision(result) or policy.demands(result)
    packet = records.to_json(rests_on.packet(result)) if wanted else None
    user = result.session.user
    held = {
        "result_id": result_id,
        "frame": records.to_json(rests_on.frame(result)),
        "for_user": None if user is None else records.column(user),
        "packet": packet,
        "packet_sha256": None if packet is None else records.sha256(packet),
    }
    records.insert(connection, evidence, [held])
    rows = [
        {
            "result_id": result_id,
            "position": position,
            "passage_key": records.column(ref.key),
            "passage_id": records.column(ref.passage_id),
            "turn": ref.turn,
            "title": None if ref.title is None else records.column(ref.title),
        }
        for position, (_, refs) in enumerate(behind)
        for ref in refs
    ]
    records.insert(connection, passage, rows)


def complete(connection: Connection, result_id: int, result: Unit) -> None:
    """Store what a result rests on that an older version wrote without it."""
    if connection.execute(_KNOWN, {"of_result": result_id}).first():
        return
    found = behind(result)
    keep(connection, result_id, result, found)
    prints = [{"of_result": result_id, "at": position, "print": print_} for position, (print_, _) in enumerate(found)]
    if prints:
        connection.execute(_PRINT, prints)


def session_of(connection: Connection, result_id: int) -> Session | None:
    """The session of a result without its texts; None for a result of an older version."""
    frame = connection.execute(sa.select(evidence.c.frame).where(evidence.c.result_id == result_id)).scalar()
    return None if frame is None else rests_on.session_of_frame(records.from_json(frame))


def _is_decision(result: Unit) -> bool:
    return "abstain" in (result.report or {})
