"""Which passages a finding rests on, and what is kept of a result for people and for the record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ledger_samples import finding, session, unit
from otel_drift import evidence
from otel_drift.model import Finding, Passage, Unit


def made(*findings: Finding, report: dict[str, Any] | None = None, own_id: bool = True) -> Unit:
    """Four turns with two passages each: ``d1`` in every turn, ``n<turn>`` in one."""
    whole = session()
    turns = tuple(
        replace(
            turn,
            user="private question",
            answer="private answer",
            passages=(
                Passage("d1", "The tariff is 12 euros.", 1, own_id=own_id, title="Tariff"),
                Passage(f"n{turn.number}", f"Notice number {turn.number} of the year.", 2, own_id=own_id),
            ),
        )
        for turn in whole.turns
    )
    return unit(*findings, session=replace(whole, turns=turns), report=report or {})


@pytest.mark.parametrize(
    ("report", "behind"),
    [
        ({"events": [{"event_id": "event-3", "source_a": "d1", "source_b": "t3.p2"}]}, ["d1", "n3"]),
        (
            {
                "drift_events": [{"event_id": "event-3", "later_claim": {"claim_id": "c2"}}],
                "claims": [
                    {"claim_id": "c1", "evidence": [{"passage_id": "d1"}]},
                    {"claim_id": "c2", "evidence": [{"passage_id": "n3"}]},
                ],
            },
            ["n3"],
        ),
        ({"events": [{"event_id": "another", "source_id": "d1"}]}, []),
        ({"events": [{"event_id": "event-3", "source_id": "invented"}], "source_ids": ["n3", "gone"]}, ["n3"]),
        ({"events": [{"event_id": "event-3", "source_id": ["d1"]}], "claims": ["c1", {"claim_id": 7}]}, []),
    ],
)
def test_the_passages_behind_a_finding_are_those_its_report_names(report: dict[str, Any], behind: list[str]) -> None:
    (refs,) = evidence.passages_behind(made(finding(3, quotes=("no such words",)), report=report))

    assert [ref.passage_id for ref in refs] == behind


def test_without_a_name_the_passages_that_hold_a_quote_count() -> None:
    one = finding(3, quotes=("tariff  is 12 euros", "Notice number 4"))

    (refs,) = evidence.passages_behind(made(one))

    assert [(ref.passage_id, ref.turn) for ref in refs] == [("d1", 3)], "turn 4 is not what the finding is about"


def test_a_document_without_an_id_of_its_own_is_known_by_its_text() -> None:
    def key(id_in_trace: str, text: str) -> str:
        one = made(finding(3, quotes=("12 euros",)), own_id=False)
        turns = tuple(
            replace(turn, passages=(Passage(id_in_trace, text, 1, own_id=False),)) for turn in one.session.turns
        )
        ((ref,),) = evidence.passages_behind(replace(one, session=replace(one.session, turns=turns)))
        return ref.key

    assert key("t3.p1", "It is 12 euros.") == key("t9.p4", "It  is 12\neuros.")
    assert key("t3.p1", "It is 12 euros.") != key("t3.p1", "It was 12 euros.")


def test_the_fingerprint_holds_for_the_same_claims_on_the_same_passages_only() -> None:
    report = {"events": [{"event_id": f"event-{n}", "source_id": "d1"} for n in (2, 3)]}

    def of(one: Finding, said: dict[str, Any] = report) -> str:
        (behind,) = evidence.passages_behind(made(one, report=said))
        return evidence.fingerprint(one, behind)

    same = of(finding(2, event_id="event-3", quotes=("Within 30  days", "within 60 days"), severity="MINOR"))
    assert same == of(finding(3))
    others = {
        of(finding(3, quotes=("within 30 days", "within 61 days"))),
        of(finding(3, type="DROPPED_QUALIFICATION")),
        of(finding(3), {"events": [{"event_id": "event-3", "source_id": "n3"}]}),
        of(finding(3, audit="source_conflict")),
    }
    assert len(others) == 4
    assert same not in others


def test_the_frame_holds_no_text_and_brings_the_annotations_back() -> None:
    from otel_drift import findings

    one = made(finding(3))
    frame = json.loads(json.dumps(evidence.frame(one)))

    assert "private" not in json.dumps(frame)
    assert "tariff" not in json.dumps(frame).lower().replace('"sha256"', "")
    again = replace(one, session=evidence.session_of_frame(frame))
    assert findings.annotations(again) == findings.annotations(one)


def test_the_packet_of_a_finding_goes_up_to_its_turn_and_holds_the_passages_of_both() -> None:
    turns = evidence.packet(made(finding(3)))["turns"]

    assert [turn["turn"] for turn in turns] == [1, 2, 3]
    assert [turn["turn"] for turn in turns if "passages" in turn] == [1, 3]
    assert turns[2]["passages"][0]["ref"] == "t3.p1"
    whole = evidence.packet(made())["turns"]
    assert all("passages" in turn for turn in whole)
    assert len(whole) == 4
