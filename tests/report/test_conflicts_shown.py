"""A conflict between passages is shown as the answer beside what each passage says."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

from rich.console import Console

from drift_cases import ScriptedJudge, session, turn
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.report.events import events_of, notes_of
from otel_drift.report.html import HtmlReport
from otel_drift.report.timeline import print_unit
from otel_drift.validation import audit_session

DESK = "Cameras are lent for seven days at a time. Lenses go back after three days."
LAB = "A borrowed camera has to be returned within 48 hours. Ask the desk."
FOUND = {
    "conflicts": [
        {
            "source_a": "t1.p1", "claim_a": "Seven days.", "quote_a": "Cameras are lent for seven days at a time.",
            "source_b": "t1.p2", "claim_b": "48 hours.",
            "quote_b": "A borrowed camera has to be returned within 48 hours.",
            "severity": "MATERIAL", "explanation": "Both cannot hold.", "confidence": 0.9, "disclosed": False,
        }
    ],
    "conflict_notes": "They disagree.",
}  # fmt: skip


def test_the_answer_stands_beside_both_passages(tmp_path: Path) -> None:
    unit = audit_session(
        SourceConflict(),
        session(turn(1, "How long?", "You may keep it for a week.", DESK, LAB)),
        ScriptedJudge([FOUND]),
    )

    (event,) = events_of(unit)
    assert event.later.quote == "You may keep it for a week."
    assert [(one.passage_id, one.quote) for one in event.later.evidence] == [
        ("doc-1-1", "Cameras are lent for seven days at a time."),
        ("doc-1-2", "A borrowed camera has to be returned within 48 hours."),
    ]
    assert [DESK[slice(*one.span)] for one in event.later.evidence[:1] if one.span] == [event.later.evidence[0].quote]
    with HtmlReport(tmp_path / "page.html", title="t", run={"judge": "j", "judge_note": "", "paths": []}) as page:
        page.add(unit)
    assert (
        json.dumps("A borrowed camera has to be returned within 48 hours.")[1:-1]
        in (tmp_path / "page.html").read_text()
    )


def test_a_disclosed_conflict_is_a_note_and_a_clean_turn_says_what_was_compared() -> None:
    said = "The sources disagree: a week at the desk, 48 hours in the lab."
    disclosed = {**FOUND["conflicts"][0], "disclosed": True, "disclosure_quote": said}  # type: ignore[dict-item]
    judge = ScriptedJudge([{**FOUND, "conflicts": [disclosed]}])
    unit = audit_session(SourceConflict(), session(turn(1, "How long?", said, DESK, LAB)), judge)
    console = Console(file=StringIO(), width=120)
    print_unit(console, unit)

    assert notes_of(unit) == ((1, "its sources disagree, and the answer says so: Both cannot hold."),)
    assert "2 passages compared" in console.file.getvalue()  # type: ignore[attr-defined]
