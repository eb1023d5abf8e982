"""A judge whose calls are counted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask
from otel_drift.protocols import Judge
from otel_drift.telemetry import Telemetry


class ObservedJudge:
    """Another judge in all respects (name, parameters, what it has besides), its calls counted."""

    def __init__(self, judge: Judge, telemetry: Telemetry) -> None:
        self._judge = judge
        self._telemetry = telemetry
        self.name = judge.name
        self.note = judge.note
        self.embedded = judge.embedded
        self.endpoint = judge.endpoint

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy asks before there is a judge
            raise AttributeError(name)
        return getattr(self._judge, name)

    def __repr__(self) -> str:
        return f"ObservedJudge({self._judge!r})"

    def parameters(self) -> Mapping[str, Any]:
        """The judge's own."""
        return self._judge.parameters()

    def limits(self) -> JudgeLimits:
        """The judge's own."""
        return self._judge.limits()

    def count_tokens(self, text: str) -> int:
        """The judge's own."""
        return self._judge.count_tokens(text)

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        """Ask the judge, and count.

        Raises:
            JudgeError: the judge's own.
        """
        started = time.monotonic()
        try:
            answer = self._judge.ask(task)
        except BaseException as error:
            self._telemetry.asked(self.name, None, error, time.monotonic() - started)
            raise
        self._telemetry.asked(self.name, answer, None, time.monotonic() - started)
        return answer
