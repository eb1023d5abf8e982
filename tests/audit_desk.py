"""An inbox, a ledger and the audits of a service, with conversations to receive and clocks moved by hand."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from drift_cases import claim, event
from otel_drift import pipeline
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.config import Settings
from otel_drift.errors import JudgeError
from otel_drift.inbox import RECEIVED, Inbox
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask, Session, Span
from otel_drift.pipeline import Line
from otel_drift.service.auditing import AuditDuty
from otel_drift.telemetry import Telemetry

SECOND = 10**9
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOON = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()) * SECOND
SINK = "jsonl:received"
ELSEWHERE = "phoenix:http://localhost:6006"
CALM = ("Returns take 30 days.", "Returns take 30 days.")
DRIFTING = ("Returns take 30 days.", "Returns take 60 days.")


class Clock:
    """Wall clock and seconds; both stand still until moved."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now

    def seconds(self) -> float:
        return self.now / SECOND

    def later(self, nanoseconds: int) -> None:
        self.now += nanoseconds


def turn(
    trace: int,
    session: str | None,
    number: int,
    answer: str = "Returns take 30 days.",
    *,
    at: int = NOON - HOUR,
    history: Sequence[tuple[str, str]] = (),
    service: str = "shop",
    attributes: Mapping[str, Any] | None = None,
    error: bool = False,
) -> list[Span]:
    """A turn as OpenInference writes it: the chain, the retriever and the model call of one trace."""
    start = at + number * MINUTE
    name, resource = f"{trace:032x}", {"service.name": service}
    question = f"Question {number}: how long do returns take{f' at {session}' if session else ''}?"
    own: dict[str, Any] = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer}
    if session is not None:
        own["session.id"] = session
    said = [*((role, text) for pair in history for role, text in zip(("user", "assistant"), pair, strict=True)),
            ("user", question)]  # fmt: skip
    model: dict[str, Any] = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
    }
    for place, (role, text) in enumerate(said):
        model[f"llm.input_messages.{place}.message.role"] = role
        model[f"llm.input_messages.{place}.message.content"] = text
    found = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": question,
        "retrieval.documents.0.document.content": "Returns take 30 days.",
        "retrieval.documents.0.document.id": "policy",
    }

    def span(number: int, parent: int | None, kind: str, attributes: Mapping[str, Any]) -> Span:
        return Span(
            name, f"{trace * 16 + number:016x}", None if parent is None else f"{trace * 16 + parent:016x}", kind,
            start + number, start + SECOND - number, attributes, resource, "openinference",
            status="error" if error else "unset", status_message="the model is gone" if error else "",
        )  # fmt: skip

    return [
        span(1, None, "chat", {**own, **(attributes or {})}),
        span(2, 1, "search", found),
        span(3, 1, "model", model),
    ]


def conversation(number: int, answers: Sequence[str] = CALM, *, name: str | None = "", **options: Any) -> list[Span]:
    """The session ``s7`` with these answers, a trace a turn."""
    session = f"s{number}" if name == "" else name
    spans = []
    for place, answer in enumerate(answers, 1):
        spans += turn(number * 100 + place, session, place, answer, **options)
    return spans


@dataclass
class Reader:
    """A judge that reads the session it is given: other numbers in a later answer are a contradiction.

    Of a part of one it says what the embedded judge would.

    `fails` says for a session which error comes instead; `while_asked` is called before each answer.
    """

    name: str = "openai/reader"
    note: str = ""
    embedded: bool = False
    endpoint: str = "this process"
    limit: JudgeLimits = field(default_factory=lambda: JudgeLimits(input_price=1e-6, output_price=1e-6))
    fails: Callable[[str], JudgeError | None] = lambda name: None
    while_asked: Callable[[str], None] = lambda name: None
    asked: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def parameters(self) -> Mapping[str, Any]:
        return {}

    def limits(self) -> JudgeLimits:
        return self.limit

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        session = task.material
        if not isinstance(session, Session):
            return replace(RulesJudge().ask(task), model=self.name)
        with self._lock:
            self.asked.append(session.name)
        self.while_asked(session.name)
        error = self.fails(session.name)
        if error is not None:
            raise error
        answered = [one for one in session.turns if one.answered]
        claims = [
            claim(f"c{one.number}", one.ref, one.answer or "", "GROUNDED" if one is answered[0] else "UNSUPPORTED",
                  *([(one.passage_ref(0), one.passages[0].text or "")] if one is answered[0] else []))
            for one in answered
        ]  # fmt: skip
        events = [
            event(one.ref, "CONTRADICTION", f"c{answered[0].number}", f"c{one.number}")
            for one in answered[1:]
            if re.findall(r"\d+", one.answer or "") != re.findall(r"\d+", answered[0].answer or "")
        ]
        text = json.dumps({"claims": claims, "drift_events": events, "overall_assessment": "read"})
        return JudgeAnswer(text, self.name, 100, 50, 0.001, 0.01, "stop")


