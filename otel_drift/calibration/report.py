"""All that ``calibrate`` says of a judge, as one JSON-ready object: figures, intervals, thresholds, what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otel_drift.calibration.bootstrap import RESAMPLES, SEED, Intervals, TooSmall, intervals, share_interval, too_small
from otel_drift.calibration.judging import Judged, median_milliseconds
from otel_drift.calibration.labels import Stratum, Task
from otel_drift.calibration.metrics import (
    Point,
    Rates,
    Scored,
    auroc,
    best_threshold,
    curve,
    rates,
    target_point,
)
from otel_drift.labels import REVIEWS

MOST_POINTS = 200
"""Points of the curve at most; of more distinct scores every n-th is given, the ends always."""
TARGET_MISS_RATE = 0.05

_WATCHED: Mapping[bool, tuple[str, ...]] = {True: ("miss_rate", "false_alarm_rate"), False: ("balanced_accuracy",)}
_STRATA: tuple[Stratum, ...] = ("real", "temporal", "contextual", "consistent")


def build_report(
    task: Task,
    judged: Sequence[Judged],
    *,
    threshold: float | None = None,
    target_miss_rate: float = TARGET_MISS_RATE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> dict[str, Any]:
    """Measure a judge by what it said of labelled items.

    Args:
        task: what the items are about.
        judged: all items, scored or not.
        threshold: measure at this one; by default the best on these very items (see `best_threshold`), which flatters
            the judge a little.
        target_miss_rate: find the threshold that misses no more than this share of the bad items.
        resamples: of the bootstrap, 0 for no intervals.
        seed: of the bootstrap.

    Returns:
        ``n`` scored items, ``positives``, ``negatives``, ``groups``, ``auroc``, ``threshold`` and the rates at it,
        ``intervals``, ``target``, ``suites``, ``too_small``, ``curve`` and more; a figure that cannot be computed is
        null. An item counts where it was judged and its label is neither mixed nor no_claim.
    """
    gate = task == "passage_conflict"
    scored = [_scored(one) for one in judged if _counts(one)]
    at = best_threshold(scored) if threshold is None else threshold
    found = intervals(scored, math.inf if at is None else at, resamples=resamples, seed=seed)
    target = target_point(scored, target_miss_rate)
    rules = too_small(scored, found, figures=_WATCHED[gate] if resamples else (), target_miss_rate=target_miss_rate)
    rules += _of_labels(judged)
    report = {
        "task": task,
        "n": len(scored),
        "positives": sum(one.bad for one in scored),
        "negatives": sum(not one.bad for one in scored),
        "groups": found.groups,
        "auroc": _rounded(auroc(scored)),
        **_figures(scored, at),
        "threshold": _finite(at),
        "threshold_chosen": "given" if threshold is not None else "best balanced accuracy on these items",
        "p50_ms": median_milliseconds(judged),
        "intervals": _intervals(found, seed),
        "target": _target(target, target_miss_rate, scored),
        "better_than_chance": _better_than_chance(found),
        "decidable": not rules,
        "too_small": [{"rule": rule.rule, "says": rule.says} for rule in rules],
        "suites": _suites(scored, at),
        "mean_of_suites": _mean_of_suites(scored, at),
        "left_out": _left_out(judged),
        "inconclusive": _inconclusive(judged),
        "distinct_scores": len({one.score for one in scored}),
        "curve": [_point(point) for point in thinned(curve(scored))] if scored else [],
    }
    if task == "grounding":
        report["no_claim"] = _no_claim(judged, at)
        report["statements_only"] = _statements_only(judged, at)
    if gate:
        overall = rates(scored, math.inf if at is None else at)
        report["missed_conflict_rate"] = _rounded(overall.miss_rate)
        report["strata"] = _strata(judged, at, resamples=resamples, seed=seed)
    return report


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most `MOST_POINTS` of a curve, evenly chosen, its ends among them."""
    if len(points) <= MOST_POINTS:
        return list(points)
    step = (len(points) - 1) / (MOST_POINTS - 1)
    return [points[round(number * step)] for number in range(MOST_POINTS)]


def _counts(one: Judged) -> bool:
    return one.score is not None and one.item.bad is not None


def _scored(one: Judged) -> Scored:
    assert one.score is not None
    return Scored(one.score, bool(one.item.bad), one.item.group, one.item.suite)


def _figures(scored: Sequence[Scored], at: float | None) -> dict[str, float | None]:
    found = rates(scored, math.inf if at is None else at)
    if at is None:
        return dict.fromkeys(("balanced_accuracy", "precision", "recall", "miss_rate", "false_alarm_rate"))
    return _rates(found)


def _rates(found: Rates) -> dict[str, float | None]:
    return {
        "balanced_accuracy": _rounded(found.balanced_accuracy),
        "precision": _rounded(found.precision),
        "recall": _rounded(found.recall),
        "miss_rate": _rounded(found.miss_rate),
        "false_alarm_rate": _rounded(found.false_alarm_rate),
    }


def _intervals(found: Intervals, seed: int) -> dict[str, Any]:
    ends = {name: [round(low, 4), round(high, 4)] for name, (low, high) in found.figures.items()}
    method = {"level": 0.95, "resamples": found.resamples, "used": found.used, "seed": seed, "by": "group"}
    return {**ends, "bootstrap": method}


