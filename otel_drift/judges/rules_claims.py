"""The claims of one answer as the embedded judge states them: text, grounding status, evidence, qualifiers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from otel_drift.judges.rules_contradiction import Said, figure_contradiction
from otel_drift.judges.rules_gate import is_claim
from otel_drift.judges.rules_grounding import Evidence, Grounding, ground, read_evidence
from otel_drift.judges.rules_lexicon import rarity
from otel_drift.judges.rules_qualification import lost_qualifier
from otel_drift.judges.rules_statements import Reading, read
from otel_drift.model import Turn
from otel_drift.text import is_english, names, qualifiers, statements, stem
from otel_drift.text.dates import MONTHS
from otel_drift.text.quantities import is_unit

Status = Literal["GROUNDED", "PARTIALLY_GROUNDED", "UNSUPPORTED", "NOT_GROUNDABLE"]

UNGROUNDABLE = frozenset({"not_captured", "ids_only", "partial"})
"""Retrieval states after which nothing can be said about grounding."""
LEAST_COVER = 0.15
"""Below this share of its words in the closest sentence, an unsure claim has no evidence to show and is left out."""
LEAST_SUPPORT = 0.6
"""Below this share of its words in the sentences shown for it, an unsure claim is only of use to an event."""

LONGEST_CLAIM = 2_000
"""Characters of a sentence that is judged at most: beyond that it is a dump."""


@dataclass(frozen=True, slots=True)
class StatedClaim:
    """A sentence that claims something, and what its own turn's passages say about it.

    `evidence` are (passage reference, verbatim sentence); `previous` and `following` the sentences beside it. `weak`:
    the rules are unsure and little of it stands in the evidence, so nothing is said about it unless an event needs it.
    """

    id: str
    turn: Turn
    reading: Reading
    previous: str
    following: str
    status: Status
    grounding: Grounding
    evidence: tuple[tuple[str, str], ...]
    missing_qualifier: str | None
    said: Said
    weak: bool = False

    @property
    def is_grounded(self) -> bool:
        """Whether a later statement can contradict it or lose its qualifier."""
        return self.status in ("GROUNDED", "PARTIALLY_GROUNDED")

    def as_json(self) -> dict[str, Any]:
        """The claim in the audit's answer schema."""
        return {
            "id": self.id,
            "turn": self.turn.ref,
            "claim_text": self.reading.text,
            "quote": self.reading.text,
            "grounding_status": self.status,
            "evidence": [{"passage": ref, "quote": quote} for ref, quote in self.evidence],
            "qualifiers": list(dict.fromkeys(q.text for q in qualifiers(self.reading.text)))[:50],
            "missing_qualifier": self.missing_qualifier,
        }


def claims_of(turn: Turn, offset: int, spoken: Collection[str] = ()) -> Iterator[StatedClaim]:
    """Read the claims off a turn's answer; what the rules cannot tell is left out.

    Args:
        turn: the turn; its answer is captured.
        offset: how many claims came before; the ids count on from it.
        spoken: stems that earlier claims hold.
    """
    texts = tuple(p.text or "" for p in turn.passages) if turn.retrieval == "captured" else ()
    evidence = read_evidence(texts)
    found = [s for s in statements(turn.answer or "") if len(s.text) <= LONGEST_CLAIM]
    number = offset
    known = evidence.stems | frozenset(spoken)
    topic = _names(turn.user or "")
    for index, sentence in enumerate(found):
        topic = _names(sentence.text) or topic
        if not is_claim(sentence.text, known) or not is_english(sentence.text):
            continue
        judged = ground(sentence.text, evidence, turn.user)
        reading = read(sentence.text)
        said = Said(
            reading=reading,
            answer=turn.answer or "",
            passages=tuple(t for t in texts if t),
            evidence=(),
            topic=topic,
            sources_known=turn.retrieval not in UNGROUNDABLE,
        )
        status, quotes, missing = _status(turn, texts, evidence, judged, said)
        if status is None:
            continue
        number += 1
        yield StatedClaim(
            id=f"c{number}",
            turn=turn,
            reading=reading,
            previous=found[index - 1].text if index else "",
            following=found[index + 1].text if index + 1 < len(found) else "",
            status=status,
            grounding=judged,
            evidence=quotes,
            missing_qualifier=missing,
            said=replace(said, evidence=tuple(quote for _, quote in quotes)),
            weak=judged.verdict == "unsure" and bool(quotes) and _support(reading, quotes) < LEAST_SUPPORT,
        )


def _names(text: str) -> frozenset[str]:
    """The names a text is about; without any, it is about those of the sentence before it, at last the question's."""
    return frozenset(stem(n) for n in names(text) if n.casefold() not in MONTHS and not is_unit(n))


