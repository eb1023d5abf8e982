"""What the page draws of ``longform_drift``: sentences as claims of their answer, the curve, the sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from otel_drift.model import Turn, Unit
from otel_drift.report.longform import verdict_lines

_ANALYSIS = "sentence_by_sentence_analysis"


def sentence_claims(unit: Unit) -> list[dict[str, Any]]:
    """The sentences in the form of a report's claims; none for a unit of another audit."""
    turn = _turn(unit)
    if turn is None:
        return []
    return [_claim(one, turn) for one in (unit.report or {})[_ANALYSIS]]


def curve_of(unit: Unit, shown: Callable[[str], str]) -> dict[str, Any] | None:
    """The curve with its sections and verdict, texts made safe by `shown`; None for a unit of another audit."""
    report = unit.report or {}
    if _turn(unit) is None:
        return None
    return {
        "severity": report["drift_severity"],
        "score": report["drift_severity_score"],
        "start": report["drift_start_sentence_index"],
        "trajectory": report["trajectory"],
        "statuses": [one["grounding_status"] for one in report[_ANALYSIS]],
        "sections": [
            {
                "title": shown(one["title"] or ""),
                "first": one["first"],
                "last": one["last"],
                "score": one["score"],
            }
            for one in report["sections"]
        ],
        "verdict": [shown(line) for line in verdict_lines(report)],
    }


def _turn(unit: Unit) -> Turn | None:
    """The turn whose answer the report is about."""
    if not unit.report or _ANALYSIS not in unit.report:
        return None
    start = unit.report[_ANALYSIS][0] if unit.report[_ANALYSIS] else None
    for turn in unit.session.turns:
        if start and (turn.answer or "")[start["start"] : start["end"]] == start["sentence_text"]:
            return turn
    return None


def _claim(one: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    excerpt = one["supporting_source_excerpt"]
    return {
        "claim_id": f"s{one['sentence_index']}",
        "turn": turn.number,
        "claim_text": one["sentence_text"],
        "quote": one["sentence_text"],
        "span": [one["start"], one["end"]],
        "grounding_status": one["grounding_status"],
        "evidence": [{"passage_id": one["source_id"], "quote": excerpt}] if excerpt else [],
        "explanation": one["drift_explanation"],
    }