class Notes:
    """The conditions noted."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}

    def note(self, name: str, message: str) -> None:
        self.now[name] = message

    def clear(self, name: str) -> None:
        self.now.pop(name, None)


class Desk:
    """A service's inbox, ledger and audits, with clocks that are moved by hand."""

    def __init__(self, ledger: Ledger, clock: Clock | None = None, owner: str = "one") -> None:
        self.ledger = ledger
        self.clock = clock or Clock()
        self.inbox = Inbox(ledger, clock=self.clock)
        self.judge = Reader()
        self.notes = Notes()
        self.owner = owner
        self.telemetry = Telemetry.none()
        self.settings = Settings()
        self.line = Line([FactualDrift()], self.judge, pipeline.AuditSettings(), ledger, (SINK,), workers=1)
        self.lines: dict[str, Line] = {}
        self._duty: AuditDuty | None = None

    def told(self, **sections: Mapping[str, Any]) -> Desk:
        """The same with other settings, by section."""
        self.settings = Settings(**{name: dict(values) for name, values in sections.items()})  # type: ignore[arg-type]
        self._duty = None
        return self

    @property
    def duty(self) -> AuditDuty:
        if self._duty is None:
            lines = {RECEIVED: self.line, ELSEWHERE: replace(self.line, sinks=(ELSEWHERE,)), **self.lines}
            self._duty = AuditDuty(
                self.inbox, lines, self.settings, self.owner, self.telemetry,
                conditions=self.notes, clock=self.clock, monotonic=self.clock.seconds,
            )  # fmt: skip
        return self._duty

    def receive(self, *conversations: Sequence[Span], origin: str = RECEIVED) -> Desk:
        """Receive all; they settle."""
        for spans in conversations:
            self.inbox.add(spans, origin)
        self.clock.later(int(self.settings.serve.settle_minutes * MINUTE) + 1)
        return self

    def work(self, most: int = 200) -> Desk:
        """Until there is nothing more to do."""
        for _ in range(most):
            if not self.duty.step():
                return self
        raise AssertionError("there is always more to do")

    def results(self) -> dict[str, str]:
        """The outcome of each session's current result, the judge's mark with it where it is the embedded one."""
        found = {}
        for one in self.ledger.record():
            if one["current"]:
                found[one["session_id"] or one["session_key"]] = one["outcome"] + (
                    " (rules)" if one["judge"] == "rules" else ""
                )
        return found

    def counts(self) -> Any:
        serve = self.settings.serve
        return self.inbox.counts(
            self.clock.now,
            settle=int(serve.settle_minutes * MINUTE),
            cap=int(serve.cap_minutes * MINUTE),
            cap_spans=serve.cap_spans,
        )

    def owed(self, sink: str = SINK) -> Counter[str]:
        """How many values a sink is owed of each session, withdrawn ones apart."""
        said = self.ledger.owed(sink, 10_000)
        return Counter(f"{one.session_id}{' withdrawn' if one.withdrawn else ''}" for one in said)


class AuditDeskContract:
    """What the contracts of the audits stand on; subclasses give the fixture `place`."""

    @pytest.fixture
    def place(self) -> str:
        """A path or URL of an empty ledger."""
        raise NotImplementedError

    @pytest.fixture
    def desk(self, place: str) -> Iterator[Desk]:
        with Ledger.open(place) as ledger:
            yield Desk(ledger)
