"""Sessions: which turns of a session came after which, by time and by the history that they resend."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from otel_drift.sessions.history import Pair
from otel_drift.sessions.unit import Unit

SKEW = 5 * 60 * 10**9
"""How far (nanoseconds) a clock may be off before time is trusted more than the resent history."""


class Latest:
    """Units in order; the latest that go on until some time are found without looking at all of them."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self._longer: list[int] = []
        """For each the place of the last one before it that ends later, -1 for none."""

    def add(self, unit: Unit) -> None:
        """Take the next; its end stays as it is."""
        place = len(self.units) - 1
        while place >= 0 and self.units[place].end <= unit.end:
            place = self._longer[place]
        self.units.append(unit)
        self._longer.append(place)

    def until(self, end: int) -> Iterator[Unit]:
        """Those that do not end before `end`, the last first."""
        place = len(self.units) - 1
        while place >= 0:
            if self.units[place].end >= end:
                yield self.units[place]
                place -= 1
            else:
                place = self._longer[place]


def by_history(units: list[Unit]) -> list[Unit]:
    """Time order, but a turn whose history holds another's answer comes after it (clocks of two hosts differ)."""
    unsure = [i for i, u in enumerate(units) if u.history and not (i and u.history[-1] in units[i - 1].pairs_after)]
    if not unsure:
        return units
    holders: dict[Pair, list[int]] = {}
    for index, unit in enumerate(units):
        for pair in unit.pairs_after:
            holders.setdefault(pair, []).append(index)
    starts = [unit.start for unit in units]
    later: dict[int, tuple[int, int]] = {}
    for index in unsure:
        own = holders.get(units[index].history[-1], [])
        first = bisect_right(own, index)
        last = bisect_left(own, bisect_right(starts, starts[index] + SKEW), first)
        if first < last:
            later[index] = first, last
    if not later:
        return units
    order = _Order(len(units), holders)
    for index, unit in enumerate(units):
        own = holders.get(unit.history[-1], []) if unit.history else []
        before = bisect_left(own, index)
        first, last = later.get(index, (before, before))
        if first == before:
            count = last
        else:  # it says again what it resends: not after itself
            count = before
            for other in own[first:last]:
                order.after(index, other)
        if count:
            order.after_first(index, unit.history[-1], count)
    return [units[i] for i in order.places()]


class _Order:
    """Places in order, as far as none is before one that it has to follow.

    Those that follow all of the first holders of a pair wait for one mark instead of each: there is one after every
    holder, numbered on from the places.
    """

    def __init__(self, count: int, holders: dict[Pair, list[int]]) -> None:
        self._count = count
        self._missing = [0] * count
        self._waiting: list[list[int]] = [[] for _ in range(count)]
        self._holders = holders
        self._marks: dict[Pair, list[int]] = {}

    def after(self, place: int, other: int) -> None:
        """Put a place (or mark) after another."""
        self._missing[place] += 1
        self._waiting[other].append(place)

    def after_first(self, place: int, pair: Pair, count: int) -> None:
        """Put a place after the first `count` holders of a pair."""
        marks = self._marks.setdefault(pair, [])
        for holder in self._holders[pair][len(marks) : count]:
            mark = len(self._missing)
            self._missing.append(0)
            self._waiting.append([])
            self.after(mark, holder)
            if marks:
                self.after(mark, marks[-1])
            marks.append(mark)
        if count:
            self.after(place, marks[count - 1])

    def places(self) -> list[int]:
        """All places; where they contradict each other, time decides."""
        ready = [place for place in range(self._count) if not self._missing[place]]
        done: list[int] = []
        placed: set[int] = set()
        first = 0
        while len(done) < self._count:
            while first in placed:
                first += 1
            current = heapq.heappop(ready) if ready else first
            if current in placed:
                continue
            placed.add(current)
            done.append(current)
            released = [current]
            while released:
                for waiting in self._waiting[released.pop()]:
                    self._missing[waiting] -= 1
                    if self._missing[waiting]:
                        continue
                    if waiting >= self._count:
                        released.append(waiting)
                    elif waiting not in placed:
                        heapq.heappush(ready, waiting)
        return done
