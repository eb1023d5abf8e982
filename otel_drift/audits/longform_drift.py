"""The audit ``longform_drift``: at which sentence of a long answer does its grounding first weaken, and how far?

One unit is one answer of 200 words or more and the passages its turn retrieved, taken together as its source; several
passages are first asked about by ``source_conflict``, because sources that disagree are no yardstick. Code splits and
numbers the sentences; the judge gives each number a status with an excerpt of the source. An answer that is too long is
judged in overlapping chunks, each beside the whole source. Beside this file stand what is asked (``_asks``), the
answer's form (``_answer``), the checks (``_checks``), the score (``_score``), the options (``_options``) and the
report (``_report``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import BaseModel

from otel_drift import text
from otel_drift.audits.longform_drift_answer import SentencesAnswer
from otel_drift.audits.longform_drift_asks import (
    INPUTS,
    SECOND_PROMPT,
    SENTENCES_PROMPT,
    estimate,
    inputs_of,
    is_long,
    long_turn,
    parts_of,
    source_of,
)
from otel_drift.audits.longform_drift_checks import check_sentences
from otel_drift.audits.longform_drift_options import read_options
from otel_drift.audits.longform_drift_report import build_report, counts_in_words, merge
from otel_drift.audits.longform_drift_score import CANONICAL
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.errors import NotApplicableError, UnitError
from otel_drift.faults import Fault
from otel_drift.longform.layout import Layout, PlacedSentence, read_layout
from otel_drift.model import Finding, Session, Turn, worst
from otel_drift.protocols import AuditSettings, Eligibility, Forecast, Step
from otel_drift.redaction import opaque

_WEAKEST_FIRST = ("contradicted", "ungrounded", "partially_grounded")


@dataclass(frozen=True, slots=True)
class LongformMaterial:
    """What an embedded judge reads in place of the prompt: the sentences asked about, and their source."""

    sentences: tuple[PlacedSentence, ...]
    source: tuple[str, ...]
    question: str | None


class LongformDrift:
    """Finds the sentence of a long answer where grounding first weakens, and scores how far it goes."""

    name = "longform_drift"
    version = "1"
    per_turn = True
    reads_options_of = (SourceConflict.name,)

    def eligibility(self, session: Session, settings: AuditSettings) -> Eligibility:
        """One answer of 200 words or more whose passages were captured; see DESIGN for the reasons."""
        answered = [turn for turn in session.turns if turn.answered]
        if not answered:
            missing = any(turn.answer_state == "not_captured" for turn in session.turns)
            return Eligibility(False, "content_not_captured" if missing else "no_answers")
        long = [turn for turn in answered if is_long(turn)]
        if not long:
            return Eligibility(False, "short_form")
        if not any(source_of(turn) for turn in long):
            return Eligibility(False, "no_passages_captured")
        return Eligibility(True)

    def steps(
        self, session: Session, settings: AuditSettings
    ) -> Generator[Sequence[Step], Sequence[BaseModel], dict[str, Any]]:
        """One ask, or one a chunk; at risk high and above the same once more in other words.

        Raises:
            UnitError: the source does not fit the judge.
            NotApplicableError: the passages contradict each other.
        """
        options = read_options(settings)
        turn = long_turn(session)
        source, layout = source_of(turn), read_layout(turn.answer or "")
        parts = parts_of(layout, turn, settings)
        yield from _agreeing_sources(session, settings)
        first = yield _asks(SENTENCES_PROMPT, parts, layout, turn, settings)
        embedded = settings.embedded_judge
        again = None
        if options.asks_twice and not embedded:
            again = yield _asks(SECOND_PROMPT, parts, layout, turn, settings)
        return build_report(
            layout,
            source,
            merge(parts, cast("Sequence[SentencesAnswer]", first), embedded=embedded),
            merge(parts, cast("Sequence[SentencesAnswer]", again), embedded=embedded) if again else None,
            options,
            embedded=embedded,
        )

    def forecast(self, session: Session, settings: AuditSettings) -> Sequence[Forecast]:
        """The asks an answer will take, with estimated tokens.

        Raises:
            UnitError: the source does not fit the judge.
        """
        turn = long_turn(session)
        layout = read_layout(turn.answer or "")
        prompts = [SENTENCES_PROMPT]
        if read_options(settings).asks_twice and not settings.embedded_judge:
            prompts.append(SECOND_PROMPT)
        parts = parts_of(layout, turn, settings)
        conflict = SourceConflict()
        unit = _conflict_unit(conflict, session, settings)
        before = conflict.forecast(unit, settings) if unit is not None else ()
        return [*before, *(estimate(one, part, layout, turn, settings) for one in prompts for part in parts)]

    def prompt_inputs(self, settings: AuditSettings) -> Mapping[str, frozenset[str]]:
        """The prompts of this audit and what each is given.

        Raises:
            ConfigError: an option of the audit is wrong.
        """
        read_options(settings)
        conflict = SourceConflict().prompt_inputs(settings)
        return {**conflict, SENTENCES_PROMPT: INPUTS, SECOND_PROMPT: INPUTS}

    def answer_models(self, settings: AuditSettings) -> Mapping[str, type[BaseModel]]:
        """The form of the answer to each prompt."""
        return dict.fromkeys((SENTENCES_PROMPT, SECOND_PROMPT), SentencesAnswer)

    def finding_types(self, settings: AuditSettings) -> tuple[str, ...]:
        """The statuses an answer that drifts can be weakest by."""
        return tuple(status.upper() for status in _WEAKEST_FIRST)

    def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
        """One finding an answer that drifts; its type is the weakest status in it."""
        if not report["drift_detected"]:
            return ()
        turn = long_turn(session)
        analysis = report["sentence_by_sentence_analysis"]
        start = analysis[report["drift_start_sentence_index"]]
        identity = "\0".join([self.name, opaque(session.key), str(turn.number), text.fold(start["sentence_text"])])
        return (
            Finding(
                event_id=hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:24],
                audit=self.name,
                type=_weakest(analysis).upper(),
                severity=worst([CANONICAL[report["drift_severity"]]]),
                confidence=report["detection_confidence"],
                turn_number=turn.number,
                span_ref=turn.answer_ref or turn.root_ref or "",
                explanation=_explanation(report, start),
                quotes=tuple(filter(None, (start["supporting_source_excerpt"], start["sentence_text"]))),
            ),
        )


def _agreeing_sources(
    session: Session, settings: AuditSettings
) -> Generator[Sequence[Step], Sequence[BaseModel], None]:
    """Ask ``source_conflict`` first where there are several passages; the same ask as that audit's own, so paid once.

    Raises:
        NotApplicableError: they contradict each other at that audit's thresholds, so none of them is authoritative.
    """
    conflict = SourceConflict()
    unit = _conflict_unit(conflict, session, settings)
    if unit is None:
        return
    report = yield from conflict.steps(unit, settings)
    if report["abstain"]:
        raise NotApplicableError(
            f"longform_drift: {report['conflict_pairs_found']} pairs of passages contradict each other",
            reason="conflicting_sources",
        )


def _conflict_unit(conflict: SourceConflict, session: Session, settings: AuditSettings) -> Session | None:
    """The turn as that audit sees it, without its answer where both do not fit; None where there is one source."""
    turn = long_turn(session)
    whole = replace(session, turns=(turn,))
    if not conflict.eligibility(whole, settings).eligible:
        return None
    try:
        conflict.forecast(whole, settings)
    except UnitError:
        return replace(session, turns=(replace(turn, answer=None, answer_state="not_captured"),))
    return whole


def _asks(prompt_id: str, parts: Sequence[range], layout: Layout, turn: Turn, settings: AuditSettings) -> list[Step]:
    source = tuple(passage.text or "" for passage in source_of(turn))
    name = prompt_id.rpartition("/")[2]
    return [
        _ask(
            name if len(parts) == 1 else f"{name}_{number}",
            prompt_id,
            [layout.sentences[index] for index in part],
            inputs_of(part, layout, turn),
            LongformMaterial(tuple(layout.sentences[index] for index in part), source, turn.user),
        )
        for number, part in enumerate(parts, 1)
    ]


def _ask(
    name: str, prompt_id: str, asked: Sequence[PlacedSentence], inputs: Mapping[str, str], material: LongformMaterial
) -> Step:
    def check(answer: BaseModel) -> list[Fault]:
        return check_sentences(cast("SentencesAnswer", answer), asked, material.source)

    return Step(name, prompt_id, inputs, SentencesAnswer, check, material, max_repairs=2)


def _weakest(analysis: Sequence[Mapping[str, Any]]) -> str:
    statuses = [one["grounding_status"] for one in analysis]
    return next(name for name in _WEAKEST_FIRST if name in statuses)


def _explanation(report: Mapping[str, Any], start: Mapping[str, Any]) -> str:
    statuses = [one["grounding_status"] for one in report["sentence_by_sentence_analysis"]]
    said = " ".join((start["drift_explanation"] or "").split()).removeprefix("Possible drift: ")
    parts = [
        f"Possible drift: grounding first weakens at sentence {start['sentence_index'] + 1} of {len(statuses)} "
        f"({start['grounding_status'].replace('_', ' ')}): {said}",
        f"Affected: {counts_in_words(statuses)}.",
        f"Score {report['drift_severity_score']:.2f} ({report['drift_severity']}), "
        f"recommended: {report['recommended_action'].replace('_', ' ')}.",
    ]
    return " ".join(parts)
