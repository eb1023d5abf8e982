"""A judge that knows the labels of the given conversations, for runs of the whole line over their captures.

One function an audit turns labels into that audit's answer: register it in `ANSWERS`. It gets the task and the
labelled turns that the task's material holds, by turn number of the material.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from otel_drift.errors import PermanentJudgeError
from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask, Session, Turn


@dataclass(frozen=True)
class LabelledTurn:
    """A turn as it was captured, the label of its conversation, and its number there."""

    turn: Turn
    number: int
    label: Mapping[str, Any]

    def events(self, *types: str, event: bool | None = None) -> list[dict[str, Any]]:
        """What was planted in this turn: of these types, real (True), traps (False) or both."""
        return [
            planted
            for planted in self.label["planted_events"]
            if planted.get("turn") == self.number
            and planted["type"] in types
            and (event is None or planted["event"] is event)
        ]

    def passage_text(self, passage_id: str) -> str:
        return next(p["text"] for t in self.label["turns"] for p in t["passages"] if p["id"] == passage_id)

    def ref(self, passage_id: str) -> str | None:
        """The short reference of a labelled passage in the captured turn, None where it was not captured."""
        wanted = self.passage_text(passage_id)
        return next(
            (self.turn.passage_ref(i) for i, p in enumerate(self.turn.passages) if p.text and wanted in p.text), None
        )


Answering: TypeAlias = Callable[[JudgeTask, Mapping[int, LabelledTurn]], dict[str, Any]]


@dataclass
class LabelsJudge:
    """Answers every task from the labels; a conversation it does not know is a permanent failure."""

    labels: Path
    name: str = "openai/labels"
    note: str = ""
    embedded: bool = False
    endpoint: str = "this process"
    tasks: list[JudgeTask] = field(default_factory=list)

    def parameters(self) -> Mapping[str, Any]:
        return {}

    def limits(self) -> JudgeLimits:
        return JudgeLimits()

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        self.tasks.append(task)
        session = getattr(task.material, "session", task.material)
        turns = labelled_turns(session, self.labels) if isinstance(session, Session) else {}
        if task.audit not in ANSWERS or not turns:
            raise PermanentJudgeError(f"no labels for {task.audit}", reason="unsupported_task")
        return JudgeAnswer(json.dumps(ANSWERS[task.audit](task, turns)), self.name, 100, 50, 0.001)


def labelled_turns(session: Session, labels: Path) -> dict[int, LabelledTurn]:
    """The turns of `session` that stand in a labelled conversation, by their number in the session."""
    found = {}
    for turn in session.turns:
        for label in _conversations(labels):
            for one in label["turns"]:
                same_answer = bool(turn.answer) and one["answer"].strip() == (turn.answer or "").strip()
                if same_answer and (turn.user is None or one["user"] in turn.user):
                    found.setdefault(turn.number, LabelledTurn(turn, one["turn"], label))
    return found


@functools.cache
def _conversations(labels: Path) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(file.read_text(encoding="utf-8")) for file in sorted(labels.glob("*.json")))


# --- source_conflict ----------------------------------------------------------------------------

HRLEAVE_QUOTES = {
    "hr-carry-1": "Up to 10 unused vacation days may be carried over",
    "hr-carry-9": "Unused vacation days can be carried over up to a maximum of 5 days",
}
"""The conflict of the conversation hrleave is labelled without quotes."""


def conflicts_between_passages(task: JudgeTask, turns: Mapping[int, LabelledTurn]) -> dict[str, Any]:
    """The planted conflicts of the one turn; traps are left out."""
    (labelled,) = turns.values()
    conflicts = [planted_conflict(labelled, planted) for planted in labelled.events("conflicting_passages", event=True)]
    return {"conflicts": conflicts, "conflict_notes": "Two passages disagree." if conflicts else ""}


def planted_conflict(labelled: LabelledTurn, planted: Mapping[str, Any]) -> dict[str, Any]:
    """One planted conflict (or trap) as a judge would list it."""
    a, b = planted["passages"]
    disclosed = bool(planted.get("disclosed"))
    return {
        "source_a": labelled.ref(a),
        "claim_a": f"What {a} says.",
        "quote_a": planted.get("quote_a") or HRLEAVE_QUOTES.get(a) or labelled.passage_text(a),
        "source_b": labelled.ref(b),
        "claim_b": f"What {b} says.",
        "quote_b": planted.get("quote_b") or HRLEAVE_QUOTES.get(b) or labelled.passage_text(b),
        "severity": planted.get("severity", "MATERIAL"),
        "explanation": "Both cannot be right.",
        "confidence": 0.9,
        "disclosed": disclosed,
        "disclosure_quote": planted["answer_span"] if disclosed else None,
    }


ANSWERS: dict[str, Answering] = {"source_conflict": conflicts_between_passages}
"""Audit → answer from labels."""
