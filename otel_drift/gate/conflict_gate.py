"""The conflict gate: between retrieval and generation, may a model answer from these passages?

`check` always decides within its deadline. Judge and answerability run on threads of their own; whichever makes
answering unsafe first decides. Whatever fails or hangs ends as ``abstain`` with ``safety_override``.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from otel_drift import validation
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.audits.source_conflict_answer import ConflictSeverity
from otel_drift.audits.source_conflict_report import empty_report
from otel_drift.errors import ConfigError
from otel_drift.gate.answerability import DEFAULT_THRESHOLD, Answerability, question_coverage
from otel_drift.gate.decision import GateDecision, notes_for_answer, user_message
from otel_drift.gate.outcome import Outcome, outcome_of, overridden
from otel_drift.gate.passages import (
    Given,
    LeftOut,
    PassageLike,
    differing,
    gate_session,
    given_passages,
    redact_gate_session,
)
from otel_drift.gate.presets import preset_called
from otel_drift.gate.recording import Recorder, Stakes, calling_span, decision_unit, span_attributes
from otel_drift.model import Session, Unit
from otel_drift.protocols import AuditSettings, Judge

if TYPE_CHECKING:
    from otel_drift.ledger import Ledger

log = logging.getLogger(__name__)

TRIGGER_FIELDS = ("author", "date", "document_type")
LONGEST_DEADLINE = 3_600.0
"""Seconds: no answer waits longer."""
MOST_AT_ONCE = 64
"""Checks under way at the same time, those of judges that hang included; a further one waits within its deadline."""

LONGEST_START = 60.0
"""Seconds a judge may take to get ready while the gate is built; then the first check finds out what it can do."""

_SLACK = 0.05


class ConflictGate:
    """Decides whether a model may answer from passages, or whether their conflict is for a person.

    Args:
        judge: who judges; named on purpose. The embedded judge only with `allow_embedded`, never for high stakes.
        preset: ``clinical``, ``legal``, ``finance`` (MATERIAL, 1 pair, high stakes), ``support`` (MATERIAL, 2 pairs),
            ``research`` (CRITICAL, 3 pairs); None is MATERIAL, 1 pair.
        severity_threshold: conflicts from this severity on count; overrides the preset's.
        pair_threshold: abstain from so many pairs of conflicting sources on; overrides the preset's.
        min_confidence: conflicts the judge is less sure of do not count; ``otel-drift calibrate`` measures it.
        deadline: seconds within which every decision is made, retries and everything else included.
        min_passages: check from so many passages on …
        trigger_fields: … or as soon as the passages differ in one of these. Otherwise proceed, ``not_triggered``.
        answerability: scores 0..1 whether the passages answer the question, in parallel; None switches it off.
        answerability_threshold: below it, abstain at once.
        write_answer: where answering is safe, let the judge write the answer, naming what disagreement remains.
        allow_embedded: accept the embedded judge, which finds only differing figures and dates.
        ledger: where decisions are kept: a ledger, file or URL; None is the user's own file.
        redact: takes private text out before judge, ledger and decision see it (`otel_drift.redaction`).
        record_wait: seconds a decision waits for its own record, so that it usually is in the ledger when returned.
        prompts_dir: a folder with own versions of the prompts.

    Raises:
        ConfigError: a setting is wrong, or this judge may not judge here.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        preset: str | None = None,
        severity_threshold: ConflictSeverity | None = None,
        pair_threshold: int | None = None,
        min_confidence: float = 0.0,
        deadline: float = 30.0,
        min_passages: int = 2,
        trigger_fields: Sequence[str] = TRIGGER_FIELDS,
        answerability: Answerability | None = question_coverage,
        answerability_threshold: float = DEFAULT_THRESHOLD,
        write_answer: bool = False,
        allow_embedded: bool = False,
        ledger: Ledger | str | Path | None = None,
        redact: Callable[[str], str] | None = None,
        record_wait: float = 0.5,
        prompts_dir: str | None = None,
    ) -> None:
        chosen = preset_called(preset)
        _check_judge(judge, preset, high_stakes=chosen.high_stakes, allow_embedded=allow_embedded)
        if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 < deadline <= LONGEST_DEADLINE:
            raise ConfigError(f"gate deadline {deadline!r}: use seconds above 0, at most {LONGEST_DEADLINE:g}")
        if min_passages < 2:
            raise ConfigError(f"gate min_passages {min_passages!r}: use 2 or more; one passage is never checked")
        if unknown := set(trigger_fields) - set(TRIGGER_FIELDS):
            raise ConfigError(f"gate trigger {sorted(unknown)[0]!r}: use {', '.join(TRIGGER_FIELDS)}")
        if not 0 <= answerability_threshold <= 1:
            raise ConfigError(f"gate answerability_threshold {answerability_threshold!r}: use 0 to 1")
        self.judge = judge
        self.preset, self.high_stakes = preset, chosen.high_stakes
        self.severity_threshold: ConflictSeverity = severity_threshold or chosen.severity_threshold
        self.pair_threshold = chosen.pair_threshold if pair_threshold is None else pair_threshold
        self.deadline = float(deadline)
        self._audit = SourceConflict(
            self.severity_threshold,
            self.pair_threshold,
            write_answer=write_answer,
            gate=True,
            min_confidence=min_confidence,
        )
        self._settings = AuditSettings(domain=chosen.domain, prompts_dir=prompts_dir, embedded_judge=judge.embedded)
        self._min_passages, self._trigger_fields = min_passages, tuple(trigger_fields)
        self._answerability, self._least_answerable = answerability, answerability_threshold
        self._redact, self._record_wait = redact, record_wait
        self._recorder = Recorder(ledger)
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        _get_ready(judge)

    def check(self, query: str, passages: Sequence[PassageLike]) -> GateDecision:
        """Decide about one question; never later than the deadline, whatever happens behind it.

        Args:
            query: the question, as it is asked of the model.
            passages: what retrieval found: `Passage` objects or mappings with ``id`` and ``text``. Empty ones and
                repetitions are left out; the decision says which.

        Raises:
            ConfigError: query or passages are malformed, or every passage is empty.
        """
        began, started = time.monotonic(), time.time_ns()
        if not isinstance(query, str) or not query.strip():
            raise ConfigError("query must be a text that is not empty")
        known = given_passages(passages)
        context, trace = calling_span()
        call = _Call(began + self.deadline, started, uuid.uuid4().hex, context, trace, known.left_out)
        session = gate_session(query, known.passages, call.id, now=started, trace=trace)
        if self._redact is not None:
            redacted = self._redacted(session, call)
            if isinstance(redacted, Outcome):
                return self._decide(call, gate_session("", (), call.id, now=started, trace=trace), redacted)
            session = redacted
        return self._decide(call, session, self._without_asking(known) or self._ask(session, call))

    async def acheck(self, query: str, passages: Sequence[PassageLike]) -> GateDecision:
        """`check`, awaitable: it runs on a thread of its own, so no pool of the application's can delay it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[GateDecision] = loop.create_future()
        context = contextvars.copy_context()

        def run() -> None:
            try:
                decision = context.run(self.check, query, passages)
            except BaseException as error:
                _tell(loop, future, future.set_exception, error)
            else:
                _tell(loop, future, future.set_result, decision)

        threading.Thread(target=run, name="gate-check", daemon=True).start()
        return await future

    def close(self, timeout: float = 5.0) -> bool:
        """Wait for records under way, close a ledger the gate opened; False if some are not written by then."""
        return self._recorder.close(timeout)

    def __enter__(self) -> ConflictGate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _without_asking(self, given: Given) -> Outcome | None:
        """What needs no judge: more than one can compare, nothing to answer from, one source, or no trigger."""
        if given.over_limit:
            return overridden(given.over_limit)
        passages = given.passages
        if not passages:
            return Outcome("abstain", "no_passages")
        if len({" ".join((passage.text or "").split()) for passage in passages}) == 1:
            return Outcome("proceed", "single_source")
        if len(passages) < self._min_passages and not differing(passages, self._trigger_fields):
            return Outcome("proceed", "not_triggered")
        return None

    def _redacted(self, session: Session, call: _Call) -> Session | Outcome:
        """The session without private text; an outcome where the user's callable fails or hangs: nothing may go out."""
        assert self._redact is not None
        redact = self._redact
        results: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        if not self._start("redaction", lambda: redact_gate_session(session, redact), results, call):
            return overridden("overloaded")
        try:
            _, value = results.get(timeout=call.left())
        except queue.Empty:
            return overridden("timeout")
        return value if isinstance(value, Session) else overridden("redaction_failed")

    def _ask(self, session: Session, call: _Call) -> Outcome:
        """Ask the judge and score answerability side by side; the first reason to abstain decides."""
        results: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        waiting: dict[str, Callable[[], Any]] = {"judge": lambda: self._judged(session)}
        if self._answerability is not None:
            waiting["answerability"] = lambda: self._scored(session)
        for name, work in list(waiting.items()):
            if not self._start(name, work, results, call):
                return overridden("overloaded")
        outcome, score = overridden("internal_error"), None
        while waiting:
            try:
                name, value = results.get(timeout=call.left())
            except queue.Empty:
                return replace(overridden("timeout"), answerability=score)
            del waiting[name]
            if name == "judge":
                outcome = outcome_of(value)
                if outcome.decision == "abstain":
                    return replace(outcome, answerability=score)
            elif value is None:
                return overridden("answerability_failed")
            else:
                score = value
                if score < self._least_answerable:
                    return Outcome("abstain", "low_answerability", answerability=score)
        return replace(outcome, answerability=score)

    def _start(
        self, name: str, work: Callable[[], Any], results: queue.SimpleQueue[tuple[str, Any]], call: _Call
    ) -> bool:
        """Do `work` on a thread of its own and queue what it gives, None where it fails; False if there is no room."""
        if not self._slots.acquire(timeout=call.left()):
            return False

        def run() -> None:
            value = None
            try:
                value = work()
            except BaseException as error:  # the boundary: whatever it is, the check must hear of it
                log.debug("gate: %s failed", name, exc_info=error)
            finally:
                self._slots.release()
                results.put((name, value))

        try:
            context = contextvars.copy_context()
            threading.Thread(target=context.run, args=(run,), name=f"gate-{name}", daemon=True).start()
        except RuntimeError:  # no more threads to be had
            self._slots.release()
            return False
        return True

    def _judged(self, session: Session) -> Unit:
        return validation.audit_session(self._audit, session, self.judge, settings=self._settings)

    def _scored(self, session: Session) -> float:
        assert self._answerability is not None
        turn = session.turns[0]
        score = float(self._answerability(turn.user or "", turn.passages))
        if not 0 <= score <= 1:
            raise ValueError("answerability must be from 0 to 1")
        return score

    def _decide(self, call: _Call, session: Session, outcome: Outcome) -> GateDecision:
        """Put the outcome into words, keep it, and say whether it was kept in time."""
        report = self._report(session, outcome)
        decision = GateDecision(
            decision=outcome.decision,
            reason=outcome.reason,
            report=report,
            user_message=user_message(outcome.reason, report),
            notes_for_answer=notes_for_answer(report),
            answer=report["answer"],
            decision_id=call.id,
            safety_override=outcome.override,
            answerability=outcome.answerability,
            review=outcome.decision == "abstain" and (self.high_stakes or outcome.override is not None),
            judge=self.judge.name,
            judge_note=self.judge.note,
            seconds=(time.time_ns() - call.started) / 1e9,
            left_out=call.left_out,
        )
        if outcome.override is not None:
            log.warning("gate: decision %s abstains, safety_override %s", call.id, outcome.override)
        about = Stakes(self.preset, self.high_stakes)
        kept = self._recorder.keep(decision_unit(session, outcome, self.judge, decision, about))
        emitted = self._recorder.span(
            call.id, call.started, time.time_ns(), call.context, span_attributes(decision, about)
        )
        until = time.monotonic() + min(self._record_wait, call.left() + _SLACK)
        recorded = kept.wait(max(0.0, until - time.monotonic()))
        emitted.wait(max(0.0, until - time.monotonic()))
        return replace(decision, recorded=recorded)

    def _report(self, session: Session, outcome: Outcome) -> dict[str, Any]:
        judged = outcome.unit.report if outcome.unit is not None else None
        report = judged or empty_report(
            session, severity_threshold=self.severity_threshold, pair_threshold=self.pair_threshold
        )
        proceeds = outcome.decision == "proceed"
        return {**report, "abstain": not proceeds, "answer": report["answer"] if proceeds else None}


