"""From labelled items to scores: the embedded judge in this process, a model through the harness, a few at a time.

An item that a judge cannot be brought to judge is inconclusive with a reason. It has no score and is never counted as
if it had.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from otel_drift import planning, validation
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.audits.source_conflict_report import counted_confidences
from otel_drift.budget import Budget
from otel_drift.calibration.embedded import embedded_score
from otel_drift.calibration.labels import Case, Labelled
from otel_drift.calibration.questions import ItemQuestion, kind_of, session_of
from otel_drift.model import Session, Unit
from otel_drift.planning import Plan
from otel_drift.protocols import AnswerCache, Audit, AuditSettings, Judge
from otel_drift.redaction import redact_session

SINGLE_SOURCE = "single_source"
"""All passages are copies of one text: nothing to ask, no conflict."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one item. `score` is None where it is inconclusive, for `reason`.

    `silent`: the judge holds that nothing is claimed; `unread`: it found no statement, so that 0 is no verdict.
    `seconds`: processor time of the embedded judge; of a model the time of its answers, when they were asked.
    """

    item: Labelled
    score: float | None
    reason: str | None = None
    silent: bool = False
    unread: bool = False
    seconds: float = 0.0
    calls: int = 0
    cost: float | None = 0.0
    model: str | None = None


@dataclass(slots=True)
class Bench:
    """The judge and what it is told. `cache` keeps answers paid for; `redact` runs before a model sees text."""

    judge: Judge
    settings: AuditSettings
    cache: AnswerCache | None = None
    budget: Budget | None = None
    redact: Callable[[str], str] | None = None
    workers: int = 1


def judged(items: Sequence[Labelled], bench: Bench) -> Iterator[Judged]:
    """Judge the items, `bench.workers` at a time; yields in the order given. The judge sees only `Labelled.case`."""
    if bench.workers == 1:
        for item in items:
            yield _with(item, _judge(item.case, bench))
        return
    with ThreadPoolExecutor(bench.workers, thread_name_prefix="judge") as pool:
        pending: deque[tuple[Labelled, Future[_Outcome]]] = deque()
        try:
            for item in items:
                pending.append((item, pool.submit(_judge, item.case, bench)))
                while len(pending) >= 2 * bench.workers:
                    first, future = pending.popleft()
                    yield _with(first, future.result())
            while pending:
                first, future = pending.popleft()
                yield _with(first, future.result())
        finally:
            for _, future in pending:
                future.cancel()


def plans(items: Sequence[Labelled], bench: Bench) -> Iterator[Plan]:
    """What each item would ask and cost if nothing were in the ledger; asks nobody.

    Raises:
        ConfigError: a prompt or setting is wrong.
    """
    for item in items:
        if _in_process(item.case, bench.judge):
            yield Plan(eligible=True)
        else:
            audit = audit_for(item.case)
            yield planning.plan(audit, _redacted(session_of(item.case), bench), bench.judge, bench.settings)


def median_milliseconds(found: Sequence[Judged]) -> float | None:
    """The middle time an item, over those that were judged."""
    times = [one.seconds for one in found if one.score is not None]
    return round(1000 * statistics.median(times), 2) if times else None


def audit_for(case: Case) -> Audit:
    """Which audit judges an item through the harness."""
    return SourceConflict() if case.task == "passage_conflict" else ItemQuestion(kind_of(case))


@dataclass(frozen=True, slots=True)
class _Outcome:
    score: float | None
    reason: str | None = None
    silent: bool = False
    unread: bool = False
    seconds: float = 0.0
    calls: int = 0
    cost: float | None = 0.0
    model: str | None = None


def _with(item: Labelled, outcome: _Outcome) -> Judged:
    return Judged(
        item, outcome.score, outcome.reason, outcome.silent, outcome.unread, outcome.seconds, outcome.calls,
        outcome.cost, outcome.model,
    )  # fmt: skip


def _in_process(case: Case, judge: Judge) -> bool:
    return judge.embedded and case.task != "passage_conflict"


def _judge(case: Case, bench: Bench) -> _Outcome:
    started = time.thread_time()
    if _in_process(case, bench.judge):
        said = embedded_score(case)
        return _Outcome(said.score, None, said.silent, said.unread, time.thread_time() - started)
    try:
        session = _redacted(session_of(case), bench)
    except Exception:  # a user's callable: nothing of this item may go out
        return _Outcome(None, "redaction_failed")
    unit = validation.audit_session(
        audit_for(case), session, bench.judge, cache=bench.cache, settings=bench.settings, budget=bench.budget
    )
    seconds = time.thread_time() - started if bench.judge.embedded else _answer_seconds(unit)
    model = next((one.answer.model for one in reversed(unit.attempts) if one.answer), None)
    score, silent = _score(unit, bench.settings)
    reason = None if score is not None else unit.reason or unit.outcome
    return _Outcome(score, reason, silent, False, seconds, unit.calls, unit.cost, model)


def _score(unit: Unit, settings: AuditSettings) -> tuple[float | None, bool]:
    if unit.outcome == "not_applicable" and unit.reason == SINGLE_SOURCE:
        return 0.0, False
    if unit.report is None:
        return None, False
    if unit.audit == SourceConflict.name:
        return conflict_score(unit.report, unit.session, settings), False
    return float(unit.report["score"]), bool(unit.report["silent"])


def conflict_score(report: Mapping[str, Any], session: Session, settings: AuditSettings) -> float:
    """The highest ``min_confidence`` at which these conflicts would still make the gate abstain; 0 if never.

    That is the confidence of the k-th surest pair of sources among conflicts at or above the severity threshold, k
    being the pair threshold: with one pair, the surest conflict.
    """
    severity, pairs, _ = SourceConflict().thresholds(settings)
    found = sorted(counted_confidences(report["conflicts"], session.turns[0], severity).values(), reverse=True)
    return float(found[pairs - 1]) if len(found) >= pairs else 0.0


def _answer_seconds(unit: Unit) -> float:
    return sum(one.answer.seconds for one in unit.attempts if one.answer)


def _redacted(session: Session, bench: Bench) -> Session:
    return redact_session(session, bench.redact) if bench.redact else session
