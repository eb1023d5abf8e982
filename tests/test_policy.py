"""Which findings may alert and what goes to people."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_samples import finding, unit
from otel_drift import policy
from otel_drift.model import Unit
from otel_drift.policy import AlertRule, demands, is_high_stakes


def reasons(one: Unit, domain: str | None = None) -> list[tuple[str | None, str, tuple[str, ...]]]:
    return [(demand.event_id, demand.status, demand.reasons) for demand in demands(one, domain)]


@pytest.mark.parametrize(
    ("changes", "alerts"),
    [
        ({}, True),
        ({"severity": "MINOR"}, False),
        ({"confidence": 0.7}, True),
        ({"confidence": 0.6999}, False),
        ({"severity": "CRITICAL", "confidence": 0.5}, False),
        ({"status": "rejected"}, False),
        ({"status": "confirmed"}, True),
        ({"muted": "known"}, False),
    ],
)
def test_alerts_are_sure_and_neither_rejected_nor_muted(changes: dict[str, Any], alerts: bool) -> None:
    assert AlertRule("MAJOR").allows(finding(3, **changes), "model") == alerts
    assert not AlertRule("MAJOR").allows(finding(3, **changes), "rules"), "the embedded judge raises no alarm"
    assert AlertRule("MAJOR", embedded=True).allows(finding(3, **changes), "rules") == alerts


@pytest.mark.parametrize(
    ("changes", "status", "why"),
    [
        ({"confidence": 0.9}, "open", ("suspected",)),
        ({"confidence": 0.69}, "triage", ("low_confidence",)),
        ({"severity": "CRITICAL"}, "open", ("critical",)),
        ({"severity": "CRITICAL", "confidence": 0.2}, "open", ("critical", "low_confidence")),
    ],
)
def test_every_finding_is_demanded_once(changes: dict[str, Any], status: str, why: tuple[str, ...]) -> None:
    assert reasons(unit(finding(3, **changes))) == [("event-3", status, why)]


def test_a_clean_or_not_applicable_unit_asks_nobody() -> None:
    assert demands(unit()) == ()
    assert demands(unit(outcome="not_applicable", reason="single_turn", report=None), "clinical") == ()


def test_an_inconclusive_unit_goes_to_review_with_the_code_of_its_reason() -> None:
    one = unit(outcome="inconclusive", reason="internal_error: KeyError 'private words'", report=None)

    assert reasons(one) == [(None, "open", ("inconclusive: internal_error",))]


@pytest.mark.parametrize(
    ("report", "domain", "asked"),
    [
        ({"abstain": True}, None, False),
        ({"abstain": True}, "customer support", False),
        ({"abstain": True}, "Healthcare", True),
        ({"abstain": True}, "legal/contracts", True),
        ({"abstain": True, "gate": {"preset": "finance"}}, None, True),
        ({"abstain": True, "gate": {"preset": "own", "high_stakes": True}}, "shop", True),
        ({"abstain": True, "preset": "clinical"}, None, True),
        ({"abstain": False}, "clinical", False),
        ({"abstain": "yes"}, "clinical", False),
        ({"abstain": True}, "illegally parked", False),
    ],
)
def test_abstentions_go_to_review_where_the_stakes_are_high(
    report: dict[str, Any], domain: str | None, asked: bool
) -> None:
    expected = [(None, "open", ("abstention",))] if asked else []

    assert reasons(unit(report=report), domain) == expected


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ({"review": {"needed": True, "reasons": ["adjudication"]}}, ("adjudication",)),
        ({"review": {"needed": True, "reasons": []}}, ("audit_asks",)),
        ({"review": {"needed": False, "reasons": ["x"], "awaiting_sign_off": True}}, ("awaiting_sign_off",)),
        ({"gate": {"safety_override": "timeout", "review": True}}, ("safety_override: timeout",)),
        ({"gate": {"review": True}}, ("gate_asks",)),
        ({"review": {"needed": False, "reasons": []}}, None),
        ({"review": "please"}, None),
    ],
)
def test_an_audit_or_the_gate_may_ask(report: dict[str, Any], why: tuple[str, ...] | None) -> None:
    assert reasons(unit(report=report)) == ([] if why is None else [(None, "open", why)])


def test_the_one_finding_of_a_unit_carries_the_units_reasons() -> None:
    report = {"review": {"needed": True, "reasons": ["adjudication"]}}

    assert reasons(unit(finding(3, confidence=0.4), report=report)) == [
        ("event-3", "open", ("low_confidence", "adjudication"))
    ]
    assert reasons(unit(finding(2), finding(3), report=report)) == [
        ("event-2", "open", ("suspected",)),
        ("event-3", "open", ("suspected",)),
        (None, "open", ("adjudication",)),
    ]


@given(
    st.lists(st.floats(0, 1), max_size=5),
    st.sampled_from(["CRITICAL", "MAJOR", "MINOR"]),
    st.booleans(),
    st.sampled_from([None, "clinical", "shop"]),
)
def test_nothing_escapes_people(confidences: list[float], severity: Any, abstain: bool, domain: str | None) -> None:
    """Each finding has one item; none that waits in triage could have alerted or is CRITICAL; ids are stable."""
    found = [finding(n, confidence=one, severity=severity) for n, one in enumerate(confidences, 1)]
    one = unit(*found, report={"abstain": abstain})

    made = demands(one, domain)

    assert [demand.event_id for demand in made if demand.event_id] == [each.event_id for each in found]
    assert len({demand.item_id for demand in made}) == len(made)
    assert made == demands(one, domain)
    for demand, each in zip(made, found, strict=False):
        if demand.status == "triage":
            assert not AlertRule("MINOR").allows(each, "model")
            assert each.severity != "CRITICAL"
    if abstain and is_high_stakes(domain):
        assert any("abstention" in demand.reasons for demand in made)


def test_what_was_demanded_is_told_apart_by_its_content_not_its_wording() -> None:
    (first,) = demands(unit(finding(3)))
    (reworded,) = demands(unit(finding(3, explanation="In other words.", confidence=0.8)))
    (changed,) = demands(unit(finding(3, severity="MINOR")))

    assert first.content_sha256 == reworded.content_sha256
    assert first.content_sha256 != changed.content_sha256
    assert policy.finding_item_id(finding(3)) == first.item_id == changed.item_id
