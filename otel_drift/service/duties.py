"""Runs what a service does again and again, each in a thread of its own; whatever fails is said and tried again."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from otel_drift.report.escape import said_of
from otel_drift.retry import Backoff
from otel_drift.service.conditions import Conditions

log = logging.getLogger(__name__)

PAUSES = Backoff(1.0, 60.0)
"""Seconds between two tries of a duty that keeps failing."""


class Duty(Protocol):
    """A piece of work that comes again. `every`: seconds to the next step when there is nothing to do."""

    name: str
    every: float

    def step(self) -> bool:
        """Do a bounded piece; True where there is more to do at once. May raise whatever it likes."""
        ...


class Duties:
    """Runs duties until stopped."""

    def __init__(self, duties: Sequence[Duty], conditions: Conditions) -> None:
        self.stopping = threading.Event()
        self._conditions = conditions
        self._threads = [threading.Thread(target=self._run, args=(one,), name=one.name) for one in duties]

    def start(self) -> None:
        """Begin all of them."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> list[str]:
        """Ask all to end after the step they are at, and wait; returns the names of those that did not in time."""
        self.stopping.set()
        ends = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, ends - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    @property
    def dead(self) -> list[str]:
        """Duties whose thread has ended though nobody stopped them."""
        return [] if self.stopping.is_set() else [one.name for one in self._threads if not one.is_alive()]

    def _run(self, duty: Duty) -> None:
        failures = 0
        while not self.stopping.is_set():
            try:
                more = duty.step()
            except Exception as error:  # the boundary of a duty: it is tried again, and stops no other
                log.debug("%s failed", duty.name, exc_info=error)
                self._conditions.note(duty.name, said_of(error, "otel-drift or a connector"))
                spread = random.uniform(0.75, 1.25)  # noqa: S311 - spreads tries, hides nothing
                self.stopping.wait(PAUSES.after(failures) * spread)
                failures += 1
            else:
                failures = 0
                self._conditions.clear(duty.name)
                if not more:
                    self.stopping.wait(duty.every)
