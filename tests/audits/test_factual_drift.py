"""What factual_drift audits, what it asks in which order, and what it makes of right answers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from drift_cases import (
    RETURNS,
    ScriptedJudge,
    assert_report_holds,
    calculator,
    claim,
    event,
    returns_answer,
    session,
    turn,
)
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.errors import ConfigError
from otel_drift.model import JudgeLimits, Session, Unit
from otel_drift.protocols import Audit, AuditSettings
from otel_drift.validation import audit_session, plan

AUDIT = FactualDrift()
FACT = "The boiler holds eighty litres of water."


def run(audited: Session, *script: Any, **fields: Any) -> Unit:
    settings = fields.pop("settings", None)
    return audit_session(AUDIT, audited, ScriptedJudge(script, **fields), settings=settings)


def test_it_is_an_audit() -> None:
    assert isinstance(AUDIT, Audit)


@pytest.mark.parametrize(
    ("audited", "reason"),
    [
        (session(), "no_answers"),
        (session(turn(1, "Hi", None), turn(2, "Hi", None)), "no_answers"),
        (session(turn(1, "Hi", FACT, FACT)), "single_turn"),
        (session(turn(1, "Hi", FACT, FACT), turn(2, "Hi", None)), "single_turn"),
        (session(*[turn(n, None, None, answer_state="not_captured") for n in (1, 2)]), "content_not_captured"),
        (session(turn(1, "Hi", FACT, FACT), turn(2, None, None, answer_state="not_captured")), "content_not_captured"),
        (session(turn(1, "Hi", FACT), turn(2, "Hi", FACT)), "no_passages_captured"),
        (session(*[turn(n, "Hi", FACT, None, retrieval="ids_only") for n in (1, 2)]), "no_passages_captured"),
        (session(*[turn(n, "Hi", FACT, FACT, retrieval="partial") for n in (1, 2)]), "no_passages_captured"),
        (
            session(
                turn(1, "Hi", FACT, FACT),
                turn(2, "Hi", FACT, tool_calls=(calculator(),), retrieval="no_retrieval"),
                turn(3, "Hi", FACT, tool_calls=(calculator(),), retrieval="no_retrieval"),
            ),
            "tool_grounded",
        ),
    ],
)
def test_sessions_it_cannot_say_anything_about_are_named_and_not_asked(audited: Session, reason: str) -> None:
    unit = run(audited, AssertionError("asked"))
    assert (unit.outcome, unit.reason, unit.calls, unit.report) == ("not_applicable", reason, 0, None)


def test_tools_that_the_operator_calls_retrieval_do_not_count_as_other_tools() -> None:
    tools = [
        turn(n, "Hi", FACT, tool_calls=(replace(calculator(), name="kb_lookup"),), retrieval="no_retrieval")
        for n in (2, 3)
    ]
    audited = session(turn(1, "Hi", FACT, FACT), *tools)
    assert not AUDIT.eligibility(audited, AuditSettings()).eligible
    assert AUDIT.eligibility(audited, AuditSettings(retrieval_tools=("kb_*",))).eligible


def test_two_turns_are_marked_sparse() -> None:
    answer = {"claims": [claim("c1", "t1", FACT, "GROUNDED", ("t1.p1", FACT))], "drift_events": []}
    unit = run(
        session(turn(1, "Hi", FACT, FACT), turn(2, "Hi", "You are welcome.")), {**answer, "overall_assessment": ""}
    )
    assert unit.report is not None
    assert (unit.outcome, unit.report["flags"]) == ("clean", ["sparse"])


def test_a_right_answer_becomes_findings_with_real_ids() -> None:
    unit = run(RETURNS, returns_answer())
    assert (unit.outcome, unit.severity, unit.calls) == ("findings", "MAJOR", 1)
    assert unit.report is not None
    assert_report_holds(RETURNS, unit.report)
    first, second = unit.findings
    assert (first.type, first.turn_number, first.earlier_turn) == ("CONTRADICTION", 2, 1)
    assert (first.span_ref, first.earlier_ref) == (RETURNS.turns[1].answer_ref, RETURNS.turns[0].answer_ref)
    assert first.quotes == (RETURNS.turns[0].answer, RETURNS.turns[1].answer)
    assert (second.type, second.earlier_ref, second.quotes) == (
        "UNSUPPORTED_NEW_CLAIM", None, ("Returned goods are inspected by a robot.",),
    )  # fmt: skip
    assert unit.report["summary"]["by_type"] == {
        "CONTRADICTION": 1, "UNSUPPORTED_NEW_CLAIM": 1, "DROPPED_QUALIFICATION": 0,
    }  # fmt: skip
    assert json.loads(json.dumps(unit.report)) == unit.report


def test_event_ids_do_not_depend_on_ids_order_or_length_of_quotes_that_a_judge_chooses() -> None:
    other = json.loads(re.sub(r'"c(\d)"', r'"z\1"', json.dumps(returns_answer())))
    other["claims"].reverse()
    other["drift_events"].reverse()
    other["claims"][0]["quote"] = "Returned goods are inspected by a"
    ids = [{finding.event_id for finding in run(RETURNS, answer).findings} for answer in (returns_answer(), other)]
    assert ids[0] == ids[1]
    elsewhere = replace(RETURNS, key="another customer")
    assert not ids[0] & {finding.event_id for finding in run(elsewhere, returns_answer()).findings}


def test_two_unsupported_claims_that_contradict_each_other_are_two_unsupported_claims() -> None:
    answer = returns_answer()
    answer["claims"][0] = claim("c1", "t1", "Most items can usually be returned within 30 days", "UNSUPPORTED")
    answer["drift_events"] = answer["drift_events"][:1]
    unit = run(RETURNS, answer)
    assert [(f.type, f.turn_number) for f in unit.findings] == [
        ("UNSUPPORTED_NEW_CLAIM", 1),
        ("UNSUPPORTED_NEW_CLAIM", 2),
    ]
    assert unit.report is not None
    assert_report_holds(RETURNS, unit.report)


def test_a_contradiction_swallows_the_unsupported_event_on_the_same_claim() -> None:
    answer = returns_answer()
    answer["drift_events"].append(event("t2", "UNSUPPORTED_NEW_CLAIM", None, "c2", severity="CRITICAL"))
    assert [f.type for f in run(RETURNS, answer).findings] == ["CONTRADICTION", "UNSUPPORTED_NEW_CLAIM"]


def test_doubles_of_one_event_are_one_with_the_worst_severity() -> None:
    answer = returns_answer()
    answer["drift_events"] += [event("t2", "CONTRADICTION", "c1", "c2", severity="CRITICAL", detection_confidence=0.2)]
    unit = run(RETURNS, answer)
    assert [(f.type, f.severity) for f in unit.findings] == [
        ("CONTRADICTION", "CRITICAL"),
        ("UNSUPPORTED_NEW_CLAIM", "MINOR"),
    ]


def test_a_claim_listed_twice_makes_no_second_event() -> None:
    answer = returns_answer()
    answer["claims"].append({**answer["claims"][3], "id": "c9"})
    answer["drift_events"].append(event("t3", "UNSUPPORTED_NEW_CLAIM", None, "c9"))
    assert len(run(RETURNS, answer).findings) == 2
    answer["claims"][-1]["claim_text"] = "A robot does the work."
    findings = run(RETURNS, answer).findings
    assert len({finding.event_id for finding in findings}) == len(findings) == 3


def test_an_open_correction_is_kept_but_is_no_finding() -> None:
    corrected = "I have to correct what I said: items can be returned within 60 days of purchase."
    audited = session(RETURNS.turns[0], turn(2, "Sure?", corrected, "Items can be returned within 60 days."))
    answer = {
        "claims": [
            returns_answer()["claims"][0],
            claim("c2", "t2", "items can be returned within 60 days", "GROUNDED",
                  ("t2.p1", "Items can be returned within 60 days.")),
        ],
        "drift_events": [event("t2", "CONTRADICTION", "c1", "c2", acknowledged_correction=True)],
        "overall_assessment": "",
    }  # fmt: skip
    unit = run(audited, answer)
    assert (unit.outcome, unit.findings) == ("clean", ())
    assert unit.report is not None
    assert [one["drift_type"] for one in unit.report["corrections"]] == ["CONTRADICTION"]
    assert unit.report["summary"]["total_drift_events"] == 0


@pytest.mark.parametrize(
    ("later_passage", "other_passage", "retrieval", "status", "cause"),
    [
        ("Items can be returned within 60 days of purchase.", "", "captured", "GROUNDED", "source_conflict"),
        ("", "", "none", "UNSUPPORTED", "retrieval_gap"),
        (
            "Nothing here.",
            "Items can be returned within 60 days of purchase.",
            "captured",
            "UNSUPPORTED",
            "retrieval_gap",
        ),
        ("Items go back within 10 days.", "Nothing.", "captured", "UNSUPPORTED", "generation_error"),
        ("", "", "not_captured", "NOT_GROUNDABLE", None),
    ],
)
def test_the_likely_cause_is_computed(
    later_passage: str, other_passage: str, retrieval: str, status: str, cause: str | None
) -> None:
    first, second, third = RETURNS.turns
    late = turn(2, second.user, second.answer, *([later_passage] if later_passage else []), retrieval=retrieval)
    other = turn(3, third.user, "Thank you.", other_passage or "Nothing.")
    audited = session(first, late, other)
    evidence = [("t2.p1", later_passage)] if status == "GROUNDED" else []
    answer = {
        "claims": [returns_answer()["claims"][0], claim("c2", "t2", str(second.answer), status, *evidence)],
        "drift_events": [event("t2", "CONTRADICTION", "c1", "c2")],
        "overall_assessment": "",
    }
    unit = run(audited, answer)
    assert [finding.likely_cause for finding in unit.findings] == [cause]


@pytest.mark.parametrize(
    ("later_passage", "statuses", "cause"),
    [
        ("Items can be returned within 60 days of purchase.", ("GROUNDED", "GROUNDED"), "source_conflict"),
        ("Items can be returned within 60 days of purchase.", ("GROUNDED", "PARTIALLY_GROUNDED"), "source_conflict"),
        ("Items can be returned within 60 days of purchase.", ("PARTIALLY_GROUNDED", "GROUNDED"), "source_conflict"),
        (None, ("GROUNDED", "GROUNDED"), "generation_error"),
        (None, ("GROUNDED", "PARTIALLY_GROUNDED"), "generation_error"),
        ("Items can be returned within two weeks.", ("GROUNDED", "PARTIALLY_GROUNDED"), "generation_error"),
    ],
    ids=["both grounded", "later in part", "earlier in part", "same words", "same words in part", "figure nowhere"],
)
def test_sources_conflict_only_where_both_claims_are_borne_out_by_sources_that_differ(
    later_passage: str | None, statuses: tuple[str, str], cause: str
) -> None:
    first, second = RETURNS.turns[:2]
    said = first.passages[0].text or ""
    late = turn(2, second.user, second.answer, later_passage or said)
    answer = {
        "claims": [
            {**returns_answer()["claims"][0], "grounding_status": statuses[0]},
            claim("c2", "t2", str(second.answer), statuses[1], ("t2.p1", later_passage or said)),
        ],
        "drift_events": [event("t2", "CONTRADICTION", "c1", "c2")],
        "overall_assessment": "",
    }
    unit = run(session(first, late), answer)
    assert [finding.likely_cause for finding in unit.findings] == [cause]


def test_the_taxonomy_reaches_prompt_schema_checks_and_report() -> None:
    settings = AuditSettings(taxonomy=("entity shift: a later claim says it of another thing",))
    answer = returns_answer()
    answer["drift_events"] = [event("t2", "ENTITY_SHIFT", "c1", "c2")]
    judge = ScriptedJudge([answer])
    unit = audit_session(AUDIT, RETURNS, judge, settings=settings)
    assert [finding.type for finding in unit.findings] == ["ENTITY_SHIFT"]
    assert "- ENTITY_SHIFT: a later claim says it of another thing" in judge.tasks[0].messages[0].content
    assert "ENTITY_SHIFT" in json.dumps(judge.tasks[0].schema)
    assert unit.report is not None
    assert unit.report["summary"]["by_type"]["ENTITY_SHIFT"] == 1
    assert run(RETURNS, answer).reason == "answer_schema"


@pytest.mark.parametrize("entry", ["", "!!", "a name that is far too long for a score"])
def test_a_type_that_makes_no_score_name_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError, match="drift type"):
        plan(AUDIT, RETURNS, ScriptedJudge([]), AuditSettings(taxonomy=(entry,)))


def test_severity_rules_and_domain_reach_the_prompt() -> None:
    judge = ScriptedJudge([returns_answer()])
    settings = AuditSettings(domain="aviation", severity_rules={"CRITICAL": "anything about fuel"})
    audit_session(AUDIT, RETURNS, judge, settings=settings)
    assert "CRITICAL: anything about fuel" in judge.tasks[0].messages[0].content
    assert "aviation" in judge.tasks[0].messages[0].content


def test_the_embedded_judge_gets_the_session_and_stays_at_most_major() -> None:
    answer = returns_answer()
    answer["drift_events"][0]["severity"] = "CRITICAL"
    judge = ScriptedJudge([answer], name="rules", embedded=True, limit=JudgeLimits(input_tokens=1))
    unit = audit_session(AUDIT, RETURNS, judge)
    assert judge.tasks[0].material is RETURNS
    assert (unit.severity, unit.cost) == ("MAJOR", 0.0)


def test_a_passage_is_sent_once_and_referred_to_afterwards() -> None:
    judge = ScriptedJudge([returns_answer()])
    audit_session(AUDIT, RETURNS, judge)
    data = judge.tasks[0].messages[1].content
    assert data.count("Shipping costs are not refunded.") == 2  # the passage once, the answer of t3 once
    assert '"ref": "t3.p1", "same_text_as": "t1.p1"' in data


SESSION_PART = JudgeLimits(input_tokens=3_800, output_tokens=600)


def grouped_script() -> list[dict[str, Any]]:
    """The answers to `RETURNS` cut into its three turns: the judge calls every first claim c1."""
    whole = returns_answer()
    c1, c2, c3, c4 = whole["claims"]
    return [
        {"claims": [c1]},
        {"claims": [{**c2, "id": "c1"}]},
        {"claims": [{**c3, "id": "c1"}, {**c4, "id": "c2"}]},
        {"drift_events": whole["drift_events"], "overall_assessment": "Two drifts."},
    ]


def test_a_session_over_the_output_limit_is_judged_in_groups_with_the_same_result() -> None:
    judge = ScriptedJudge(grouped_script(), limit=SESSION_PART)
    unit = audit_session(AUDIT, RETURNS, judge)
    assert [task.step for task in judge.tasks] == ["claims_1", "claims_2", "claims_3", "compare"]
    assert unit.report is not None
    assert_report_holds(RETURNS, unit.report)
    whole = run(RETURNS, returns_answer())
    assert unit.report == whole.report
    assert [f.event_id for f in unit.findings] == [f.event_id for f in whole.findings]
    comparison = judge.tasks[-1].messages[1].content
    assert '"id": "c4"' in comparison
    assert "Opening hours" not in comparison  # claims only, no passages
    assert plan(AUDIT, RETURNS, judge).calls == 4


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("later_claim", "c9"), "there is no claim"),
        (("earlier_claim", "c4"), "does not come before"),
        (("turn", "t3"), "turn is"),
    ],
)
def test_what_the_comparison_refers_to_is_checked_too(change: tuple[str, str], error: str) -> None:
    script = grouped_script()
    script[-1]["drift_events"][0][change[0]] = change[1]
    judge = ScriptedJudge(script, limit=SESSION_PART)
    unit = audit_session(AUDIT, RETURNS, judge)
    assert (unit.outcome, unit.reason) == ("inconclusive", "answer_checks")
    assert error in unit.attempts[-1].errors[0]


def test_a_group_may_not_speak_of_turns_it_was_not_given() -> None:
    script = grouped_script()
    script[0]["claims"].append({**returns_answer()["claims"][1]})
    unit = run(RETURNS, *[script[0]] * 2, limit=SESSION_PART)
    assert (unit.outcome, unit.reason) == ("inconclusive", "answer_checks")
    assert any("not among the turns" in error for error in unit.attempts[-1].errors)


@pytest.mark.parametrize("limit", [JudgeLimits(input_tokens=500), JudgeLimits(output_tokens=100)])
def test_a_turn_that_does_not_fit_is_inconclusive_and_nobody_is_asked(limit: JudgeLimits) -> None:
    unit = run(RETURNS, AssertionError("asked"), limit=limit)
    assert (unit.outcome, unit.reason, unit.calls) == ("inconclusive", "turn_exceeds_window", 0)
    assert plan(AUDIT, RETURNS, ScriptedJudge([], limit=limit)).reason == "turn_exceeds_window"


def test_claims_that_do_not_fit_one_comparison_are_inconclusive() -> None:
    script: list[Any] = grouped_script()
    script[0]["claims"] = [{**script[0]["claims"][0], "id": f"c{n}"} for n in range(60)]
    unit = run(RETURNS, *script, limit=SESSION_PART)
    assert (unit.outcome, unit.reason, unit.calls) == ("inconclusive", "comparison_exceeds_window", 3)
