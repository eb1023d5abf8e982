"""The audit ``citation_conflict``: which passages of a turn support and which contradict each claim of its answer?

One ask a turn. The judge is shown the answer without its citation marks, so that it finds the sources of each claim
for itself; code then holds the marks against them. Beside this file: the answer's form (``_answer``), the data
(``_layout``), the checks (``_checks``), the marks (``_marks``), the report (``_report``) and
its findings (``_findings``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from otel_drift import prompting
from otel_drift.audits.citation_conflict_answer import ConflictAnswer
from otel_drift.audits.citation_conflict_checks import check_answer, check_coverage
from otel_drift.audits.citation_conflict_findings import FINDING_TYPES, findings_of, with_event_ids
from otel_drift.audits.citation_conflict_layout import CitedTurn, case_lines, case_of
from otel_drift.audits.citation_conflict_report import AUDIT, build_report
from otel_drift.errors import UnitError
from otel_drift.faults import Fault
from otel_drift.model import Finding, Session, Turn
from otel_drift.protocols import AuditSettings, Eligibility, Forecast, Step

PROMPT = "citation_conflict/answer"

_FRAME_TOKENS = 120
_REPAIR_TOKENS = 800
_ANSWER_BASE_TOKENS = 400


class CitationConflict:
    """Finds citations that lead nowhere or astray, and claims that other passages of the same turn contradict."""

    name = AUDIT
    version = "1"
    per_turn = True

    def eligibility(self, session: Session, settings: AuditSettings) -> Eligibility:
        """An answered turn with its passages."""
        if any(_is_eligible(turn) for turn in session.turns):
            return Eligibility(True)
        if any(turn.answered for turn in session.turns):
            return Eligibility(False, "no_passages_captured")
        missing = any(turn.answer_state == "not_captured" for turn in session.turns)
        return Eligibility(False, "content_not_captured" if missing else "no_answers")

    def steps(
        self, session: Session, settings: AuditSettings
    ) -> Generator[Sequence[Step], Sequence[BaseModel], dict[str, Any]]:
        """One step.

        Raises:
            UnitError: the turn does not fit the judge.
        """
        case = case_of(session, _turn(session))
        if not settings.embedded_judge and not _fits(case, settings):
            raise UnitError(
                f"citation_conflict: turn {case.turn.number} does not fit what the judge reads and writes",
                reason="turn_exceeds_window",
            )

        def check(answer: BaseModel) -> list[Fault]:
            found = cast("ConflictAnswer", answer)
            errors = check_answer(found, case.shown.text, case.sources, case.origin)
            if settings.embedded_judge:
                return errors
            return [*check_coverage(found.claims, case.shown.text, case.sources), *errors]

        inputs = {"case": "\n".join(case_lines(case))}
        step = Step("answer", PROMPT, inputs, ConflictAnswer, check, case, max_repairs=2)
        (answer,) = cast("Sequence[ConflictAnswer]", (yield [step]))
        return with_event_ids(session, case.turn, build_report(case, answer, embedded=settings.embedded_judge))

    def forecast(self, session: Session, settings: AuditSettings) -> Sequence[Forecast]:
        """The one ask, with estimated tokens."""
        return [_estimate(case_of(session, _turn(session)), settings)]

    def prompt_inputs(self, settings: AuditSettings) -> Mapping[str, frozenset[str]]:
        """The prompt of this audit and what it is given."""
        return {PROMPT: frozenset({"case"})}

    def answer_models(self, settings: AuditSettings) -> Mapping[str, type[BaseModel]]:
        """The form of the answer to the prompt."""
        return {PROMPT: ConflictAnswer}

    def finding_types(self, settings: AuditSettings) -> tuple[str, ...]:
        """The types of findings there are."""
        return FINDING_TYPES

    def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Marks that lead nowhere or astray, and contradictions that the answer keeps to itself."""
        return findings_of(session, _turn(session), report)


def _turn(session: Session) -> Turn:
    return next(turn for turn in session.turns if _is_eligible(turn))


def _is_eligible(turn: Turn) -> bool:
    return turn.answered and turn.retrieval == "captured" and any(passage.text for passage in turn.passages)


def _fits(case: CitedTurn, settings: AuditSettings) -> bool:
    """Whether the ask, its answer and a repair ask fit."""
    limits = settings.limits
    if limits.input_tokens is None and limits.output_tokens is None:
        return True
    ask = _estimate(case, settings)
    if limits.output_tokens is not None and ask.output_tokens > limits.output_tokens:
        return False
    with_repair = ask.input_tokens + ask.output_tokens + _REPAIR_TOKENS
    return limits.input_tokens is None or with_repair <= limits.input_tokens


def _estimate(case: CitedTurn, settings: AuditSettings) -> Forecast:
    """Tokens of the ask; the judge's answer repeats each claim as text, as quote and with the words of its sources."""
    counter: Callable[[str], int] = settings.count_tokens or (lambda words: len(words) // 4 + 1)
    prompt = prompting.chosen(PROMPT, settings)
    asked = counter(prompt.text) + _FRAME_TOKENS + sum(counter(line) + 1 for line in case_lines(case))
    return Forecast(asked, _ANSWER_BASE_TOKENS + 5 * counter(case.shown.text) + 100)