def _better_than_chance(found: Intervals) -> bool | None:
    """Whether the whole interval of AUROC lies above a toss-up; None without an interval."""
    ends = found.figures.get("auroc")
    return None if ends is None else ends[0] > 0.5


def _target(point: Point | None, wanted: float, scored: Sequence[Scored]) -> dict[str, Any]:
    """The threshold for the target; `useful` is false where only flagging everything reaches it."""
    if point is None:
        return {"miss_rate_wanted": wanted, "threshold": None, "useful": False}
    lowest = min(one.score for one in scored)
    return {
        "miss_rate_wanted": wanted,
        "threshold": _finite(point.threshold),
        **_rates(point.rates),
        "useful": point.threshold > lowest,
    }


def _of_labels(judged: Sequence[Judged]) -> list[TooSmall]:
    rules = []
    if machine := sum(one.item.by_machine for one in judged):
        says = f"{machine} labels repeat what a machine decided; a person's are needed (review export --reviewed)"
        rules.append(TooSmall("machine_labels", says))
    if reviews := sum(one.item.suite == REVIEWS for one in judged):
        says = f"{reviews} labels are of findings only: what the judge of that time did not raise is not among them"
        rules.append(TooSmall("flagged_only", says))
    return rules


def _suites(scored: Sequence[Scored], at: float | None) -> dict[str, dict[str, Any]]:
    return {
        suite: {
            "n": len(ones),
            "positives": sum(one.bad for one in ones),
            "auroc": _rounded(auroc(ones)),
            **_figures(ones, at),
        }
        for suite, ones in _by_suite(scored).items()
    }


def _mean_of_suites(scored: Sequence[Scored], at: float | None) -> dict[str, float | None]:
    """Means over the suites that hold both classes, every suite weighing the same."""
    found = [ones for ones in _by_suite(scored).values() if {one.bad for one in ones} == {True, False}]
    areas = [area for ones in found if (area := auroc(ones)) is not None]
    balanced = [rates(ones, math.inf if at is None else at).balanced_accuracy for ones in found]
    return {"auroc": _mean(areas), "balanced_accuracy": _mean([value for value in balanced if value is not None])}


def _by_suite(scored: Iterable[Scored]) -> dict[str, list[Scored]]:
    suites: dict[str, list[Scored]] = {}
    for one in scored:
        suites.setdefault(one.suite, []).append(one)
    return dict(sorted(suites.items()))


def _left_out(judged: Sequence[Judged]) -> dict[str, int]:
    return dict(Counter(one.item.label for one in judged if one.item.bad is None))


def _inconclusive(judged: Sequence[Judged]) -> dict[str, Any]:
    """Items without a score: they are in no figure. Many of one class and few of the other would distort the rest."""
    without = [one for one in judged if one.score is None]
    return {
        "n": len(without),
        "positives": sum(one.item.bad is True for one in without),
        "negatives": sum(one.item.bad is False for one in without),
        "reasons": dict(Counter((one.reason or "unknown").partition(":")[0] for one in without)),
    }


def _no_claim(judged: Sequence[Judged], at: float | None) -> dict[str, Any]:
    """Items that claim nothing, and how many a judge would flag all the same."""
    items = [one for one in judged if one.item.label == "no_claim" and one.score is not None]
    flagged = sum(not one.silent and at is not None and (one.score or 0.0) >= at for one in items)
    return {"n": len(items), "flagged": flagged, "share_flagged": _rounded(flagged / len(items)) if items else None}


def _statements_only(judged: Sequence[Judged], at: float | None) -> dict[str, Any]:
    """The figures without answers in which the judge found no statement (refusals): as the fit leaves them out."""
    scored = [_scored(one) for one in judged if _counts(one) and not one.unread]
    return {"n": len(scored), **_mean_of_suites(scored, at)}


def _strata(judged: Sequence[Judged], at: float | None, *, resamples: int, seed: int) -> dict[str, dict[str, Any]]:
    """Missed conflicts among real ones, false alarms among the others; `apparent` is temporal and contextual."""
    wanted: dict[str, tuple[Stratum, ...]] = {name: (name,) for name in _STRATA}
    wanted["apparent"] = ("temporal", "contextual")
    found = {}
    for name, members in wanted.items():
        scored = [_scored(one) for one in judged if _counts(one) and one.item.stratum in members]
        if scored:
            found[name] = _stratum(scored, name, at, resamples=resamples, seed=seed)
    return found


def _stratum(scored: Sequence[Scored], name: str, at: float | None, *, resamples: int, seed: int) -> dict[str, Any]:
    flagged = [(one.group, at is not None and one.score >= at) for one in scored]
    real = name == "real"
    shares = [(group, hit != real) for group, hit in flagged]
    rate = sum(hit for _, hit in shares) / len(shares)
    interval = share_interval(shares, resamples=resamples, seed=seed)
    return {
        "n": len(scored),
        "missed_conflict_rate" if real else "false_alarm_rate": round(rate, 4),
        "interval": [round(end, 4) for end in interval] if interval else None,
    }


def _point(point: Point) -> dict[str, float | None]:
    return {"threshold": _finite(point.threshold), **_rates(point.rates)}


def _finite(value: float | None) -> float | None:
    """A threshold that flags nothing is null in JSON."""
    return None if value is None or math.isinf(value) else value


def _mean(values: Sequence[float]) -> float | None:
    return _rounded(sum(values) / len(values)) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
