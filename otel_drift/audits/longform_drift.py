"""The audit ``longform_drift``: at which sentence of a long answer does its grounding first weaken, and how far?

One unit is one answer of 200 words or more and the passages its turn retrieved, taken together as its source; several
passages are first asked about by ``source_conflict``, because sources that disagree are no yardstick. Code
splits and numbers the sentences; the judge gives each number a status with an excerpt of the source. An answer that
is too long is judged in overlapping chunks, each beside the whole source. Beside this file stand the answer's form
(``_answer``), the checks (``_checks``), the score (``_score``), the options (``_options``), the report (``_report``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import BaseModel

from otel_drift import prompting, text
from otel_drift.audits.longform_drift_answer import SentencesAnswer
from otel_drift.audits.longform_drift_checks import check_sentences
from otel_drift.audits.longform_drift_options import read_options
from otel_drift.audits.longform_drift_report import build_report, counts_in_words, merge
from otel_drift.audits.longform_drift_score import CANONICAL
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.errors import NotApplicableError, UnitError
from otel_drift.longform.chunking import LEAST_TOKENS, MOST_TOKENS, chunks
from otel_drift.longform.layout import Layout, PlacedSentence, count_words, read_layout
from otel_drift.model import Finding, Passage, Session, Turn, worst
from otel_drift.protocols import AuditSettings, Eligibility, Forecast, Step
from otel_drift.redaction import opaque

SENTENCES_PROMPT = "longform_drift/sentences"
SECOND_PROMPT = "longform_drift/second"
INPUTS = frozenset({"source", "question", "sentences"})

LEAST_WORDS = 200

_FRAME_TOKENS = 150
_REPAIR_TOKENS = 800
_ANSWER_BASE_TOKENS = 200
_VERDICT_TOKENS = 60
_SMALLER = (MOST_TOKENS, 3_000, LEAST_TOKENS, 1_000, 500, 250)


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
        long = [turn for turn in answered if count_words(turn.answer or "") >= LEAST_WORDS]
        if not long:
            return Eligibility(False, "short_form")
        if not any(_source(turn) for turn in long):
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
        turn = _long_turn(session)
        source, layout = _source(turn), read_layout(turn.answer or "")
        parts = _parts(layout, turn, settings)
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
        turn = _long_turn(session)
        layout = read_layout(turn.answer or "")
        prompts = [SENTENCES_PROMPT]
        if read_options(settings).asks_twice and not settings.embedded_judge:
            prompts.append(SECOND_PROMPT)
        parts = _parts(layout, turn, settings)
        conflict = SourceConflict()
        unit = _conflict_unit(conflict, session, settings)
        before = conflict.forecast(unit, settings) if unit is not None else ()
        return [*before, *(_estimate(one, part, layout, turn, settings) for one in prompts for part in parts)]

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

    def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
        """One finding an answer that drifts; its type is the weakest status in it."""
        if not report["drift_detected"]:
            return ()
        turn = _long_turn(session)
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
    turn = _long_turn(session)
    whole = replace(session, turns=(turn,))
    if not conflict.eligibility(whole, settings).eligible:
        return None
    try:
        conflict.forecast(whole, settings)
    except UnitError:
        return replace(session, turns=(replace(turn, answer=None, answer_state="not_captured"),))
    return whole


def _asks(prompt_id: str, parts: Sequence[range], layout: Layout, turn: Turn, settings: AuditSettings) -> list[Step]:
    source = tuple(passage.text or "" for passage in _source(turn))
    name = prompt_id.rpartition("/")[2]
    return [
        _ask(
            name if len(parts) == 1 else f"{name}_{number}",
            prompt_id,
            [layout.sentences[index] for index in part],
            _inputs(part, layout, turn),
            LongformMaterial(tuple(layout.sentences[index] for index in part), source, turn.user),
        )
        for number, part in enumerate(parts, 1)
    ]


def _ask(
    name: str, prompt_id: str, asked: Sequence[PlacedSentence], inputs: Mapping[str, str], material: LongformMaterial
) -> Step:
    def check(answer: BaseModel) -> list[str]:
        return check_sentences(cast("SentencesAnswer", answer), asked, material.source)

    return Step(name, prompt_id, inputs, SentencesAnswer, check, material, max_repairs=2)


def _inputs(part: range, layout: Layout, turn: Turn) -> dict[str, str]:
    return {
        "source": "\n".join(_source_lines(turn)),
        "question": _line({"question": turn.user}),
        "sentences": "\n".join(_sentence_lines(part, layout)),
    }


def _source_lines(turn: Turn) -> list[str]:
    lines = []
    for number, passage in enumerate(_source(turn), 1):
        about = {"title": passage.title, "date": passage.date}
        told = {key: value for key, value in about.items() if value}
        lines.append(_line({"passage": f"p{number}", **told, "text": passage.text}))
    return lines


def _sentence_lines(part: range, layout: Layout) -> list[str]:
    titles = {section.first: section.title for section in layout.sections if section.title}
    lines = []
    for index in part:
        if index in titles:
            lines.append(_line({"heading": titles[index]}))
        lines.append(_line({"index": index, "text": layout.sentences[index].text}))
    return lines


def _parts(layout: Layout, turn: Turn, settings: AuditSettings) -> list[range]:
    """The chunks of an answer: one where it fits, else of 2,000 to 4,000 tokens, smaller where the judge takes less.

    Raises:
        UnitError: not even a small chunk fits beside the source, or one sentence alone is too large.
    """
    count = _counter(settings)
    tokens = [count(sentence.text) for sentence in layout.sentences]
    parts: list[range] = []
    for most in _SMALLER:
        parts = [range(len(tokens))] if settings.embedded_judge else chunks(tokens, most)
        if all(_fits(part, layout, turn, settings) for part in parts):
            return parts
    if max(tokens) <= _SMALLER[-1] and _answers_fit(tokens, settings):
        raise UnitError(
            f"longform_drift: the source of turn {turn.number} is larger than the judge reads beside a part of the "
            f"answer ({settings.limits.input_tokens} tokens)",
            reason="source_exceeds_window",
        )
    raise UnitError(
        f"longform_drift: a sentence of turn {turn.number} is larger than the judge can read or answer",
        reason="turn_exceeds_window",
    )


def _answers_fit(tokens: Sequence[int], settings: AuditSettings) -> bool:
    """Whether the judge may write as much as the verdicts on the smallest chunks take."""
    limit = settings.limits.output_tokens
    return limit is None or all(
        _output(sum(tokens[index] for index in part), len(part)) <= limit for part in chunks(tokens, _SMALLER[-1])
    )


def _fits(part: range, layout: Layout, turn: Turn, settings: AuditSettings) -> bool:
    """Whether the ask, its answer and a repair ask fit."""
    limits = settings.limits
    ask = _estimate(SENTENCES_PROMPT, part, layout, turn, settings)
    if limits.output_tokens is not None and ask.output_tokens > limits.output_tokens:
        return False
    return limits.input_tokens is None or ask.input_tokens + ask.output_tokens + _REPAIR_TOKENS <= limits.input_tokens


def _estimate(prompt_id: str, part: range, layout: Layout, turn: Turn, settings: AuditSettings) -> Forecast:
    """Tokens of an ask: in the answer each sentence takes an excerpt of about its own length, and the frame of JSON."""
    count = _counter(settings)
    prompt = prompting.chosen(prompt_id, settings)
    data = sum(count(value) for value in _inputs(part, layout, turn).values())
    said = sum(count(layout.sentences[index].text) for index in part)
    return Forecast(count(prompt.text) + _FRAME_TOKENS + data, _output(said, len(part)))


def _output(said: int, sentences: int) -> int:
    return _ANSWER_BASE_TOKENS + said + said // 2 + _VERDICT_TOKENS * sentences


def _counter(settings: AuditSettings) -> Callable[[str], int]:
    counter: Callable[[str], int] | None = settings.count_tokens
    return counter or (lambda words: len(words) // 4 + 1)


def _long_turn(session: Session) -> Turn:
    """The turn a unit is about: the pipeline gives sessions of one turn; of several the first that is eligible."""
    for turn in session.turns:
        if turn.answered and count_words(turn.answer or "") >= LEAST_WORDS and _source(turn):
            return turn
    return session.turns[0]


def _source(turn: Turn) -> list[Passage]:
    """The passages with a text, each text once."""
    if turn.retrieval != "captured":
        return []
    once = {text.fold(passage.text): passage for passage in reversed(turn.passages) if passage.text}
    return [passage for passage in turn.passages if passage.text and once.get(text.fold(passage.text)) is passage]


def _weakest(analysis: Sequence[Mapping[str, Any]]) -> str:
    statuses = [one["grounding_status"] for one in analysis]
    return next(name for name in ("contradicted", "ungrounded", "partially_grounded") if name in statuses)


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


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
