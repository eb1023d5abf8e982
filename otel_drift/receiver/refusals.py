"""Receiver: why a request is refused, and what that is in OTLP's two protocols."""

from __future__ import annotations

from dataclasses import dataclass


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
