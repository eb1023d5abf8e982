"""Lists for reviewers: one line an item when piped, and on a terminal what wraps stands beside its number or id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from otel_drift.report.desk import print_item, print_items, print_mutes, print_runs
from report.terminal import printed, uncoloured

ITEM = {
    "item_id": "0c6b52a38d23be06", "status": "open", "severity": "MAJOR", "type": "DROPPED_QUALIFICATION",
    "audit": "factual_drift", "outcome": "findings", "session_id": "sess-pension-41c8", "session_key": "k",
    "turn_number": 5, "reasons": ["suspected"], "muted": None,
}  # fmt: skip
MUTE = {"mute_id": 7, "audit": "factual_drift", "type": "CONTRADICTION", "until": 0, "why": "the booklet " * 9}
RUN = {
    "run_id": 16, "started": 1_796_054_360_000_000_000, "ended": 1, "units": 56,
    "totals": {"outcomes": {"clean": 45, "findings": 1, "not_applicable": 10}},
    "description": {"judge": "rules", "paths": ["examples/traces"]},
}  # fmt: skip
REST = {"judge": "", "reason": None, "erased": None, "report": None, "packet": None, "passages": (), "history": ()}
LISTS: list[tuple[Callable[[Console, Any], None], Any, int]] = [
    (print_items, [ITEM, ITEM], 18), (print_mutes, [MUTE, MUTE], 6), (print_runs, [RUN, RUN], 6),
]  # fmt: skip


@pytest.mark.parametrize(("show", "rows", "beside"), LISTS)
def test_what_wraps_stands_beside_the_id(show: Callable[[Console, Any], None], rows: Any, beside: int) -> None:
    lines = uncoloured(printed(lambda on: show(on, rows), width=80)).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) > len(rows)
    assert sum(not line.startswith(" " * beside) for line in lines) == len(rows)
    assert len(printed(lambda on: show(on, rows), terminal=False).splitlines()) == len(rows)


def test_outcomes_of_a_run_are_words() -> None:
    text = printed(lambda on: print_runs(on, [RUN]), terminal=False)
    assert "56 units: 45 clean, 1 with findings, 10 not applicable" in text


def test_a_run_without_an_end_may_be_under_way() -> None:
    text = printed(lambda on: print_runs(on, [RUN | {"ended": None}]), terminal=False)
    assert "(under way, or cut short)  56 units" in text


def test_sentences_are_counted_from_one() -> None:
    weak = {
        "sentence_index": 19,
        "sentence_text": "Rust.",
        "grounding_status": "ungrounded",
        "drift_explanation": "No.",
    }
    report = {"sentence_by_sentence_analysis": [weak]}
    text = printed(lambda on: print_item(on, {**ITEM, **REST, "finding": None, "report": report}), terminal=False)
    assert "sentence 20 ungrounded: “Rust.”  No." in text


def test_the_claim_is_the_answers_words_and_those_of_passages_are_called_so() -> None:
    finding = {
        "turn_number": 2, "span_ref": "t:s", "earlier_turn": None, "earlier_ref": None, "confidence": 0.8,
        "likely_cause": None, "explanation": "Maybe.", "quotes": ["Ten days.", "Fourteen days.", "For ten days [1]."],
    }  # fmt: skip
    text = printed(lambda on: print_item(on, {**ITEM, **REST, "finding": finding}), terminal=False)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[-4:] == [
        "claim turn 2 “For ten days [1].”",
        "span t:s",
        "source “Ten days.”",
        "source “Fourteen days.”",
    ]

    both = {**finding, "earlier_turn": 1, "earlier_ref": "t:e", "quotes": ["30 days.", "60 days."]}
    text = printed(lambda on: print_item(on, {**ITEM, **REST, "finding": both}), terminal=False)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[-4:] == ["earlier turn 1 “30 days.”", "span t:e", "later turn 2 “60 days.”", "span t:s"]
