"""Intervals: the same again for the same seed, wider for fewer groups; the rules that say a sample is too small."""

from __future__ import annotations

import pytest

from otel_drift.calibration.bootstrap import intervals, percentile_interval, share_interval, too_small
from otel_drift.calibration.metrics import Scored, auroc, rates


def sample(groups: int, per_group: int = 1) -> list[Scored]:
    """Half of the groups bad, a fifth of each class on the wrong side of .5."""
    made = []
    for group in range(groups):
        bad = group % 2 == 0
        wrong = group // 2 % 5 == 0
        made += [Scored(0.8 if bad != wrong else 0.2, bad, f"g{group}")] * per_group
    return made


def test_the_same_seed_gives_the_same_intervals_and_another_one_does_not() -> None:
    items = sample(60)

    assert intervals(items, 0.5) == intervals(items, 0.5)
    assert intervals(items, 0.5) != intervals(items, 0.5, seed=1)


def test_intervals_hold_the_figure_itself() -> None:
    items = sample(100)
    found = intervals(items, 0.5).figures
    at = rates(items, 0.5)

    for name, value in {"auroc": auroc(items), "balanced_accuracy": at.balanced_accuracy, "recall": at.recall}.items():
        assert value is not None
        assert found[name][0] < value < found[name][1], name
    assert found["miss_rate"] == pytest.approx((1 - found["recall"][1], 1 - found["recall"][0]))


def test_a_resample_has_the_figures_of_its_items() -> None:
    """One group: every resample is the sample itself, so that each interval is a point."""
    items = [Scored(s, b, "g") for s, b in [(0.9, True), (0.5, True), (0.5, False), (0.1, False), (0.7, False)]]

    found = intervals(items, 0.5, resamples=20).figures

    at = rates(items, 0.5)
    assert found["auroc"] == pytest.approx((auroc(items), auroc(items)))
    assert found["precision"] == pytest.approx((at.precision, at.precision))
    assert found["false_alarm_rate"] == pytest.approx((at.false_alarm_rate, at.false_alarm_rate))


def test_groups_are_drawn_whole() -> None:
    """Ten copies of an item in its group say no more than one; ten groups would."""
    alone, copied, more = (intervals(s, 0.5).figures["recall"] for s in (sample(40), sample(40, 10), sample(400)))

    assert copied == pytest.approx(alone)
    assert more[1] - more[0] < (alone[1] - alone[0]) / 2


def test_resamples_of_one_class_are_not_used() -> None:
    found = intervals([Scored(0.9, True, "a"), Scored(0.1, False, "b")], 0.5)

    assert 0 < found.used < found.resamples
    assert intervals([], 0.5).figures == {}


def test_percentiles_worked_out_by_hand() -> None:
    assert percentile_interval([float(n) for n in range(101)]) == pytest.approx((2.5, 97.5))
    assert percentile_interval([3.0]) == (3.0, 3.0)


def test_the_interval_of_a_share_holds_it() -> None:
    outcomes = [(f"g{n}", n % 4 == 0) for n in range(80)]
    found = share_interval(outcomes)

    assert found is not None
    assert found[0] < 0.25 < found[1]
    assert share_interval(outcomes, resamples=0) is None


def test_none_of_thirty_is_not_zero_for_sure() -> None:
    """Clopper–Pearson for 0 of 30: up to 11.6 %; many items of one group say no more than one."""
    assert share_interval([(f"g{n}", False) for n in range(30)]) == pytest.approx((0, 0.1157), abs=1e-4)
    assert share_interval([(f"g{n}", True) for n in range(30)]) == pytest.approx((0.8843, 1), abs=1e-4)
    assert share_interval([("g", False)] * 30) == pytest.approx((0, 0.975))

    items = [Scored(0.9, True, f"g{n}") for n in range(30)] + [Scored(0.1, False, f"h{n}") for n in range(50)]
    found = intervals(items, 0.5, resamples=50).figures
    assert found["recall"] == pytest.approx((0.8843, 1), abs=1e-4)
    assert found["miss_rate"] == pytest.approx((0, 0.1157), abs=1e-4)
    assert found["false_alarm_rate"] == pytest.approx((0, 0.0711), abs=1e-4)


@pytest.mark.parametrize(
    ("items", "rules"),
    [
        (sample(400), []),
        (sample(100), ["rule_of_three"]),  # 50 bad items, 60 are needed for 5 %
        ([Scored(0.9, True, f"g{n}") for n in range(9)] + [Scored(0.1, False, f"h{n}") for n in range(200)],
         ["few_positives", "rule_of_three"]),
        ([Scored(0.9, True, f"g{n}") for n in range(80)] + [Scored(0.1, False, f"h{n % 3}") for n in range(80)],
         ["few_groups"]),
        (sample(42), ["wide_interval", "rule_of_three"]),
    ],
)  # fmt: skip
def test_what_is_too_small_is_said_with_its_rule(items: list[Scored], rules: list[str]) -> None:
    found = too_small(items, intervals(items, 0.5), figures=("balanced_accuracy",), target_miss_rate=0.05)

    assert [one.rule for one in found] == rules
    assert all(any(sign.isdigit() for sign in one.says) for one in found)


def test_no_sample_shows_that_nothing_is_ever_missed() -> None:
    items = sample(2000)
    (rule,) = too_small(items, intervals(items, 0.5, resamples=50), figures=(), target_miss_rate=0.0)

    assert rule.rule == "rule_of_three"
