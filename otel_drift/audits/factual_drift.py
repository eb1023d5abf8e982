"""The audit ``factual_drift``: do the assistant's claims, each grounded on its own turn, stay consistent?

One ask where the session fits the judge's input window and output limit; else the claims of groups of turns, then
one comparison over claims only. This file decides what is asked and in which order; the rest stands beside it:
the answer's form (``_answer``), the layout of the data (``_layout``), the checks (``_checks``, ``_quotes``), the
taxonomy (``_taxonomy``) and the report (``_report``).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from otel_drift import prompting
from otel_drift.audits.factual_drift_answer import (
    ClaimAnswer,
    ClaimsAnswer,
    CompareAnswer,
    SessionAnswer,
    answer_models,
)
from otel_drift.audits.factual_drift_checks import check_claims, check_coverage, check_events, refs
from otel_drift.audits.factual_drift_layout import claim_lines, groups, turn_lines
from otel_drift.audits.factual_drift_report import build_report, number_claims
from otel_drift.audits.factual_drift_taxonomy import drift_types, drift_types_text, severity_text
from otel_drift.errors import UnitError
from otel_drift.faults import Fault
from otel_drift.model import Finding, Session, Turn
from otel_drift.protocols import AuditSettings, Eligibility, Forecast, Step

SESSION_PROMPT = "factual_drift/session"
CLAIMS_PROMPT = "factual_drift/claims"
COMPARE_PROMPT = "factual_drift/compare"

_FRAME_TOKENS = 120
_REPAIR_TOKENS = 800
_ANSWER_BASE_TOKENS = 400


class FactualDrift:
    """Finds contradictions, unsupported new claims and dropped qualifications over the turns of a session."""

    name = "factual_drift"
    version = "1"

    def eligibility(self, session: Session, settings: AuditSettings) -> Eligibility:
        """Two answered turns, one of them with its passages; see DESIGN for the reasons."""
        answered = [turn for turn in session.turns if turn.answered]
        missing = [turn for turn in session.turns if turn.answer_state == "not_captured"]
        if len(answered) < 2 and missing:
            return Eligibility(False, "content_not_captured")
        if not answered:
            return Eligibility(False, "no_answers")
        if len(answered) == 1:
            return Eligibility(False, "single_turn")
        if 2 * sum(_rests_on_tools(turn, settings) for turn in answered) > len(answered):
            return Eligibility(False, "tool_grounded")
        if not any(_has_passages(turn) for turn in answered):
            return Eligibility(False, "no_passages_captured")
        return Eligibility(True, flags=("sparse",) if len(answered) == 2 else ())

    def steps(
        self, session: Session, settings: AuditSettings
    ) -> Generator[Sequence[Step], Sequence[BaseModel], dict[str, Any]]:
        """One step for the whole session, or one a group of turns and then the comparison.

        Raises:
            UnitError: a single turn, or the comparison, does not fit the judge.
        """
        types = tuple(drift_types(settings))
        flags = self.eligibility(session, settings).flags
        if settings.embedded_judge or _fits(SESSION_PROMPT, session.turns, settings):
            (whole,) = cast("Sequence[SessionAnswer]", (yield [_session_step(session, settings, types)]))
            claims, last = number_claims(whole.claims, session), cast("CompareAnswer", whole)
        else:
            parts = _groups(session, settings)
            many = [_claims_step(session, part, n, settings) for n, part in enumerate(parts, 1)]
            answers = cast("Sequence[ClaimsAnswer]", (yield many))
            gathered = _globally_unique([answer.claims for answer in answers])
            numbered = number_claims(gathered, session)
            claims = {claim.id: claim for claim in numbered.values()}
            (last,) = cast("Sequence[CompareAnswer]", (yield [_compare_step(session, claims, settings, types)]))
        return build_report(
            session,
            claims,
            last.drift_events,
            assessment=last.overall_assessment,
            types=types,
            flags=flags,
            at_most_major=settings.embedded_judge,
        )

    def forecast(self, session: Session, settings: AuditSettings) -> Sequence[Forecast]:
        """The asks a session will take, with estimated tokens.

        Raises:
            UnitError: a single turn does not fit the judge.
        """
        if settings.embedded_judge or _fits(SESSION_PROMPT, session.turns, settings):
            return [_estimate(SESSION_PROMPT, session.turns, settings)]
        asks = [_estimate(CLAIMS_PROMPT, part, settings) for part in _groups(session, settings)]
        claims = sum(ask.output_tokens for ask in asks) // 2
        compare = Forecast(_prompt_tokens(COMPARE_PROMPT, settings) + claims, _ANSWER_BASE_TOKENS + claims // 10)
        return [*asks, compare]

    def prompt_inputs(self, settings: AuditSettings) -> Mapping[str, frozenset[str]]:
        """The prompts of this audit and what each is given.

        Raises:
            ConfigError: the taxonomy or the severity rules are wrong.
        """
        told = frozenset(_settings_inputs(settings))
        return {
            SESSION_PROMPT: told | {"session"},
            CLAIMS_PROMPT: frozenset({"turns"}),
            COMPARE_PROMPT: told | {"claims"},
        }

    def answer_models(self, settings: AuditSettings) -> Mapping[str, type[BaseModel]]:
        """The form of the answer to each prompt."""
        whole, compare = answer_models(tuple(drift_types(settings)))
        return {SESSION_PROMPT: whole, CLAIMS_PROMPT: ClaimsAnswer, COMPARE_PROMPT: compare}

    def finding_types(self, settings: AuditSettings) -> tuple[str, ...]:
        """The types of drift it may report."""
        return tuple(drift_types(settings))

    def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
        """One finding an event."""
        return tuple(_finding(event) for event in report["drift_events"])


def _session_step(session: Session, settings: AuditSettings, types: tuple[str, ...]) -> Step:
    known = refs(session)

    def check(answer: BaseModel) -> list[Fault]:
        whole = cast("SessionAnswer", answer)
        claims = {claim.id: claim for claim in whole.claims}
        errors = [*check_claims(whole.claims, known), *check_events(whole.drift_events, claims, known)]
        return errors if settings.embedded_judge else [*check_coverage(whole.claims, known), *errors]

    data = "\n".join(turn_lines(session.turns))
    inputs = {**_settings_inputs(settings), "session": data}
    return Step("session", SESSION_PROMPT, inputs, answer_models(types)[0], check, session)


def _claims_step(session: Session, part: Sequence[Turn], number: int, settings: AuditSettings) -> Step:
    known = refs(session)
    shown = {turn.ref for turn in part}
    part_only = refs(Session(session.key, session.session_id, tuple(part), session.trace_ids))

    def check(answer: BaseModel) -> list[Fault]:
        claims = cast("ClaimsAnswer", answer).claims
        elsewhere = [
            Fault(
                "reference", f"Claim {claim.id!r} is about {claim.turn!r}, which is not among the turns you were given."
            )
            for claim in claims
            if claim.turn not in shown and claim.turn in known.turns
        ]
        return [*check_coverage(claims, part_only), *elsewhere, *check_claims(claims, known)]

    inputs = {"turns": "\n".join(turn_lines(part))}
    return Step(f"claims_{number}", CLAIMS_PROMPT, inputs, ClaimsAnswer, check)


def _compare_step(
    session: Session, claims: Mapping[str, ClaimAnswer], settings: AuditSettings, types: tuple[str, ...]
) -> Step:
    known = refs(session)

    def check(answer: BaseModel) -> list[Fault]:
        return check_events(cast("CompareAnswer", answer).drift_events, claims, known)

    shown = ("id", "turn", "claim_text", "quote", "grounding_status", "qualifiers")
    laid_out = [claim.model_dump(include=set(shown)) for claim in claims.values()]
    lines = claim_lines(session.turns, laid_out)
    limit = settings.limits.input_tokens
    size = _prompt_tokens(COMPARE_PROMPT, settings) + sum(map(_counter(settings), lines))
    if limit is not None and size + _ANSWER_BASE_TOKENS + _REPAIR_TOKENS > limit:
        raise UnitError(
            f"factual_drift: {len(claims)} claims take about {size} tokens, more than the judge reads ({limit})",
            reason="comparison_exceeds_window",
        )
    inputs = {**_settings_inputs(settings), "claims": "\n".join(lines)}
    return Step("compare", COMPARE_PROMPT, inputs, answer_models(types)[1], check)


def _globally_unique(groups_of_claims: Sequence[Sequence[ClaimAnswer]]) -> list[ClaimAnswer]:
    """The claims of all groups with ids that no other group used."""
    return [
        claim.model_copy(update={"id": f"g{group}.{n}"})
        for group, claims in enumerate(groups_of_claims, 1)
        for n, claim in enumerate(claims, 1)
    ]


def _settings_inputs(settings: AuditSettings) -> dict[str, str]:
    return {"drift_types": drift_types_text(settings), "severity_guide": severity_text(settings)}


def _groups(session: Session, settings: AuditSettings) -> list[tuple[Turn, ...]]:
    def fits(turns: Sequence[Turn]) -> bool:
        return _fits(CLAIMS_PROMPT, turns, settings)

    parts = groups([turn for turn in session.turns if turn.answered], fits)
    for part in parts:
        if len(part) == 1 and not fits(part):
            raise UnitError(
                f"factual_drift: turn {part[0].number} alone does not fit what the judge reads and writes",
                reason="turn_exceeds_window",
            )
    return parts


def _fits(prompt_id: str, turns: Sequence[Turn], settings: AuditSettings) -> bool:
    """Whether the ask, its answer and a repair ask fit."""
    limits = settings.limits
    if limits.input_tokens is None and limits.output_tokens is None:
        return True
    ask = _estimate(prompt_id, turns, settings)
    if limits.output_tokens is not None and ask.output_tokens > limits.output_tokens:
        return False
    with_repair = ask.input_tokens + ask.output_tokens + _REPAIR_TOKENS
    return limits.input_tokens is None or with_repair <= limits.input_tokens


def _estimate(prompt_id: str, turns: Sequence[Turn], settings: AuditSettings) -> Forecast:
    """Tokens of an ask over `turns`.

    The judge's answer takes about four times the tokens of the answers it takes apart: each claim stands in it as
    text, as quote and with its evidence.
    """
    count = _counter(settings)
    data = sum(count(line) + 1 for line in turn_lines(turns))
    answers = [count(turn.answer) for turn in turns if turn.answered and turn.answer]
    output = _ANSWER_BASE_TOKENS + sum(4 * answer + 100 for answer in answers)
    return Forecast(_prompt_tokens(prompt_id, settings) + data, output)


def _prompt_tokens(prompt_id: str, settings: AuditSettings) -> int:
    prompt = prompting.chosen(prompt_id, settings)
    texts = [prompt.text, *_settings_inputs(settings).values()]
    return sum(map(_counter(settings), texts)) + _FRAME_TOKENS


def _counter(settings: AuditSettings) -> Callable[[str], int]:
    counter: Callable[[str], int] | None = settings.count_tokens
    return counter or (lambda words: len(words) // 4 + 1)


def _has_passages(turn: Turn) -> bool:
    return turn.retrieval == "captured" and any(passage.text for passage in turn.passages)


def _rests_on_tools(turn: Turn, settings: AuditSettings) -> bool:
    """Whether the answer comes from tools that are no retrieval, with no passages beside them."""
    if _has_passages(turn):
        return False
    return any(
        not call.is_retrieval and not any(fnmatch.fnmatchcase(call.name, glob) for glob in settings.retrieval_tools)
        for call in turn.tool_calls
    )


def _finding(event: Mapping[str, Any]) -> Finding:
    earlier, later = event["earlier_claim"], event["later_claim"]
    return Finding(
        event_id=event["event_id"],
        audit=FactualDrift.name,
        type=event["drift_type"],
        severity=event["severity"],
        confidence=event["detection_confidence"],
        turn_number=event["turn_number"],
        span_ref=later["trace_event_ref"] or "",
        explanation=event["description"],
        earlier_turn=earlier["turn"] if earlier else None,
        earlier_ref=earlier["trace_event_ref"] if earlier else None,
        quotes=(*([earlier["quote"]] if earlier else []), later["quote"]),
        likely_cause=event["likely_cause"],
        status=event["status"],
    )
