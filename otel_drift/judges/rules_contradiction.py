"""Do two statements of one conversation contradict each other, for a reason that can be shown?

Only a same-unit number or date, a charge where there was none, or an opposite word, between clauses that otherwise say
the same of the same thing. Negation alone is no reason: measured on real answers it is noise. Every guard below is for
a way in which two true statements differ in a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_drift.judges.rules_grounding import antonym_pair, same_measure
from otel_drift.judges.rules_lexicon import rarity
from otel_drift.judges.rules_statements import (
    Figure,
    Reading,
    labels_differ,
    names_differ,
    picks_differ,
    read,
    similarity,
    years_differ,
)
from otel_drift.text import dates, number_values, quantities, statements, stem, stems
from otel_drift.text.quantities import MEASURES, MONEY
from otel_drift.text.remembered import remembered

SAME_CLAIM = 0.7
"""Similarity from which two clauses are taken to say the same of the same thing."""
SAME_LIMIT = 0.8
"""The bar for two maxima or minima where the later stands in its own passages: both may be right, of other things."""
SAME_WORDS = 0.95
"""The bar for other figures where the later stands in its own passages ("with the card, admission costs 11 EUR")."""


@dataclass(frozen=True, slots=True)
class Said:
    """A statement with what surrounds it.

    Its whole answer, its turn's passages (`sources_known`: they were recorded), the sentences that ground it, and the
    names that its talk is about: its own, else those of the nearest sentence before it, else the question's.
    """

    reading: Reading
    answer: str
    passages: tuple[str, ...]
    evidence: tuple[str, ...]
    topic: frozenset[str] = frozenset()
    sources_known: bool = True

    def has_source_for(self, figure: Figure) -> bool:
        """Whether the turn's passages hold a figure, or may hold it because they were not recorded."""
        return not self.sources_known or _stands_in(figure, self.passages)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why two statements seem to contradict each other, and how probable that is (0.7..0.95).

    `sourced`: the later figure stands in its own turn's passages, or may, as they were not recorded.
    """

    reason: str
    probability: float
    sourced: bool = False


def contradiction(earlier: Said, later: Said) -> Contradiction | None:
    """The strongest showable contradiction between two statements, or None."""
    if _other_topic(earlier, later):
        return None
    found = [*_other_event_date(earlier, later), *_other_figure(earlier, later)]
    if not years_differ(earlier.reading, later.reading):
        found += [*_charge(earlier, later), *_opposite(earlier, later)]
    return max(found, key=lambda c: c.probability, default=None)


def figure_contradiction(earlier: Said, later: Said) -> Contradiction | None:
    """As `contradiction`, but only where a same-unit number or a date differs."""
    if _other_topic(earlier, later):
        return None
    found = [*_other_event_date(earlier, later), *_other_figure(earlier, later)]
    return max(found, key=lambda c: c.probability, default=None)


def _other_topic(earlier: Said, later: Said) -> bool:
    if labels_differ(earlier.reading, later.reading):
        return True
    return bool(earlier.topic and later.topic and not earlier.topic & later.topic)


def _other_figure(earlier: Said, later: Said) -> Iterator[Contradiction]:
    for mine in later.reading.figures:
        for other in earlier.reading.figures:
            if not _comparable(other, mine) or _other_scope(other, mine, earlier, later):
                continue
            if years_differ(earlier.reading, later.reading) and not (mine.date and _same_end(other, mine)):
                continue
            if _coexist(other, mine, earlier, later):
                continue
            alike, by_sources = _alike(other, mine, earlier, later)
            own = later.has_source_for(mine)
            if alike < (_rival_bar(other, mine) if own else SAME_CLAIM):
                continue
            probability = min(0.95, 0.7 + 0.5 * (alike - SAME_CLAIM) + (0.0 if own else 0.08))
            reason = f"{other.text} became {mine.text}" + (", each from its own passages" if by_sources else "")
            yield Contradiction(reason, round(probability, 2), sourced=own)


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


_PAST = re.compile(
    r"\b(?:was|were|had|used to|previously|formerly|earlier|until (?:now|then)|originally)\b", re.IGNORECASE
)
_CHANGE = re.compile(
    r"\b(?:will|shall|would|to|is going to|are going to) (?:be )?(?:fall|rise|increase|decrease|drop|go (?:up|down)|"
    r"change|grow|shrink|raise|lower|reduce|cut)\w*\b",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\d\s?(?:-|\u2013|to)\s?\d|\bbetween\b.{1,30}\band\b", re.IGNORECASE)


def _other_scope(a: Figure, b: Figure, earlier: Said, later: Said) -> bool:
    """Whether the two clauses speak of another time, another named thing or under another condition."""
    first, second = earlier.reading.clauses[a.clause], later.reading.clauses[b.clause]
    if bool(_PAST.search(first)) != bool(_PAST.search(second)) or bool(_CHANGE.search(first)) != bool(
        _CHANGE.search(second)
    ):
        return True
    if (
        _RANGE.search(first)
        or _RANGE.search(second)
        or names_differ(earlier.reading, a.clause, later.reading, b.clause)
    ):
        return True
    known = _all_stems((earlier.answer, *earlier.passages))
    if later.reading.names[b.clause] - known:
        return True
    if any(d.year and d.text not in earlier.reading.text and d is not b.date for d in dates(second)):
        return True
    others_a, others_b = _other_figures(a, earlier.reading), _other_figures(b, later.reading)
    if a.quantity and b.quantity and a.quantity.per != b.quantity.per and (others_a or others_b):
        return True  # "120 EUR per night", "four nights come to 480 EUR"
    if others_a and others_b:
        return not others_a & others_b
    return bool(others_a or others_b) and later.has_source_for(b)


def _other_figures(figure: Figure, reading: Reading) -> frozenset[tuple[float, str]]:
    return frozenset(
        (f.quantity.value, f.quantity.unit)
        for f in reading.figures
        if f.clause == figure.clause and f.quantity and f is not figure
    )


@remembered(256)
def _all_stems(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(s for text in texts for s in stems(text)[0])


def _rival_bar(a: Figure, b: Figure) -> float:
    if not _same_end(a, b):
        return SAME_WORDS
    return SAME_CLAIM if a.date else SAME_LIMIT


def _same_end(a: Figure, b: Figure) -> bool:
    """Whether both mark the same end explicitly: two deadlines, two maxima."""
    roles = [f.quantity.role if f.quantity else f.date.role if f.date else "" for f in (a, b)]
    return roles[0] == roles[1] and roles[0] in ("deadline", "start", "most", "least")


def _coexist(a: Figure, b: Figure, earlier: Said, later: Said) -> bool:
    """Whether the sources or the answers know both figures, or a clause has several: then nothing is contradicted."""
    if not _stands_in(a, earlier.passages):
        return True
    nowhere = not later.has_source_for(b) and not _stands_in(b, (*earlier.passages, earlier.answer))
    if _has_rival(a, earlier.reading, b, nowhere) or _has_rival(b, later.reading, a):
        return True
    if _stands_in(b, (earlier.answer,)) or _stands_in(a, (later.answer,)):
        return True
    return any(_stands_in(a, (p,)) and _stands_in(b, (p,)) for p in {*earlier.passages, *later.passages})


def _has_rival(figure: Figure, reading: Reading, other: Figure, nowhere: bool = False) -> bool:
    """Whether the clause has a second figure of the kind that `other` should rather, or could as well, be held against.

    Could as well does not count where `other` stands `nowhere`: then it is neither of them.
    """
    for rival in reading.figures:
        if rival.clause != figure.clause or rival is figure or not _comparable(figure, rival):
            continue
        mine, theirs, wanted = (f.quantity.role if f.quantity else "" for f in (figure, rival, other))
        if theirs == wanted != mine or (not nowhere and (mine != wanted or theirs == wanted or not wanted)):
            return True
    return False


def _alike(a: Figure, b: Figure, earlier: Said, later: Said) -> tuple[float, bool]:
    """Similarity of what the two figures are figures of: by the statements, else by the sentences that ground them."""
    agreeing = len(_other_figures(a, earlier.reading) & _other_figures(b, later.reading))
    said = _context_similarity(_context(a), _context(b), agreeing)
    if picks_differ(a.context, b.context):
        return 0.0, False
    sources = max(
        (
            _context_similarity(p.content, q.content)
            for p in map(read, earlier.evidence)
            for q in map(read, later.evidence)
            if p.text != q.text and not labels_differ(p, q) and not years_differ(p, q)
            if _stands_in(a, (p.text,)) and _stands_in(b, (q.text,))
        ),
        default=0.0,
    )
    if sources <= said and not later.has_source_for(b):
        said = max(
            said,
            _against_sources(a, b, earlier),
            0.0 if picks_differ(a.context, b.context) else _short(_context(a), _context(b)),
        )
    return max(said, sources), sources > said


def _short(a: frozenset[str], b: frozenset[str]) -> float:
    """A later clause of two words ("minimum term") that the earlier has too: enough for a figure no passage holds."""
    return 0.75 if b <= a and len(b) == 2 and len(a) <= 4 and sum(map(rarity, b)) >= 0.9 else 0.0


def _against_sources(a: Figure, b: Figure, earlier: Said) -> float:
    """Similarity of the later figure's clause to the one that grounds the earlier figure."""
    best = 0.0
    for source in map(read, earlier.evidence):
        for figure in source.figures:
            same = figure.text == a.text and not _has_rival(figure, source, b)
            if same and not _RANGE.search(source.clauses[figure.clause]):
                best = max(best, _context_similarity(_context(figure), _context(b)))
    return best


