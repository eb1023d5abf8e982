"""The limits of a day: money, tokens and calls, counted in the ledger over all processes and restarts."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from otel_drift.budget import Budget, Call
from otel_drift.config import BudgetSettings
from otel_drift.errors import BudgetError, ConfigError, LedgerError
from otel_drift.ledger import Ledger
from otel_drift.ledger.spend import day_of
from otel_drift.protocols import Judge
from otel_drift.times import DAY

_ROUNDING = 1e-9


@dataclass(slots=True)
class _Sum:
    """Calls, tokens and money; of what is under way the most it can take."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def add(self, call: Call, sign: int = 1) -> None:
        self.calls += sign
        self.input_tokens += sign * call.input_tokens
        self.output_tokens += sign * call.output_tokens
        self.cost += sign * (call.cost or 0.0)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class DailyBudget:
    """What a day (UTC) may take. `portion` gives the `Budget` of a piece of work; all draw on the same day.

    What was spent is in the ledger, a row a day, added to by each call that ends; so it holds over restarts and over
    all processes, and at midnight the next row begins at nothing. What is under way is known to its own process only:
    several processes may together exceed a limit by what the others are asking just then, and a killed one forgets the
    call it was in.

    A call is counted on the day it began. A clock that is set back counts on the earlier day's row again, where what
    that day took still stands; one that was ahead has spent of the row of the day it showed. No day is spent twice.

    A call that does not fit is refused, smaller ones may still be made. Where it would fit but for the most that calls
    under way can take, it waits until these have said what they took.

    Safe to use from threads.
    """

    def __init__(self, ledger: Ledger, limits: BudgetSettings, clock: Callable[[], int] = time.time_ns) -> None:
        """Args.

        ledger: Keeps what was spent.
        limits: ``cost_per_day``, ``tokens_per_day`` and ``calls_per_day``; those that are None are none.
        clock: The wall clock, in nanoseconds since the epoch.
        """
        self._ledger = ledger
        self._limits = limits
        self._clock = clock
        self._settled = threading.Condition()
        self._under_way: dict[str, _Sum] = {}
        self._unsaved: dict[str, _Sum] = {}
        self._refused: Counter[str] = Counter()

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        limits = self._limits
        return any(one is not None for one in (limits.cost_per_day, limits.tokens_per_day, limits.calls_per_day))

    def check(self, judge: Judge) -> None:
        """See that the limits can be kept with this judge.

        Raises:
            ConfigError: its price is unknown, so that money cannot be counted.
        """
        told = judge.limits()
        unknown = told.input_price is None or told.output_price is None
        if self._limits.cost_per_day is not None and unknown and not judge.embedded:
            raise ConfigError(
                f"budget.cost_per_day cannot be kept: the price of {judge.name} is unknown; set judge.input_price and "
                "judge.output_price, or limit budget.tokens_per_day or budget.calls_per_day instead"
            )

    def portion(self) -> Portion:
        """A budget that draws on the day, and that can be stopped alone."""
        return Portion(self)

    @property
    def refused(self) -> int:
        """How many calls of this process did not fit today."""
        with self._settled:
            return self._refused[day_of(self._clock())]

    @property
    def next_day(self) -> int:
        """When the next day begins, in nanoseconds since the epoch."""
        return (self._clock() // DAY + 1) * DAY

    def reserve(self, call: Call, stopped: Callable[[], bool], is_turn: Callable[[], bool]) -> str:
        """Reserve the most that a call can take, once it is its turn, and return the day it counts on.

        Raises:
            BudgetError: it does not fit any more today, or all is stopped.
            LedgerError: what was spent cannot be read.
        """
        with self._settled:
            while True:
                if stopped():
                    raise BudgetError("what is being audited is broken off")
                if not is_turn():
                    self._settled.wait()
                    continue
                now = self._clock()
                day = day_of(now)
                under_way = self._under_way.setdefault(day, _Sum())
                spent = self._spent(day, now)
                refusal = self._why_not(call, spent, under_way)
                if refusal is None:
                    under_way.add(call)
                    return day
                certain = self._why_not(call, spent, _Sum(calls=under_way.calls))
                if certain is not None:
                    self._refused = Counter({day: self._refused[day] + 1})
                    raise BudgetError(certain)
                self._settled.wait()

    def settle(self, day: str, most: Call, took: Call) -> None:
        """Count what a call took instead of the most it could; never raises, what cannot be stored is added later."""
        with self._settled:
            under_way = self._under_way[day]
            under_way.add(most, -1)
            if not under_way.calls:
                del self._under_way[day]
            self._unsaved.setdefault(day, _Sum()).add(took)
            self._save()
            self._settled.notify_all()

    def wake(self) -> None:
        """Have calls that wait look again whether they are stopped, or it is their turn."""
        with self._settled:
            self._settled.notify_all()

    def _save(self) -> None:
        for day, one in list(self._unsaved.items()):
            try:
                self._ledger.spend(
                    day,
                    calls=one.calls,
                    input_tokens=one.input_tokens,
                    output_tokens=one.output_tokens,
                    cost=one.cost,
                )
            except LedgerError:
                return
            del self._unsaved[day]

    def _spent(self, day: str, now: int) -> _Sum:
        told = self._ledger.spent(now)
        spent = _Sum(told["calls"], told["input_tokens"], told["output_tokens"], told["cost"])
        if unsaved := self._unsaved.get(day):
            spent.calls += unsaved.calls
            spent.input_tokens += unsaved.input_tokens
            spent.output_tokens += unsaved.output_tokens
            spent.cost += unsaved.cost
        return spent

    def _why_not(self, call: Call, spent: _Sum, under_way: _Sum) -> str | None:
        limits = self._limits
        if limits.calls_per_day is not None and spent.calls + under_way.calls >= limits.calls_per_day:
            return f"the {limits.calls_per_day} judge calls of the day are used up"
        tokens = call.input_tokens + call.output_tokens
        if limits.tokens_per_day is not None and spent.tokens + under_way.tokens + tokens > limits.tokens_per_day:
            return (
                f"the next call may take {tokens} tokens, {spent.tokens} of the day's {limits.tokens_per_day} are spent"
            )
        if limits.cost_per_day is None:
            return None
        if call.cost is None:
            return "the price of this judge is unknown, so budget.cost_per_day cannot be kept"
        if spent.cost + under_way.cost + call.cost > limits.cost_per_day + _ROUNDING:
            return (
                f"the next call may cost up to {call.cost:.4f} $, and {spent.cost:.4f} $ of the day's "
                f"{limits.cost_per_day:.4f} $ are spent"
            )
        return None


class Portion(Budget):
    """The budget of one piece of work, drawn from the day's.

    `exhausted` says that it was stopped, `calls` and `cost` what it took itself.
    """

    def __init__(self, day: DailyBudget) -> None:
        super().__init__()
        self._day = day

    @contextmanager
    def call(self, most: float | None, input_tokens: int = 0, output_tokens: int = 0) -> Iterator[Call]:
        """Reserve the most a call can take, of the day; settle what it took when the block ends.

        Raises:
            BudgetError: it does not fit any more today, or the work is broken off.
            LedgerError: what was spent cannot be read.
        """
        with self.call_in_turn(Call(most, input_tokens, output_tokens), lambda: True) as call:
            yield call

    @contextmanager
    def call_in_turn(self, most: Call, is_turn: Callable[[], bool]) -> Iterator[Call]:
        """As `call`; nothing is reserved before its turn."""
        day = self._day.reserve(most, lambda: self.exhausted, is_turn)
        call = replace(most)
        try:
            yield call
        finally:
            self._day.settle(day, most, call)
            with self._lock:
                self.calls += 1
                self.cost += call.cost or 0.0

    def places(self) -> Iterator[Budget]:
        """A budget for each session of a row, in which none gets its first call before those ahead got theirs."""
        place = None
        while True:
            place = Place(self, place)
            yield place

    def stop(self) -> None:
        """Refuse every further call of this work, also those that wait for others; the day stays open."""
        super().stop()
        self.wake()

    def wake(self) -> None:
        """Have calls that wait look again."""
        self._day.wake()


class Place(Budget):
    """A session's place in a row: sessions are judged several at a time, and what is left of a day goes to the first.

    It waits until those ahead of it asked for their first call, or left the row without.
    """

    def __init__(self, portion: Portion, ahead: Place | None) -> None:
        super().__init__()
        self._portion = portion
        self._ahead = ahead
        self._is_past = False

    @contextmanager
    def call(self, most: float | None, input_tokens: int = 0, output_tokens: int = 0) -> Iterator[Call]:
        """As `Portion.call`, in turn."""
        with ExitStack() as stack:
            try:
                reserved = self._portion.call_in_turn(Call(most, input_tokens, output_tokens), self._is_first)
                call = stack.enter_context(reserved)
            finally:
                self.leave()
            yield call

    def leave(self) -> None:
        """Let those behind go ahead."""
        self._is_past = True
        self._portion.wake()

    def stop(self) -> None:
        """Refuse every further call of the portion."""
        self._portion.stop()

    def _is_first(self) -> bool:
        while self._ahead is not None and self._ahead._is_past:
            self._ahead = self._ahead._ahead
        return self._ahead is None
