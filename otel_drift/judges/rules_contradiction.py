"""Do two statements of one conversation contradict each other, for a reason that can be shown?

Only a same-unit number or date, a fee where none was charged, or an opposite word, between clauses that otherwise say
the same. Negation alone is no reason: measured on real answers it is noise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from otel_drift.judges.rules_grounding import antonym_pair, same_measure
from otel_drift.judges.rules_lexicon import rarity
from otel_drift.judges.rules_statements import (
    Figure,
    Reading,
    names_differ,
    picks_differ,
    read,
    scopes_differ,
    similarity,
)
from otel_drift.text import number_values, quantities, statements, stem
from otel_drift.text.quantities import MONEY

SAME_CLAIM = 0.7
"""Similarity from which two clauses are taken to say the same thing of the same thing."""
GROUNDED_RIVAL = 0.75
"""The higher bar where the later figure stands in its own passages: both may be right, of different things."""


@dataclass(frozen=True, slots=True)
class Said:
    """A statement with what surrounds it: its whole answer, its turn's passages, and the sentences that ground it."""

    reading: Reading
    answer: str
    passages: tuple[str, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why two statements seem to contradict each other, and how probable that is (0.7..0.95)."""

    reason: str
    probability: float


def contradiction(earlier: Said, later: Said) -> Contradiction | None:
    """The strongest showable contradiction between two statements, or None."""
    if scopes_differ(earlier.reading, later.reading):
        return None
    found = [
        c
        for c in (_figures_differ(earlier, later), _fee_appears(earlier, later), _opposite(earlier, later))
        if c is not None
    ]
    return max(found, key=lambda c: c.probability, default=None)


def _figures_differ(earlier: Said, later: Said) -> Contradiction | None:
    best: Contradiction | None = None
    for mine in later.reading.figures:
        for other in earlier.reading.figures:
            if not _comparable(other, mine) or _coexist(other, mine, earlier, later):
                continue
            if names_differ(earlier.reading, other.clause, later.reading, mine.clause):
                continue
            alike, from_evidence = _alike(other, mine, earlier, later)
            own = _stands_in(mine, later.passages)
            if alike < (GROUNDED_RIVAL if own and not _same_end(other, mine) else SAME_CLAIM):
                continue
            probability = min(0.95, 0.7 + 0.5 * (alike - SAME_CLAIM) + (0.0 if own else 0.08))
            reason = f"{other.text} became {mine.text}" + (", each from its own passages" if from_evidence else "")
            if best is None or probability > best.probability:
                best = Contradiction(reason, round(probability, 2))
    return best


def _comparable(a: Figure, b: Figure) -> bool:
    if a.quantity and b.quantity:
        p, q = a.quantity, b.quantity
        if not same_measure(p, q) or {p.role, q.role} == {"most", "least"}:
            return False
        rounding = 0.06 if "approx" in (p.role, q.role) else 1e-9
        return abs(p.value - q.value) > rounding * max(abs(p.value), abs(q.value))
    if a.date and b.date:
        if not (a.date.month or a.date.quarter) or {a.date.role, b.date.role} == {"start", "deadline"}:
            return False
        return a.date.differs(b.date)
    return False


def _same_end(a: Figure, b: Figure) -> bool:
    """Whether both mark the same end explicitly: two deadlines, two maxima."""
    roles = [f.quantity.role if f.quantity else f.date.role if f.date else "" for f in (a, b)]
    return roles[0] == roles[1] and roles[0] in ("deadline", "start", "most", "least")


def _coexist(a: Figure, b: Figure, earlier: Said, later: Said) -> bool:
    """Whether the sources or the answers know both figures, or a clause has several: then nothing is contradicted."""
    if not _stands_in(a, earlier.passages):
        return True
    for figure, reading in ((a, earlier.reading), (b, later.reading)):
        rivals = [f for f in reading.figures if f.clause == figure.clause and f is not figure]
        if any(_comparable(figure, rival) for rival in rivals):
            return True
    if _stands_in(b, (earlier.answer,)) or _stands_in(a, (later.answer,)):
        return True
    return any(_stands_in(a, (p,)) and _stands_in(b, (p,)) for p in {*earlier.passages, *later.passages})


def _alike(a: Figure, b: Figure, earlier: Said, later: Said) -> tuple[float, bool]:
    """Similarity of what the two figures are figures of: by the statements, else by the sentences that ground them."""
    said = _context_similarity(a.context, b.context)
    sources = max(
        (
            _context_similarity(p.content, q.content)
            for p in map(read, earlier.evidence)
            for q in map(read, later.evidence)
            if p.text != q.text and _stands_in(a, (p.text,)) and _stands_in(b, (q.text,)) and not scopes_differ(p, q)
        ),
        default=0.0,
    )
    if picks_differ(a.context, b.context) and said < sources:
        sources = 0.0
    return max(said, sources), sources > said


def _context_similarity(a: frozenset[str], b: frozenset[str]) -> float:
    if picks_differ(a, b):
        return 0.0
    alike, shared = similarity(a, b)
    return alike if shared >= 3 else 0.0


def _stands_in(figure: Figure, texts: Sequence[str]) -> bool:
    if figure.quantity:
        wanted = figure.quantity
        return any(
            abs(q.value - wanted.value) < 1e-9 and (q.unit == wanted.unit or not q.unit)
            for text in texts
            for q in quantities(text)
        )
    return any(number_values(figure.text) <= number_values(text) and _month(figure) in text for text in texts)


def _month(figure: Figure) -> str:
    letters = re.search(r"[A-Z][a-z]{2}", figure.text)
    return letters.group() if letters else ""


_FREE = re.compile(
    r"\bno (?:[a-z-]+ ){0,2}(?:fees?|charges?|costs?)\b|\bnot (?:be )?charged\b|\bfree of charge\b|\b(?:is|are) free\b(?! (?:to|from|of)\b)"
    r"|\bat no (?:extra |additional )?(?:cost|charge)\b|\bwithout (?:extra |additional |any )?(?:charge|cost|fee)\b",
    re.IGNORECASE,
)
_CHARGED = re.compile(r"\b(?:charged?|charges|costs?|fees?|billed|pay|priced)\b", re.IGNORECASE)
_FEE_WORDS = frozenset(
    stem(w) for w in ["fee", "charge", "cost", "free", "pay", "price", "extra", "additional", "bill", "amount", "money", "euro", "eur", "no", "any"]
)


def _fee_appears(earlier: Said, later: Said) -> Contradiction | None:
    for clause, context in zip(earlier.reading.clauses, earlier.reading.contexts, strict=True):
        if not _FREE.search(clause):
            continue
        subject = frozenset(s for s in read(clause).content if s not in _FEE_WORDS)
        if not subject or not subject <= later.reading.content or sum(rarity(s) for s in subject) < 0.5:
            continue
        if len((earlier.reading.content & later.reading.content) - _FEE_WORDS) < 3:
            continue
        for figure in later.reading.figures:
            charged = figure.quantity and figure.quantity.unit in MONEY and figure.quantity.value > 0
            if (
                charged
                and _CHARGED.search(later.reading.clauses[figure.clause])
                and not _FREE.search(later.reading.text)
            ):
                if _stands_in(figure, (*later.passages, *earlier.passages, earlier.answer)):
                    continue
                return Contradiction(f"“{clause}” became a charge of {figure.text}", 0.8)
        del context
    return None


def _opposite(earlier: Said, later: Said) -> Contradiction | None:
    for a in earlier.reading.contexts:
        for b in later.reading.contexts:
            pair = antonym_pair(b, a)
            if pair is None:
                continue
            rest_a, rest_b = a - {pair[1]}, b - {pair[0]}
            alike, shared = similarity(rest_a, rest_b)
            if alike >= 0.9 and shared >= 4 and not (rest_a ^ rest_b) & frozenset():
                supported = any(
                    antonym_pair(b, read(s.text).content) is None and similarity(b, read(s.text).content)[0] >= 0.8
                    for passage in later.passages
                    for s in statements(passage)
                )
                if not supported:
                    return Contradiction(
                        f"“{pair[1]}” became “{pair[0]}” in the same statement",
                        round(0.7 + 0.2 * (alike - 0.9) / 0.1, 2),
                    )
    return None
