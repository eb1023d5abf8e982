"""Two judges as one: the second reads an answer again, by itself, where much is at stake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask
from otel_drift.protocols import Judge

_SECOND_STEP = "second"


class TwoJudges:
    """Gives the steps of the second reading to another judge than all the others.

    Args:
        first: answers everything else.
        second: answers the steps whose name begins with ``second``.
    """

    def __init__(self, first: Judge, second: Judge) -> None:
        self._first, self._second = first, second
        self.name = f"{first.name} + {second.name}"
        self.note = first.note
        self.embedded = False
        self.endpoint = first.endpoint if first.endpoint == second.endpoint else f"{first.endpoint}, {second.endpoint}"

    def parameters(self) -> Mapping[str, Any]:
        """Those of both."""
        return {"first": dict(self._first.parameters()), "second": dict(self._second.parameters())}

    def limits(self) -> JudgeLimits:
        """The narrower window and output limit, the higher prices."""
        one, two = self._first.limits(), self._second.limits()
        return JudgeLimits(
            input_tokens=_least(one.input_tokens, two.input_tokens),
            output_tokens=_least(one.output_tokens, two.output_tokens),
            input_price=_most(one.input_price, two.input_price),
            output_price=_most(one.output_price, two.output_price),
        )

    def count_tokens(self, text: str) -> int:
        """The larger count."""
        return max(self._first.count_tokens(text), self._second.count_tokens(text))

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        """Ask the one whose step it is.

        Raises:
            JudgeError: no answer was to be had.
        """
        return (self._second if task.step.startswith(_SECOND_STEP) else self._first).ask(task)


def _least(one: int | None, two: int | None) -> int | None:
    known = [value for value in (one, two) if value is not None]
    return min(known, default=None)


def _most(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else max(one, two)
