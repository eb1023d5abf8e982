"""Keeps house: says that the process is alive, forgets what is old, watches the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from otel_drift.config import RetentionSettings
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.service.conditions import Conditions
from otel_drift.times import DAY, SECOND

BEAT_SECONDS = 5.0
FORGET_SECONDS = 900.0
JUMP_SECONDS = 60.0
"""A wall clock that moves so much more or less than time passes was set."""
JUMP_SAID_SECONDS = 900.0


class BeatDuty:
    """Writes every few seconds that the process is alive, and what it says of itself, for ``otel-drift status``."""

    name = "heartbeat"
    every = BEAT_SECONDS

    def __init__(
        self,
        ledger: Ledger,
        process_id: str,
        about: Callable[[], Mapping[str, Any]],
        conditions: Conditions,
        *,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._process_id = process_id
        self._about = about
        self._conditions = conditions
        self._clock = clock
        self._monotonic = monotonic
        self._started = clock()
        self._offset = self._now_offset()
        self._jumped_at: float | None = None

    def step(self) -> bool:
        """Say it."""
        self._watch_clock()
        self._ledger.beat(self._process_id, self._started, self._about())
        return False

    def _now_offset(self) -> float:
        return self._clock() / SECOND - self._monotonic()

    def _watch_clock(self) -> None:
        offset = self._now_offset()
        jump, self._offset = offset - self._offset, offset
        if abs(jump) >= JUMP_SECONDS:
            self._jumped_at = self._monotonic()
            self._conditions.note(
                "clock",
                f"the clock jumped by {jump:+.0f} s: sessions may be audited early or late; late spans open them again",
            )
        elif self._jumped_at is not None and self._monotonic() - self._jumped_at > JUMP_SAID_SECONDS:
            self._jumped_at = None
            self._conditions.clear("clock")


class RetentionDuty:
    """Forgets spans and texts of results that are older than the settings say; not while the clock may be wrong."""

    name = "retention"
    every = FORGET_SECONDS

    def __init__(
        self,
        inbox: Inbox,
        ledger: Ledger,
        settings: RetentionSettings,
        conditions: Conditions,
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._conditions = conditions
        self._inbox = inbox
        self._ledger = ledger
        self._settings = settings
        self._clock = clock

    def step(self) -> bool:
        """Forget what has become too old."""
        if "clock" in self._conditions.now():  # what a clock set ahead calls old would be gone for good
            return False
        now = self._clock()
        if self._settings.span_days:
            self._inbox.forget(before=now - int(self._settings.span_days * DAY))
        if self._settings.record_days:
            before = now - int(self._settings.record_days * DAY)
            if self._ledger.forgettable(before=before):
                self._ledger.forget(before=before)
        return False