def _context(figure: Figure) -> frozenset[str]:
    counted = figure.quantity.unit if figure.quantity else ""
    measure = counted in MEASURES or "/" in counted or not counted
    return figure.context if measure else figure.context | {counted}


def _context_similarity(a: frozenset[str], b: frozenset[str], agreeing: int = 0) -> float:
    if picks_differ(a, b):
        return 0.0
    alike, shared = similarity(a, b)
    return alike if shared >= 2 and shared + agreeing >= 3 else 0.0


def _stands_in(figure: Figure, texts: Sequence[str]) -> bool:
    if figure.quantity:
        value, unit = figure.quantity.value, figure.quantity.unit
        return any((value, unit) in exact or value in loose for exact, loose in map(_figures_of, texts))
    return any(number_values(figure.text) <= number_values(text) and _month(figure) in text for text in texts)


@remembered(4096)
def _figures_of(text: str) -> tuple[frozenset[tuple[float, str]], frozenset[float]]:
    """The quantities of a text with their units, and the numbers that have none and may stand for any."""
    found = quantities(text)
    return (
        frozenset((q.value, q.unit) for q in found),
        frozenset(q.value for q in found if not q.unit or q.label),
    )


def _month(figure: Figure) -> str:
    letters = re.search(r"[A-Z][a-z]{2}", figure.text)
    return letters.group() if letters else ""


