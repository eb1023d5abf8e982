"""Units in the ledger: committed with attempts, findings, annotations and the deliveries they owe; found again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift import findings
from otel_drift.ledger import deliveries, evidence, history, records, reviews
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import annotation, attempt, contribution, delivery, finding, instructions, unit
from otel_drift.model import SEVERITY_SCORES, Annotation, Attempt, Session, Unit
from otel_drift.review import verdict_annotations

_SETTLED = ("answer_", "turn_exceeds_window", "comparison_exceeds_window", "source_exceeds_window")
"""How reasons for ``inconclusive`` begin that the same ask would meet again. After any other (judge down, time-out,
rate limit, budget, wrong key) the next run asks again."""
_FAULTS = ("answer_empty", "answer_truncated")
"""Answers that are none: they are not stored, so the next run asks again."""

# Statements of every commit, made once: making one takes longer than running it.
_UNIT: sa.BindParameter[str] = sa.bindparam("of_unit")
_KEYS: sa.BindParameter[str] = sa.bindparam("keys", expanding=True)
_IS_CURRENT = sa.and_(unit.c.unit_id == _UNIT, unit.c.current)
_WITH_PRINT = sa.and_(_IS_CURRENT, unit.c.fingerprint == sa.bindparam("print"))
_FOUND = sa.select(unit).where(_WITH_PRINT, unit.c.body.is_not(None))
_SAME = sa.select(unit.c.result_id).where(_WITH_PRINT, unit.c.body_sha256 == sa.bindparam("digest"))
_OUTDATE = sa.update(unit).where(_IS_CURRENT).values(current=False)
_ADD = sa.insert(unit).returning(unit.c.result_id)
_INSTRUCTIONS = sa.select(instructions.c.sha256).where(instructions.c.sha256.in_(_KEYS))
_SAID = sa.select(contribution.c.annotation_id).where(contribution.c.unit_id == _UNIT)
_STANDS = sa.union(
    _SAID,
    sa.select(annotation.c.annotation_id).where(
        annotation.c.unit_id == _UNIT, annotation.c.current, annotation.c.withdrawn
    ),
)
_UNSAY = sa.delete(contribution).where(contribution.c.unit_id == _UNIT, contribution.c.annotation_id.in_(_KEYS))
_CONTRIBUTIONS = sa.select(contribution).where(contribution.c.annotation_id.in_(_KEYS)).order_by(contribution.c.unit_id)
_LAST = sa.select(annotation).where(annotation.c.annotation_id.in_(_KEYS), annotation.c.current)
_REPLACE = (
    sa.update(annotation).where(annotation.c.annotation_id.in_(_KEYS), annotation.c.current).values(current=False)
)


def find(connection: Connection, unit_id: str, fingerprint: str, session: Session) -> Unit | None:
    """The current result of a unit, if it is for exactly this fingerprint and would not turn out otherwise now."""
    row = connection.execute(
        _FOUND, {"of_unit": records.column(unit_id), "print": records.column(fingerprint)}
    ).one_or_none()
    if row is None or (row.outcome == "inconclusive" and not _is_settled(row.reason)):
        return None
    return reviews.settled(connection, row.result_id, _from_row(connection, row, session))[0]


def commit(
    connection: Connection,
    run_id: int | None,
    result: Unit,
    annotations: Sequence[Annotation] | Callable[[Unit], Sequence[Annotation]],
    sinks: Iterable[str],
    domain: str | None = None,
) -> Unit:
    """Write a unit and everything that follows from it; the caller's transaction makes it one step.

    Returns:
        The unit with what people said of its findings.
    """
    judged = reviews.as_judged(connection, result)
    result_id, is_new = _supersede(connection, run_id, judged)
    if run_id is not None:
        history.join(connection, run_id, records.column(result.unit_id), result_id, is_new=is_new)
    reviews.demand(connection, result_id, judged, domain, is_new=is_new)
    settled, verdicts = reviews.settled(connection, result_id, judged)
    machine = annotations(settled) if callable(annotations) else annotations
    says = {one.id: one for one in machine}
    says |= {one.id: one for one in verdict_annotations(settled, verdicts, says.keys())}
    _say(connection, settled, says, sinks, is_new=is_new)
    return settled


def republish(connection: Connection, unit_ids: Iterable[str]) -> int:
    """Say anew, to the sinks that had it, what units say since people decided something about them.

    Returns:
        How many could be: of a unit whose texts were erased, or that an older version wrote, only the next audit can.
    """
    done = 0
    for unit_id in dict.fromkeys(unit_ids):
        row = connection.execute(sa.select(unit).where(unit.c.unit_id == unit_id, unit.c.current)).one_or_none()
        session = None if row is None or row.body is None else evidence.session_of(connection, row.result_id)
        if row is None or session is None:
            continue
        settled, verdicts = reviews.settled(connection, row.result_id, _from_row(connection, row, session))
        says = {one.id: one for one in findings.annotations(settled)}
        says |= {one.id: one for one in verdict_annotations(settled, verdicts, says.keys())}
        _say(connection, settled, says, sinks_of(connection, unit_id))
        done += 1
    return done


def sinks_of(connection: Connection, unit_id: str) -> list[str]:
    """The sinks that were ever owed something of a unit."""
    ids = sa.union(
        sa.select(contribution.c.annotation_id).where(contribution.c.unit_id == unit_id),
        sa.select(annotation.c.annotation_id).where(annotation.c.unit_id == unit_id),
    )
    query = sa.select(delivery.c.sink).distinct().where(delivery.c.annotation_id.in_(ids)).order_by(delivery.c.sink)
    return list(connection.execute(query).scalars())


def owe(connection: Connection, unit_id: str, sinks: Iterable[str], first: Sequence[str] = ()) -> None:
    """Owe each sink what is current of a unit and was not delivered or owed there yet, withdrawals included.

    Args:
        connection: In a transaction.
        unit_id: The unit.
        sinks: Names of sinks.
        first: Annotations owed before the unit's others, in this order.
    """
    unit_id = records.column(unit_id)
    others = sorted(connection.execute(_STANDS, {"of_unit": unit_id}).scalars())
    deliveries.owe(connection, list(dict.fromkeys([*first, *others])), sinks)


def is_known(connection: Connection, result_id: str) -> bool:
    """Whether an annotation has this id."""
    query = sa.select(annotation.c.revision).where(annotation.c.annotation_id == records.column(result_id)).limit(1)
    return connection.execute(query).first() is not None


def _from_row(connection: Connection, row: sa.Row[Any], session: Session) -> Unit:
    found = connection.execute(
        sa.select(finding.c.body).where(finding.c.result_id == row.result_id).order_by(finding.c.position)
    ).scalars()
    return records.unit_from_json(
        row.body,
        unit_id=row.unit_id,
        audit=row.audit,
        fingerprint=row.fingerprint,
        session=session,
        findings=tuple(records.finding_from_json(body) for body in found),
    )


def _say(
    connection: Connection, result: Unit, says: dict[str, Annotation], sinks: Iterable[str], *, is_new: bool = False
) -> None:
    """Replace what a unit says, withdraw what it no longer says, and owe both; `is_new`: it never said anything."""
    if is_new:
        _contribute(connection, result.unit_id, says, ())
        _revise(connection, result.unit_id, list(says))
        deliveries.owe(connection, list(says), sinks)
        return
    said = set(connection.execute(_SAID, {"of_unit": records.column(result.unit_id)}).scalars())
    # No verdict was reached, so nothing said before is taken back; only what is said anew replaces it.
    vanished = set() if result.outcome == "inconclusive" else said - set(says)
    _contribute(connection, result.unit_id, says, sorted(vanished | (said & set(says))))
    touched = [*says, *sorted(vanished)]
    _revise(connection, result.unit_id, touched)
    owe(connection, result.unit_id, sinks, touched)


def _is_settled(reason: str | None) -> bool:
    return (reason or "").startswith(_SETTLED) and not (reason or "").startswith(_FAULTS)


def _supersede(connection: Connection, run_id: int | None, result: Unit) -> tuple[int, bool]:
    """Add the result and make it the current one, unless it is that already and no judge said anything new.

    Returns:
        Its id, or that of the one there is; and whether the unit was never committed before.
    """
    body = records.unit_to_json(result)
    bodies = [records.finding_to_json(one) for one in result.findings]
    digest = records.sha256(records.to_json([body, bodies]))
    unit_id, fingerprint = records.column(result.unit_id), records.column(result.content_sha256)
    if all(one.cached for one in result.attempts):
        same = {"of_unit": unit_id, "print": fingerprint, "digest": digest}
        known: int | None = connection.execute(_SAME, same).scalar()
        if known is not None:
            evidence.complete(connection, known, result)
            return known, False
    is_new = connection.execute(_OUTDATE, {"of_unit": unit_id}).rowcount == 0  # every unit has a current result
    session_id = result.session.session_id
    result_id: int = connection.execute(
        _ADD,
        {
            "unit_id": unit_id,
            "fingerprint": fingerprint,
            "current": True,
            "run_id": run_id,
            "audit": records.column(result.audit),
            "session_key": records.column(result.session.key),
            "session_id": None if session_id is None else records.column(session_id),
            "outcome": result.outcome,
            "reason": None if result.reason is None else records.column(result.reason),
            "severity": result.severity,
            "body": body,
            "body_sha256": digest,
            "calls": result.calls,
            "input_tokens": result.input_tokens,
            "output_tokens": result.output_tokens,
            "cost": result.cost,
            "created": time.time_ns(),
        },
    ).scalar_one()
    behind = evidence.behind(result)
    _keep_instructions(connection, result.attempts)
    _insert(connection, attempt, [_attempt_row(result_id, one) for one in result.attempts])
    _insert(
        connection,
        finding,
        [
            {
                "result_id": result_id,
                "position": position,
                "event_id": records.column(one.event_id),
                "audit": records.column(one.audit),
                "type": records.column(one.type),
                "severity": one.severity,
                "status": one.status,
                "span_ref": records.column(one.span_ref),
                "body": body,
                "fingerprint": behind[position][0],
            }
            for position, (one, body) in enumerate(zip(result.findings, bodies, strict=True))
        ],
    )
    evidence.keep(connection, result_id, result, behind)
    return result_id, is_new


def _keep_instructions(connection: Connection, attempts: Sequence[Attempt]) -> None:
    bodies: dict[str, str] = {}
    for one in attempts:
        bodies |= records.messages_to_json(one)[1]
    known: set[str] = set()
    for chunk in chunks(list(bodies)):
        known |= set(connection.execute(_INSTRUCTIONS, {"keys": chunk}).scalars())
    _insert(
        connection,
        instructions,
        [{"sha256": digest, "body": body} for digest, body in bodies.items() if digest not in known],
    )


def _attempt_row(result_id: int, one: Attempt) -> dict[str, Any]:
    answer = None if one.answer is None else records.answer_to_json(one.answer)
    return {
        "result_id": result_id,
        "step": records.column(one.step),
        "number": one.number,
        "prompt_id": one.prompt.id,
        "prompt_version": one.prompt.version,
        "prompt_sha256": one.prompt.sha256,
        "cache_key": one.cache_key,
        "cached": one.cached,
        "errors": records.to_json(list(one.errors)),
        "messages_sha256": records.messages_sha256(one),
        "messages": records.messages_to_json(one)[0],
        "answer": answer,
        "answer_sha256": None if answer is None else records.sha256(answer),
        "model": None if one.answer is None else records.column(one.answer.model),
        "input_tokens": 0 if one.answer is None else one.answer.input_tokens,
        "output_tokens": 0 if one.answer is None else one.answer.output_tokens,
        "cost": None if one.answer is None else one.answer.cost,
    }


def _contribute(connection: Connection, unit_id: str, says: dict[str, Annotation], replaced: Sequence[str]) -> None:
    unit_id = records.column(unit_id)
    for chunk in chunks(replaced):
        connection.execute(_UNSAY, {"of_unit": unit_id, "keys": chunk})
    _insert(
        connection,
        contribution,
        [
            {"annotation_id": key, "unit_id": unit_id, "body": records.annotation_to_json(one)}
            for key, one in says.items()
        ],
    )


def _revise(connection: Connection, unit_id: str, annotation_ids: Sequence[str]) -> None:
    """Add a revision wherever what all units together say is not what the last revision says."""
    last: dict[str, sa.Row[Any]] = {}
    said: dict[str, list[str]] = {}
    for chunk in chunks(annotation_ids):
        last |= {row.annotation_id: row for row in connection.execute(_LAST, {"keys": chunk})}
        for one in connection.execute(_CONTRIBUTIONS, {"keys": chunk}):
            said.setdefault(one.annotation_id, []).append(one.body)
    new = [
        row
        for key in annotation_ids
        if (row := _next_revision(key, records.column(unit_id), said.get(key, []), last.get(key)))
    ]
    for chunk in chunks([row["annotation_id"] for row in new if row["revision"] > 1]):
        connection.execute(_REPLACE, {"keys": chunk})
    _insert(connection, annotation, new)


def _next_revision(
    annotation_id: str, unit_id: str, said: Sequence[str], last: sa.Row[Any] | None
) -> dict[str, Any] | None:
    """The row of the next revision; None where nothing changed."""
    if said:
        body, withdrawn = max(said, key=_weight) if len(said) > 1 else said[0], False
    elif last is None or last.withdrawn:
        return None
    else:
        body, withdrawn = records.withdrawn(last.body), True
    digest = records.sha256(body)
    if last is not None and last.content_sha256 == digest:
        return None
    return {
        "annotation_id": annotation_id,
        "revision": 1 if last is None else last.revision + 1,
        "current": True,
        "unit_id": unit_id,
        "withdrawn": withdrawn,
        "content_sha256": digest,
        "body": body,
        "created": time.time_ns(),
    }


def _weight(body: str) -> tuple[float, int]:
    """Which of several units' values stands: the worst; then one that could not be audited, so nothing looks clean."""
    one = records.annotation_from_json(body, 0)
    severity = SEVERITY_SCORES.get(str(one.metadata.get("severity")), 0.0)
    outcome = str(one.metadata.get("outcome"))
    return severity, {"inconclusive": 2, "not_applicable": 0}.get(outcome, 1)


def _insert(connection: Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)
