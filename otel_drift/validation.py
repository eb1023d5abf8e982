"""The harness every audit runs in: ask, parse, check, ask once more, or call it inconclusive.

Nothing a judge says gets past here unless it is well-formed and every reference and quote in it was checked. What
cannot be brought to that is `inconclusive` with a reason, never a default score, and no exception leaves a session.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from otel_drift import prompting
from otel_drift.answer_json import UnreadableAnswerError, read_object
from otel_drift.budget import Budget, Call
from otel_drift.errors import BudgetError, ConfigError, JudgeError, NotApplicableError, UnitError
from otel_drift.faults import Fault
from otel_drift.fingerprints import cache_key, content_sha256, strict_schema, unit_fingerprint, unit_id
from otel_drift.model import (
    Attempt,
    JudgeAnswer,
    JudgeTask,
    Message,
    Outcome,
    PromptRef,
    Session,
    Unit,
    worst,
)
from otel_drift.planning import Plan, plan, price, settled, total
from otel_drift.protocols import AnswerCache, Audit, AuditSettings, Judge, Step
from otel_drift.reasons import REASONS, RECONSTRUCTION_FAILED
from otel_drift.redaction import withhold
from otel_drift.text.remembered import make_room

__all__ = ["REASONS", "Budget", "Plan", "audit_session", "plan", "unit_fingerprint", "unit_id", "unredacted"]

log = logging.getLogger(__name__)

MOST_ERRORS = 40
LONGEST_ERROR = 500
LEAST_OUTPUT = 8_192


def audit_session(
    audit: Audit,
    session: Session,
    judge: Judge,
    *,
    cache: AnswerCache | None = None,
    settings: AuditSettings | None = None,
    budget: Budget | None = None,
    nonce: str | None = None,
) -> Unit:
    """Run one audit over one session and return what came of it; never raises.

    Args:
        audit: which audit.
        session: the session, already redacted where redaction is asked for.
        judge: who answers.
        cache: answers already paid for; a stored one is checked again like a fresh one.
        settings: what the audit is told; unset limits are the judge's.
        budget: the run's limits, shared by all sessions.
        nonce: the delimiter marker to use, for tests and replays; random by default.
    """
    make_room()
    run = _Run(audit, session, judge, settled(settings or AuditSettings(), judge), cache, budget or Budget(), nonce)
    if any(hint.code == RECONSTRUCTION_FAILED for hint in session.hints):
        return run.unit("inconclusive", RECONSTRUCTION_FAILED)
    try:
        eligibility = audit.eligibility(session, run.settings)
        if not eligibility.eligible:
            return run.unit("not_applicable", eligibility.reason)
        report = run.drive(audit.steps(session, run.settings))
        findings = audit.findings(session, report)
        return replace(
            run.unit("findings" if findings else "clean", None),
            severity=worst([finding.severity for finding in findings]),
            report=report,
            findings=findings,
        )
    except NotApplicableError as error:
        return run.unit("not_applicable", error.reason)
    except (UnitError, JudgeError) as error:
        return run.unit("inconclusive", error.reason)
    except BudgetError:
        return run.unit("inconclusive", "budget_exhausted")
    except ConfigError as error:
        log.error("audit %s cannot run: %s", audit.name, error)
        return run.unit("inconclusive", "config_error")
    except Exception as error:  # the per-session boundary: one session never stops the others
        log.debug("audit %s of a session failed", audit.name, exc_info=error)
        return run.unit("inconclusive", f"internal_error: {type(error).__name__}")


def unredacted(audit: Audit, session: Session, judge: Judge, error: Exception) -> Unit:
    """The unit of a session whose redaction failed: inconclusive, and nothing of the session's text in it."""
    log.debug("redaction failed: %s", type(error).__name__)
    run = _Run(audit, withhold(session), judge, AuditSettings(), None, Budget(), None)
    return run.unit("inconclusive", "redaction_failed")


