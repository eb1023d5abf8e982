"""Units in the ledger: committed with attempts, findings, annotations and the deliveries they owe; found again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift import findings
from otel_drift.ledger import evidence, history, records, reviews, revisions
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import attempt, finding, instructions, unit, unit_is_current
from otel_drift.model import Annotation, Attempt, Session, Unit
from otel_drift.review import Verdict, verdict_annotations

_SETTLED = ("answer_", "turn_exceeds_window", "comparison_exceeds_window", "source_exceeds_window")
"""How reasons for ``inconclusive`` begin that the same ask would meet again. After any other (judge down, time-out,
rate limit, budget, wrong key) the next run asks again."""
_FAULTS = ("answer_empty", "answer_truncated")
"""Answers that are none: they are not stored, so the next run asks again."""

# Statements of every commit, made once: making one takes longer than running it.
_UNIT: sa.BindParameter[str] = sa.bindparam("of_unit")
_KEYS: sa.BindParameter[str] = sa.bindparam("keys", expanding=True)
_IS_CURRENT = sa.and_(unit.c.unit_id == _UNIT, unit_is_current)
_WITH_PRINT = sa.and_(_IS_CURRENT, unit.c.fingerprint == sa.bindparam("print"))
_FOUND = sa.select(unit).where(_WITH_PRINT, unit.c.body.is_not(None))
_SAME = sa.select(unit.c.result_id).where(_WITH_PRINT, unit.c.body_sha256 == sa.bindparam("digest"))
_OUTDATE = sa.update(unit).where(_IS_CURRENT).values(current=False)
_ADD = sa.insert(unit).returning(unit.c.result_id)
_HELD = (  # a finding is in each result of its session, as many as that was audited times
    sa.select(finding.c.event_id, finding.c.type, finding.c.severity).where(finding.c.event_id.in_(_KEYS)).distinct()
)
_INSTRUCTIONS = sa.select(instructions.c.sha256).where(instructions.c.sha256.in_(_KEYS))


def find(connection: Connection, unit_id: str, fingerprint: str, session: Session) -> Unit | None:
    """The current result of a unit, if it is for exactly this fingerprint and would not turn out otherwise now."""
    row = connection.execute(
        _FOUND, {"of_unit": records.column(unit_id), "print": records.column(fingerprint)}
    ).one_or_none()
    if row is None or (row.outcome == "inconclusive" and not _is_settled(row.reason)):
        return None
    return reviews.settled(connection, row.result_id, _from_row(connection, row, session))[0]


def found_before(connection: Connection, result: Unit) -> set[str]:
    """The event ids of those findings of a unit that a result held already, of the same type and severity."""
    held: set[tuple[str, str, str]] = set()
    for chunk in chunks([records.column(one.event_id) for one in result.findings]):
        held |= {(row.event_id, row.type, row.severity) for row in connection.execute(_HELD, {"keys": chunk})}
    judged = reviews.as_judged(connection, result).findings if held else ()
    return {
        one.event_id for one in judged if (records.column(one.event_id), records.column(one.type), one.severity) in held
    }


def commit(
    connection: Connection,
    run_id: int | None,
    result: Unit,
    annotate: Sequence[Annotation] | Callable[[Unit], Sequence[Annotation]],
    sinks: Iterable[str],
    domain: str | None = None,
) -> Unit:
    """Write a unit and everything that follows from it; the caller's transaction makes it one step.

    Returns:
        The unit with what people said of its findings.
    """
    judged = reviews.as_judged(connection, result)
    result_id, is_new, prints = _supersede(connection, run_id, judged)
    if run_id is not None:
        history.join(connection, run_id, records.column(result.unit_id), result_id, is_new=is_new)
    verdicts = reviews.demand(connection, result_id, judged, domain, is_new=is_new)
    settled = reviews.apply(connection, result_id, judged, verdicts, prints)
    says = _with_verdicts(annotate(settled) if callable(annotate) else annotate, settled, verdicts)
    revisions.say(connection, settled.unit_id, says, sinks, keeps=settled.outcome == "inconclusive", is_new=is_new)
    return settled


def republish(connection: Connection, unit_ids: Iterable[str]) -> int:
    """Say anew, to the sinks that had it, what units say since people decided something about them.

    Returns:
        How many could be: of a unit whose texts were erased, or that an older version wrote, only the next audit can.
    """
    done = 0
    for unit_id in dict.fromkeys(unit_ids):
        row = connection.execute(sa.select(unit).where(unit.c.unit_id == unit_id, unit_is_current)).one_or_none()
        session = None if row is None or row.body is None else evidence.session_of(connection, row.result_id)
        if row is None or session is None:
            continue
        settled, verdicts = reviews.settled(connection, row.result_id, _from_row(connection, row, session))
        says = _with_verdicts(findings.annotations(settled), settled, verdicts)
        sinks = revisions.sinks_of(connection, unit_id)
        revisions.say(connection, unit_id, says, sinks, keeps=settled.outcome == "inconclusive")
        done += 1
    return done


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


def _with_verdicts(
    machine: Sequence[Annotation], settled: Unit, verdicts: Mapping[str, Verdict]
) -> dict[str, Annotation]:
    """What a unit says by annotation id, people's verdicts included."""
    says = {one.id: one for one in machine}
    return says | {one.id: one for one in verdict_annotations(settled, verdicts, says.keys())}


def _is_settled(reason: str | None) -> bool:
    return (reason or "").startswith(_SETTLED) and not (reason or "").startswith(_FAULTS)


def _supersede(connection: Connection, run_id: int | None, result: Unit) -> tuple[int, bool, dict[str, str] | None]:
    """Add the result and make it the current one, unless it is that already and no judge said anything new.

    Returns:
        Its id, or that of the one there is; whether the unit was never committed before; and the fingerprints of
        the findings by event id, None where those the ledger holds count.
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
            return known, False, None
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
    _keep_attempts(connection, result_id, result.attempts)
    records.insert(
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
    prints = {records.column(one.event_id): known[0] for one, known in zip(result.findings, behind, strict=True)}
    return result_id, is_new, prints


def _keep_attempts(connection: Connection, result_id: int, attempts: Sequence[Attempt]) -> None:
    bodies: dict[str, str] = {}
    rows = []
    for one in attempts:
        messages, said = records.messages_to_json(one)
        bodies |= said
        rows.append(_attempt_row(result_id, one, messages))
    known: set[str] = set()
    for chunk in chunks(list(bodies)):
        known |= set(connection.execute(_INSTRUCTIONS, {"keys": chunk}).scalars())
    new = [{"sha256": digest, "body": body} for digest, body in bodies.items() if digest not in known]
    records.insert(connection, instructions, new)
    records.insert(connection, attempt, rows)


def _attempt_row(result_id: int, one: Attempt, messages: str) -> dict[str, Any]:
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
        "messages": messages,
        "answer": answer,
        "answer_sha256": None if answer is None else records.sha256(answer),
        "model": None if one.answer is None else records.column(one.answer.model),
        "input_tokens": 0 if one.answer is None else one.answer.input_tokens,
        "output_tokens": 0 if one.answer is None else one.answer.output_tokens,
        "cost": None if one.answer is None else one.answer.cost,
    }
