"""What is wrong with a running service right now; status, readiness and metrics read it."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is not as it should be. `since` in nanoseconds since the epoch; `blocking`: not ready for more."""

    message: str
    since: int
    blocking: bool = False


class Conditions:
    """The conditions of a process, by name; safe to use from threads. Messages hold no text of traces."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: dict[str, Condition] = {}

    def note(self, name: str, message: str, *, blocking: bool = False) -> None:
        """Say that something is wrong; said in the log when it begins or changes."""
        with self._lock:
            known = self._now.get(name)
            since = known.since if known else time.time_ns()
            self._now[name] = Condition(message, since, blocking)
        if known is None or known.message != message:
            log.warning("%s: %s", name, message)

    def clear(self, name: str) -> None:
        """Say that it is right again."""
        with self._lock:
            known = self._now.pop(name, None)
        if known is not None:
            log.info("%s: in order again after %.0f s", name, max(0, time.time_ns() - known.since) / 1e9)

    def now(self) -> dict[str, Condition]:
        """What is wrong now."""
        with self._lock:
            return dict(self._now)
