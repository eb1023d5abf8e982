"""Is a sentence borne out by passages? Nine lexical features and a logistic model; no language understanding."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from otel_drift.judges.rules_gate import is_claim, is_refusal
from otel_drift.judges.rules_lexicon import antonyms, grounding_model, rarity
from otel_drift.text import (
    Date,
    Quantity,
    content_words,
    dates,
    fold,
    is_english,
    names,
    number_values,
    quantities,
    statements,
    stem,
    stems,
    words,
)
from otel_drift.text.dates import MONTHS
from otel_drift.text.quantities import MEASURES, bare_numbers, is_unit
from otel_drift.text.remembered import remembered

GroundingVerdict = Literal["supported", "unsupported", "unsure", "no_claim"]


LONGEST_PIECE = 600
"""Characters of evidence that are quoted at most, about; sentences are shorter."""
_PIECE = re.compile(rf"\S.{{0,{LONGEST_PIECE}}}(?!\S)|\S{{1,{LONGEST_PIECE}}}", re.DOTALL)
_LONGEST_COMPARED = 300


@dataclass(frozen=True, slots=True)
class Grounding:
    """How far passages bear a text out.

    `probability` is that of *unsupported*, 0..1, computed for claims and others alike; `verdict` also knows the gate:
    ``no_claim`` for what claims nothing, ``unsure`` between the thresholds, without passages, and for texts the rules
    cannot read. `best_sentence` stands verbatim in ``passages[passage_index]``. Missing numbers and names are as
    written in the text and are found nowhere in the passages (names: nor in the question).
    """

    probability: float
    verdict: GroundingVerdict
    best_sentence: str | None
    passage_index: int | None
    missing_numbers: tuple[str, ...]
    missing_names: tuple[str, ...]
    reasons: tuple[str, ...]
    cover: float = 0.0


@dataclass(frozen=True, slots=True)
class EvidenceSentence:
    """A sentence of a passage, read once."""

    text: str
    stems: tuple[str, ...]
    content: frozenset[str]


@dataclass(frozen=True, slots=True)
class EvidencePassage:
    """A passage, read once: kept for the other turns that retrieve it."""

    sentences: tuple[EvidenceSentence, ...]
    stems: frozenset[str]
    bigrams: frozenset[tuple[str, str]]
    four_grams: frozenset[str]
    numbers: frozenset[float]
    bare_numbers: frozenset[float]
    measures: frozenset[tuple[float, str]]
    english: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """Passages, read once for all the sentences that are held against them; the same order as they were given."""

    passages: tuple[EvidencePassage, ...]
    stems: Set[str]
    bigrams: Set[tuple[str, str]]
    four_grams: Set[str]
    numbers: Set[float]
    bare_numbers: Set[float]
    measures: Set[tuple[float, str]]

    @property
    def english(self) -> bool:
        """Whether the rules can read all of it."""
        return all(p.english for p in self.passages)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to hold a claim against."""
        return not any(p.sentences for p in self.passages)


@dataclass(frozen=True, slots=True)
class _Comparison:
    values: tuple[float, ...]
    best: EvidenceSentence | None
    passage_index: int | None
    missing_numbers: tuple[str, ...]
    missing_names: tuple[str, ...]
    reasons: tuple[str, ...]


def grounding(text: str, passages: Sequence[str], question: str | None = None) -> Grounding:
    """Hold `text`, a sentence or a whole answer, against `passages`.

    Args:
        text: what is judged. Of several sentences the refusals are left out and the features combined, as the model
            was fitted.
        passages: the texts retrieved for it.
        question: the user's message; names in it are not missing.
    """
    return ground(text, read_evidence(passages), question)


