"""The audit ``citation_conflict`` by lexical rules: which passages bear a sentence out, and which differ in a figure.

A passage supports a sentence where the fitted grounding model says so of that passage alone; it contradicts it only by
a number of the same unit or a date in an otherwise equal statement. What cannot be shown is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_drift.judges.rules_contradiction import Contradiction, Said, figure_contradiction
from otel_drift.judges.rules_drift import UnreadableError
from otel_drift.judges.rules_gate import is_claim, is_refusal
from otel_drift.judges.rules_grounding import Evidence, ground, read_evidence
from otel_drift.judges.rules_source_conflict import sentence_conflict
from otel_drift.judges.rules_statements import read
from otel_drift.model import JudgeTask, Passage
from otel_drift.text import content_stems, is_english, statements

if TYPE_CHECKING:
    from otel_drift.audits.citation_conflict_layout import CitedTurn

LONGEST_SENTENCE = 2_000
"""Characters of a sentence that is judged at most: beyond that it is a dump."""
LEAST_SHARED = 3
"""Statements that share fewer content stems are not held against each other."""

_DISAGREEMENT = re.compile(
    r"\b(?:disagree\w*|contradict\w*|conflict(?:s|ing)?|discrepanc\w+|inconsisten\w+|do(?:es)? not agree"
    r"|(?:sources?|documents?|passages?|statements?|they) differ|different (?:figures?|numbers?|statements?))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A passage, read once."""

    ref: str
    passage: Passage
    evidence: Evidence

    @property
    def text(self) -> str:
        """Its words."""
        return self.passage.text or ""


def answer(task: JudgeTask) -> dict[str, Any]:
    """Answer ``citation_conflict`` for a turn, in the audit's answer schema.

    Raises:
        UnreadableError: most of the answer, or of the passages, is not in English.
    """
    case: CitedTurn = task.material
    return judged(case.shown.text, case.turn.user, read_sources(case.sources), case.sources, case.origin)


def read_sources(sources: Mapping[str, Passage]) -> list[Source]:
    """Read the passages by their references.

    Raises:
        UnreadableError: one of them is not in English.
    """
    read_once = [Source(ref, one, read_evidence([one.text or ""])) for ref, one in sources.items()]
    foreign = sum(not source.evidence.english for source in read_once)
    if 2 * foreign > len(read_once):
        raise UnreadableError(f"{foreign} of {len(read_once)} passages are not in English")
    return read_once


def judged(
    said: str,
    question: str | None,
    sources: Sequence[Source],
    passages: Mapping[str, Passage],
    origin: Mapping[str, str],
) -> dict[str, Any]:
    """The claims of a text with their sources, and what else the schema asks for.

    Raises:
        UnreadableError: most of the text is not in English.
    """
    from otel_drift.audits.citation_conflict_answer import ClaimAnswer
    from otel_drift.audits.citation_conflict_checks import check_claims

    spoken = [s.text for s in statements(said) if len(s.text) <= LONGEST_SENTENCE]
    foreign = sum(not is_english(sentence) for sentence in spoken)
    if 2 * foreign > len(spoken):
        raise UnreadableError(f"{foreign} of {len(spoken)} sentences are not in English")
    known = frozenset(stem for source in sources for stem in source.evidence.stems)
    claims: list[dict[str, Any]] = []
    for sentence in spoken:
        if is_english(sentence) and is_claim(sentence, known) and not _DISAGREEMENT.search(sentence):
            claim = claim_by_words(f"c{len(claims) + 1}", sentence, said, question, sources)
            if not check_claims([ClaimAnswer.model_validate(claim)], said, passages, origin):
                claims.append(claim)
    conflicts = [claim for claim in claims if claim["contradicting_sources"]]
    voice = next((s for s in spoken if _DISAGREEMENT.search(s)), None) if conflicts else None
    refused = not claims and any(is_refusal(sentence) for sentence in spoken)
    return {
        "claims": claims,
        "conflict_summary": summary(conflicts),
        "voiced_in": voice,
        "abstention_notes": "the answer says that its passages do not hold what was asked" if refused else None,
    }