def broken(audit: Audit, session: Session, judge: Judge, error: Exception) -> Unit:
    """The unit of a session that an audit failed on before it was run."""
    log.debug("audit %s of a session failed", audit.name, exc_info=error)
    run = _Run(audit, session, judge, AuditSettings(), None, Budget(), None)
    return run.unit("inconclusive", f"internal_error: {type(error).__name__}")


@dataclass(slots=True)
class _Run:
    """One audit of one session under way, and what it took so far."""

    audit: Audit
    session: Session
    judge: Judge
    settings: AuditSettings
    cache: AnswerCache | None
    budget: Budget
    nonce: str | None
    attempts: list[Attempt] = field(default_factory=list)
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0

    def drive(self, steps: Generator[Sequence[Step], Sequence[BaseModel], dict[str, Any]]) -> dict[str, Any]:
        try:
            batch = next(steps)
            while True:
                batch = steps.send([self.answer(step) for step in batch])
        except StopIteration as stop:
            report: dict[str, Any] = stop.value
            return report

    def answer(self, step: Step) -> BaseModel:
        """Ask one step until its answer passes, at most 1 + `max_repairs` times."""
        prompt = prompting.chosen(step.prompt_id, self.settings)
        nonce = prompting.new_nonce(step.inputs, self.nonce)
        messages, nonces, ref = prompting.render(prompt, step.inputs, nonce), [nonce], prompt.ref
        repairs = 0 if self.judge.embedded else step.max_repairs
        # Counted without the nonce, whose tokens vary: the limit is part of the cache key.
        most_output = self.most_output(self.count(step.inputs.values()))
        for number in range(1, repairs + 2):
            task = self.task(step, ref, messages, nonces, most_output)
            data = [step.inputs[name] for name in prompt.inputs]
            answer, key, cached = self.ask(step, number, task)
            value, reason, errors = _examine(step, answer, data)
            if value is None and cached and self.settings.ask_again:
                answer, key, cached = self.ask(step, number, task, anew=True)
                value, reason, errors = _examine(step, answer, data)
            self.attempts.append(Attempt(step.name, number, ref, key, answer, tuple(errors), cached, messages))
            if value is not None:
                return value
            if number > repairs:
                break
            if reason == "answer_truncated" and most_output is not None:
                most_output = min(most_output * 2, self.settings.limits.output_tokens or most_output * 2)
            messages, nonce, ref = self.repair(messages, answer.text, errors)
            nonces.append(nonce)
            if not self.fits(messages):
                break
        raise UnitError(f"{self.audit.name}: no acceptable answer to {step.name}: {errors[0]}", reason=reason)

    def task(
        self, step: Step, ref: PromptRef, messages: tuple[Message, ...], nonces: Sequence[str], most: int | None
    ) -> JudgeTask:
        return JudgeTask(
            audit=self.audit.name,
            step=step.name,
            prompt=ref,
            messages=messages,
            schema_name=f"{self.audit.name}_{step.name}",
            schema=strict_schema(step.answer_model),
            fingerprint=prompting.fingerprint(messages, *nonces),
            material=step.material,
            max_output_tokens=most,
        )

    def ask(self, step: Step, number: int, task: JudgeTask, *, anew: bool = False) -> tuple[JudgeAnswer, str, bool]:
        """The answer to `task`, its cache key, and whether it was stored. Counts and stores a fresh one.

        An answer that is none (empty, cut off) is a fault of the moment and not stored, nor reused where an earlier
        version did. `anew` asks whatever is stored, and stores the fresh answer instead.
        """
        key = cache_key(task, self.judge)
        known = self.cache.lookup(key) if self.cache else None
        if known is not None and not anew and not _is_fault(known):
            return known, key, True
        asked = self.count(message.content for message in task.messages)
        most = task.max_output_tokens or self.most_output(asked, assume=True) or 0
        with self.budget.call(price(asked, most, self.judge, self.settings.limits), asked, most) as call:
            self.calls += 1
            try:
                answer = self.judge.ask(task)
            except JudgeError as error:
                call.settle(0.0)
                if error.answer is not None:
                    self.pay(error.answer, call)
                failed = (f"{error.reason}: {type(error).__name__}",)
                self.attempts.append(
                    Attempt(step.name, number, task.prompt, key, error.answer, failed, False, task.messages)
                )
                raise
            self.pay(answer, call)
        if self.cache and not _is_fault(answer):
            self.cache.remember(key, task, answer, instead=known is not None)
        return answer, key, False

    def pay(self, answer: JudgeAnswer, call: Call) -> None:
        """Count what an answer took, in the unit and in the run's budget."""
        call.settle(answer.cost, answer.input_tokens, answer.output_tokens)
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens
        self.cost = total([self.cost, 0.0 if self.judge.embedded else answer.cost])

    def repair(
        self, messages: tuple[Message, ...], raw: str, errors: Sequence[str]
    ) -> tuple[tuple[Message, ...], str, PromptRef]:
        prompt = prompting.chosen("repair", self.settings)
        listed = [f"{n}. {_one_line(error)}" for n, error in enumerate(errors[:MOST_ERRORS], 1)]
        if len(errors) > MOST_ERRORS:
            listed.append(f"and {len(errors) - MOST_ERRORS} more of the same kinds")
        inputs = {"answer": raw, "errors": "\n".join(listed)}
        nonce = prompting.new_nonce(inputs, None if self.nonce is None else f"{self.nonce}-again")
        return prompting.follow_up(messages, prompt, inputs, nonce), nonce, prompt.ref

    def count(self, texts: Iterable[str]) -> int:
        return sum(self.judge.count_tokens(text) for text in texts)

    def fits(self, messages: Sequence[Message]) -> bool:
        limit = self.settings.limits.input_tokens
        return limit is None or self.count(message.content for message in messages) <= limit

    def most_output(self, input_tokens: int, *, assume: bool = False) -> int | None:
        """How many tokens an answer may have: generous, but no model's whole output limit, which a budget pays."""
        limit = self.settings.limits.output_tokens
        if self.judge.embedded or (limit is None and not assume):
            return None
        ample = max(LEAST_OUTPUT, 2 * input_tokens)
        return ample if limit is None else min(limit, ample)

    def unit(self, outcome: Outcome, reason: str | None) -> Unit:
        prompts = {attempt.prompt: None for attempt in self.attempts}
        return Unit(
            unit_id=unit_id(self.audit.name, self.session, per_turn=getattr(self.audit, "per_turn", False)),
            audit=self.audit.name,
            session=self.session,
            outcome=outcome,
            reason=reason,
            severity="NONE",
            report=None,
            findings=(),
            judge=self.judge.name,
            judge_note=self.judge.note,
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost=self.cost,
            prompts=tuple(prompts),
            attempts=tuple(self.attempts),
            content_sha256=content_sha256(self.session),
        )


