"""The limit of a run: how many judge calls and how much money, shared by all sessions judged at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat

from otel_drift.errors import BudgetError

_ROUNDING = 1e-9


@dataclass(slots=True)
class Call:
    """A judge call under way. `cost` (US dollars) and tokens start as the most it can take, and become what it took."""

    cost: float | None
    input_tokens: int = 0
    output_tokens: int = 0

    def settle(self, cost: float | None, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Say what it took; an unknown cost leaves the most that it can be."""
        self.cost = self.cost if cost is None else cost
        self.input_tokens, self.output_tokens = input_tokens, output_tokens


class Budget:
    """Counts calls and cost, and refuses a call that could exceed a limit.

    Once a call was refused every later one is, so that a run stops at one place instead of squeezing in whatever
    is still small enough.
    """

    def __init__(self, max_calls: int | None = None, max_cost: float | None = None) -> None:
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.calls = 0
        self.cost = 0.0
        self.exhausted = False
        self._reserved = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def call(self, most: float | None, input_tokens: int = 0, output_tokens: int = 0) -> Iterator[Call]:
        """Reserve `most` US dollars (None: unknown) for one call; settle what it took when the block ends.

        A call that raises is counted, and settled with what its `Call` says by then.

        Args:
            most: What it can cost.
            input_tokens: About how many it sends.
            output_tokens: The most it can answer.

        Raises:
            BudgetError: the call could exceed a limit, or its price is unknown while `max_cost` is set.
        """
        self._reserve(most)
        call = Call(most, input_tokens, output_tokens)
        try:
            yield call
        finally:
            with self._lock:
                self._reserved -= most or 0.0
                self.cost += call.cost or 0.0

    def stop(self) -> None:
        """Refuse every further call: the run is being broken off."""
        with self._lock:
            self.exhausted = True

    def places(self) -> Iterator[Budget]:
        """A budget for each session of a row, all drawing on this one, in which who stands first is served first."""
        return repeat(self)

    def leave(self) -> None:
        """Say that the session it was for asks nothing more."""

    def _reserve(self, most: float | None) -> None:
        with self._lock:
            reason = self._why_not(most)
            if reason:
                self.exhausted = True
                raise BudgetError(reason)
            self.calls += 1
            self._reserved += most or 0.0

    def _why_not(self, most: float | None) -> str | None:
        if self.exhausted:
            return "the budget of this run is used up; run again with higher limits to go on"
        if self.max_calls is not None and self.calls >= self.max_calls:
            return f"the limit of {self.max_calls} judge calls is reached; raise --max-calls to go on"
        if self.max_cost is None:
            return None
        if most is None:
            return "the price of this judge is unknown, so --max-cost cannot be kept: set its input and output price"
        if self.cost + self._reserved + most > self.max_cost + _ROUNDING:
            spent = self.cost + self._reserved
            return (
                f"the next call may cost up to {most:.4f} $ and {spent:.4f} $ of {self.max_cost:.4f} $ are spoken for"
            )
        return None
