"""An answer by lexical rules: sentences of the passages, word for word, that best match the question.

No language understanding: it picks, it does not formulate. Where no sentence shares enough words with the question it
abstains; two passages differ for it only where a number of the same unit or a date does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_drift.judges.rules_citation import LONGEST_SENTENCE, Source, claim_by_words, read_sources, summary
from otel_drift.judges.rules_drift import UnreadableError
from otel_drift.judges.rules_gate import is_claim
from otel_drift.judges.rules_lexicon import rarity
from otel_drift.model import JudgeTask
from otel_drift.text import clauses, content_stems, content_words, is_english, number_values, sentences, statements

if TYPE_CHECKING:
    from otel_drift.citation.written_checks import WritingCase

MOST_SENTENCES = 4
LEAST_COVER = 0.45
"""Share of the question's content (rarer words weigh more) that a sentence, with its title, must hold."""
NEAR_BEST = 0.75
"""Share of the best sentence's score that a further sentence must reach."""
LEAST_PART = 3
"""Content stems of a clause of the question from which it is looked for by itself."""
SAME_SENTENCE = 0.7
"""Share of content stems from which two sentences are one statement, which is written once."""


@dataclass(frozen=True, slots=True)
class _Pick:
    source: Source
    text: str
    stems: frozenset[str]
    score: float


def answer(task: JudgeTask) -> dict[str, Any]:
    """Answer the step ``cite`` of a written answer, in its answer schema.

    Raises:
        UnreadableError: the question, or most of the passages, are not in English.
    """
    case: WritingCase = task.material
    if not is_english(case.question):
        raise UnreadableError("the question is not in English")
    sources = read_sources(case.sources)
    picks = _fitting(_picks(case, sources), case.told.max_words)
    if not picks:
        return _abstention("no sentence of the passages shares enough words with the question")
    written = _written(case, picks, sources)
    if len(picks) > 1 and not _holds(case, written):
        written = _written(case, [p for p in picks if _holds(case, _written(case, [p], sources))] or picks, sources)
    return written


def _written(case: WritingCase, picks: Sequence[_Pick], sources: Sequence[Source]) -> dict[str, Any]:
    claims, lines = [], []
    for number, pick in enumerate(picks, 1):
        claim = _with_own(claim_by_words(f"c{number}", pick.text, pick.text, case.question, sources), pick)
        claim["supporting_sources"] = [
            piece for piece in claim["supporting_sources"] if not case.told.is_too_old(_date(case, piece["source_id"]))
        ]
        claims.append(claim)
        marks = "".join(f"[{piece['source_id']}]" for piece in claim["supporting_sources"])
        lines.append(f"{pick.text} {marks}")
    conflicts = [claim for claim in claims if claim["contradicting_sources"]]
    disclosure = _disclosure(conflicts)
    listed = "\n".join(f"- {line}" for line in lines) if len(lines) > 1 else lines[0]
    return {
        "answer": f"{listed}\n\n{disclosure}" if disclosure else listed,
        "claims": claims,
        "conflict_summary": summary(conflicts),
        "voiced_in": disclosure,
        "abstention_notes": None,
    }


def _holds(case: WritingCase, written: dict[str, Any]) -> bool:
    """Whether an answer passes its checks: a rule that went too far costs one sentence, not the answer."""
    from otel_drift.citation.written_answer import WrittenAnswer
    from otel_drift.citation.written_checks import check_written

    return not check_written(case, WrittenAnswer.model_validate(written))


def _picks(case: WritingCase, sources: Sequence[Source]) -> list[_Pick]:
    """The sentences that match the question best, in the order of the passages."""
    parts = _parts(case.question)
    known = frozenset(stem for source in sources for stem in source.evidence.stems)
    if not parts:
        return []
    found: list[_Pick] = []
    for source in sources:
        if case.told.is_too_old(_date(case, source.ref)):
            continue
        title = frozenset(content_stems(source.passage.title or ""))
        for sentence in statements(source.text):
            if not _is_quotable(sentence.text, known):
                continue
            own = frozenset(content_stems(sentence.text))
            score = max(_match(part, own, title) for part in parts)
            if score >= LEAST_COVER:
                found.append(_Pick(source, sentence.text, own, score))
    best = max((pick.score for pick in found), default=0.0)
    ranked = sorted((pick for pick in found if pick.score >= NEAR_BEST * best), key=lambda pick: -pick.score)
    kept: list[_Pick] = []
    for pick in ranked:
        if len(kept) < MOST_SENTENCES and not any(_is_same(pick, other) for other in kept):
            kept.append(pick)
    places = {source.ref: place for place, source in enumerate(sources)}
    return sorted(kept, key=lambda pick: (places[pick.source.ref], pick.source.text.find(pick.text)))


