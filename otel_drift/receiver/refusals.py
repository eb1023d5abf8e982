"""Receiver: why a request is refused, and what that is in OTLP's two protocols."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_drift.telemetry import Telemetry

log = logging.getLogger(__name__)

SAID_EVERY = 60.0
"""Seconds between two lines of the log on refusals of one kind."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind of refusal: HTTP status, gRPC status code (its number), and after how many seconds to try again.

    The OTLP specification makes 429, 502, 503 and 504 retryable, UNAVAILABLE too, and RESOURCE_EXHAUSTED only where
    it comes with a delay; everything else makes the sender drop the data.
    """

    http: int
    rpc: int
    delay: float | None = None


REASONS = {
    "bad_data": Reason(400, 3),
    "too_large": Reason(413, 8),
    "unsupported_media_type": Reason(415, 3),
    "unauthorized": Reason(401, 16),
    "forbidden": Reason(403, 7),
    "not_found": Reason(404, 12),
    "method_not_allowed": Reason(405, 12),
    "internal_error": Reason(500, 13),
    "busy": Reason(429, 8, 1.0),
    "timeout": Reason(503, 14, 1.0),
    "backlog": Reason(503, 14, 5.0),
    "disk": Reason(503, 14, 5.0),
    "ledger": Reason(503, 14, 2.0),
    "stopping": Reason(503, 14, 1.0),
}
"""By code; the delays are short because SDKs give up after 10 seconds in all."""


class Refusal(Exception):  # noqa: N818 - an answer rather than an error
    """A request that is not taken in: a code of `REASONS`, a message without trace text, the records concerned."""

    def __init__(self, code: str, message: str, records: int = 0) -> None:
        self.code, self.records = code, records
        self.reason = REASONS[code]
        super().__init__(message)


class Refusals:
    """Counts refusals; those that make senders drop their data stand in the log too, with how often, once a minute.

    Args:
        telemetry: Counts them.
        clock: Seconds that never go back.
    """

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic) -> None:
        self._telemetry, self._clock = telemetry, clock
        self._lock = threading.Lock()
        self._unsaid: Counter[tuple[str, str]] = Counter()
        self._said: dict[tuple[str, str], float] = {}

    def tell(self, protocol: str, refusal: Refusal) -> None:
        """A request was refused by ``http`` or ``grpc``."""
        self._telemetry.refused(protocol, refusal.code, refusal.records)
        if refusal.reason.delay is not None:
            return
        kind = (protocol, refusal.code)
        with self._lock:
            self._unsaid[kind] += 1
            now = self._clock()
            if now - self._said.get(kind, float("-inf")) < SAID_EVERY:
                return
            self._said[kind] = now
            number = self._unsaid.pop(kind)
        times = "a request" if number == 1 else f"{number:,} requests"
        log.warning("receiver: refused %s by %s as %s: %s", times, protocol, refusal.code, refusal)
