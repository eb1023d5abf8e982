"""How sure the figures are: intervals by resampling whole groups, and when a sample is too small to decide anything.

Items of one conversation, topic or question resemble each other, so groups are drawn, not items. The generator is
seeded: the same labels and scores give the same intervals everywhere.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_drift.calibration.metrics import Scored

RESAMPLES = 1_000
"""Resamples by default: the ends of a 95 % interval then rest on 25 of them each."""
SEED = 20_240_601
LEVEL = 0.95

LEAST_ITEMS = 20
"""`few_positives`, `few_negatives`: fewer items of a class make its rate move by more than 5 points with one item."""
LEAST_GROUPS = 10
"""`few_groups`: from fewer groups of a class resampling cannot tell how much groups differ."""
WIDEST_INTERVAL = 0.2
"""`wide_interval`: a wider 95 % interval cannot tell a useful judge from a poor one."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Intervals:
    """Percentile intervals by figure. `used`: resamples that held both classes, of `resamples` drawn."""

    figures: Mapping[str, Interval] = field(default_factory=dict)
    groups: int = 0
    resamples: int = 0
    used: int = 0


@dataclass(frozen=True, slots=True)
class TooSmall:
    """A rule that says the sample cannot decide, and why in a sentence."""

    rule: str
    says: str


def intervals(items: Sequence[Scored], threshold: float, *, resamples: int = RESAMPLES, seed: int = SEED) -> Intervals:
    """95 % percentile intervals of AUROC and of the rates at a fixed `threshold`.

    Each resample draws as many groups as there are, with replacement, and takes all items of each. A resample without
    both classes gives no figure and is not used. A rate of 0 or 1 gets an exact interval, see `share_interval`. The
    threshold stays as it is: the intervals do not say how much worse a threshold chosen on these very items may do on
    others.
    """
    ranks = {score: rank for rank, score in enumerate(sorted({item.score for item in items}))}
    first_flagged = sum(score < threshold for score in ranks)
    members: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for item in items:
        members[item.group].append((ranks[item.score], item.bad))
    groups = list(members.values())
    generator = random.Random(seed)  # noqa: S311 - statistics, no secret
    drawn: dict[str, list[float]] = defaultdict(list)
    used = 0
    for _ in range(resamples if groups else 0):
        bad, good = [0] * len(ranks), [0] * len(ranks)
        for group in generator.choices(groups, k=len(groups)):
            for rank, is_bad in group:
                (bad if is_bad else good)[rank] += 1
        positives, negatives = sum(bad), sum(good)
        if positives and negatives:
            used += 1
            for name, value in _figures(bad, good, positives, negatives, first_flagged).items():
                drawn[name].append(value)
    concerned = {
        "recall": len({item.group for item in items if item.bad}),
        "miss_rate": len({item.group for item in items if item.bad}),
        "false_alarm_rate": len({item.group for item in items if not item.bad}),
        "precision": len({item.group for item in items if item.score >= threshold}),
    }
    found = {
        name: _opened(percentile_interval(values), concerned.get(name, 0)) for name, values in drawn.items() if values
    }
    return Intervals(found, len(groups), resamples, used)


def share_interval(
    outcomes: Sequence[tuple[str, bool]], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval | None:
    """The 95 % interval of a share, from (group, whether it counts), by drawing groups; None without resamples.

    A share of 0 or 1 is the same in every resample, which shows nothing: then the open end is the exact one of
    Clopper and Pearson (1934) for as many items as there are groups.
    """
    members: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for group, counts in outcomes:
        members[group][0] += counts
        members[group][1] += 1
    groups = list(members.values())
    generator = random.Random(seed)  # noqa: S311 - statistics, no secret
    values = []
    for _ in range(resamples if groups else 0):
        drawn = generator.choices(groups, k=len(groups))
        values.append(sum(hits for hits, _ in drawn) / sum(size for _, size in drawn))
    return _opened(percentile_interval(values), len(groups)) if values else None


def percentile_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The range between the two percentiles that hold `level` of the values, interpolated between neighbours."""
    ordered = sorted(values)
    tail = (1 - level) / 2
    return _percentile(ordered, tail), _percentile(ordered, 1 - tail)


def too_small(
    items: Sequence[Scored],
    found: Intervals,
    *,
    figures: Sequence[str],
    target_miss_rate: float | None = None,
) -> list[TooSmall]:
    """Every rule by which these items cannot decide; empty where they can.

    Args:
        items: what was scored.
        found: its intervals.
        figures: whose intervals may not be wider than `WIDEST_INTERVAL`.
        target_miss_rate: where a threshold for it is wanted: to show that at most this share is missed takes at least
            3 ÷ share bad items, even if none is missed (`rule_of_three`: with none of n missed, the upper end of the
            95 % interval is about 3 ÷ n; Hanley & Lippman-Hand, JAMA 1983).
    """
    problems = []
    for name, bad in (("positives", True), ("negatives", False)):
        count = sum(item.bad is bad for item in items)
        groups = len({item.group for item in items if item.bad is bad})
        kind = "bad" if bad else "good"
        if count < LEAST_ITEMS:
            problems.append(TooSmall(f"few_{name}", f"{count} {kind} items; {LEAST_ITEMS} or more are needed"))
        elif groups < LEAST_GROUPS:
            says = f"the {kind} items come from {groups} groups; {LEAST_GROUPS} or more are needed"
            problems.append(TooSmall("few_groups", says))
    for name in figures:
        low, high = found.figures.get(name, (0.0, 0.0))
        if high - low > WIDEST_INTERVAL:
            says = f"the 95 % interval of {name} goes from {low:.2f} to {high:.2f}, wider than {WIDEST_INTERVAL}"
            problems.append(TooSmall("wide_interval", says))
    if target_miss_rate is not None:
        positives = sum(item.bad for item in items)
        needed = math.ceil(3 / target_miss_rate - 1e-9) if target_miss_rate > 0 else None
        if needed is None or positives < needed:
            wanted = "no number of items can show a miss rate of 0" if needed is None else f"{needed} are needed"
            says = f"{positives} bad items cannot show a miss rate of {target_miss_rate:g}: {wanted}"
            problems.append(TooSmall("rule_of_three", says))
    return problems


def _figures(
    bad: Sequence[int], good: Sequence[int], positives: int, negatives: int, first_flagged: int
) -> dict[str, float]:
    """The figures of one resample, from counts by rank of score."""
    above, area = positives, 0.0
    for of_bad, of_good in zip(bad, good, strict=True):
        above -= of_bad
        area += of_good * (above + of_bad / 2)
    hits, alarms = sum(bad[first_flagged:]), sum(good[first_flagged:])
    values = {
        "auroc": area / (positives * negatives),
        "balanced_accuracy": (hits / positives + 1 - alarms / negatives) / 2,
        "recall": hits / positives,
        "miss_rate": 1 - hits / positives,
        "false_alarm_rate": alarms / negatives,
    }
    return {**values, "precision": hits / (hits + alarms)} if hits + alarms else values


def _opened(interval: Interval, groups: int) -> Interval:
    """A point at 0 or 1 as the interval that so many groups can show."""
    if groups and interval[0] == interval[1] and interval[0] in (0.0, 1.0):
        unseen = 1 - ((1 - LEVEL) / 2) ** (1 / groups)
        return (0.0, unseen) if interval[0] == 0.0 else (1 - unseen, 1.0)
    return interval


def _percentile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
