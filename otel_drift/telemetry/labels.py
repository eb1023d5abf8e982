"""Values of labels that come from traces or the outside: cleaned, and never more of them than a store can bear."""

from __future__ import annotations

import threading
from collections.abc import Sequence

OTHER = "other"
UNKNOWN = "unknown"
LONGEST = 100


class Bounded:
    """The first `most` distinct values as they are, every further one as ``other``; safe to use from threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, value: object) -> str:
        """The value of the label; ``unknown`` for None and for what says nothing."""
        said = cleaned(value)
        if said in (UNKNOWN, OTHER):
            return said
        with self._lock:
            if said not in self._known:
                if len(self._known) >= self._most:
                    return OTHER
                self._known.add(said)
        return said


class BoundedTuples:
    """Several labels together, each bounded, and their combinations too: beyond, all of them are ``other``."""

    def __init__(self, most_each: Sequence[int], most: int) -> None:
        self._each = [Bounded(limit) for limit in most_each]
        self._most = most
        self._known: set[tuple[str, ...]] = set()
        self._lock = threading.Lock()

    def __call__(self, *values: object) -> tuple[str, ...]:
        """The values of the labels, in the order given."""
        said = tuple(each(value) for each, value in zip(self._each, values, strict=True))
        with self._lock:
            if said not in self._known:
                if len(self._known) >= self._most:
                    return (OTHER,) * len(said)
                self._known.add(said)
        return said


def cleaned(value: object) -> str:
    """One line without control, format, private or surrogate characters, at most 100 characters long."""
    if not isinstance(value, str):
        return UNKNOWN
    # Far more than is kept is not looked at: the value may be a trace's, of any size.
    head = value[: 4 * LONGEST]
    if not head.isprintable():
        head = "".join(one if one.isprintable() else " " for one in head)
    return " ".join(head.split())[:LONGEST].rstrip() or UNKNOWN
