"""The drift planted in the given conversations passes our checks, and the traps beside it do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drift_cases import claim, event, session, turn
from otel_drift.audits.factual_drift_answer import ClaimAnswer, EventAnswer
from otel_drift.audits.factual_drift_checks import check_events, refs
from otel_drift.audits.factual_drift_quotes import LEAST_CLAIM_WORDS, find_quote, is_long_enough
from otel_drift.model import Session

CONVERSATIONS = ["cloudlimits", "guideline", "hrleave", "labreport", "medleaflet", "pension", "telecom"]
DRIFT = {
    "contradiction": "CONTRADICTION",
    "dropped_qualification": "DROPPED_QUALIFICATION",
    "unsupported_claim": "UNSUPPORTED_NEW_CLAIM",
}


def labelled(shared: Path, conversation: str) -> tuple[Session, list[dict[str, Any]]]:
    label = json.loads((shared / "traces" / "labels" / f"{conversation}.json").read_text())
    turns = [
        turn(one["turn"], one["user"], one["answer"], *[passage["text"] for passage in one["passages"]])
        for one in label["turns"]
    ]
    return session(*turns), label["planted_events"]


def errors_of(audited: Session, planted: dict[str, Any], drift_type: str) -> list[str]:
    later = ClaimAnswer.model_validate(claim("c2", f"t{planted['turn']}", planted["answer_span"], "UNSUPPORTED"))
    claims = {"c2": later}
    if "earlier_span" in planted:
        earlier = claim("c1", f"t{planted['earlier_turn']}", planted["earlier_span"], "GROUNDED")
        claims["c1"] = ClaimAnswer.model_validate(earlier)
    first = None if drift_type == "UNSUPPORTED_NEW_CLAIM" else "c1"
    return check_events([EventAnswer.model_validate(event(later.turn, drift_type, first, "c2"))], claims, refs(audited))


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_planted_drift_passes_and_its_spans_are_quotes(shared: Path, conversation: str) -> None:
    audited, planted_events = labelled(shared, conversation)
    answers = {one.number: one.answer or "" for one in audited.turns}
    for planted in planted_events:
        for number, span in ((planted.get("turn"), "answer_span"), (planted.get("earlier_turn"), "earlier_span")):
            if planted["type"] in DRIFT and span in planted:
                assert find_quote(answers[number], planted[span]), planted
                assert is_long_enough(answers[number], planted[span], LEAST_CLAIM_WORDS), planted
        if planted["type"] in DRIFT and planted["event"]:
            assert errors_of(audited, planted, DRIFT[planted["type"]]) == []


def test_a_planted_restatement_is_neither_new_nor_a_contradiction(shared: Path) -> None:
    seen = 0
    for conversation in CONVERSATIONS:
        audited, planted_events = labelled(shared, conversation)
        for planted in planted_events:
            if planted["type"] == "restatement":
                seen += 1
                assert errors_of(audited, planted, "UNSUPPORTED_NEW_CLAIM")
                assert errors_of(audited, planted, "CONTRADICTION")
    assert seen
