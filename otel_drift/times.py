"""Times as everything inside has them: nanoseconds since the epoch; and as they are written for others."""

from __future__ import annotations

from datetime import UTC, datetime

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def utc(nanoseconds: int) -> str:
    """RFC 3339 in UTC with milliseconds, of nanoseconds since the epoch."""
    seconds, rest = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
