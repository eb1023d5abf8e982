"""Do two passages contradict each other, as far as a figure or a date can show it?

Only a same-unit number or date that differs between two sentences which otherwise say the same of the same thing. A
lexical judge takes different editions, entities of one name and populations for conflicts easily, so anything that
could tell the two passages apart keeps it silent: it misses most conflicts in order to raise few false ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from otel_drift.judges.rules_contradiction import Contradiction, Said, contradiction
from otel_drift.judges.rules_drift import UnreadableError
from otel_drift.judges.rules_statements import Reading, read
from otel_drift.model import JudgeTask, Passage, Session
from otel_drift.text import dates, is_english, names, statements, stem, stems

LEAST_SCORE = 0.7
"""What is less probable is not raised (measured: below it, ordinary passages set it off)."""
_LEAST_SHARED = 3
_MOST_COMPARISONS = 20_000


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
        raise UnreadableError(f"{len(shown) - len(readable)} of {len(shown)} passages")
    conflicts = list(_conflicts(readable))
    pairs = len({(one["source_a"], one["source_b"]) for one in conflicts})
    notes = f"Possible conflicts between {pairs} pair(s) of passages: figures or dates differ." if conflicts else ""
    return {"conflicts": conflicts, "conflict_notes": notes}


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
    if None in found:
        return None
    return min((one for one in found if one), key=lambda c: c.probability)


def _other_subject(one: Statement, other: Statement) -> bool:
    """Whether the sentences name nothing, and each passage opens with a name that the other does not know."""
    if frozenset().union(*one.reading.names) & frozenset().union(*other.reading.names):
        return False
    mine, theirs = (_about(statement.passage.text or "") for statement in (one, other))
    return bool(mine - _stems(other.passage.text or "") and theirs - _stems(one.passage.text or ""))


@lru_cache(maxsize=1024)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stems(text)[0])


def _statements(ref: str, passage: Passage) -> list[Statement]:
    readings = (read(sentence.text) for sentence in statements(passage.text or ""))
    return [Statement(ref, passage, reading) for reading in readings if reading.figures]


def _topic(statement: Statement) -> frozenset[str]:
    own = frozenset().union(*statement.reading.names)
    return own or _about(statement.passage.text or "")


@lru_cache(maxsize=1024)
def _about(text: str) -> frozenset[str]:
    """The names in the opening sentence of a passage: what a sentence without names is taken to speak of."""
    opening = next(iter(statements(text)), None)
    return frozenset(stem(name) for name in names(opening.text)) if opening else frozenset()


def _editions_differ(a: Passage, b: Passage) -> bool:
    """Whether titles name years and none in common: editions, not a conflict."""
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
        "disclosed": False,
        "disclosure_quote": None,
    }


def _neutral(reason: str) -> str:
    """Passages have no order in time: what one says became of what the other says is no change."""
    return reason.partition(", each")[0].replace(" became ", " against ")