def _parts(question: str) -> list[frozenset[str]]:
    """The content of the question, and of each clause of it that says enough to be answered alone."""
    whole = frozenset(content_stems(question))
    pieces = [frozenset(content_stems(piece)) for one in sentences(question) for piece in clauses(one.text)]
    return [part for part in (whole, *pieces) if part and (part == whole or len(part) >= LEAST_PART)]


def _match(asked: frozenset[str], own: frozenset[str], title: frozenset[str]) -> float:
    """Share of what is asked that a sentence holds; a word that only its title has counts half."""
    if len(asked & own) < 2 and not asked <= own:
        return 0.0
    by_title = sum(map(rarity, (asked & title) - own))
    return (sum(map(rarity, asked & own)) + 0.5 * by_title) / sum(map(rarity, asked))


def _is_quotable(sentence: str, known: frozenset[str]) -> bool:
    """One line, a statement of some length, and without brackets that would pass for marks of ours."""
    if len(sentence) > LONGEST_SENTENCE or "\n" in sentence or "[" in sentence or "【" in sentence:
        return False
    return is_english(sentence) and is_claim(sentence, known) and len(content_words(sentence)) >= 3


def _is_same(a: _Pick, b: _Pick) -> bool:
    return len(a.stems & b.stems) >= SAME_SENTENCE * min(len(a.stems), len(b.stems))


def _fitting(picks: Sequence[_Pick], max_words: int | None) -> list[_Pick]:
    """The best of them that stay within the length, in their order."""
    if max_words is None:
        return list(picks)
    kept: set[int] = set()
    left = max_words
    for index in sorted(range(len(picks)), key=lambda i: -picks[i].score):
        length = len(picks[index].text.split())
        if length <= left:
            kept.add(index)
            left -= length
    return [pick for index, pick in enumerate(picks) if index in kept]


def _with_own(claim: dict[str, Any], pick: _Pick) -> dict[str, Any]:
    """A sentence of a passage is supported by its passage, and by others only nearly word for word."""
    own = {"source_id": pick.source.ref, "quote": pick.text, "rationale": "taken from it word for word"}
    others = [
        piece
        for piece in claim["supporting_sources"]
        if piece["source_id"] != pick.source.ref and _says_the_same(pick, piece["quote"])
    ]
    pieces = {piece["source_id"]: piece for piece in [own, *others]}
    ordered = [piece["source_id"] for piece in claim["supporting_sources"] if piece["source_id"] in pieces]
    refs = ordered if own["source_id"] in ordered else [own["source_id"], *ordered]
    return {**claim, "supporting_sources": [pieces[ref] for ref in refs]}


def _says_the_same(pick: _Pick, quote: str) -> bool:
    """Whether another passage's sentence has the same figures and nearly all the words: a mark vouches for it."""
    theirs = frozenset(content_stems(quote))
    return number_values(pick.text) == number_values(quote) and len(pick.stems & theirs) >= 0.8 * len(pick.stems)


def _disclosure(conflicts: Sequence[Mapping[str, Any]]) -> str | None:
    if not conflicts:
        return None
    told: dict[str, list[str]] = {}
    for piece in (piece for claim in conflicts for piece in claim["contradicting_sources"]):
        figures = sorted(piece["rationale"].split(";")[0].split(" against "))
        refs = told.setdefault(" against ".join(figures), [])
        refs += [piece["source_id"]] * (piece["source_id"] not in refs)
    differences = "; ".join(f"{what} {''.join(f'[{ref}]' for ref in refs)}" for what, refs in told.items())
    return f"Possible disagreement between the passages: {differences}."


def _date(case: WritingCase, ref: str) -> str | None:
    from otel_drift.audits.citation_conflict_checks import written_on

    return written_on(case.sources[ref])


def _abstention(why: str) -> dict[str, Any]:
    return {"answer": None, "claims": [], "conflict_summary": None, "voiced_in": None, "abstention_notes": why}
