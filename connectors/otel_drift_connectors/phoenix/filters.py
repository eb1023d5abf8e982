"""Expressions of Phoenix's filter language, as its lists of sessions and traces take them (20.11 and later)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from otel_drift.platform import fitting
from otel_drift_connectors.phoenix.server import IDENTIFIER

LATEST = 4_102_444_800_000_000_000
"""2100-01-01: later times are cut to it, so that they stay dates."""
LONGEST_QUERY = 6_000
"""Characters of ids in one URL; proxies refuse URLs from 8 KB on."""

FOREIGN = " or ".join(
    f"any(a.identifier != {IDENTIFIER!r} for a in {iterable})" for iterable in ("span_annotations", "trace_annotations")
)
"""Traces that someone else annotated."""


def overlaps(since: int, until: int) -> str:
    """Sessions or traces that reach into [`since`, `until`) (nanoseconds)."""
    return f"start_time < {moment(until)!r} and end_time >= {moment(since)!r}"


def active(since: int, until: int) -> str:
    """Sessions of which a trace does: a session may also outlast a window in silence."""
    return (
        f"{overlaps(since, until)} and "
        f"any(t.start_time < {moment(until)!r} and t.end_time >= {moment(since)!r} for t in traces)"
    )


def has_value(key: str, values: Iterable[str]) -> str:
    """Traces whose root span has one of `values` as its attribute `key`."""
    return f"attributes[{key!r}] in [{', '.join(map(repr, values))}]"


def moment(nanoseconds: int) -> str:
    """A time as the API reads it; rounded up to its microseconds, as a span's own time was rounded either way."""
    microseconds = -(-max(0, min(nanoseconds, LATEST)) // 1_000)
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest).isoformat()


def chunks(ids: Iterable[str], *, overhead: int, most: int = 1_000) -> Iterator[list[str]]:
    """`ids` in lists that fit into one request: at most `most`, and `LONGEST_QUERY` with `overhead` for each."""

    def size(one: str) -> int:
        return overhead + (len(one) if one.isascii() and one.isalnum() else 3 * len(one.encode()))

    return fitting(ids, size, largest=LONGEST_QUERY, most=most)
