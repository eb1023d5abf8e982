"""Times as alerts carry them."""

from __future__ import annotations

from datetime import UTC, datetime

_SECOND = 1_000_000_000


def utc(nanoseconds: int) -> str:
    """RFC 3339 in UTC with milliseconds, of nanoseconds since the epoch."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
