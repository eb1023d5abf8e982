"""Figures against values worked out by hand and against the definitions, counted naively."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_drift.calibration.metrics import (
    NOTHING_FLAGGED,
    Scored,
    auroc,
    best_threshold,
    curve,
    rates,
    target_point,
)

SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
ITEMS = st.lists(st.tuples(SCORES, st.booleans()).map(lambda one: Scored(*one)), max_size=40)


def scored(bad: list[float], good: list[float], suite: str = "") -> list[Scored]:
    return [Scored(s, True, suite=suite) for s in bad] + [Scored(s, False, suite=suite) for s in good]


def test_rates_worked_out_by_hand() -> None:
    found = rates(scored([0.9, 0.8, 0.4, 0.1], [0.8, 0.3, 0.2, 0.1, 0.0]), 0.5)

    assert (found.hits, found.misses, found.false_alarms, found.passes) == (2, 2, 1, 4)
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == 0.5
    assert found.miss_rate == 0.5
    assert found.false_alarm_rate == 0.2
    assert found.balanced_accuracy == pytest.approx((0.5 + 0.8) / 2)


def test_a_score_at_the_threshold_is_flagged() -> None:
    assert rates([Scored(0.5, True)], 0.5).hits == 1


def test_a_rate_of_nothing_is_none_and_never_a_number() -> None:
    nothing = rates([], 0.5)
    only_bad = rates(scored([0.1], []), 0.5)

    assert (nothing.precision, nothing.recall, nothing.balanced_accuracy) == (None, None, None)
    assert (only_bad.recall, only_bad.false_alarm_rate, only_bad.balanced_accuracy) == (0.0, None, None)
    assert auroc(scored([0.3, 0.4], [])) is None
    assert best_threshold(scored([0.3], [])) is None


def test_auroc_worked_out_by_hand_with_ties() -> None:
    """Bad .8 .5, good .5 .2: of four pairs three are in order and one is a tie: 3.5 ÷ 4."""
    assert auroc(scored([0.8, 0.5], [0.5, 0.2])) == 0.875
    assert auroc(scored([0.5, 0.5], [0.5])) == 0.5
    assert auroc(scored([0.1], [0.9])) == 0.0


@given(ITEMS)
def test_auroc_is_the_share_of_pairs_in_order(items: list[Scored]) -> None:
    bad = [one.score for one in items if one.bad]
    good = [one.score for one in items if not one.bad]
    wins = sum((b > g) + 0.5 * (b == g) for b in bad for g in good)

    found = auroc(items)

    assert found == (pytest.approx(wins / (len(bad) * len(good))) if bad and good else None)


@given(ITEMS)
def test_the_curve_has_the_rates_of_every_threshold_that_makes_a_difference(items: list[Scored]) -> None:
    points = curve(items)

    assert [point.rates for point in points] == [rates(items, point.threshold) for point in points]
    assert [point.threshold for point in points] == [*sorted({one.score for one in items}), NOTHING_FLAGGED]


@given(ITEMS)
def test_no_threshold_beats_the_best_one(items: list[Scored]) -> None:
    best = best_threshold(items)
    if best is None:
        assert {one.bad for one in items} != {True, False}
        return
    reached = [rates(items, threshold).balanced_accuracy or 0 for threshold in {one.score for one in items}]
    assert rates(items, best).balanced_accuracy == pytest.approx(max(reached))


def test_every_suite_weighs_the_same_in_the_choice_of_a_threshold() -> None:
    """A large set is served best by .2, a small one by .8; together .8 wins, though most items lie in the large one."""
    large = scored([0.2] * 60 + [0.9] * 40, [0.1] * 90 + [0.5] * 10, "large")
    small = scored([0.9] * 2, [0.3] * 2, "small")

    pooled = max({0.2, 0.9}, key=lambda t: rates([*large, *small], t).balanced_accuracy or 0)

    assert pooled == 0.2
    assert best_threshold(large) == 0.2
    assert best_threshold([*large, *small]) == 0.9


def test_of_equally_good_thresholds_the_highest_is_taken() -> None:
    assert best_threshold(scored([0.9, 0.2], [0.5, 0.1])) == 0.9


@given(ITEMS, st.sampled_from([0.0, 0.05, 0.2, 0.5]))
def test_the_target_threshold_is_the_highest_that_keeps_to_it(items: list[Scored], target: float) -> None:
    point = target_point(items, target)
    allowed = [
        threshold
        for threshold in [*{one.score for one in items}, NOTHING_FLAGGED]
        if (missed := rates(items, threshold).miss_rate) is not None and missed <= target
    ]

    assert (None if point is None else point.threshold) == (max(allowed) if allowed else None)


def test_a_target_of_five_percent_worked_out_by_hand() -> None:
    """Of 20 bad items one may be missed: the threshold is the second lowest score."""
    point = target_point(scored([n / 20 for n in range(1, 21)], [0.0, 0.08, 0.3]), 0.05)

    assert point is not None
    assert point.threshold == 0.1
    assert point.rates.miss_rate == 0.05
    assert point.rates.false_alarm_rate == pytest.approx(1 / 3)
    assert not math.isinf(point.threshold)
