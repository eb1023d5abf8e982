"""Is a claim new and borne out by nothing? Restatements, what the user told and plain arithmetic are not new."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from otel_drift.judges.rules_claims import StatedClaim
from otel_drift.judges.rules_gate import is_commonplace
from otel_drift.judges.rules_grounding import Evidence, EvidencePassage, ground, read_evidence, read_passage
from otel_drift.model import Session, Turn
from otel_drift.text import clauses, content_words, number_values, quantities, statements
from otel_drift.text.quantities import Quantity

SURE = 0.75
"""Probability from which a claim is raised."""
SURE_WITHOUT_DETAIL = 0.9
"""Probability from which a claim is raised although no number or name of it is missing."""
KNOWN_BEFORE = 0.5
"""Up to this probability a claim counts as said, given or told before."""

MOST_AT_HAND = 60
"""Figures that are tried in reckoning: the sentence's, the question's, then the answer's."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A new claim that nothing bears out: what of it is found nowhere, how probable, whether a figure is at stake."""

    absent: tuple[str, ...]
    probability: float
    with_figure: bool


class KnownBefore:
    """What was said, retrieved or told before an answer: repeating it is nothing new.

    Grows with the session: each text is read once, however many turns ask.
    """

    def __init__(self, session: Session) -> None:
        self._turns = sorted(session.turns, key=lambda turn: turn.number)
        self._told_to = self._said_to = 0
        self._retrieved: dict[str, EvidencePassage] = {}
        self._answers: dict[str, EvidencePassage] = {}
        self._told: dict[str, EvidencePassage] = {}
        self._all = Evidence((), set(), set(), set(), set(), set(), set())

    def before(self, turn: Turn) -> Evidence:
        """The evidence before the answer of `turn`, good until the next call; turns are asked about in their order.

        Retrieved texts come first, then answers, then what users told, each text once.
        """
        while self._told_to < len(self._turns) and self._turns[self._told_to].number <= turn.number:
            message = self._turns[self._told_to].user
            for sentence in statements(message) if message else ():
                if _tells(sentence.text):
                    self._keep(sentence.text, self._told)
            self._told_to += 1
        while self._said_to < len(self._turns) and self._turns[self._said_to].number < turn.number:
            earlier = self._turns[self._said_to]
            for passage in earlier.passages:
                if passage.text:
                    self._keep(passage.text, self._retrieved)
            if earlier.answer:
                self._keep(earlier.answer, self._answers)
            self._said_to += 1
        every = {**self._retrieved, **self._answers, **self._told}  # a text that is in two stays where it is first
        return replace(self._all, passages=tuple(every.values()))

    def _keep(self, text: str, kept: dict[str, EvidencePassage]) -> None:
        if text in kept:
            return
        elsewhere = self._retrieved.get(text) or self._answers.get(text) or self._told.get(text)
        kept[text] = elsewhere or self._read(text)

    def _read(self, text: str) -> EvidencePassage:
        read = read_passage(text)
        for name in ("stems", "bigrams", "four_grams", "numbers", "bare_numbers", "measures"):
            getattr(self._all, name).update(getattr(read, name))
        return read


_OWN_STORY = re.compile(
    r"\W*(?:(?:and|but|so|ok|okay|well|yes|no|hi|hello)\W+)*(?:i|i['\u2019]\w+|my|we|our)\b", re.IGNORECASE
)


def _tells(sentence: str) -> bool:
    """Whether a sentence of the user states something: no question, or one that begins with the user's own story."""
    return not sentence.endswith(("?", "\uff1f")) or bool(_OWN_STORY.match(sentence))


def unsupported_claim(claim: StatedClaim, known: Evidence) -> Unsupported | None:
    """Whether neither its passages nor anything `known` before bears a claim out.

    Without a missing number or name it takes near certainty, and no clause that stands in the passages; a figure that
    stands nowhere is enough by itself.
    """
    if claim.turn.retrieval == "no_retrieval" or is_commonplace(claim.reading.text):
        return None
    judged, before = claim.grounding, ground(claim.reading.text, known)
    asked = number_values(claim.turn.user or "")
    missing_names = tuple(n for n in judged.missing_names if n in before.missing_names)
    missing_numbers = tuple(
        n for n in judged.missing_numbers if n in before.missing_numbers and not number_values(n) <= asked
    )
    if _is_arithmetic(claim, missing_numbers, known):
        return None
    probability = min(judged.probability, before.probability)
    if missing_numbers and judged.probability >= SURE:
        probability = max(probability, SURE)
    if probability <= KNOWN_BEFORE:
        return None
    if claim.turn.retrieval != "none":
        detailed = bool(missing_names or missing_numbers)
        if probability < SURE or (not detailed and judged.probability < SURE_WITHOUT_DETAIL):
            return None
        if not detailed and (judged.missing_numbers or _partly_borne_out(claim)):
            return None
    return Unsupported(
        absent=tuple(dict.fromkeys((*missing_numbers, *missing_names))),
        probability=min(0.95, probability),
        with_figure=bool(missing_numbers) and any(q.unit and not q.label for q in quantities(claim.reading.text)),
    )


