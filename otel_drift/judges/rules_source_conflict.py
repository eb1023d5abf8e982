"""Do two passages contradict each other, as far as a figure or a date can show it?

Only a same-unit number or date that differs between two sentences which otherwise say the same of the same thing. A
lexical judge takes different editions, entities of one name and populations for conflicts easily, so anything that
could tell the two passages apart keeps it silent: it misses most conflicts in order to raise few false ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from otel_drift.audits.source_conflict_answer import MOST_LISTED
from otel_drift.audits.source_conflict_sources import Sources, sources_of
from otel_drift.judges.rules_contradiction import Contradiction, Said, contradiction
from otel_drift.judges.rules_drift import UnreadableError
from otel_drift.judges.rules_grounding import same_measure
from otel_drift.judges.rules_statements import (
    Figure,
    Reading,
    labels_differ,
    picks_differ,
    read,
    similarity,
    years_differ,
)
from otel_drift.model import JudgeTask, Passage, Session
from otel_drift.text import dates, is_english, names, statements, stem, stems
from otel_drift.text.dates import MONTHS
from otel_drift.text.remembered import remembered

LEAST_SCORE = 0.7
"""What is less probable is not raised (measured: below it, ordinary passages set it off)."""
_LEAST_SHARED = 3
_LIMITS = frozenset(map(stem, ("maximum", "minimum", "limit", "day", "week", "month", "year", "hour", *MONTHS)))
"""Words that belong to a figure and do not say what it is a figure of."""
_MOST_COMPARISONS = 20_000
_DISAGREE = re.compile(
    r"\b(?:sources?|passages?|documents?|texts?|pages?|they|which)\b.{0,60}"
    r"\b(?:disagree|differ|conflict|contradict|inconsistent|do(?:es)? not (?:agree|match))\w*"
    r"|\b(?:conflicting|contradictory|differing|inconsistent) (?:\w+ )?(?:source|information|statement|figure|date)s?\b"
    r"|\b(?:disagreement|contradiction|discrepancy|conflict) between\b",
    re.IGNORECASE,
)

_REPLACED = re.compile(
    r"\b(?:replac(?:es|ed)|supersed(?:es|ed)|repeal(?:s|ed)|obsolete|outdated|for reference only"
    r"|no longer (?:appl|valid)\w*|(?:previous|former|earlier|old) (?:edition|version|rules?|terms?))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a passage with figures, and the names its passage is about."""

    ref: str
    passage: Passage
    reading: Reading

    def said(self, topic: frozenset[str]) -> Said:
        """The statement as the comparison takes it, grounded in itself."""
        text = self.passage.text or ""
        return Said(self.reading, text, (text,), (self.reading.text,), topic)


def answer(task: JudgeTask) -> dict[str, Any]:
    """The answer of the step ``conflicts`` for the turn in `task.material`.

    Raises:
        UnreadableError: most passages are in another language than English.
    """
    session: Session = task.material.session
    turn = session.turns[0]
    shown = [(turn.passage_ref(n), p) for n, p in enumerate(turn.passages) if p.text and p.text.strip()]
    readable = [(ref, passage) for ref, passage in shown if is_english(passage.text or "")]
    if len(readable) < 2:
        raise UnreadableError(f"{len(shown) - len(readable)} of {len(shown)} passages are not in English")
    voiced = disclosure(turn.answer) if turn.answered and turn.answer else None
    found = list(_conflicts(readable))
    listed = _listed(found, sources_of(turn)) if len(found) > MOST_LISTED else found
    conflicts = [{**conflict, "disclosed": voiced is not None, "disclosure_quote": voiced} for conflict in listed]
    notes = f"Possible conflicts between {len(found)} pair(s) of passages: figures or dates differ." if found else ""
    if len(listed) < len(found):
        notes += f" Only {len(listed)} of them are listed."
    return {"conflicts": conflicts, "conflict_notes": notes}


def _listed(found: list[dict[str, Any]], sources: Sources) -> list[dict[str, Any]]:
    """As many conflicts as an answer may list: of each pair of sources the surest first, since pairs are counted."""
    surest = sorted(found, key=lambda one: -one["confidence"])
    by_pair: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in surest:
        by_pair[sources.pair(one["source_a"], one["source_b"])].append(one)
    firsts = [ones[0] for ones in by_pair.values()]
    others = [one for ones in by_pair.values() for one in ones[1:]]
    return [*firsts, *others][:MOST_LISTED]


def sentence_conflict(a: str, in_a: Passage, b: str, in_b: Passage) -> Contradiction | None:
    """Whether two sentences of two passages contradict each other as the passages of a turn are held to."""
    if _editions_differ(in_a, in_b):
        return None
    found = _contradiction(Statement("", in_a, read(a)), Statement("", in_b, read(b)))
    return found if found and found.probability >= LEAST_SCORE else None


def disclosure(answer: str) -> str | None:
    """The sentence of an answer that says that its sources disagree, None where no plain word says so."""
    return next((sentence.text for sentence in statements(answer) if _DISAGREE.search(sentence.text)), None)