def _is_fault(answer: JudgeAnswer) -> bool:
    return not answer.text.strip() or answer.finish_reason == "length"


def _examine(step: Step, answer: JudgeAnswer, data: Sequence[str]) -> tuple[BaseModel | None, str, list[Fault]]:
    """The validated answer, or None with a reason code and what is wrong, one sentence each."""
    try:
        value = step.answer_model.model_validate(read_object(answer.text, data))
    except UnreadableAnswerError as error:
        if answer.finish_reason == "length":
            said = "The answer was cut at the output limit. Be brief: fewer, shorter texts."
            return None, "answer_truncated", [Fault("truncated", said)]
        return None, error.reason, [Fault(error.reason.removeprefix("answer_"), str(error))]
    except ValidationError as error:
        return None, "answer_schema", [_schema_fault(detail) for detail in error.errors(include_url=False)]
    errors = [Fault.of(error) for error in step.check(value)]
    return (None, "answer_checks", errors) if errors else (value, "", [])


def _schema_fault(detail: Any) -> Fault:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]).lstrip(".")
    given = json.dumps(detail.get("input"), default=str)[:80]
    return Fault("schema", f"{place or 'the object'}: {detail['msg']} (given: {given})")


def _one_line(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= LONGEST_ERROR else folded[: LONGEST_ERROR - 1] + "…"