def ground(text: str, evidence: Evidence, question: str | None = None) -> Grounding:
    """As `grounding`, with passages that were read before."""
    model = grounding_model()
    found = [s.text for s in statements(text)] or [text]
    claims = [s for s in found if is_claim(s, evidence.stems)]
    kept = [s for s in found if not is_refusal(s)]
    known = frozenset(stem(w) for w in words(question)) if question else frozenset()
    compared = [_compare(s, evidence, known) for s in kept if content_words(s)]
    if not compared:
        return Grounding(0.0, "no_claim", None, None, (), (), ("no statement to hold against passages",))
    columns = list(zip(*(c.values for c in compared), strict=True))
    means = [sum(column) / len(column) for column in columns[:5]]
    values = (*means, *(max(column) for column in columns[5:]))
    probability = model.probability(values)
    worst = max(compared, key=lambda c: model.probability(c.values))
    best = worst.best
    reasons = tuple(dict.fromkeys(reason for c in compared for reason in c.reasons))
    verdict: GroundingVerdict
    if not claims:
        verdict, reasons = "no_claim", ("no statement to hold against passages",)
    elif evidence.empty:
        verdict, reasons = "unsure", ("no passages to hold it against",)
    elif not is_english(text) or not evidence.english:
        verdict, reasons = "unsure", ("not in English: lexical rules cannot read it",)
    elif probability >= model.flag:
        verdict = "unsupported"
    else:
        verdict = "supported" if probability <= model.accept else "unsure"
    return Grounding(
        probability=probability,
        verdict=verdict,
        best_sentence=best.text if best else None,
        passage_index=worst.passage_index,
        missing_numbers=tuple(dict.fromkeys(n for c in compared for n in c.missing_numbers)),
        missing_names=tuple(dict.fromkeys(n for c in compared for n in c.missing_names)),
        reasons=reasons,
        cover=values[1],
    )


def grounding_features(text: str, passages: Sequence[str], question: str | None = None) -> tuple[float, ...] | None:
    """The nine features of a text in the order of `FEATURES`, None where it has no statement: what fitting reads."""
    evidence = read_evidence(passages)
    known = frozenset(stem(w) for w in words(question)) if question else frozenset()
    kept = [s.text for s in statements(text) if not is_refusal(s.text)]
    rows = [_compare(s, evidence, known).values for s in kept if content_words(s)]
    if not rows:
        return None
    columns = list(zip(*rows, strict=True))
    return (*(sum(c) / len(c) for c in columns[:5]), *(max(c) for c in columns[5:]))


def read_evidence(passages: Sequence[str]) -> Evidence:
    """Read passages into what claims are compared with."""
    parts = tuple(read_passage(text) for text in passages)
    if len(parts) == 1:
        only = parts[0]
        return Evidence(
            parts, only.stems, only.bigrams, only.four_grams, only.numbers, only.bare_numbers, only.measures
        )
    return Evidence(
        passages=parts,
        stems=frozenset().union(*(part.stems for part in parts)),
        bigrams=frozenset().union(*(part.bigrams for part in parts)),
        four_grams=frozenset().union(*(part.four_grams for part in parts)),
        numbers=frozenset().union(*(part.numbers for part in parts)),
        bare_numbers=frozenset().union(*(part.bare_numbers for part in parts)),
        measures=frozenset().union(*(part.measures for part in parts)),
    )


@remembered(512)
def read_passage(text: str) -> EvidencePassage:
    """Read one passage; the latest are remembered."""
    found = []
    for sentence in statements(text):
        for piece in _pieces(sentence.text):
            every, content = stems(piece)
            if content:
                found.append(EvidenceSentence(piece, tuple(every), frozenset(content)))
    every, content = stems(text)
    return EvidencePassage(
        sentences=tuple(found),
        stems=frozenset(every),
        bigrams=frozenset(pairwise(content)),
        four_grams=frozenset(_four_grams(text)),
        numbers=number_values(text),
        bare_numbers=bare_numbers(text),
        measures=frozenset((q.value, q.unit) for q in quantities(text)),
        english=is_english(text),
    )


def _pieces(sentence: str) -> list[str]:
    """The sentence, or, where it runs on for ever (a table in one line, a dump), pieces of it that can be quoted."""
    if len(sentence) <= 2 * LONGEST_PIECE:
        return [sentence]
    return [m.group().strip() for m in _PIECE.finditer(sentence) if m.group().strip()]


