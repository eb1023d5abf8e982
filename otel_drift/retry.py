"""The one place that retries: bounded attempts, bounded total time, jitter, and the server's own Retry-After.

Whoever calls over a network raises a typed error; `call` asks again only on the types named to it. The retries of
SDKs are switched off, so that attempts never multiply.
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from otel_drift.errors import RetryableJudgeError

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
N = TypeVar("N", int, float)
OnRetry = Callable[[BaseException, int, float], None]
"""Told before each wait: the error, the number of the attempt that failed, the seconds to wait."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long. All times in seconds.

    `attempts` counts the first one. No attempt starts later than `total_seconds` after the first. Waits double from
    `initial` up to `maximum`, each with up to `jitter` added; a server's Retry-After replaces a shorter wait.
    """

    attempts: int = 5
    total_seconds: float = 300.0
    initial: float = 0.5
    maximum: float = 30.0
    jitter: float = 0.5


NO_RETRY = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class Backoff(Generic[N]):
    """The waits of who tries again and again of itself: the first, doubled with each try, up to the longest.

    In whatever unit they are given: seconds, nanoseconds.
    """

    first: N
    longest: N

    def after(self, tries: int) -> N:
        """The wait after so many tries before this one."""
        return min(self.longest, self.first * (1 << min(max(tries, 0), 30)))


def call(
    policy: RetryPolicy,
    fn: Callable[[], T],
    *,
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = RetryableJudgeError,
    on_retry: OnRetry | None = None,
    what: str = "other",
) -> T:
    """Call `fn` until it succeeds, fails for good, or the policy is used up.

    An error may carry `retry_after` (seconds): the wait is then at least that long. Where it would not fit into the
    total time, there is no further attempt at once. `what` names the kind of call (``judge``, a platform) for those
    who count retries (`tell`).

    Raises:
        BaseException: the error of the last attempt, unchanged but for a note (PEP 678) that says why it was the last.
    """
    import tenacity

    started = now()

    def wait(state: RetryCallState) -> float:
        planned = tenacity.wait_exponential_jitter(multiplier=policy.initial, max=policy.maximum, jitter=policy.jitter)(
            state
        )
        asked = _retry_after(_error_of(state))
        # Jitter on top of the server's wish: clients told the same second do not return in the same instant.
        return planned if asked is None else max(planned, asked + min(planned, policy.jitter))

    def used_up(state: RetryCallState) -> bool:
        return bool(
            state.attempt_number >= policy.attempts or now() - started + state.upcoming_sleep > policy.total_seconds
        )

    def give_up(state: RetryCallState) -> Any:
        error = _error_of(state)
        if policy.attempts > 1:
            error.add_note(_why_no_more(state, error, policy, now() - started))
        raise error

    def before_sleep(state: RetryCallState) -> None:
        for listener in tuple(_listeners):
            listener(what)
        if on_retry is not None:
            on_retry(_error_of(state), state.attempt_number, state.upcoming_sleep)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(retry_on),
        wait=wait,
        stop=used_up,
        retry_error_callback=give_up,
        before_sleep=before_sleep,
        sleep=lambda seconds: _clock.sleep(seconds),
    )
    return retrying(fn)


def tell(listener: Callable[[str], None]) -> Callable[[], None]:
    """Have `listener` told of every retry in this process, by the name of what is retried; returns how to end that.

    It is called before the wait, in the thread that waits, and may not raise.
    """
    _listeners.append(listener)

    def end() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return end


def now() -> float:
    """Monotonic seconds; under `testing` the waits that were skipped count as passed."""
    return _clock.now()


def parse_retry_after(value: str | None, *, wall_clock: float | None = None) -> float | None:
    """Read a ``Retry-After`` header: seconds, or an HTTP date (RFC 9110, 10.2.3); None where it is neither.

    Args:
        value: The header's value.
        wall_clock: Seconds since the epoch that a date is measured from; now, if None.
    """
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
        until = date.timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return max(0.0, until - (time.time() if wall_clock is None else wall_clock))


@contextmanager
def testing() -> Iterator[list[float]]:
    """Skip the waits, for tests: yields the list of seconds that would have been waited."""
    global _clock
    previous, clock = _clock, _SkippingClock()
    _clock = clock
    try:
        yield clock.waits
    finally:
        _clock = previous


def _error_of(state: RetryCallState) -> BaseException:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert error is not None
    return error


def _retry_after(error: BaseException) -> float | None:
    asked = getattr(error, "retry_after", None)
    return float(asked) if isinstance(asked, int | float) and math.isfinite(asked) and asked >= 0 else None


def _why_no_more(state: RetryCallState, error: BaseException, policy: RetryPolicy, seconds: float) -> str:
    tries = f"{state.attempt_number} attempt{'s' if state.attempt_number > 1 else ''} in {seconds:.1f} s"
    if state.attempt_number >= policy.attempts:
        return f"gave up after {tries}"
    asked = _retry_after(error)
    if asked is not None and asked >= state.upcoming_sleep - policy.jitter:
        return f"gave up after {tries}: asked to wait {asked:.0f} s, more than the {policy.total_seconds:.0f} s allowed"
    return f"gave up after {tries}: the {policy.total_seconds:.0f} s allowed are used up"


class _Clock:
    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _SkippingClock(_Clock):
    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> float:
        return super().now() + sum(self.waits)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


_clock = _Clock()
_listeners: list[Callable[[str], None]] = []
