"""Copies of one text among passages: two of them are one origin, so neither corroborates the other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from otel_drift.text import content_stems, fold, number_values
from otel_drift.text.remembered import remembered

SAME_SHARE = 0.8
"""Share of content stems that two texts have in common (Jaccard) from which they are one text in other words."""
LEAST_STEMS = 8
"""Shorter texts are copies only where they are equal."""

_NEGATION = re.compile(r"\b(?:no|not|never|none|neither|nor|without|cannot|\w+n['’]t)\b", re.IGNORECASE)


def origins(texts: Sequence[str]) -> tuple[int, ...]:
    """The number of the origin of each text: the index of the first text it is a copy of, itself where of none."""
    found: list[int] = []
    for index, text in enumerate(texts):
        found.append(next((found[earlier] for earlier in range(index) if same_origin(texts[earlier], text)), index))
    return tuple(found)


def same_origin(a: str, b: str) -> bool:
    """Whether two passages are near-identical: the same words but for a few, the same numbers and negations."""
    if fold(a).casefold() == fold(b).casefold():
        return True
    first, second = _stems(a), _stems(b)
    if min(len(first), len(second)) < LEAST_STEMS or number_values(a) != number_values(b):
        return False
    if len(_NEGATION.findall(a)) != len(_NEGATION.findall(b)):
        return False
    return len(first & second) >= SAME_SHARE * len(first | second)


@remembered(1024)
def _stems(text: str) -> frozenset[str]:
    return frozenset(content_stems(text))
