"""A budget holds over threads, and a refused call ends it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from otel_drift.budget import Budget
from otel_drift.errors import BudgetError


def spend(budget: Budget, most: float, really: float) -> bool:
    try:
        with budget.call(most) as call:
            call.cost = really
    except BudgetError:
        return False
    return True


def test_parallel_calls_never_exceed_the_limits() -> None:
    calls, money = Budget(max_calls=37), Budget(max_cost=1.0)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: spend(calls, 1.0, 1.0), range(200))) == 37
        list(pool.map(lambda _: spend(money, 0.03, 0.03), range(200)))
    assert calls.calls == 37
    assert 0.9 < money.cost <= 1.0
    exact = Budget(max_cost=0.3)
    assert [spend(exact, 0.1, 0.1) for _ in range(4)] == [True, True, True, False]


def test_what_is_reserved_counts_until_it_is_settled() -> None:
    budget = Budget(max_cost=1.0)
    with budget.call(0.6), pytest.raises(BudgetError, match="spoken for"), budget.call(0.6):
        pass
    assert budget.cost == pytest.approx(0.6)


def test_a_cheaper_call_frees_what_it_did_not_take() -> None:
    budget = Budget(max_cost=1.0)
    assert all(spend(budget, 0.6, 0.1) for _ in range(5))
    assert budget.cost == pytest.approx(0.5)


def test_after_a_refusal_nothing_more_is_asked_however_small() -> None:
    budget = Budget(max_cost=1.0)
    assert not spend(budget, 2.0, 2.0)
    assert not spend(budget, 0.01, 0.01)
    assert (budget.calls, budget.cost, budget.exhausted) == (0, 0.0, True)


def test_a_call_that_raises_is_counted_and_settled() -> None:
    budget = Budget(max_calls=2)
    with pytest.raises(KeyError), budget.call(None):
        raise KeyError
    assert budget.calls == 1
    assert not Budget().exhausted


def test_a_run_that_is_broken_off_asks_nothing_more() -> None:
    budget = Budget()
    budget.stop()

    with pytest.raises(BudgetError), budget.call(None):
        pass
