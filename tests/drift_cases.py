"""Sessions, judge answers and a scripted judge for the tests of the harness and of ``factual_drift``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask, Passage, Session, ToolCall, Turn
from otel_drift.testing.samples import DRIFTING


def turn(number: int, user: str | None, answer: str | None, *passages: str | None, **fields: Any) -> Turn:
    """A turn with its passages; `fields` override what follows from them."""
    trace = f"{number:032x}"
    given: dict[str, Any] = {
        "turn_id": f"turn-{number}",
        "number": number,
        "started": number * 10**9,
        "ended": number * 10**9 + 10**8,
        "user": user,
        "answer": answer,
        "answer_state": "captured" if answer else "failed",
        "retrieval": "captured" if passages else "none",
        "passages": tuple(
            Passage(id=f"doc-{number}-{rank}", text=text, rank=rank) for rank, text in enumerate(passages, 1)
        ),
        "root_ref": f"{trace}:{number:016x}",
        "answer_ref": f"{trace}:{number + 256:016x}",
        "trace_ids": (trace,),
    }
    return Turn(**{**given, **fields})


def session(*turns: Turn, key: str = "shop/prod/s-1") -> Session:
    return Session(key, "s-1", turns, tuple(trace for one in turns for trace in one.trace_ids))


def claim(id: str, turn: str, quote: str, status: str, *evidence: tuple[str, str], **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "turn": turn,
        "claim_text": f"Claim {id}.",
        "quote": quote,
        "grounding_status": status,
        "evidence": [{"passage": ref, "quote": words} for ref, words in evidence],
        "qualifiers": [],
        "missing_qualifier": None,
        **fields,
    }


def event(turn: str, drift_type: str, earlier: str | None, later: str, **fields: Any) -> dict[str, Any]:
    return {
        "turn": turn,
        "drift_type": drift_type,
        "earlier_claim": earlier,
        "later_claim": later,
        "description": "What drifted.",
        "severity": "MAJOR",
        "detection_confidence": 0.9,
        "acknowledged_correction": False,
        **fields,
    }


RETURNS = session(
    turn(1, "May I return a jacket?", "Most items can usually be returned within 30 days of purchase.",
         "Most items can usually be returned within 30 days of purchase. Shipping costs are not refunded."),
    turn(2, "And how long exactly?", "Items can be returned within 60 days of purchase.",
         "Opening hours are nine to five. The shop is closed on Sundays."),
    turn(3, "Who pays for shipping?", "Shipping costs are not refunded. Returned goods are inspected by a robot.",
         "Most items can usually be returned within 30 days of purchase. Shipping costs are not refunded."),
)  # fmt: skip
"""Three turns: a contradiction in the second, an unsupported new claim in the third."""


def returns_answer() -> dict[str, Any]:
    """A right answer to `RETURNS`."""
    return {
        "claims": [
            claim("c1", "t1", "Most items can usually be returned within 30 days of purchase.", "GROUNDED",
                  ("t1.p1", "Most items can usually be returned within 30 days of purchase."), qualifiers=["usually"]),
            claim("c2", "t2", "Items can be returned within 60 days of purchase.", "UNSUPPORTED"),
            claim("c3", "t3", "Shipping costs are not refunded.", "GROUNDED",
                  ("t3.p1", "Shipping costs are not refunded.")),
            claim("c4", "t3", "Returned goods are inspected by a robot.", "UNSUPPORTED"),
        ],
        "drift_events": [
            event("t2", "CONTRADICTION", "c1", "c2", severity="MAJOR"),
            event("t3", "UNSUPPORTED_NEW_CLAIM", None, "c4", severity="MINOR", detection_confidence=0.7),
        ],
        "overall_assessment": "Two drifts.",
    }  # fmt: skip


@dataclass
class ScriptedJudge:
    """Answers with the script, one entry a call: text, a JSON-ready value, a `JudgeAnswer`, or an error to raise."""

    script: Sequence[Any]
    name: str = "openai/scripted"
    note: str = ""
    embedded: bool = False
    endpoint: str = "this process"
    limit: JudgeLimits = field(default_factory=JudgeLimits)
    temperature: float = 0.0
    tasks: list[JudgeTask] = field(default_factory=list)

    def parameters(self) -> Mapping[str, Any]:
        return {"temperature": self.temperature}

    def limits(self) -> JudgeLimits:
        return self.limit

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        self.tasks.append(task)
        entry = self.script[min(len(self.tasks), len(self.script)) - 1]
        if isinstance(entry, Exception):
            raise entry
        if isinstance(entry, JudgeAnswer):
            return entry
        text = entry if isinstance(entry, str) else json.dumps(entry)
        return JudgeAnswer(text, self.name, 100, 50, 0.001, 0.01, "stop")


class MemoryCache:
    """An answer cache in memory."""

    def __init__(self) -> None:
        self.answers: dict[str, JudgeAnswer] = {}

    def lookup(self, cache_key: str) -> JudgeAnswer | None:
        return self.answers.get(cache_key)

    def remember(self, cache_key: str, task: JudgeTask, answer: JudgeAnswer, *, instead: bool = False) -> None:
        if instead or cache_key not in self.answers:
            self.answers[cache_key] = answer


def examples_in(prompt_text: str) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """The worked examples of a prompt: data lines and answer."""
    found = re.findall(r"```data\n(.*?)\n```\n```answer\n(.*?)\n```", prompt_text, re.DOTALL)
    return [([json.loads(line) for line in data.splitlines()], json.loads(answer)) for data, answer in found]


_STATES = {
    "the passages below": "captured",
    "a retriever ran and returned nothing": "none",
    "passages not recorded: claims are NOT_GROUNDABLE": "not_captured",
}


def session_of(lines: Sequence[Mapping[str, Any]]) -> Session:
    """Rebuild the session that data lines of a prompt lay out."""
    texts: dict[str, str] = {}
    turns = []
    for line in lines:
        for passage in line.get("passages", []):
            texts[passage["ref"]] = passage.get("text") or texts[passage["same_text_as"]]
        number = int(line["turn"][1:])
        own = [texts[passage["ref"]] for passage in line.get("passages", [])]
        turns.append(turn(number, line["user"], line["answer"], *own, retrieval=_STATES[line["retrieval"]]))
    return session(*turns)


def calculator(result: str = "42") -> ToolCall:
    return ToolCall("calculator", "6*7", result)


def assert_report_holds(audited: Session, report: Mapping[str, Any]) -> None:
    """Check a report against the session from scratch: every quote, reference, count and rule."""
    turns = {one.number: one for one in audited.turns}
    claims = {one["claim_id"]: one for one in report["claims"]}
    assert len(claims) == len(report["claims"])
    for one in claims.values():
        own = turns[one["turn"]]
        assert one["quote"] in own.answer
        assert own.answer[slice(*one["span"])] == one["quote"]
        texts = {passage.id: passage.text for passage in own.passages}
        for evidence in one["evidence"]:
            whole = texts[evidence["passage_id"]]
            assert whole[slice(*evidence["span"])] == evidence["quote"]
            assert len(evidence["quote"].split()) >= 4 or evidence["quote"].rstrip(".") == whole.rstrip(".")
        unknown = own.retrieval in ("not_captured", "ids_only", "partial")
        assert (one["grounding_status"] == "NOT_GROUNDABLE") == unknown
        assert bool(one["evidence"]) == (one["grounding_status"] in ("GROUNDED", "PARTIALLY_GROUNDED"))
        assert all(word.casefold() in own.answer.casefold() for word in one["qualifiers"])
    for drift in [*report["drift_events"], *report["corrections"]]:
        sides = [side for side in (drift["earlier_claim"], drift["later_claim"]) if side]
        for side in sides:
            whole = claims[side["claim_id"]]
            assert {key: side[key] for key in ("turn", "claim_text", "quote", "grounding_status")} == {
                key: whole[key] for key in ("turn", "claim_text", "quote", "grounding_status")
            }
            assert side["trace_event_ref"] == turns[side["turn"]].answer_ref
        assert drift["turn_number"] == drift["later_claim"]["turn"]
        assert 0 <= drift["detection_confidence"] <= 1
        assert drift["severity"] in ("CRITICAL", "MAJOR", "MINOR")
        if drift["drift_type"] == "UNSUPPORTED_NEW_CLAIM":
            assert drift["earlier_claim"] is None
            assert drift["later_claim"]["grounding_status"] == "UNSUPPORTED"
        else:
            assert drift["earlier_claim"]["turn"] < drift["later_claim"]["turn"]
        if drift["drift_type"] == "CONTRADICTION":
            assert drift["earlier_claim"]["grounding_status"] in ("GROUNDED", "PARTIALLY_GROUNDED")
    events = report["drift_events"]
    assert [one["turn_number"] for one in events] == sorted(one["turn_number"] for one in events)
    assert len({one["event_id"] for one in events}) == len(events)
    assert report["summary"]["total_drift_events"] == len(events) == sum(report["summary"]["by_type"].values())


def drifting() -> dict[str, Any]:
    """A judge's answer on the conversation of `otel_drift.testing`: turn 3 contradicts turn 1."""
    first, second, third = (answer for _, _, answer in DRIFTING)
    return {
        "claims": [
            claim("c1", "t1", first, "GROUNDED", ("t1.p1", DRIFTING[0][1])),
            claim("c2", "t2", second, "GROUNDED", ("t2.p1", DRIFTING[1][1])),
            claim("c3", "t3", third, "UNSUPPORTED"),
        ],
        "drift_events": [event("t3", "CONTRADICTION", "c1", "c3", severity="CRITICAL")],
        "overall_assessment": "One contradiction.",
    }