def _conflicts(passages: list[tuple[str, Passage]]) -> Iterator[dict[str, Any]]:
    """The most probable conflict of each pair of passages."""
    stated = [_statements(ref, passage) for ref, passage in passages]
    left = _MOST_COMPARISONS
    for first, second in combinations(stated, 2):
        if not first or not second or _editions_differ(first[0].passage, second[0].passage):
            continue
        best: tuple[Contradiction, Statement, Statement] | None = None
        for one, other in _related(first, second):
            left -= 1
            if left < 0:
                return
            found = _contradiction(one, other)
            if found and found.probability >= LEAST_SCORE and (best is None or found.probability > best[0].probability):
                best = (found, one, other)
        if best:
            yield _conflict(*best)


def _related(first: list[Statement], second: list[Statement]) -> Iterator[tuple[Statement, Statement]]:
    """The pairs of statements that share enough words to speak of one thing."""
    by_stem: dict[str, list[int]] = defaultdict(list)
    for index, statement in enumerate(second):
        for word in statement.reading.content:
            by_stem[word].append(index)
    for statement in first:
        shared: dict[int, int] = defaultdict(int)
        for word in statement.reading.content:
            for index in by_stem.get(word, ()):
                shared[index] += 1
        for index, count in sorted(shared.items()):
            if count >= _LEAST_SHARED:
                yield statement, second[index]


def _contradiction(one: Statement, other: Statement) -> Contradiction | None:
    """What either order of the two statements shows; a passage knows no earlier and later."""
    if _other_subject(one, other):
        return None
    a, b = one.said(_topic(one)), other.said(_topic(other))
    found = [contradiction(a, b), contradiction(b, a)]
    if found[0] is None or found[1] is None:
        return _other_limit(one.reading, other.reading)
    return min(found[0], found[1], key=lambda c: c.probability)


def _other_limit(a: Reading, b: Reading) -> Contradiction | None:
    """Two limits of one kind (at most 10 days, at most 5 days; by 30 June, by 31 March) in sentences of like content.

    Whole sentences are compared, since one rule is often two clauses here and one there.
    """
    if labels_differ(a, b) or years_differ(a, b):
        return None
    first, second = a.content - _LIMITS, b.content - _LIMITS
    alike, shared = similarity(first, second)
    if alike < LEAST_SCORE or shared < _LEAST_SHARED or picks_differ(first, second):
        return None
    for mine in a.figures:
        for theirs in b.figures:
            if _role(mine) and _role(mine) == _role(theirs) and _differ(mine, theirs):
                return Contradiction(f"{mine.text} became {theirs.text}", round(alike, 2))
    return None


def _differ(a: Figure, b: Figure) -> bool:
    if a.quantity and b.quantity:
        return same_measure(a.quantity, b.quantity) and abs(a.quantity.value - b.quantity.value) > 1e-9
    if a.date is None or b.date is None or a.date.year != b.date.year:
        return False  # a date of another year is of another period
    return bool(a.date.month or a.date.quarter) and a.date.differs(b.date)


def _role(figure: Figure) -> str:
    """The end of a range that a figure marks explicitly; empty where it marks none or is approximate."""
    role = figure.quantity.role if figure.quantity else figure.date.role if figure.date else ""
    return role if role in ("most", "least", "deadline") else ""


def _other_subject(one: Statement, other: Statement) -> bool:
    """Whether the sentences name nothing, and each passage opens with a name that the other does not know."""
    if frozenset().union(*one.reading.names) & frozenset().union(*other.reading.names):
        return False
    mine, theirs = (_about(statement.passage.text or "") for statement in (one, other))
    return bool(mine - _stems(other.passage.text or "") and theirs - _stems(one.passage.text or ""))


@remembered(1024)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stems(text)[0])


def _statements(ref: str, passage: Passage) -> list[Statement]:
    readings = (read(sentence.text) for sentence in statements(passage.text or ""))
    return [Statement(ref, passage, reading) for reading in readings if reading.figures]


def _topic(statement: Statement) -> frozenset[str]:
    own = frozenset().union(*statement.reading.names)
    return own or _about(statement.passage.text or "")


@remembered(1024)
def _about(text: str) -> frozenset[str]:
    """The names in the opening sentence of a passage: what a sentence without names is taken to speak of."""
    opening = next(iter(statements(text)), None)
    found = names(opening.text) if opening else []
    return frozenset(stem(name) for name in found if name.casefold() not in MONTHS)


def _editions_differ(a: Passage, b: Passage) -> bool:
    """Whether a passage says that it replaces or was replaced, or titles name years and none in common: editions."""
    if any(_REPLACED.search(p.text or "") for p in (a, b)):
        return True
    years = [{d.year for d in dates(p.title or "") if d.year} for p in (a, b)]
    return bool(years[0] and years[1] and not years[0] & years[1])


def _conflict(found: Contradiction, one: Statement, other: Statement) -> dict[str, Any]:
    mine, theirs = one.reading.text, other.reading.text
    return {
        "source_a": one.ref,
        "claim_a": mine[:4_000],
        "quote_a": mine,
        "source_b": other.ref,
        "claim_b": theirs[:4_000],
        "quote_b": theirs,
        "severity": "MATERIAL",
        "explanation": f"Possible conflict: {_neutral(found.reason)}.",
        "confidence": found.probability,
    }


def _neutral(reason: str) -> str:
    """Passages have no order in time: what one says became of what the other says is no change."""
    return reason.partition(", each")[0].replace(" became ", " against ")
