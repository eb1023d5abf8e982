"""The checks of a written answer: nothing in it that no claim makes, no claim without a source, no mark that misleads.

On top of those of the audit ``citation_conflict``, which it passes as well. Each returns sentences that tell the judge
what to mend.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from otel_drift import text
from otel_drift.audits.citation_conflict_answer import ClaimAnswer
from otel_drift.audits.citation_conflict_checks import check_answer, written_on
from otel_drift.audits.citation_conflict_layout import CitedTurn, case_of
from otel_drift.audits.citation_conflict_marks import JudgedMark, judge_marks
from otel_drift.audits.factual_drift_quotes import find_quote
from otel_drift.citation.constraints import Constraints, outranked
from otel_drift.citation.written_answer import WrittenAnswer
from otel_drift.model import Passage, Session

_MARK = re.compile(r"\s*\[p\d+(?:\s*[,;]\s*p\d+)*\]")


@dataclass(frozen=True, slots=True)
class WritingCase:
    """What an answer is written from: the question, the passages by reference, and the constraints."""

    session: Session
    question: str
    sources: Mapping[str, Passage]
    origin: Mapping[str, str]
    told: Constraints


def drafted(case: WritingCase, answer: WrittenAnswer) -> tuple[CitedTurn, WrittenAnswer]:
    """A written answer as a turn to be judged, its marks read as references, and its quotes without marks."""
    turn = case.session.turns[0]
    passages = tuple(replace(passage, id=ref, own_id=True) for ref, passage in case.sources.items())
    draft = case_of(case.session, replace(turn, answer=answer.answer or "", answer_state="captured", passages=passages))

    def bare(quote: str) -> str:
        return quote if find_quote(draft.shown.text, quote) else _MARK.sub("", quote).strip()

    claims = [claim.model_copy(update={"quote": bare(claim.quote)}) for claim in answer.claims]
    voiced = bare(answer.voiced_in) if answer.voiced_in else None
    return draft, answer.model_copy(update={"claims": claims, "voiced_in": voiced})


def check_written(case: WritingCase, answer: WrittenAnswer) -> list[str]:
    """What is wrong with a written answer, one sentence each; an abstention only has to be one."""
    if answer.abstention_notes:
        return ["abstention_notes says that the passages do not answer: then claims must be empty."] * bool(
            answer.claims
        )
    if not (answer.answer or "").strip() or not answer.claims:
        return ["Write an answer and list its claims, or say in abstention_notes what the passages leave unanswered."]
    draft, bare = drafted(case, answer)
    errors = check_answer(bare, draft.shown.text, draft.sources, draft.origin)
    if errors:
        return [*errors]
    return [
        *_length_errors(draft.shown.text, case.told),
        *(f"Claim “{claim.claim_id}”: {error}" for claim in bare.claims for error in _claim_errors(claim, case)),
        *_uncovered(draft, bare),
        *_mark_errors(draft, bare),
        *_conflict_errors(draft, bare),
    ]


def marks_of(draft: CitedTurn, bare: WrittenAnswer) -> list[JudgedMark]:
    """The marks of a draft whose claims were checked, judged."""
    places = {claim.claim_id: draft.shown.original(*_span(draft, claim.quote)) for claim in bare.claims}
    return judge_marks(draft, bare.claims, places, voiced=bare.voiced_in is not None, embedded=False)


def _length_errors(shown: str, told: Constraints) -> Iterator[str]:
    length = len(shown.split())
    if told.max_words is not None and length > told.max_words:
        yield f"The answer has {length} words, more than {told.max_words}: shorten it, and its claims with it."


def _claim_errors(claim: ClaimAnswer, case: WritingCase) -> Iterator[str]:
    if not claim.supporting_sources:
        yield "no passage supports it: leave it out of the answer, or abstain."
    for piece in claim.supporting_sources:
        date = written_on(case.sources[piece.source_id])
        if case.told.is_too_old(date):
            yield f"{piece.source_id} is of {date}, before {case.told.recency}, so it must not support a claim."
    if claim.resolved_by == "authority" and case.told.authority:
        sides = ([p.source_id for p in claim.supporting_sources], [p.source_id for p in claim.contradicting_sources])
        if outranked(*sides, case.sources, case.told):
            yield "its supporting passages do not rank above the contradicting ones, so authority does not resolve it."


def _uncovered(draft: CitedTurn, bare: WrittenAnswer) -> Iterator[str]:
    """Sentences that no claim quotes would pass unverified; only the one that voices a conflict may."""
    shown = draft.shown.text
    spans = [_span(draft, claim.quote) for claim in bare.claims]
    if bare.voiced_in:
        spans.append(_span(draft, bare.voiced_in))
    for sentence in text.sentences(shown):
        words = any(char.isalnum() for char in sentence.text)
        if words and not any(start < sentence.end and sentence.start < end for start, end in spans):
            yield f"The sentence “{sentence.text[:160]}” belongs to no claim: list its claim, or leave it out."


def _mark_errors(draft: CitedTurn, bare: WrittenAnswer) -> Iterator[str]:
    marks = marks_of(draft, bare)
    told = draft.shown.original(*_span(draft, bare.voiced_in)) if bare.voiced_in else (0, 0)
    sides = _sides(bare)

    def tells(place: int) -> bool:
        """Whether a mark stands in the words that tell of the conflict, or right behind them."""
        return told[0] <= place <= told[1] + 2

    for mark in marks:
        where = f"the mark {mark.text} in “{draft.answer[slice(*mark.sentence)][:160]}”"
        refs = {f"p{index + 1}" for index in mark.target.passages}
        if mark.verdict == "dangling" or not refs:
            yield f"{where} points at no passage; write the references given, such as [p1]."
        elif mark.verdict != "supported" and not (refs <= sides and (mark.verdict == "contrast" or tells(mark.start))):
            yield f"{where} is not among the supporting_sources of the claim it stands at."
    for claim in bare.claims:
        own = {draft.origin[piece.source_id] for piece in claim.supporting_sources}
        if not any(
            claim.claim_id in mark.claims and own & {draft.origin[f"p{index + 1}"] for index in mark.target.passages}
            for mark in marks
        ):
            yield f"Claim “{claim.claim_id}”: its sentence carries no mark of a passage that supports it."


def _conflict_errors(draft: CitedTurn, bare: WrittenAnswer) -> Iterator[str]:
    """An answer with a conflict behind it says so, and names the other side."""
    against = {piece.source_id for claim in bare.claims for piece in claim.contradicting_sources}
    if not against:
        return
    if bare.voiced_in is None:
        yield "Sources contradict a claim, so the answer must tell its reader, and voiced_in must quote where it does."
    cited = {
        draft.origin[f"p{index + 1}"] for mark in draft.marks.marks for t in mark.targets for index in t.passages
    }  # fmt: skip
    for ref in sorted(against):
        if draft.origin[ref] not in cited:
            yield f"{ref} contradicts a claim, but the answer does not cite it where it tells of the conflict."


def _sides(bare: WrittenAnswer) -> set[str]:
    return {
        piece.source_id
        for claim in bare.claims
        if claim.contradicting_sources
        for piece in (*claim.supporting_sources, *claim.contradicting_sources)
    }


def _span(draft: CitedTurn, quote: str) -> tuple[int, int]:
    span = find_quote(draft.shown.text, quote)
    assert span is not None, "quotes are checked first"
    return span
