"""The limits of a day hold over threads, processes, restarts and midnights, and come back by themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from drift_cases import RETURNS, ScriptedJudge, returns_answer
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.budget import Budget
from otel_drift.config import BudgetSettings
from otel_drift.errors import BudgetError, ConfigError, LedgerError, PermanentJudgeError
from otel_drift.ledger import Ledger, schema
from otel_drift.model import JudgeLimits
from otel_drift.service.daily_budget import DailyBudget
from otel_drift.times import DAY
from otel_drift.validation import audit_session

NOON = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()) * 10**9
PRICED = JudgeLimits(input_price=1e-6, output_price=1e-6)


class Clock:
    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.sqlite3") as opened:
        yield opened


@pytest.fixture(scope="module")
def in_memory() -> Iterator[Ledger]:
    with Ledger.open(":memory:") as opened:
        yield opened


def budget(ledger: Ledger, clock: Clock | None = None, **limits: Any) -> DailyBudget:
    return DailyBudget(ledger, BudgetSettings(**limits), clock or Clock())


def spend(portion: Budget, most: float | None, really: float = 0.0, tokens: tuple[int, int] = (0, 0)) -> bool:
    try:
        with portion.call(most, *tokens) as call:
            call.settle(really, *tokens)
    except BudgetError:
        return False
    return True


def test_what_was_spent_counts_after_a_restart_and_in_other_processes(ledger: Ledger, tmp_path: Path) -> None:
    first = budget(ledger, cost_per_day=1.0)
    assert [spend(first.portion(), 0.4, 0.4) for _ in range(3)] == [True, True, False]
    with Ledger.open(tmp_path / "ledger.sqlite3") as again:
        other = budget(again, cost_per_day=1.0)
        assert not spend(other.portion(), 0.4)
        assert spend(other.portion(), 0.2, 0.2)
    assert not spend(first.portion(), 0.1)
    assert ledger.spent(NOON) == {
        "day": "2026-11-30",
        "calls": 3,
        "tokens": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost": pytest.approx(1.0),
    }


@pytest.mark.parametrize(
    ("limits", "fits"),
    [({"cost_per_day": 0.035}, 3), ({"tokens_per_day": 350}, 3), ({"calls_per_day": 2}, 2), ({"calls_per_day": 0}, 0)],
)
def test_each_limit_holds_alone(ledger: Ledger, limits: dict[str, Any], fits: int) -> None:
    portion = budget(ledger, **limits).portion()
    assert sum(spend(portion, 0.01, 0.01, (60, 40)) for _ in range(9)) == fits
    assert ledger.spent(NOON)["calls"] == fits


def test_the_next_day_opens_at_midnight_utc(ledger: Ledger) -> None:
    clock = Clock(NOON)
    day = budget(ledger, clock, calls_per_day=1)
    portion = day.portion()
    assert [spend(portion, None), spend(portion, None), day.refused] == [True, False, 1]
    clock.now = day.next_day - 1
    assert not spend(portion, None)
    clock.now += 1
    assert (day.refused, spend(portion, None), spend(portion, None)) == (0, True, False)


def test_a_clock_set_back_spends_no_day_twice(ledger: Ledger) -> None:
    clock = Clock(NOON)
    portion = budget(ledger, clock, calls_per_day=1).portion()
    assert spend(portion, None)
    clock.now += DAY
    assert spend(portion, None)
    clock.now -= DAY
    assert not spend(portion, None)
    clock.now += DAY
    assert not spend(portion, None)
    clock.now += DAY
    assert spend(portion, None)


def test_a_call_over_midnight_counts_on_the_day_it_began(ledger: Ledger) -> None:
    clock = Clock(NOON)
    portion = budget(ledger, clock, calls_per_day=1).portion()
    with portion.call(None):
        clock.now += DAY
    assert (ledger.spent(NOON)["calls"], ledger.spent(NOON + DAY)["calls"]) == (1, 0)
    assert spend(portion, None)


def test_what_does_not_fit_is_refused_and_what_is_smaller_may_still_be_asked(ledger: Ledger) -> None:
    portion = budget(ledger, cost_per_day=1.0).portion()
    assert [spend(portion, most, most) for most in (0.7, 0.5, 0.3, 0.1)] == [True, False, True, False]
    assert not portion.exhausted


def test_a_call_waits_for_those_under_way_where_it_may_still_fit(ledger: Ledger) -> None:
    day = budget(ledger, cost_per_day=1.0)
    waits, done = threading.Event(), []
    original = day._settled.wait
    day._settled.wait = lambda timeout=None: waits.set() or original(timeout)  # type: ignore[method-assign,func-returns-value]
    with ThreadPoolExecutor(1) as pool:
        with day.portion().call(0.9) as call:
            later = pool.submit(lambda: done.append(spend(day.portion(), 0.9, 0.2)))
            assert waits.wait(30)
            assert not done
            call.settle(0.1)
        later.result(30)
    assert done == [True]
    assert ledger.spent(NOON)["cost"] == pytest.approx(0.3)


def test_a_stopped_portion_refuses_also_what_waits_and_the_day_stays_open(ledger: Ledger) -> None:
    day = budget(ledger, cost_per_day=1.0)
    portion = day.portion()
    waits = threading.Event()
    original = day._settled.wait
    day._settled.wait = lambda timeout=None: waits.set() or original(timeout)  # type: ignore[method-assign,func-returns-value]
    with ThreadPoolExecutor(1) as pool, day.portion().call(0.9) as call:
        later = pool.submit(spend, portion, 0.9)
        assert waits.wait(30)
        portion.stop()
        assert later.result(30) is False
        call.settle(0.0)
    assert (portion.exhausted, spend(portion, 0.1), spend(day.portion(), 0.1)) == (True, False, True)


def test_what_is_left_of_a_day_goes_to_who_stands_first_in_a_row(ledger: Ledger) -> None:
    day = budget(ledger, calls_per_day=1)
    first, second, third, fourth = islice(day.portion().places(), 4)
    with ThreadPoolExecutor(2) as pool:
        later = [pool.submit(spend, one, None) for one in (fourth, third)]
        second.leave()  # asks nothing; the first is still ahead
        assert spend(first, None)
        assert [one.result(30) for one in later] == [False, False]


def test_a_stop_ends_waiting_in_a_row(ledger: Ledger) -> None:
    portion = budget(ledger, calls_per_day=5).portion()
    _first, second = islice(portion.places(), 2)
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(spend, second, None)
        portion.stop()
        assert later.result(30) is False


def test_parallel_calls_never_exceed_a_limit(ledger: Ledger) -> None:
    day = budget(ledger, cost_per_day=1.0)
    with ThreadPoolExecutor(8) as pool:
        made = sum(pool.map(lambda _: spend(day.portion(), 0.07, 0.06), range(40)))
    assert made == 16
    assert ledger.spent(NOON)["cost"] == pytest.approx(0.96)


def test_what_a_failing_ledger_did_not_take_is_counted_all_the_same(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    portion = budget(ledger, calls_per_day=3).portion()

    def fails(day: str, **spent: Any) -> None:
        raise LedgerError("locked")

    with monkeypatch.context() as broken:
        broken.setattr(ledger, "spend", fails)
        assert spend(portion, None)
        assert spend(portion, None)
    assert ledger.spent(NOON)["calls"] == 0
    assert [spend(portion, None), spend(portion, None)] == [True, False]
    assert ledger.spent(NOON)["calls"] == 3


def test_the_harness_says_tokens_and_cost_of_answers_and_nothing_of_failures(ledger: Ledger) -> None:
    day = budget(ledger, tokens_per_day=1_000_000, cost_per_day=10.0)
    unit = audit_session(FactualDrift(), RETURNS, ScriptedJudge([returns_answer()], limit=PRICED), budget=day.portion())
    assert (unit.outcome, unit.calls) == ("findings", 1)
    assert {"calls": 1, "input_tokens": 100, "output_tokens": 50, "cost": 0.001}.items() <= ledger.spent(NOON).items()
    failing = ScriptedJudge([PermanentJudgeError("no", reason="auth")], limit=PRICED)
    assert audit_session(FactualDrift(), RETURNS, failing, budget=day.portion()).reason == "auth"
    assert {"calls": 2, "tokens": 150, "cost": 0.001}.items() <= ledger.spent(NOON).items()


def test_a_judge_of_unknown_price_is_refused_where_money_is_limited(ledger: Ledger) -> None:
    with pytest.raises(ConfigError, match=r"judge\.input_price"):
        budget(ledger, cost_per_day=1.0).check(ScriptedJudge([]))
    budget(ledger, cost_per_day=1.0).check(ScriptedJudge([], limit=PRICED))
    budget(ledger, cost_per_day=1.0).check(ScriptedJudge([], embedded=True))
    budget(ledger, tokens_per_day=1).check(ScriptedJudge([]))
    assert not budget(ledger).limited
    assert budget(ledger, tokens_per_day=0).limited


@given(calls=st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 1), st.integers(-2, 2)), max_size=30))
def test_no_day_ever_takes_more_than_its_limit(in_memory: Ledger, calls: list[tuple[float, float, int]]) -> None:
    clock = Clock()
    with in_memory.database.writing() as connection:
        connection.execute(sa.delete(schema.spend))
    portion = budget(in_memory, clock, cost_per_day=1.0).portion()
    for most, share, days in calls:
        clock.now += days * DAY
        spend(portion, most, most * share)
        assert in_memory.spent(clock.now)["cost"] <= 1.0 + 1e-9