_EVENT = re.compile(
    r"\b(?P<verb>born|died|passed away|built|constructed|founded|established|incorporated|published|released|premiered|"
    r"inaugurated|renamed|patented|invented|discovered|signed|ratified|adopted|acquired|launched|opened)\b"
    r"(?:\s+(?!(?:in|on)\b)[^\s,;]+){0,3}\s+(?:in|on)\s+(?:early |late |the )?$",
    re.IGNORECASE,
)


def _other_event_date(earlier: Said, later: Said) -> Iterator[Contradiction]:
    """An event that happens once ("was founded in 1996"), of the same named thing, on another date."""
    for mine, verb in _event_dates(later.reading):
        for other, earlier_verb in _event_dates(earlier.reading):
            if verb != earlier_verb or not mine.date or not other.date or not mine.date.differs(other.date):
                continue
            subject = (mine.context & other.context) - {stem(verb)}
            if sum(map(rarity, subject)) < 1.0 or names_differ(
                earlier.reading, other.clause, later.reading, mine.clause
            ):
                continue
            if picks_differ(mine.context, other.context) or _coexist(other, mine, earlier, later):
                continue
            if similarity(mine.context, other.context)[0] >= (0.9 if later.has_source_for(mine) else 0.6):
                own = later.has_source_for(mine)
                yield Contradiction(f"“{verb}” on {other.text} became {mine.text}", 0.75, sourced=own)


