"""A source and a sink in memory, and the smallest examples of both protocols."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_drift.model import Annotation, Record, Span, WriteReport
from otel_drift.protocols import Window

PAGE = 100


class MemorySource:
    """Yields the spans it was given: whole sessions (by ``gen_ai.conversation.id``) that have one in the window."""

    windowed = True

    def __init__(self, spans: Sequence[Span], name: str = "memory") -> None:
        self.name = name
        self._spans = spans

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """Yield pages; the cursor is the number of spans read."""
        chosen = [span for span in self._spans if window is None or _session(span) in self._sessions(window)]
        for at in range(int(cursor or 0), len(chosen), PAGE):
            yield chosen[at : at + PAGE], str(min(at + PAGE, len(chosen)))

    def _sessions(self, window: Window) -> set[str]:
        if window.sessions:
            return set(window.sessions)
        return {_session(span) for span in self._spans if window.since <= span.start < window.until}


class MemorySink:
    """Keeps one current value per target and name."""

    upserts = True

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.values: dict[str, Annotation] = {}

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Replace, or remove what is withdrawn."""
        for one in annotations:
            if one.withdrawn:
                self.values.pop(one.id, None)
            else:
                self.values[one.id] = one
        return WriteReport(written=tuple(one.id for one in annotations))

    def close(self) -> None:
        """Nothing to release."""


def _session(span: Span) -> str:
    return str(span.attributes.get("gen_ai.conversation.id") or span.trace_id)
