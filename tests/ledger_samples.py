"""Sessions and units for tests of ledger, findings, delivery and sinks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from otel_drift.model import (
    Annotation,
    Attempt,
    Finding,
    JudgeAnswer,
    JudgeTask,
    Message,
    PromptRef,
    Session,
    Severity,
    Turn,
    Unit,
    worst,
)

SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND
PROMPT = PromptRef("factual_drift/session", "v1", "ab" * 32)
ANSWER = JudgeAnswer("{}", "model-2026", input_tokens=900, output_tokens=80, cost=0.0123, parameters={"seed": 7})
TASK = JudgeTask("factual_drift", "session", PROMPT, (Message("user", "Is it so?"),), "answer", {}, "fingerprint")


def trace(number: int) -> str:
    return f"{number:032x}"


def span(number: int) -> str:
    return f"{number:016x}"


def ref(turn: int) -> str:
    return f"{trace(turn)}:{span(turn * 16 + 1)}"


def session(key: str = "shop|s1", session_id: str | None = "s1", turns: int = 4) -> Session:
    """A session with a trace a turn, ten seconds each."""
    made = tuple(
        Turn(
            turn_id=f"turn-{n}",
            number=n,
            started=START + n * 60 * SECOND,
            ended=START + (n * 60 + 10) * SECOND,
            user=f"question {n}",
            answer=f"answer {n}",
            answer_state="captured",
            retrieval="captured",
            root_ref=f"{trace(n)}:{span(n * 16)}",
            answer_ref=ref(n),
            trace_ids=(trace(n),),
        )
        for n in range(1, turns + 1)
    )
    return Session(key=key, session_id=session_id, turns=made, trace_ids=tuple(trace(n) for n in range(1, turns + 1)))


def finding(turn: int = 3, **changes: Any) -> Finding:
    made = Finding(
        event_id=f"event-{turn}",
        audit="factual_drift",
        type="CONTRADICTION",
        severity="MAJOR",
        confidence=0.9,
        turn_number=turn,
        span_ref=ref(turn),
        explanation="The refund period was 30 days and is now 60.",
        earlier_turn=1,
        earlier_ref=ref(1),
        quotes=("within 30 days", "within 60 days"),
        likely_cause="generation_error",
    )
    return replace(made, **changes)


def unit(*findings: Finding, **changes: Any) -> Unit:
    """A unit: with findings, or clean."""
    severities: list[Severity] = [one.severity for one in findings]
    made = Unit(
        unit_id="unit-1",
        audit="factual_drift",
        session=session(),
        outcome="findings" if findings else "clean",
        reason=None,
        severity=worst(severities),
        report={"total_turns": 4, "claims": [], "drift_events": [one.event_id for one in findings]},
        findings=tuple(findings),
        judge="litellm:model",
        calls=1,
        input_tokens=900,
        output_tokens=80,
        cost=0.0123,
        prompts=(PROMPT,),
        attempts=(Attempt("session", 1, PROMPT, "key-1", ANSWER, (), False, TASK.messages),),
        content_sha256="fingerprint-1",
    )
    return replace(made, **changes)


def conflicting(*pairs: tuple[str, str], **changes: Any) -> Unit:
    """A unit of source_conflict: pairs of passages, of which all but ``prompt`` were read from a span of turn 2."""
    report = []
    for number, pair in enumerate(pairs):
        conflict: dict[str, Any] = {"event_id": f"conflict-{number}"}
        for side, passage in zip("ab", pair, strict=True):
            conflict[f"source_{side}"] = passage
            conflict[f"span_ref_{side}"] = None if passage == "prompt" else ref(2)
            conflict[f"text_sha256_{side}"] = f"hash of {passage}"
        report.append(conflict)
    found = [
        finding(3, event_id=one["event_id"], audit="source_conflict", type="UNDISCLOSED_CONFLICT", quotes=pair)
        for one, pair in zip(report, pairs, strict=True)
    ]
    return unit(*found, audit="source_conflict", report={"conflicts": report}, **changes)


def annotation(number: int = 1, **changes: Any) -> Annotation:
    made = Annotation(
        id=f"{number:032x}",
        revision=1,
        name="factual_drift",
        target="span",
        trace_id=trace(3),
        span_id=span(49),
        session_id="s1",
        label="MAJOR",
        score=0.7,
        explanation="Contradiction, turn 1 → turn 3.",
        audit="factual_drift",
        start=START,
        end=START + 10 * SECOND,
        links=(ref(1),),
        metadata={
            "severity": "MAJOR",
            "outcome": "findings",
            "prompts": [{"id": "p", "version": "v1", "sha256": "cd" * 32}],
        },
    )
    return replace(made, **changes)