def _event_dates(reading: Reading) -> Iterator[tuple[Figure, str]]:
    for figure in reading.figures:
        if figure.date and figure.date.year:
            match = _EVENT.search(reading.clauses[figure.clause][: figure.date.start])
            if match:
                yield figure, match["verb"].casefold()


_FREE = re.compile(
    r"\bno (?:[a-z-]+ ){0,2}(?:fees?|charges?|costs?)\b|\bnot (?:be )?charged\b|\bfree of charge\b"
    r"|\b(?:is|are) free\b(?! (?:to|from|of)\b)"
    r"|\bat no (?:extra |additional )?(?:cost|charge)\b|\bwithout (?:extra |additional |any )?(?:charge|cost|fee)\b",
    re.IGNORECASE,
)
_CHARGED = re.compile(r"\b(?:charged?|charges|costs?|fees?|billed|pay|priced)\b", re.IGNORECASE)
_FEE_WORDS = frozenset(
    map(stem, ("fee", "charge", "cost", "free", "pay", "price", "extra", "additional", "bill", "amount", "money"))
)


def _charge(earlier: Said, later: Said) -> Iterator[Contradiction]:
    """A price for what was said to be free, or the other way round; the later side stands in no passage."""
    for subject, free in _free_subjects(earlier.reading):
        price = _price(later.reading, subject)
        if (
            price
            and _same_talk(subject, earlier, later)
            and not _stands_in(price, (*later.passages, *earlier.passages, earlier.answer))
        ):
            yield Contradiction(f"“{free}” became a charge of {price.text}", 0.8)
    for subject, free in _free_subjects(later.reading):
        price = _price(earlier.reading, subject)
        if (
            price is None
            or not later.sources_known
            or not _same_talk(subject, earlier, later)
            or not _stands_in(price, earlier.passages)
        ):
            continue
        sources = [s.text for p in (*later.passages, *earlier.passages) for s in statements(p)]
        if not any(_FREE.search(text) and subject & read(text).content for text in sources):
            yield Contradiction(f"a charge of {price.text} became “{free}”", 0.8)


def _free_subjects(reading: Reading) -> Iterator[tuple[frozenset[str], str]]:
    for clause in reading.clauses:
        if _FREE.search(clause):
            subject = read(clause).content - _FEE_WORDS
            if subject and sum(map(rarity, subject)) >= 0.5:
                yield subject, re.sub(r"^(?:and|but|so)\s+|[.\s]+$", "", clause)


def _price(reading: Reading, subject: frozenset[str]) -> Figure | None:
    if not subject <= reading.content or _FREE.search(reading.text):
        return None
    for figure in reading.figures:
        costs = figure.quantity is not None and figure.quantity.unit in MONEY and figure.quantity.value > 0
        if costs and _CHARGED.search(reading.clauses[figure.clause]):
            return figure
    return None


def _same_talk(subject: frozenset[str], earlier: Said, later: Said) -> bool:
    return len(subject) >= 2 or len((earlier.reading.content & later.reading.content) - _FEE_WORDS) >= 3


def _opposite(earlier: Said, later: Said) -> Iterator[Contradiction]:
    """An opposite word between clauses that are otherwise the same, where the later is not what its passages say."""
    if not later.sources_known:
        return
    for a in earlier.reading.contexts:
        for b in later.reading.contexts:
            pair = antonym_pair(b, a)
            if pair is None:
                continue
            alike, shared = similarity(a - {pair[1]}, b - {pair[0]})
            if alike < 0.9 or shared < 4:
                continue
            sources = [read(s.text) for p in later.passages for s in statements(p)]
            if not any(pair[0] in s.content and similarity(b, s.content)[0] >= 0.5 for s in sources):
                yield Contradiction(f"“{pair[1]}” became “{pair[0]}” in the same statement", 0.75)
