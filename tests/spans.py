"""Small hand-made spans for tests of single rules."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from otel_drift.model import LogRecord, Session, Span, SpanEvent
from otel_drift.sessions import ReconstructOptions, reconstruct
from otel_drift.sessions.prompt import find_passages

SECOND = 10**9


class Trace:
    """Spans of one trace, each a second long and a second after the one before unless told otherwise."""

    _numbers = itertools.count(1)

    def __init__(self, start: float = 0.0, *, scope: str = "test", resource: Mapping[str, Any] | None = None) -> None:
        self.trace_id = f"{next(self._numbers):032x}"
        self.spans: list[Span] = []
        self.now = start
        self.scope = scope
        self.resource = {"service.name": "bot", **(resource or {})}

    def add(
        self,
        name: str,
        attributes: Mapping[str, Any] | None = None,
        parent: str | None = None,
        *,
        at: float | None = None,
        lasts: float = 1.0,
        events: Sequence[tuple[str, Mapping[str, Any]]] = (),
        logs: Sequence[tuple[str, Any, Mapping[str, Any]]] = (),
        error: str = "",
        scope: str | None = None,
    ) -> str:
        """Add a span and return its id."""
        start = self.now if at is None else at
        self.now = max(self.now, start + 1.0)
        span_id = f"{next(self._numbers):016x}"
        nanos = int((1_000_000 + start) * SECOND)
        self.spans.append(
            Span(
                self.trace_id,
                span_id,
                parent,
                name,
                nanos,
                nanos + int(lasts * SECOND),
                dict(attributes or {}),
                self.resource,
                self.scope if scope is None else scope,
                status="error" if error else "unset",
                status_message=error,
                events=tuple(SpanEvent(n, nanos + i, dict(a)) for i, (n, a) in enumerate(events)),
                logs=tuple(
                    LogRecord(self.trace_id, span_id, n, nanos + i, b, dict(a)) for i, (n, b, a) in enumerate(logs)
                ),
            )
        )
        return span_id


def sessions_of(*traces: Trace, options: ReconstructOptions | None = None) -> list[Session]:
    """Rebuild."""
    return reconstruct([s for t in traces for s in t.spans], options or ReconstructOptions())


def one(*traces: Trace, options: ReconstructOptions | None = None) -> Session:
    """Rebuild what must be one session."""
    sessions = sessions_of(*traces, options=options)
    assert len(sessions) == 1, [[t.user for t in s.turns] for s in sessions]
    return sessions[0]


def said(session: Session) -> list[tuple[str | None, str | None]]:
    """User texts and answers."""
    return [(t.user, t.answer) for t in session.turns]


def evidence(session: Session) -> list[list[tuple[str | None, str | None]]]:
    """Ids (None where the trace has none) and texts of the passages, a list a turn."""
    return [[(p.id if p.own_id else None, p.text) for p in t.passages] for t in session.turns]


TURNS = [
    ("Where is my order?", "It left the warehouse on Monday."),
    ("When does it arrive?", "Most likely on Thursday."),
    ("Thanks!", "You're welcome."),
]


def chat(
    k: int,
    *,
    start: float | None = None,
    ids: dict[str, Any] | None = None,
    turns: Sequence[tuple[str, str]] = TURNS,
    window: int | None = None,
    resource: dict[str, Any] | None = None,
    answer: str | None = None,
    user: str | None = None,
    lasts: float = 1.0,
    scope: str = "llm",
) -> Trace:
    """Turn k as one chat span that resends the history (the last `window` turns of it)."""
    t = Trace(k * 100.0 if start is None else start, resource=resource, scope=scope)
    before = turns[:k] if window is None else turns[max(0, k - window) : k]
    messages = [m for q, a in before for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]
    messages.append({"role": "user", "content": user or turns[k][0]})
    t.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": answer or turns[k][1]}]),
            **(ids or {}),
        },
        lasts=lasts,
    )
    return t


def found(prompt: str) -> list[tuple[str | None, str | None]]:
    """The id and text of each passage in a prompt."""
    result = find_passages(prompt)
    return [(d.id, d.text) for d in result.documents] if result else []