def _compare(sentence: str, evidence: Evidence, known: frozenset[str]) -> _Comparison:
    every, content = stems(sentence)
    wanted = frozenset(content)
    weight = sum(rarity(s) for s in wanted) or 1.0
    best, index, shared = _best_sentence(wanted, evidence)
    grams = _four_grams(sentence)
    pairs = list(pairwise(content))
    numbers = _missing_numbers(sentence, evidence)
    unknown = [n for n in names(sentence) if stem(n) not in evidence.stems and stem(n) not in known]
    missing_names = tuple(n for n in unknown if not is_unit(n) and n.casefold() not in MONTHS)
    differs = number_difference(sentence, best.text) if best else None
    opposite = antonym_pair(wanted, best.content) if best else None
    reasons = []
    if numbers:
        reasons.append("not in the passages: " + ", ".join(numbers))
    if missing_names:
        reasons.append("name not in the passages: " + ", ".join(missing_names))
    if differs:
        reasons.append(f"the closest sentence says {differs[1]}, not {differs[0]}")
    if opposite:
        reasons.append(f"the closest sentence has the opposite of “{opposite[0]}”")
    values = (
        sum(rarity(s) for s in wanted & evidence.stems) / weight,
        shared / weight,
        sum(p in evidence.bigrams for p in pairs) / len(pairs) if pairs else float(bool(wanted & evidence.stems)),
        sum(g in evidence.four_grams for g in grams) / len(grams) if grams else 0.0,
        _common_subsequence(every, best.stems) / len(every) if best and every else 0.0,
        float(bool(numbers)),
        float(min(2, len(unknown))),
        float(differs is not None),
        float(opposite is not None),
    )
    return _Comparison(values, best, index, numbers, missing_names, tuple(reasons))


def _best_sentence(wanted: frozenset[str], evidence: Evidence) -> tuple[EvidenceSentence | None, int | None, float]:
    best: EvidenceSentence | None = None
    best_index: int | None = None
    best_score = 0.0
    for index, passage in enumerate(evidence.passages):
        if wanted.isdisjoint(passage.stems):
            continue
        for candidate in passage.sentences:
            score = sum(map(rarity, wanted & candidate.content))
            if score > best_score:
                best, best_index, best_score = candidate, index, score
    return best, best_index, best_score


def _missing_numbers(sentence: str, evidence: Evidence) -> tuple[str, ...]:
    missing = []
    for quantity in quantities(sentence):
        if (quantity.value, quantity.unit) in evidence.measures:
            continue
        measured = not quantity.label and (quantity.unit in MEASURES or "/" in quantity.unit)
        if not number_values(quantity.text) & (evidence.bare_numbers if measured else evidence.numbers):
            missing.append(quantity.text)
    missing += [d.text for d in dates(sentence) if not number_values(d.text) <= evidence.numbers]
    return tuple(missing)


def number_difference(a: str, b: str) -> tuple[str, str] | None:
    """The first quantity or date of `a` that `b` gives with the same unit but another value, and `b`'s, as written.

    None where any value of that unit agrees, and for counts whose denominators ("per day") differ.
    """
    for mine in quantities(a):
        if mine.label:
            continue
        others = [q for q in quantities(b) if same_measure(mine, q)]
        if others and all(abs(q.value - mine.value) > 1e-9 for q in others) and mine.unit:
            return mine.text, others[0].text
    years_a, years_b = _years(dates(a)), _years(dates(b))
    if years_a and years_b and not years_a & years_b:
        return str(min(years_a)), str(min(years_b))
    for date in dates(a):
        rivals = [d for d in dates(b) if d.differs(date)]
        if (date.month or date.quarter) and rivals and not any(_same_date(date, d) for d in dates(b)):
            return date.text, rivals[0].text
    return None


def same_measure(a: Quantity, b: Quantity) -> bool:
    """Whether two quantities count the same kind of thing: unit, denominator where both have one, no labels."""
    if a.label or b.label or a.unit != b.unit:
        return False
    return not (a.per and b.per and a.per != b.per)


def _same_date(a: Date, b: Date) -> bool:
    return (a.day, a.month, a.quarter) == (b.day, b.month, b.quarter) and not a.differs(b)


def _years(found: tuple[Date, ...]) -> frozenset[int]:
    return frozenset(d.year for d in found if d.year is not None)


def antonym_pair(a: frozenset[str], b: frozenset[str]) -> tuple[str, str] | None:
    """A stem of `a` whose opposite stands in `b`, where neither side holds both."""
    opposites = antonyms()
    for word in sorted(a):
        against = opposites.get(word, frozenset()) & b
        if against and word not in b and not against & a:
            return word, min(against)
    return None


def _four_grams(text: str) -> list[str]:
    joined = " ".join(words(fold(text).casefold()))
    return [joined[i : i + 4] for i in range(max(0, len(joined) - 3))]


def _common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    a, b = a[:_LONGEST_COMPARED], b[:_LONGEST_COMPARED]
    row = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for i, other in enumerate(b, 1):
            above = row[i]
            row[i] = diagonal + 1 if word == other else max(above, row[i - 1])
            diagonal = above
    return row[-1]