def claim_by_words(
    ref: str, sentence: str, answer: str, question: str | None, sources: Sequence[Source]
) -> dict[str, Any]:
    """A sentence of `answer` as a claim of the audit's schema, with the passages for and against it."""
    supporting, against = [], []
    certainty = 1.0
    shown: list[tuple[Source, str]] = []
    for source in sources:
        found = ground(sentence, source.evidence, question)
        if found.verdict == "supported" and found.best_sentence:
            supporting.append(
                {"source_id": source.ref, "quote": found.best_sentence, "rationale": "has its words and figures"}
            )
            shown.append((source, found.best_sentence))
            certainty = min(certainty, 1 - found.probability)
    supported = {source.ref for source, _ in shown}
    for source in sources:
        if source.ref not in supported and (differing := _difference(sentence, answer, shown, source, sources)):
            quote, difference = differing
            kind, note = _kind(source, [one for one, _ in shown])
            rationale = f"{difference.reason.partition(', each')[0].replace(' became ', ' against ')}{note}"
            against.append(
                {"source_id": source.ref, "quote": quote, "rationale": rationale, "conflict_type": kind}
            )  # fmt: skip
            certainty = min(certainty, difference.probability)
    newer = bool(against) and all(piece["rationale"].endswith("older") for piece in against)
    return {
        "claim_id": ref,
        "claim_text": sentence,
        "quote": sentence,
        "supporting_sources": supporting,
        "contradicting_sources": against,
        "unresolved": bool(supporting and against and not newer),
        "resolved_by": "recency" if supporting and newer else None,
        "confidence": round(max(0.5, min(0.9, certainty)), 2),
    }


def _difference(
    sentence: str, answer: str, shown: Sequence[tuple[Source, str]], against: Source, sources: Sequence[Source]
) -> tuple[str, Contradiction] | None:
    """A sentence of `against` that has another figure for what the claim, or what supports it, says."""
    wanted = set(content_stems(sentence))
    rivals = [one.text for one in against.evidence.passages[0].sentences if len(wanted & one.content) >= LEAST_SHARED]
    found = [
        (rival, difference)
        for rival in rivals
        for difference in _figures_differ(sentence, answer, shown, rival, against, sources)
    ]
    return max(found, key=lambda one: one[1].probability, default=None)


def _figures_differ(
    sentence: str,
    answer: str,
    shown: Sequence[tuple[Source, str]],
    rival: str,
    against: Source,
    sources: Sequence[Source],
) -> Iterator[Contradiction]:
    theirs = Said(read(rival), against.text, (against.text,), (rival,))
    mine = [Said(read(quote), answer, (source.text,), (quote,)) for source, quote in shown]
    for own in mine or [Said(read(sentence), answer, tuple(one.text for one in sources), ())]:
        if bool(own.reading.years) == bool(theirs.reading.years):  # else only one says of which year it speaks
            found = figure_contradiction(theirs, own)
            if found:
                yield found
    for source, quote in shown:
        differing = sentence_conflict(rival, against.passage, quote, source.passage)
        if differing and read(quote).figures:
            yield differing


def _kind(source: Source, supporting: Sequence[Source]) -> tuple[str, str]:
    """The type of a conflict by the dates of its sides, and what to say of them."""
    from otel_drift.audits.citation_conflict_checks import written_on

    theirs = written_on(source.passage)
    mine = [date for one in supporting if (date := written_on(one.passage))]
    if theirs and mine and theirs[:4] != max(mine)[:4]:
        return "temporal_change", "; the contradicting passage is " + ("older" if theirs < max(mine) else "newer")
    return "direct_factual", ""


def summary(conflicts: Sequence[Mapping[str, Any]]) -> str | None:
    """The conflicts of claims in words, None where there are none."""
    if not conflicts:
        return None
    differences = dict.fromkeys(piece["rationale"] for claim in conflicts for piece in claim["contradicting_sources"])
    return f"Possible conflict between passages: {'; '.join(differences)}."