@dataclass(frozen=True, slots=True)
class _Call:
    """One call under way.

    When it must end (monotonic) and began (ns since the epoch), its id, the caller's trace, what it was given in vain.
    """

    ends: float
    started: int
    id: str
    context: Any
    trace: tuple[str, str] | None
    left_out: tuple[LeftOut, ...]

    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self.ends - time.monotonic())


def _check_judge(judge: Judge, preset: str | None, *, high_stakes: bool, allow_embedded: bool) -> None:
    if not isinstance(judge, Judge):
        raise ConfigError("the gate needs a judge named on purpose, e.g. LiteLLMJudge('openai/gpt-5-mini')")
    if judge.embedded and high_stakes:
        raise ConfigError(
            f"preset {preset!r} needs a language model as judge: the embedded one knows figures and dates only"
        )
    if judge.embedded and not allow_embedded:
        raise ConfigError(
            "the embedded judge knows figures and dates only: name a model, or accept it by allow_embedded=True"
        )


def _get_ready(judge: Judge) -> None:
    """Let the judge load what it needs (litellm takes seconds), so that no check's deadline pays for it."""

    def load() -> None:
        try:
            judge.limits()
            judge.count_tokens("")
        except BaseException as error:  # a judge that fails is for the checks to report: they abstain
            log.warning("gate: the judge %s is not ready: %s", judge.name, type(error).__name__)

    loading = threading.Thread(target=load, name="gate-judge-start", daemon=True)
    with contextlib.suppress(RuntimeError):  # no more threads to be had
        loading.start()
        loading.join(LONGEST_START)


def _tell(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], setter: Callable[[Any], None], value: Any
) -> None:
    """Hand a result to a future of another thread's loop, if both still want it."""

    def deliver() -> None:
        if not future.done():
            setter(value)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(deliver)
