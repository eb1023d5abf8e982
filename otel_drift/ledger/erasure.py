"""Privacy deletion: texts go, hashes and a tombstone stay, and the record remains consistent.

Kept: ids, times, outcomes, severities, codes, versions, counts, hashes. Erased: prompts and answers of judges, reports,
findings' words and quotes, evidence, titles, explanations of annotations, what reviewers wrote, why they muted
(the mute stays), and the user, also in the session's key, of which a hash stays. Review items that nobody decided are
withdrawn. Alerts end: whoever was told of one is told so, and then its ids and links go too.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import records, reviews
from otel_drift.ledger.alert_erasure import reduce_bodies
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import (
    annotation,
    answer,
    attempt,
    contribution,
    erasure,
    evidence,
    finding,
    mute,
    passage,
    unit,
)
from otel_drift.ledger.schema import review as item
from otel_drift.ledger.schema import review_log as log
from otel_drift.redaction import opaque

_ERASED = "(reason erased)"


def concerned(
    connection: Connection, *, session: str | None = None, user: str | None = None, before: int | None = None
) -> list[int]:
    """The results whose texts a deletion would erase: all that is given must hold."""
    query = sa.select(unit.c.result_id).where(unit.c.erased.is_(None)).order_by(unit.c.result_id)
    if session is not None:
        name = records.column(session)
        query = query.where(sa.or_(unit.c.session_id == name, unit.c.session_key == name))
    if user is not None:
        query = query.join(evidence, evidence.c.result_id == unit.c.result_id)
        query = query.where(evidence.c.for_user == records.column(user))
    if before is not None:
        query = query.where(unit.c.created < before)
    return list(connection.execute(query).scalars())


def erase(
    connection: Connection, result_ids: list[int], selector: dict[str, Any], before: int | None
) -> dict[str, int]:
    """Erase the texts of results, and what was made of them.

    Args:
        connection: In a writing transaction.
        result_ids: From `concerned`.
        selector: By what kind of selector, for the tombstone; not whose.
        before: Judge answers stored before this time go too, also those of runs that were cut short.

    Returns:
        How much of each kind was erased.
    """
    now = time.time_ns()
    keys: set[str] = set()
    items: set[str] = set()
    unit_ids: dict[str, bool] = {}
    counts = dict.fromkeys(("results", "attempts", "answers", "findings", "packets", "annotations", "reviews"), 0)
    counts["results"] = len(result_ids)
    for chunk in chunks(result_ids):
        of_result = unit.c.result_id.in_(chunk)
        for row in connection.execute(sa.select(unit.c.unit_id, unit.c.current).where(of_result)):
            unit_ids[row.unit_id] = unit_ids.get(row.unit_id, False) or row.current
        keys |= set(connection.execute(sa.select(attempt.c.cache_key).where(attempt.c.result_id.in_(chunk))).scalars())
        items |= set(connection.execute(sa.select(log.c.item_id).where(log.c.result_id.in_(chunk))).scalars())
        _erase_results(connection, chunk, now)
        counts["reviews"] += reviews.withdraw(connection, chunk, now)
        counts["attempts"] += _erase_attempts(connection, chunk)
        _erase_reasons(connection, chunk)
        texts = sa.update(finding).where(finding.c.result_id.in_(chunk)).values(body=None)
        counts["findings"] += connection.execute(texts).rowcount
        held = sa.update(evidence).where(evidence.c.result_id.in_(chunk))
        counts["packets"] += connection.execute(held.where(evidence.c.packet.is_not(None)).values(packet=None)).rowcount
        connection.execute(held.values(for_user=None))
        connection.execute(sa.update(passage).where(passage.c.result_id.in_(chunk)).values(title=None))
    counts["answers"] = _erase_answers(connection, sorted(keys), before)
    current = sorted(key for key, is_current in unit_ids.items() if is_current)
    past = sorted(key for key, is_current in unit_ids.items() if not is_current)
    counts["annotations"] = _erase_current(connection, current) + _erase_past(connection, past)
    counts["reviews"] += _erase_reviews(connection, sorted(items))
    reduce_bodies(connection)
    if any(counts.values()):
        connection.execute(
            sa.insert(erasure).values(at=now, selector=records.to_json(selector), counts=records.to_json(counts))
        )
    return counts


def _erase_results(connection: Connection, result_ids: Any, now: int) -> None:
    of_result = unit.c.result_id.in_(result_ids)
    query = sa.select(unit.c.result_id, unit.c.session_key, evidence.c.frame)
    query = query.outerjoin(evidence, evidence.c.result_id == unit.c.result_id).where(of_result)
    for row in connection.execute(query).all():
        values = {"body": None, "erased": now, "session_key": opaque(row.session_key)}
        connection.execute(sa.update(unit).where(unit.c.result_id == row.result_id).values(values))
        if row.frame is not None:
            frame = records.to_json({**records.from_json(row.frame), "key": values["session_key"]})
            connection.execute(sa.update(evidence).where(evidence.c.result_id == row.result_id).values(frame=frame))


def _erase_attempts(connection: Connection, result_ids: Any) -> int:
    rows = connection.execute(
        sa.select(attempt.c.attempt_id, attempt.c.errors).where(attempt.c.result_id.in_(result_ids))
    ).all()
    for row in rows:  # errors quote the answer; their number and hashes stay
        errors = [f"sha256:{records.sha256(records.to_json(one))}" for one in records.from_json(row.errors)]
        connection.execute(
            sa.update(attempt)
            .where(attempt.c.attempt_id == row.attempt_id)
            .values(messages=None, answer=None, errors=records.to_json(errors))
        )
    return len(rows)


def _erase_reasons(connection: Connection, result_ids: Any) -> None:
    """Why findings of these results were muted, also by mutes that are over."""
    events = sa.select(finding.c.event_id).where(finding.c.result_id.in_(result_ids))
    connection.execute(sa.update(mute).where(mute.c.event_id.in_(events)).values(why=_ERASED))


def _erase_answers(connection: Connection, keys: list[str], before: int | None) -> int:
    erased = 0
    for chunk in chunks(keys):
        query = sa.update(answer).where(answer.c.cache_key.in_(chunk), answer.c.body.is_not(None)).values(body=None)
        erased += connection.execute(query).rowcount
    if before is not None:
        query = sa.update(answer).where(answer.c.created < before, answer.c.body.is_not(None)).values(body=None)
        erased += connection.execute(query).rowcount
    return erased


def _erase_current(connection: Connection, unit_ids: list[str]) -> int:
    """Take the words out of what these units say, in every revision; labels, scores and ids stay."""
    ids: set[str] = set()
    for chunk in chunks(unit_ids):
        for row in connection.execute(sa.select(contribution).where(contribution.c.unit_id.in_(chunk))).all():
            same = sa.and_(contribution.c.annotation_id == row.annotation_id, contribution.c.unit_id == row.unit_id)
            connection.execute(sa.update(contribution).where(same).values(body=_wordless(row.body)))
            ids.add(row.annotation_id)
        of_unit = sa.select(annotation.c.annotation_id).where(annotation.c.unit_id.in_(chunk))
        ids |= set(connection.execute(of_unit).scalars())
    return sum(_silence(connection, annotation.c.annotation_id.in_(chunk)) for chunk in chunks(sorted(ids)))


def _erase_past(connection: Connection, unit_ids: list[str]) -> int:
    """The same for units of which only earlier results are erased: their earlier revisions."""
    return sum(
        _silence(connection, sa.and_(annotation.c.unit_id.in_(chunk), ~annotation.c.current))
        for chunk in chunks(unit_ids)
    )


def _silence(connection: Connection, where: sa.ColumnElement[bool]) -> int:
    rows = connection.execute(sa.select(annotation).where(where, annotation.c.body.is_not(None))).all()
    for row in rows:
        same = sa.and_(annotation.c.annotation_id == row.annotation_id, annotation.c.revision == row.revision)
        connection.execute(sa.update(annotation).where(same).values(body=_wordless(row.body)))
    return len(rows)


def _wordless(body: str) -> str:
    kept = records.from_json(body)
    kept["explanation"] = None
    for one in kept.get("passages", ()):
        one["explanation"] = ""
    kept["metadata"].pop("verdicts", None)
    return records.to_json(kept)


def _erase_reviews(connection: Connection, item_ids: list[str]) -> int:
    erased = 0
    for chunk in chunks(item_ids):
        connection.execute(sa.update(log).where(log.c.item_id.in_(chunk)).values(why=None))
        query = sa.update(item).where(item.c.item_id.in_(chunk), item.c.why.is_not(None)).values(why=None)
        erased += connection.execute(query).rowcount
    return erased
