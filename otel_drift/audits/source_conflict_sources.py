"""Which passages of a turn are one source: copies of a text, and parts of one document.

Copies never conflict and never count twice. Two parts of one document may contradict each other; against a third
passage they still count as one source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from otel_drift import text
from otel_drift.audits.factual_drift_quotes import stem_set
from otel_drift.model import Passage, Session, Turn
from otel_drift.text.remembered import remembered

NEAR_IDENTICAL = 0.8
"""Share of content stems two texts have in common from which they can be copies, all figures and names being equal."""

_LEAST_STEMS = 5
_NEGATION = re.compile(r"\b(?:no|not|never|none|neither|nor|without|cannot|\w+n['’]t)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ConflictMaterial:
    """What a judge that reads no prompt is given: a session that holds just the turn in question."""

    session: Session


@dataclass(frozen=True, slots=True)
class Sources:
    """The passages of a turn by reference, and for each the first of its copies and the first of its document."""

    passages: Mapping[str, Passage]
    copy_of: Mapping[str, str]
    document_of: Mapping[str, str]

    @property
    def distinct(self) -> int:
        """How many texts there are, copies counted once."""
        return len(set(self.copy_of.values()))

    def pair(self, a: str, b: str) -> tuple[str, str]:
        """The unordered pair of sources that two passages stand for: their documents, or themselves within one."""
        documents = sorted((self.document_of[a], self.document_of[b]), key=_place)
        if documents[0] == documents[1]:
            documents = sorted((self.copy_of[a], self.copy_of[b]), key=_place)
        return documents[0], documents[1]


@remembered(64)
def sources_of(turn: Turn) -> Sources:
    """Index the passages of `turn` that have a text."""
    passages = {
        turn.passage_ref(index): passage
        for index, passage in enumerate(turn.passages)
        if passage.text is not None and passage.text.strip()
    }
    copy_of: dict[str, str] = {}
    for ref, passage in passages.items():
        twins = (first for first in set(copy_of.values()) if are_copies(passages[first].text, passage.text))
        copy_of[ref] = min(twins, key=_place, default=ref)
    document_of: dict[str, str] = {}
    for ref, first in copy_of.items():
        # A copy belongs where its original does, so that a copy filed elsewhere never joins two documents.
        related = (document_of[one] for one in document_of if _one_document(passages[one], passages[first]))
        document_of[ref] = document_of[first] if first != ref else min(related, key=_place, default=ref)
    return Sources(passages, copy_of, document_of)


def are_copies(one: str | None, other: str | None) -> bool:
    """Whether two texts say the same in nearly the same words: no figure, name or negation of one is not the other's.

    A copy with one altered figure or name is the classic conflict, so these are compared exactly.
    """
    if one is None or other is None:
        return False
    if same_text(one, other):
        return True
    a, b = stem_set(one), stem_set(other)
    if len(a | b) < _LEAST_STEMS or len(a & b) < NEAR_IDENTICAL * len(a | b):
        return False
    return (
        _figures(one) == _figures(other)
        and len(_NEGATION.findall(one)) == len(_NEGATION.findall(other))
        and _names(one) == _names(other)
    )


def same_text(one: str, other: str) -> bool:
    """Whether two texts are equal but for white space, typographic quotes and case."""
    return text.fold(one).strip().casefold() == text.fold(other).strip().casefold()


def _figures(passage: str) -> Counter[tuple[float, str]]:
    return Counter((quantity.value, quantity.unit) for quantity in text.quantities(passage))


def _names(passage: str) -> frozenset[str]:
    found = {text.stem(name) for sentence in text.sentences(passage) for name in text.names(sentence.text)}
    return frozenset(found | {date.text.casefold() for date in text.dates(passage)})


def _one_document(a: Passage, b: Passage) -> bool:
    """Whether both name the same source; where neither names one, the same title. A title may tell parts apart."""
    titles_differ = bool(a.title and b.title and a.title != b.title)
    if a.source or b.source:
        return a.source == b.source and not titles_differ
    return bool(a.title) and a.title == b.title


def _place(ref: str) -> tuple[int, str]:
    number = ref.rpartition("p")[2]
    return (int(number) if number.isdigit() else 0), ref
