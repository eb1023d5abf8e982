"""Figures over scored items: rates at a threshold, the area under the ROC curve, thresholds chosen by a rule.

Throughout, a *score* is 0..1, higher is worse, and an item is flagged where ``score >= threshold``. The positive class
is the bad one: unsupported, contradicted, contradiction, conflict, dropped, assertive.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NOTHING_FLAGGED = math.inf
"""The threshold that no score reaches."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One item: what the judge said, and the truth; `group` and `suite` for resampling and per-set figures."""

    score: float
    bad: bool
    group: str = ""
    suite: str = ""


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts at one threshold and the rates they give. A rate whose denominator is 0 is None, never 0 or 1."""

    hits: int
    misses: int
    false_alarms: int
    passes: int

    @property
    def precision(self) -> float | None:
        """Hits ÷ all that is flagged."""
        return _share(self.hits, self.hits + self.false_alarms)

    @property
    def recall(self) -> float | None:
        """Hits ÷ all that is bad."""
        return _share(self.hits, self.hits + self.misses)

    @property
    def miss_rate(self) -> float | None:
        """Misses ÷ all that is bad: 1 − recall. Of the gate: the missed-conflict rate."""
        return _share(self.misses, self.hits + self.misses)

    @property
    def false_alarm_rate(self) -> float | None:
        """False alarms ÷ all that is good."""
        return _share(self.false_alarms, self.false_alarms + self.passes)

    @property
    def balanced_accuracy(self) -> float | None:
        """The mean of the two classes' recalls; 0.5 is what a judge without any knowledge has."""
        missed, alarmed = self.miss_rate, self.false_alarm_rate
        return None if missed is None or alarmed is None else 1 - (missed + alarmed) / 2


@dataclass(frozen=True, slots=True)
class Point:
    """The rates at one threshold of a curve."""

    threshold: float
    rates: Rates


def rates(items: Iterable[Scored], threshold: float) -> Rates:
    """Count hits, misses, false alarms and passes at `threshold`."""
    counts = [0, 0, 0, 0]
    for item in items:
        counts[(0 if item.score >= threshold else 1) if item.bad else (2 if item.score >= threshold else 3)] += 1
    return Rates(*counts)


def auroc(items: Iterable[Scored]) -> float | None:
    """The probability that a bad item scores above a good one, ties counting half; None without both classes.

    Computed from midranks (Mann–Whitney): items of equal score all get the mean of their ranks.
    """
    ordered = sorted((item.score, item.bad) for item in items)
    positives = sum(bad for _, bad in ordered)
    negatives = len(ordered) - positives
    if not positives or not negatives:
        return None
    rank_sum, first = 0.0, 0
    while first < len(ordered):
        last = first
        while last + 1 < len(ordered) and ordered[last + 1][0] == ordered[first][0]:
            last += 1
        midrank = (first + last) / 2 + 1
        rank_sum += midrank * sum(bad for _, bad in ordered[first : last + 1])
        first = last + 1
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def curve(items: Sequence[Scored]) -> list[Point]:
    """The rates at every threshold that makes a difference: each score that occurs, rising, then `NOTHING_FLAGGED`."""
    bad = sorted(item.score for item in items if item.bad)
    good = sorted(item.score for item in items if not item.bad)
    points = []
    for threshold in [*sorted({item.score for item in items}), NOTHING_FLAGGED]:
        missed, passed = bisect_left(bad, threshold), bisect_left(good, threshold)
        points.append(Point(threshold, Rates(len(bad) - missed, missed, len(good) - passed, passed)))
    return points


def best_threshold(items: Sequence[Scored]) -> float | None:
    """The one threshold with the highest balanced accuracy, averaged over the suites that hold both classes.

    Every suite weighs the same, so that a large one does not decide alone. Of equal thresholds the highest, which
    raises least. None where no suite (nor all of them together) holds both classes.
    """
    suites: dict[str, list[Scored]] = {}
    for item in items:
        suites.setdefault(item.suite, []).append(item)
    usable = [ones for ones in suites.values() if {one.bad for one in ones} == {True, False}]
    if not usable:
        if {item.bad for item in items} != {True, False}:
            return None
        usable = [list(items)]
    sides = [(_sorted(ones, bad=True), _sorted(ones, bad=False)) for ones in usable]
    candidates = sorted({item.score for ones in usable for item in ones})

    def quality(threshold: float) -> float:
        found = [
            1 - bisect_left(bad, threshold) / len(bad) + bisect_left(good, threshold) / len(good) for bad, good in sides
        ]
        return round(sum(found) / len(found), 12)

    return max(candidates, key=lambda threshold: (quality(threshold), threshold))


def target_point(items: Sequence[Scored], target_miss_rate: float) -> Point | None:
    """The highest threshold that misses at most `target_miss_rate` of the bad items: the fewest false alarms for it.

    None where nothing is bad.
    """
    found = None
    for point in curve(items):
        missed = point.rates.miss_rate
        if missed is None or missed > target_miss_rate:
            break
        found = point
    return found


def _sorted(items: Iterable[Scored], *, bad: bool) -> list[float]:
    return sorted(item.score for item in items if item.bad is bad)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
