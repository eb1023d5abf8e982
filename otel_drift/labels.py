"""Decisions of people as labels, to measure judges by: one JSON object an item, fit for ``otel-drift calibrate``.

Fields: ``id``, ``suite``, ``task``, ``group`` (one conversation: keep it on one side of a split), ``turn``,
``history``, ``passages``, ``text``, ``reference``, ``label``, ``raw_label``, ``meta``. A judge may not read the last
three.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

REVIEWS = "otel-drift-review"
DECISIONS = "otel-drift-decisions"

_BAD = {
    "contradiction": ("contradiction", "no_contradiction"),
    "grounding": ("unsupported", "supported"),
    "qualifier": ("dropped", "kept"),
    "passage_conflict": ("conflict", "no_conflict"),
}
"""Task → label of a confirmed finding, and of a rejected one."""
_TASKS = {
    "CONTRADICTION": "contradiction",
    "UNSUPPORTED_NEW_CLAIM": "grounding",
    "DROPPED_QUALIFICATION": "qualifier",
}


def of_item(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The label a decided review item makes; None where its texts were erased, or it decides about no finding.

    Args:
        item: From `Ledger.decided_items`.
    """
    finding, packet = item["finding"], item["packet"]
    if item["status"] not in ("confirmed", "rejected") or finding is None or not packet or not finding["quotes"]:
        return None
    task = _task(item["audit"], finding)
    turns = packet["turns"]
    turn = _turn(turns, finding["turn_number"])
    two_sided = task in ("contradiction", "qualifier")
    judged = turn.get("user") if task == "passage_conflict" else finding["quotes"][-1]
    resolved = item["resolved"] or {}
    return {
        "id": item["item_id"],
        "suite": REVIEWS,
        "task": task,
        "group": _group(item["session_key"]),
        "turn": finding["turn_number"],
        "history": _history(turns, finding["turn_number"]),
        "passages": [] if two_sided else _passages(turn),
        "text": judged,
        "reference": finding["quotes"][0] if two_sided else None,
        "label": _BAD[task][item["status"] == "rejected"],
        "raw_label": item["status"],
        "meta": {
            "audit": item["audit"],
            "type": finding["type"],
            "severity": finding["severity"],
            "confidence": finding["confidence"],
            "judge": item["judge"],
            "event_id": finding["event_id"],
            "session_id": item["session_id"],
            "span_ref": finding["span_ref"],
            "quotes": finding["quotes"],
            "by": resolved.get("by"),
            "why": resolved.get("why"),
            "at": resolved.get("at"),
        },
    }


def of_decision(decision: Mapping[str, Any]) -> dict[str, Any]:
    """A decision to answer or to abstain as an item of an evaluation set.

    The label is a person's where one decided about it; else it is what was decided, and ``raw_label`` says so.

    Args:
        decision: From `Ledger.decisions`.
    """
    report, turns = decision["report"], decision["packet"]["turns"]
    turn = turns[-1] if turns else {}
    found = report["abstain"] is True or bool(report.get("conflict_detected"))
    verdict = _verdict(decision["verdicts"], report)
    conflict = found if verdict is None else found == (verdict["status"] == "confirmed")
    return {
        "id": decision["unit_id"],
        "suite": DECISIONS,
        "task": "passage_conflict",
        "group": _group(decision["session_key"]),
        "turn": turn.get("turn"),
        "history": _history(turns, turn.get("turn") or 0),
        "passages": _passages(turn),
        "text": turn.get("user"),
        "reference": None,
        "label": _BAD["passage_conflict"][not conflict],
        "raw_label": {
            "decision": "abstain" if report["abstain"] is True else "proceed",
            "labelled_by": "machine" if verdict is None else "person",
            "verdict": None if verdict is None else verdict["status"],
        },
        "meta": {
            "audit": decision["audit"],
            "judge": decision["judge"],
            "session_id": decision["session_id"],
            "conflict_count": report.get("conflict_count"),
            "by": None if verdict is None else verdict["resolved_by"],
            "why": None if verdict is None else verdict["why"],
            "at": decision["created"],
        },
    }


def _task(audit: str, finding: Mapping[str, Any]) -> str:
    if audit == "source_conflict":
        return "passage_conflict"
    return _TASKS.get(finding["type"], "contradiction" if finding["earlier_turn"] is not None else "grounding")


def _verdict(verdicts: Sequence[Mapping[str, Any]], report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What people's verdicts say of a decision.

    The one on the whole decision; else one confirmed conflict makes a conflict, and only all rejected make none.
    """
    whole = [one for one in verdicts if one["event_id"] is None]
    confirmed = [one for one in verdicts if one["status"] == "confirmed"]
    if whole or confirmed:
        return (whole or confirmed)[0]
    rejected = {one["event_id"] for one in verdicts}
    found = {one.get("event_id") for one in report.get("conflicts") or ()}
    return verdicts[0] if verdicts and found <= rejected else None


def _turn(turns: Sequence[Mapping[str, Any]], number: int) -> Mapping[str, Any]:
    return next((turn for turn in turns if turn["turn"] == number), {})


def _history(turns: Sequence[Mapping[str, Any]], number: int) -> list[dict[str, str]]:
    said = []
    for turn in turns:
        if turn["turn"] <= number and turn.get("user"):
            said.append({"role": "user", "text": turn["user"]})
        if turn["turn"] < number and turn.get("answer"):
            said.append({"role": "agent", "text": turn["answer"]})
    return said


def _passages(turn: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {"id": passage["id"], "text": passage["text"], **({"title": passage["title"]} if passage["title"] else {})}
        for passage in turn.get("passages") or ()
        if passage["text"]
    ]


def _group(session_key: str) -> str:
    return hashlib.sha256(session_key.encode("utf-8", "backslashreplace")).hexdigest()[:16]
