"""A session as the embedded judge reads it: statements, their figures, and how far their contexts overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from otel_drift.judges.rules_lexicon import antonyms, rarity
from otel_drift.text import (
    Date,
    Quantity,
    clauses,
    content_words,
    dates,
    names,
    quantities,
    stem,
)
from otel_drift.text.dates import MONTHS
from otel_drift.text.quantities import is_unit
from otel_drift.text.remembered import remembered

SELECTORS = frozenset(
    stem(word)
    for word in """
    adult child infant baby teenager senior elderly pregnant woman man male female student apprentice trainee pensioner
    employee employer contractor spouse partner widow orphan parent fulltime parttime new existing former current
    first second third fourth fifth sixth next last previous initial further additional extra another each later
    standard premium basic plus pro enterprise express economy business deluxe starter personal family group
    domestic international foreign national regional local weekday weekend sunday saturday holiday single double
    joint half full part partial monthly quarterly annual yearly weekly daily winter summer spring autumn
    average default hard soft gross net small large medium online offline paper manual automatic
    synchronous asynchronous private public internal external early late normal special emergency temporary permanent
    oral intravenous tablet capsule liquid old used gold silver bronze platinum mobile desktop outbound inbound
    incoming outgoing upload download primary secondary tertiary severe mild moderate acute chronic
    renewal deposit booster overage roaming transfer refund exchange
    """.split()  # noqa: SIM905 - a table reads better than quoted strings
)
"""Words that pick one thing out of several: figures are only compared where both sides pick alike."""


MOST_FIGURES = 24
"""A sentence with more figures is a table, where no figure can be told from its neighbours."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A quantity or date with the words around it that say what it is a figure of."""

    clause: int
    context: frozenset[str]
    quantity: Quantity | None = None
    date: Date | None = None

    @property
    def text(self) -> str:
        """As written."""
        found = self.quantity or self.date
        return found.text if found else ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence, read once: its clauses, the content stems of each, its figures, names and labels."""

    text: str
    clauses: tuple[str, ...]
    contexts: tuple[frozenset[str], ...]
    content: frozenset[str]
    figures: tuple[Figure, ...]
    labels: frozenset[tuple[str, float]]
    names: tuple[frozenset[str], ...]
    years: frozenset[int] = field(default_factory=frozenset)


_PRONOUNS = frozenset(
    ["it", "its", "they", "them", "their", "this", "that", "these", "those", "he", "she", "which", "there", "then"]
)
_SUBORDINATORS = frozenset(
    [
        "if",
        "should",
        "once",
        "when",
        "whenever",
        "unless",
        "because",
        "since",
        "although",
        "while",
        "as",
        "provided",
        "after",
        "before",
    ]
)


@remembered(4096)
def read(sentence: str) -> Reading:
    """Read a sentence. A clause that opens with a pronoun or says little takes the words of the clause before it."""
    pieces = tuple(clauses(sentence)) or (sentence,)
    contexts: list[frozenset[str]] = []
    main: frozenset[str] = frozenset()
    figures: list[Figure] = []
    labels: set[tuple[str, float]] = set()
    for index, piece in enumerate(pieces):
        found = quantities(piece)
        labels.update((q.label, q.value) for q in found if q.label)
        context = frozenset(stem(w) for w in content_words(_without_figures(piece, found)) if not w[0].isdigit())
        opening = piece.split(None, 2)[:2]
        depends = any(w.casefold().strip(",") in _PRONOUNS for w in opening) or len(context) < 3
        subordinate = opening[0].casefold() in _SUBORDINATORS
        if depends and not subordinate:
            context |= main
        main = main if subordinate else context
        contexts.append(context)
        figures.extend(Figure(index, context, quantity=q) for q in found if q.unit and not q.label)
        figures.extend(Figure(index, context, date=d) for d in dates(piece))
    return Reading(
        text=sentence,
        clauses=pieces,
        contexts=tuple(contexts),
        content=frozenset(stem(w) for w in content_words(sentence) if not w[0].isdigit()),
        figures=tuple(figures) if len(figures) <= MOST_FIGURES else (),
        labels=frozenset(labels),
        names=tuple(
            frozenset(stem(n) for n in names(p) if n.casefold() not in MONTHS and not is_unit(n)) for p in pieces
        ),
        years=frozenset(d.year for d in dates(sentence) if d.year is not None),
    )


_PICKED = re.compile(r"^(?:hundred|thousand|million|billion|bn)\b", re.IGNORECASE)


def _without_figures(piece: str, found: Iterable[Quantity]) -> str:
    text = piece
    for figure in sorted(dates(piece), key=lambda d: -d.start):
        text = text[: figure.start] + " " * (figure.end - figure.start) + text[figure.end :]
    for quantity in found:
        if quantity.label:
            continue
        middle = _PICKED.sub("", quantity.text.rpartition(" ")[0].partition(" ")[2])
        blank = (" " + middle).ljust(quantity.end - quantity.start)  # "10 unused days": how it is picked stays
        text = text[: quantity.start] + blank + text[quantity.end :]
    return text


def similarity(a: frozenset[str], b: frozenset[str]) -> tuple[float, int]:
    """How much two contexts say the same (0..1) and how many stems they share.

    What only one side adds costs less than what each side has for itself: a restatement is often shorter or longer,
    but two statements that both say something of their own are about different things.
    """
    shared = a & b
    if not shared:
        return 0.0, 0
    common = sum(rarity(s) for s in shared)
    left, right = sum(rarity(s) for s in a - b), sum(rarity(s) for s in b - a)
    return common / (common + min(left, right) + 0.3 * abs(left - right)), len(shared)


def picks_differ(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether the two contexts pick different things: a selector on one side only, or opposites on both."""
    if (a ^ b) & SELECTORS:
        return True
    opposites = antonyms()
    return any(opposites.get(word, frozenset()) & b - a for word in a - b)


def labels_differ(a: Reading, b: Reading) -> bool:
    """Whether two sentences speak of different labelled things ("Zone 1", "Zone 2")."""
    kinds = {kind for kind, _ in a.labels} & {kind for kind, _ in b.labels}
    return any({v for k, v in a.labels if k == kind} != {v for k, v in b.labels if k == kind} for kind in kinds)


def years_differ(a: Reading, b: Reading) -> bool:
    """Whether both sentences name years and none in common."""
    return bool(a.years and b.years and not a.years & b.years)


def names_differ(a: Reading, i: int, b: Reading, j: int) -> bool:
    """Whether clause `i` of `a` and clause `j` of `b` each have a name that the other sentence has not."""
    return bool(a.names[i] - b.content) and bool(b.names[j] - a.content)