def _status(
    turn: Turn, texts: tuple[str, ...], evidence: Evidence, judged: Grounding, said: Said
) -> tuple[Status | None, tuple[tuple[str, str], ...], str | None]:
    """The grounding status, the evidence (passage ref, quote) and a qualifier the passage has and the answer lacks.

    None: the rules cannot tell and have nothing to show.
    """
    if turn.retrieval in UNGROUNDABLE:
        return "NOT_GROUNDABLE", (), None
    if not any(texts):
        return "UNSUPPORTED", (), None
    if judged.verdict == "unsupported":
        return "UNSUPPORTED", (), None
    if _refuted(said, evidence):
        return "UNSUPPORTED", (), None
    if judged.best_sentence is None or judged.passage_index is None or judged.cover < LEAST_COVER:
        return None, (), None
    reading = _spelled_out(said)
    quotes = [(turn.passage_ref(judged.passage_index), judged.best_sentence)]
    second = _second_sentence(reading, evidence, judged.best_sentence)
    if second is not None:
        quotes.append((turn.passage_ref(second[0]), second[1]))
    lost = next(
        (found for _, quote in quotes if (found := lost_qualifier(read(quote), reading, asked=turn.user or ""))), None
    )
    status: Status = "GROUNDED" if judged.verdict == "supported" and lost is None else "PARTIALLY_GROUNDED"
    return status, tuple(quotes), lost.qualifier.text if lost else None


_INITIALS = re.compile(r"\b[A-Z]{2,5}\b")


def _spelled_out(said: Said) -> Reading:
    """The claim with the names in full that it gives by their initials and its passages do not ("the UK")."""
    passages = "\n".join(said.passages)

    def full(match: re.Match[str]) -> str:
        if re.search(rf"\b{match.group()}\b", passages):
            return match.group()
        words = r"\s(?:of\s|and\s|the\s)*".join(rf"{letter}[a-z]+" for letter in match.group())
        found = re.search(rf"\b{words}\b", passages)
        return found.group() if found else match.group()

    return read(_INITIALS.sub(full, said.reading.text))


def _refuted(said: Said, evidence: Evidence) -> bool:
    """Whether a sentence of its own passages gives another figure for the very thing, and none gives the claim's."""
    addressed = _ADDRESSED if _YOU.search(said.reading.text) else frozenset[str]()
    for passage in evidence.passages:
        for sentence in passage.sentences:
            if not said.reading.figures or len(said.reading.content & sentence.content) < 2:
                continue
            theirs = Said(_without(addressed, read(sentence.text)), sentence.text, said.passages, (sentence.text,))
            found = figure_contradiction(theirs, said)
            if found is not None and not found.sourced:
                return True
    return False


_YOU = re.compile(r"\byour?\b", re.IGNORECASE)
_ADDRESSED = frozenset(
    stem(word)
    for word in """
    employee staff worker colleague member customer user subscriber passenger guest visitor patient adult resident
    tenant student
    """.split()  # noqa: SIM905 - a table reads better than quoted strings
)
"""Whom a source speaks of where the answer says "you"."""


def _without(words: frozenset[str], reading: Reading) -> Reading:
    if words.isdisjoint(reading.content):
        return reading
    figures = tuple(replace(figure, context=figure.context - words) for figure in reading.figures)
    return replace(reading, figures=figures)


def _support(reading: Reading, quotes: Collection[tuple[str, str]]) -> float:
    """The share of a claim's words, by weight, that stand in the sentences shown for it."""
    offered = frozenset[str]().union(*(read(quote).content for _, quote in quotes))
    weight = sum(map(rarity, reading.content))
    return sum(map(rarity, reading.content & offered)) / weight if weight else 0.0


def _second_sentence(reading: Reading, evidence: Evidence, best: str) -> tuple[int, str] | None:
    """The sentence that bears out most of what the best one leaves: two words and a third of it, or a figure."""
    first = read(best)
    left, figures = reading.content - first.content, _figures(reading) - _figures(first)
    found: tuple[int, str] | None = None
    most = max(1.0, (len(left) - 1) / 3)
    for index, passage in enumerate(evidence.passages):
        for sentence in passage.sentences:
            words = len(left & sentence.content)
            if sentence.text == best or words + len(reading.content & sentence.content) < 2:
                continue
            shared = words + 2 * len(figures & _figures(read(sentence.text))) if figures else words
            if shared > most and not (figures and shared == words and _figures(read(sentence.text))):
                found, most = (index, sentence.text), float(shared)
    return found


def _figures(reading: Reading) -> frozenset[tuple[float, str]]:
    return frozenset((f.quantity.value, f.quantity.unit) for f in reading.figures if f.quantity)