def _partly_borne_out(claim: StatedClaim) -> bool:
    """Whether any clause of the sentence, held against the passages alone, is not unsupported."""
    pieces = [c for c in clauses(claim.reading.text) if len(content_words(c)) >= 3]
    if len(pieces) < 2:
        return False
    evidence = read_evidence(claim.said.passages)
    return any(ground(piece, evidence).probability < 0.5 for piece in pieces)


_RECKONS = re.compile(
    r"\b(?:total|altogether|in all|together|comes? to|adds?|sum|makes?|equals?|so|that is|which is|i\.e|"
    r"you (?:would |will )?(?:pay|get|save|owe|need)|"
    r"for (?:\w+ ){1,2}(?:adults|people|persons|nights|days|months|years|children|weeks|users))\b|[=×]",
    re.IGNORECASE,
)
"""How a sentence says that it reckons."""


def _is_arithmetic(claim: StatedClaim, missing_numbers: tuple[str, ...], known: Evidence) -> bool:
    """Whether every missing figure can be reckoned from known figures, units matching.

    Figures near at hand (in the sentence, the answer or the question) do by themselves; figures of the whole session
    only where the sentence says that it reckons, because anything could be made of so many.
    """
    missing = [q for q in quantities(claim.reading.text) if q.text in missing_numbers]
    if not missing or len({q.text for q in missing}) < len(set(missing_numbers)):
        return False
    source_numbers = number_values(" ".join((*claim.said.passages, claim.turn.user or ""))) | known.numbers
    at_hand = [
        *quantities(claim.reading.text),
        *quantities(claim.turn.user or ""),
        *quantities(claim.turn.answer or ""),
    ]
    near = [q for q in at_hand[:MOST_AT_HAND] if number_values(q.text) & source_numbers]
    results = [(q.value, q.unit) for q in near] + list(_reckoned(near, claim.reading.text))
    if _RECKONS.search(claim.reading.text):
        results += _multiplied(claim, near, {q.unit for q in missing}, known)
    explained: list[tuple[float, str]] = []
    for figure in missing:  # a figure may be reckoned from the one before it: "360 EUR, less 10%, so 324 EUR"
        chained = [
            (v * (1 + sign * q.value / 100), u) for v, u in explained for q in near if q.unit == "%" for sign in (1, -1)
        ]
        chained += [
            (v + sign * w, u) for v, u in explained for w, t in (*results, *explained) if t == u for sign in (1, -1)
        ]
        if not any(unit == figure.unit and _close(value, figure.value) for value, unit in (*results, *chained)):
            return False
        explained.append((figure.value, figure.unit))
    return True


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 0.005 * max(1.0, abs(b))


def _multiplied(
    claim: StatedClaim, near: list[Quantity], units: set[str], known: Evidence
) -> Iterator[tuple[float, str]]:
    """Known figures of the wanted units times one or two counts near at hand."""
    counts = sorted({q.value for q in near if q.unit not in units and 1 < q.value <= 400})[:8]
    counts += [v for v in number_values(claim.turn.user or "") if 1 < v <= 400 and v not in counts][:4]
    measures = known.measures | read_evidence(claim.said.passages).measures
    for value, unit in measures:
        if unit in units:
            for n, count in enumerate(counts):
                yield value * count, unit
                yield from ((value * count * other, unit) for other in counts[n:])


_PERIODS = (
    ("year", 12.0),
    ("year", 52.0),
    ("year", 365.0),
    ("week", 7.0),
    ("day", 24.0),
    ("hour", 60.0),
    ("quarter", 3.0),
)


def _reckoned(near: list[Quantity], sentence: str) -> Iterator[tuple[float, str]]:
    for quantity in near:
        for period, factor in _PERIODS:
            if period in sentence:
                yield quantity.value * factor, quantity.unit
            elif quantity.per == period:
                yield quantity.value / factor, quantity.unit
    for a, b in combinations(near[:24], 2):
        if a.unit == b.unit:
            yield a.value + b.value, a.unit
            yield abs(a.value - b.value), a.unit
            if a.value and b.value:
                yield max(a.value, b.value) / min(a.value, b.value), ""
                yield 100 * min(a.value, b.value) / max(a.value, b.value), "%"
        for one, other in ((a, b), (b, a)):
            yield one.value * other.value, one.unit
            if other.unit == "%":
                yield one.value * other.value / 100, one.unit
            if other.value:
                yield one.value / other.value, one.unit
