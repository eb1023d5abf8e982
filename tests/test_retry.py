"""The one place that retries: what is tried again, how long it waits, and when it gives up."""

from __future__ import annotations

import email.utils

import pytest

from otel_drift import retry
from otel_drift.errors import PermanentJudgeError, RetryableJudgeError
from otel_drift.retry import Backoff, RetryPolicy


class Flaky:
    """Fails with the given errors, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def overloaded(retry_after: float | None = None) -> RetryableJudgeError:
    return RetryableJudgeError("overloaded", reason="overloaded", retry_after=retry_after)


def test_an_answer_at_once_waits_for_nothing() -> None:
    with retry.testing() as waits:
        assert retry.call(RetryPolicy(), Flaky()) == "answer"
    assert waits == []


def test_waits_double_up_to_the_maximum_and_carry_jitter() -> None:
    policy = RetryPolicy(attempts=8, total_seconds=1000, initial=1, maximum=10, jitter=0.5)
    with retry.testing() as waits:
        assert retry.call(policy, Flaky(*[overloaded() for _ in range(7)])) == "answer"
    for wait, planned in zip(waits, [1, 2, 4, 8, 10, 10, 10], strict=True):
        assert planned <= wait <= min(planned + 0.5, 10)


def test_only_the_named_errors_are_tried_again() -> None:
    flaky = Flaky(PermanentJudgeError("wrong key", reason="auth"))
    with retry.testing() as waits, pytest.raises(PermanentJudgeError, match="wrong key"):
        retry.call(RetryPolicy(), flaky)
    assert (flaky.calls, waits) == (1, [])

    flaky = Flaky(TimeoutError(), ConnectionError())
    with retry.testing():
        assert retry.call(RetryPolicy(), flaky, retry_on=(TimeoutError, ConnectionError)) == "answer"
    assert flaky.calls == 3


def test_attempts_are_bounded_and_the_last_error_says_so() -> None:
    flaky = Flaky(*[overloaded() for _ in range(9)])
    with retry.testing(), pytest.raises(RetryableJudgeError) as caught:
        retry.call(RetryPolicy(attempts=3), flaky)
    assert flaky.calls == 3
    assert caught.value.__notes__[0].startswith("gave up after 3 attempts in ")


def test_total_time_is_bounded() -> None:
    flaky = Flaky(*[overloaded() for _ in range(99)])
    policy = RetryPolicy(attempts=99, total_seconds=20, initial=2, maximum=8, jitter=0)
    with retry.testing() as waits, pytest.raises(RetryableJudgeError) as caught:
        retry.call(policy, flaky)
    assert waits == [2, 4, 8]
    assert "the 20 s allowed are used up" in caught.value.__notes__[0]


def test_a_servers_retry_after_replaces_a_shorter_wait() -> None:
    with retry.testing() as waits:
        retry.call(RetryPolicy(jitter=0.5), Flaky(overloaded(7), overloaded(0)))
    assert 7 <= waits[0] <= 7.5
    assert 1 <= waits[1] <= 1.5  # the second planned wait is longer than the 0 asked for


def test_a_retry_after_of_hours_gives_up_at_once() -> None:
    flaky = Flaky(overloaded(7200))
    with retry.testing() as waits, pytest.raises(RetryableJudgeError) as caught:
        retry.call(RetryPolicy(), flaky)
    assert (flaky.calls, waits) == (1, [])
    assert "asked to wait 7200 s, more than the 300 s allowed" in caught.value.__notes__[0]


@pytest.mark.parametrize("nonsense", [-1.0, float("nan"), float("inf"), "soon"])
def test_a_nonsensical_retry_after_is_ignored(nonsense: object) -> None:
    error = overloaded()
    error.retry_after = nonsense  # type: ignore[assignment]
    with retry.testing() as waits:
        assert retry.call(RetryPolicy(), Flaky(error)) == "answer"
    assert 0.5 <= waits[0] <= 1.0


def test_without_retries_the_error_is_left_alone() -> None:
    with pytest.raises(RetryableJudgeError) as caught:
        retry.call(retry.NO_RETRY, Flaky(overloaded()))
    assert not hasattr(caught.value, "__notes__")


def test_on_retry_hears_error_attempt_and_wait() -> None:
    heard: list[tuple[str, int, float]] = []
    with retry.testing() as waits:
        retry.call(
            RetryPolicy(),
            Flaky(overloaded(), overloaded()),
            on_retry=lambda error, attempt, wait: heard.append((str(error), attempt, wait)),
        )
    assert heard == [("overloaded", 1, waits[0]), ("overloaded", 2, waits[1])]


def test_without_the_testing_switch_it_really_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    retry.call(RetryPolicy(initial=0.25, jitter=0), Flaky(overloaded()))
    assert slept == [0.25]


def test_the_testing_switch_ends_with_its_block() -> None:
    before = retry.now()
    with retry.testing() as waits:
        waits.append(1000)
        assert retry.now() - before >= 1000
    assert retry.now() - before < 1000


def test_retry_after_header_in_seconds_and_as_a_date() -> None:
    assert retry.parse_retry_after("12") == 12
    assert retry.parse_retry_after(" 0.5 ") == 0.5
    date = email.utils.formatdate(1_800_000_060, usegmt=True)
    assert retry.parse_retry_after(date, wall_clock=1_800_000_000) == 60
    assert retry.parse_retry_after(date, wall_clock=1_900_000_000) == 0


@pytest.mark.parametrize(
    "value", [None, "", "soon", "-5", "1e9", "nan", "٣", "Mon, 99 Foo 2026 99:99:99 GMT", "9" * 50]
)
def test_an_unreadable_retry_after_header_is_none(value: str | None) -> None:
    assert retry.parse_retry_after(value) is None


def test_waits_of_who_tries_again_of_itself_double_up_to_the_longest() -> None:
    assert [Backoff(1.0, 60.0).after(tries) for tries in (0, 1, 2, 5, 6, 10_000)] == [1.0, 2.0, 4.0, 32.0, 60.0, 60.0]
    assert Backoff(5, 300).after(-1) == 5
