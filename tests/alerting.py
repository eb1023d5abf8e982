"""An alert duty on a ledger of its own, with a clock that is turned by hand and alerters that remember."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ledger_samples import finding, ref, session, unit
from otel_drift.alerts import Actions, AlertDuty, Channel, Findings, Pace
from otel_drift.errors import PlatformError, SinkError
from otel_drift.findings import annotations
from otel_drift.ledger import Ledger
from otel_drift.links import Links
from otel_drift.model import Finding, Outcome, Session, Unit
from otel_drift.policy import AlertRule
from otel_drift.protocols import Alert, Alerter

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
LINKS = Links("https://traces.example/{trace_id}?span={span_id}", "https://traces.example/sessions/{session_id}")


class KilledError(BaseException):
    """The process ends here, whatever it was doing."""


@dataclass
class Remembering:
    """An alerter that keeps what it is told, and can be down, refuse, or take a message and then see the caller die."""

    name: str = "memory"
    repeats: bool = False
    told: list[list[Alert]] = field(default_factory=list)
    down: bool = False
    refuses: set[str] = field(default_factory=set)
    kills: str = ""

    def notify(self, alerts: Sequence[Alert]) -> None:
        if self.kills == "before":
            raise KilledError
        if self.down:
            raise SinkError("memory cannot be reached")
        if any(one.session_id in self.refuses for one in alerts):
            raise PlatformError("memory refused a request (400)", status=400)
        self.told.append(list(alerts))
        if self.kills == "after":
            raise KilledError

    @property
    def states(self) -> list[list[tuple[str | None, str]]]:
        """Session and state of each alert, by notification."""
        return [[(one.session_id, one.state) for one in group] for group in self.told]

    @property
    def firing(self) -> set[str]:
        """The keys a reader takes for firing."""
        now: dict[str, str] = {}
        for group in self.told:
            now.update({one.key: one.state for one in group})
        return {key for key, state in now.items() if state == "firing"}


class Desk:
    """A ledger, its alert duty and a clock."""

    def __init__(self, file: Path, *alerters: Remembering, **options: Any) -> None:
        self.file = file
        self.alerters = alerters or (Remembering(),)
        self.now = time.time_ns()
        self.pace = Pace(**{"group": 0, **options.pop("pace", {})})
        self.rule = options.pop("rule", AlertRule())
        self.actions = options.pop("actions", None)
        self.options = options
        self.ledger = Ledger.open(file)
        self.duty = self.start()

    @property
    def told(self) -> list[list[tuple[str | None, str]]]:
        return self.alerters[0].states

    def start(self) -> AlertDuty:
        """A process that starts."""
        subject = Findings(self.rule) if self.actions is None else Actions(self.actions, self.rule)
        channels = [Channel(one.name, one, subject) for one in self.alerters]
        return AlertDuty(
            self.ledger,
            channels,
            pace=self.pace,
            links_for=lambda _trace: LINKS,
            clock=lambda: self.now,
            **self.options,
        )

    def restart(self) -> None:
        """The process is gone; another one opens the same ledger."""
        self.ledger.close()
        self.ledger = Ledger.open(self.file)
        self.duty = self.start()

    def step(self, seconds: float = 1.0) -> None:
        """Time passes, and the duty runs until it has nothing to do."""
        self.now += int(seconds * SECOND)
        for _ in range(1000):
            if not self.duty.step():
                return
        raise AssertionError("the duty never comes to rest")

    def commit(self, one: Unit) -> Unit:
        """As a run commits."""
        return self.ledger.commit_unit(None, one, annotations, [])

    def close(self) -> None:
        self.duty.close()
        self.ledger.close()


def critical(number: int = 1, **changes: Any) -> Finding:
    """A critical finding of the session ``s<number>``."""
    return finding(3, **{"event_id": f"event-{number}", "severity": "CRITICAL", **changes})


def result(
    number: int = 1, *findings: Finding, print_: str = "", outcome: Outcome | None = None, **changes: Any
) -> Unit:
    """A result of the session ``s<number>``; another `print_` is another result."""
    made = unit(
        *findings,
        unit_id=f"unit-{number}",
        session=session_of(number),
        content_sha256=f"print-{number}-{print_}",
        **changes,
    )
    return made if outcome is None else replace(made, outcome=outcome, report=None, reason="answer_invalid")


def session_of(number: int) -> Session:
    return replace(session(f"shop|s{number}", f"s{number}"), project="shop-bot", environment="production")


def alerters_of(duty: AlertDuty) -> list[Alerter]:
    return [channel.alerter for channel in duty.channels]


__all__ = ["HOUR", "LINKS", "SECOND", "Desk", "KilledError", "Remembering", "critical", "ref", "result", "session_of"]
