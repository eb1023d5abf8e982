"""Conversations as OpenTelemetry's GenAI conventions record them, and what an audit says of one."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from otel_drift.model import Annotation, Span, Target

SECOND = 1_000_000_000
TURN_SECONDS = 20

DRIFTING: Sequence[tuple[str, str, str]] = (
    (
        "How long may I return a jacket?",
        "Jackets may be returned within 30 days of delivery, unworn and with the tag.",
        "You can return a jacket within 30 days of delivery, if it is unworn and has its tag.",
    ),
    (
        "Who pays for sending it back?",
        "Return shipping costs 4.95 euros and is taken from the refund.",
        "Return shipping costs 4.95 euros, which is taken from the refund.",
    ),
    (
        "So how long do I have again?",
        "Jackets may be returned within 30 days of delivery, unworn and with the tag.",
        "You can return a jacket within 60 days of delivery.",
    ),
)
"""Question, passage, answer by turn: turn 3 contradicts turn 1 and its own passage."""


def conversation(
    session_id: str,
    *,
    turns: Sequence[tuple[str, str, str]] = DRIFTING,
    ends: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    service: str = "shop-bot",
) -> list[Span]:
    """A session, one trace a turn: a root span, a retrieval with one passage, a chat with its messages.

    Args:
        session_id: ``gen_ai.conversation.id`` of every span.
        turns: Question, passage and answer of each.
        ends: When the last span ends (nanoseconds since the epoch); None = an hour ago.
        attributes: Besides, on every span: ``{"user.id": "u1"}``.
        service: ``service.name``.
    """
    end = time.time_ns() - 3600 * SECOND if ends is None else ends
    own = {"gen_ai.conversation.id": session_id, **(attributes or {})}
    spans: list[Span] = []
    messages: list[dict[str, Any]] = []
    for number, (question, passage, answer) in enumerate(turns):
        started = end - (len(turns) - number) * TURN_SECONDS * SECOND
        messages.append(_message("user", question))
        document = {"id": f"doc-{number + 1}", "content": passage, "score": 0.9}
        spans += _trace(
            _id(session_id, number, "trace", 32),
            started,
            own,
            {"service.name": service, "deployment.environment.name": "production"},
            retrieval={
                "gen_ai.operation.name": "retrieval",
                "gen_ai.retrieval.query.text": question,
                "gen_ai.retrieval.documents": json.dumps([document]),
            },
            chat={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "sample-model",
                "gen_ai.input.messages": json.dumps(messages),
                "gen_ai.output.messages": json.dumps([_message("assistant", answer)]),
            },
        )
        messages.append(_message("assistant", answer))
    return spans


def sample_spans(*, sessions: int = 2, ends: int | None = None) -> list[Span]:
    """Several conversations, one after another in time; the last ends at `ends` (default: an hour ago)."""
    end = time.time_ns() - 3600 * SECOND if ends is None else ends
    return [
        span
        for number in range(sessions)
        for span in conversation(f"session-{number + 1}", ends=end - (sessions - 1 - number) * 120 * SECOND)
    ]


def sample_annotations(spans: Sequence[Span]) -> list[Annotation]:
    """What an audit would say of the first session in `spans`: two values on an answer, trace and session each."""
    session_id = spans[0].attributes["gen_ai.conversation.id"]
    of_session = [span for span in spans if span.attributes["gen_ai.conversation.id"] == session_id]
    root = next(span for span in of_session if span.parent_id is None)
    answer = [span for span in of_session if span.attributes["gen_ai.operation.name"] == "chat"][-1]
    targets: tuple[tuple[Target, Span], ...] = (("span", answer), ("trace", root), ("session", root))
    return [
        Annotation(
            id=_id("annotation", target, name, 32),
            revision=1,
            name=name,
            target=target,
            trace_id=on.trace_id,
            span_id=on.span_id,
            session_id=session_id,
            label="MAJOR",
            score=0.7,
            explanation="Possible contradiction, MAJOR, turn 1 → turn 3: “30 days” / “60 days”.",
            audit="factual_drift",
            start=on.start,
            end=on.end,
            metadata={"severity": "MAJOR", "types": ["CONTRADICTION"], "outcome": "findings", "judge": "rules"},
            environment="production",
        )
        for target, on in targets
        for name in ("factual_drift", "drift_severity")
    ]


def _trace(
    trace_id: str,
    started: int,
    own: Mapping[str, Any],
    resource: Mapping[str, Any],
    *,
    retrieval: Mapping[str, Any],
    chat: Mapping[str, Any],
) -> list[Span]:
    root = _id(trace_id, "root", 16)

    def span(span_id: str, parent: str | None, name: str, since: int, until: int, values: Mapping[str, Any]) -> Span:
        return Span(
            trace_id=trace_id,
            span_id=span_id,
            parent_id=parent,
            name=name,
            start=started + since * SECOND,
            end=started + until * SECOND,
            attributes={**own, **values},
            resource=resource,
            scope="sample",
        )

    return [
        span(root, None, "invoke_agent shop-bot", 0, TURN_SECONDS, {"gen_ai.operation.name": "invoke_agent"}),
        span(_id(trace_id, "retrieval", 16), root, "retrieval handbook", 1, 3, retrieval),
        span(_id(trace_id, "chat", 16), root, "chat sample-model", 4, TURN_SECONDS - 1, chat),
    ]


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _id(*parts: object) -> str:
    *named, length = parts
    return hashlib.sha256(json.dumps([str(part) for part in named]).encode()).hexdigest()[: int(str(length))]
