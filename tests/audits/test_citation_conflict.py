"""The audit ``citation_conflict``: its rules, each broken alone by a judge; marks, findings, hostile text."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from citation_cases import ANSWER, AUDIT, COPY, RULES, against, claim, kinds, loans, plain, right, run, support
from drift_cases import ScriptedJudge, examples_in, session, turn
from otel_drift import findings as written
from otel_drift import prompting
from otel_drift.audits.citation_conflict import PROMPT
from otel_drift.audits.citation_conflict_answer import ConflictAnswer
from otel_drift.audits.citation_conflict_checks import check_answer, check_coverage
from otel_drift.audits.citation_conflict_layout import case_of
from otel_drift.model import JudgeLimits, Passage
from otel_drift.protocols import AuditSettings
from otel_drift.validation import audit_session


def test_the_report_holds_what_the_design_names() -> None:
    unit = run(loans(ANSWER), right())
    assert unit.report is not None
    assert {"answer", "claims", "conflict_summary", "abstention_notes"} <= set(unit.report)
    first, second = unit.report["claims"]
    assert set(first) == {"claim_id", "claim_text", "supporting_sources", "contradicting_sources", "unresolved"}
    assert first["supporting_sources"] == [
        {"source_id": "doc-1-1", "quote": "Tools may be kept for ten days.", "rationale": "It says so."}
    ]
    assert set(first["contradicting_sources"][0]) == {"source_id", "quote", "rationale", "conflict_type"}
    assert (first["unresolved"], second["unresolved"], second["resolved_by"]) == (True, False, "recency")
    assert json.loads(json.dumps(unit.report)) == unit.report


def test_an_unvoiced_direct_conflict_is_major_and_a_resolved_one_is_none() -> None:
    unit = run(loans(ANSWER), right())
    assert kinds(unit) == [("UNRESOLVED_CLAIM", "MAJOR")]
    (found,) = unit.findings
    assert found.quotes == (
        "Tools may be kept for ten days.",
        "The loan period for all tools is fourteen days, without renewal.",
        "You may keep tools for ten days [1].",
    )
    assert found.span_ref == unit.session.turns[0].answer_ref


@pytest.mark.parametrize(
    "kind", ["methodological_difference", "scope_mismatch", "temporal_change", "interpretation_divergence"]
)
def test_other_open_conflicts_are_minor(kind: str) -> None:
    answer = right()
    answer["claims"][0]["contradicting_sources"][0]["conflict_type"] = kind
    assert kinds(run(loans(ANSWER), answer)) == [("UNRESOLVED_CLAIM", "MINOR")]


def test_a_conflict_the_answer_voices_is_recorded_and_no_finding() -> None:
    told = f"{ANSWER} The documents do not agree on the loan period."
    unit = run(loans(told), right(voiced="The documents do not agree on the loan period."))
    assert unit.outcome == "clean"
    assert unit.report is not None
    assert unit.report["claims"][0]["unresolved"] is True


def test_a_claim_that_passages_only_contradict_is_refuted() -> None:
    answer = plain(
        claim(
            1, "You may keep tools for thirty days.", contradicting=[against("p1", "Tools may be kept for ten days.")]
        )
    )
    unit = run(loans("You may keep tools for thirty days."), {**answer, "conflict_summary": "Ten, not thirty."})
    assert kinds(unit) == [("REFUTED_CLAIM", "MAJOR")]


def test_event_ids_stay_the_same_and_differ_between_findings() -> None:
    said = "You may keep tools for ten days [1][9]. Each late day costs 2 euros per tool [2]."
    first, again = run(loans(said), right()), run(loans(said), right())
    ids = [one.event_id for one in first.findings]
    assert ids == [one.event_id for one in again.findings]
    assert len(set(ids)) == len(ids) == 3
    assert first.report is not None
    parts = [*first.report["citations"], *first.report["places"]]
    assert sorted(part["event_id"] for part in parts if "event_id" in part) == sorted(ids)


def test_names_of_scores_keep_within_the_limit_of_platforms() -> None:
    said = "You may keep tools for ten days [9]. Each late day costs 2 euros per tool [2]."
    unit = run(loans(said), right())
    assert {one.type for one in unit.findings} == {"DANGLING_CITATION", "WRONG_CITATION", "UNRESOLVED_CLAIM"}
    for kind in ("DANGLING_CITATION", "WRONG_CITATION", "UNRESOLVED_CLAIM", "REFUTED_CLAIM"):
        name = written.type_name(AUDIT.name, kind)
        assert name == f"citation_conflict.{kind.lower()}"
        assert len(name) <= 35
    assert len(written.annotations(unit)) > 5


def broken(**change: Any) -> dict[str, Any]:
    """The right answer with one field of its first claim, or of the whole, changed."""
    answer = copy.deepcopy(right())
    for name, value in change.items():
        (answer if name in answer else answer["claims"][0])[name] = value
    return answer


BROKEN = {
    "a source that does not exist": (
        broken(supporting_sources=[support("p9", "Tools may be kept for ten days.")]), "there is no passage"),
    "a full id instead of the reference": (
        broken(supporting_sources=[support("doc-1-1", "Tools may be kept for ten days.")]), "there is no passage"),
    "a quote that is not verbatim": (
        broken(supporting_sources=[support("p1", "Tools can be kept for ten days.")]), "does not stand verbatim"),
    "a quote of another passage": (
        broken(supporting_sources=[support("p1", "Members sign for each tool they take.")]), "it stands in p2"),
    "a quote that was shortened": (
        broken(supporting_sources=[support("p1", "Tools may be kept … A late day costs 2")]), "not stand verbatim"),
    "a quote that says nothing": (
        broken(supporting_sources=[support("p1", "kept for ten")]), "too short"),
    "a quote of the other side that says nothing": (
        broken(contradicting_sources=[against("p2", "fourteen days")]), "too short"),
    "unresolved without support": (broken(supporting_sources=[]), "unresolved is only for"),
    "unresolved without contradiction": (broken(contradicting_sources=[]), "unresolved is only for"),
    "resolved without a reason": (broken(unresolved=False), "resolved_by says why"),
    "resolved and open at once": (broken(resolved_by="authority"), "resolved_by must be null"),
    "resolved without a rationale": (
        broken(unresolved=False, resolved_by="authority", contradicting_sources=[
            against("p2", "The loan period for all tools is fourteen days, without renewal.", rationale=" ")]),
        "must say how"),
    "recency that does not hold": (broken(unresolved=False, resolved_by="recency"), "recency does not speak for it"),
    "corroboration by one source": (
        broken(unresolved=False, resolved_by="corroboration"), "at least two independent supporting sources"),
    "resolved where nothing contradicts": (
        broken(unresolved=False, resolved_by="recency", contradicting_sources=[]), "resolved_by is only for"),
    "abstention with claims": (broken(abstention_notes="The hours are missing."), "only for an answer that makes no"),
    "a conflict without a summary": (broken(conflict_summary=" "), "conflict_summary must say"),
    "a voice that is not in the answer": (broken(voiced_in="The sources disagree on this."), "not stand verbatim"),
    "a voice that says nothing": (broken(voiced_in="for ten"), "too short"),
    "one passage for and against": (
        broken(contradicting_sources=[against("p1", "A late day costs 2 euros for each tool.")]), "both supports and"),
    "a claim that is not in the answer": (broken(quote="Tools are lent for ten days."), "does not stand verbatim"),
    "an id used twice": (broken(claim_id="c2"), "used twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_an_answer_that_breaks_one_rule_is_asked_again_and_never_reported(case: str) -> None:
    answer, message = BROKEN[case]
    judge = ScriptedJudge([answer])
    unit = audit_session(AUDIT, loans(ANSWER), judge)
    assert (unit.outcome, unit.reason, unit.findings) == ("inconclusive", "answer_checks", ())
    assert len(judge.tasks) == 3
    (error,) = [one for one in unit.attempts[0].errors if "no claim quotes it" not in one]
    assert message in error
    assert message in judge.tasks[1].messages[1].content

    mended = run(loans(ANSWER), answer, right())
    assert kinds(mended) == [("UNRESOLVED_CLAIM", "MAJOR")]


def test_a_voice_without_a_conflict_is_refused() -> None:
    answer = plain(
        claim(1, "You may keep tools for ten days.", support("p1", "Tools may be kept for ten days.")),
        claim(2, "Each late day costs 2 euros per tool.", support("p1", "A late day costs 2 euros for each tool.")),
    )
    unit = run(loans(ANSWER), {**answer, "voiced_in": "You may keep tools for ten days."})
    assert unit.reason == "answer_checks"
    assert "voiced_in is only for" in unit.attempts[0].errors[0]


def test_copies_are_one_origin_and_corroborate_nothing() -> None:
    both = [support("p1", "Tools may be kept for ten days."), support("p4", "Tools may be kept for ten days.")]
    other = [against("p2", "The loan period for all tools is fourteen days, without renewal.")]
    resolved = claim(1, "You may keep tools for ten days.", *both, contradicting=other, resolved_by="corroboration")
    late = claim(2, "Each late day costs 2 euros per tool.", support("p1", "A late day costs 2 euros for each tool."))
    answer = {**plain(resolved, late), "conflict_summary": "Ten or fourteen."}

    assert run(loans(ANSWER, COPY), answer).reason == "answer_checks"

    opened = copy.deepcopy(answer)
    opened["claims"][0].update(resolved_by=None, unresolved=True)
    unit = run(loans(ANSWER, COPY), opened)
    assert unit.report is not None
    assert unit.report["notes"] == [
        {"claim_id": "c1", "source_ids": ["doc-1-1", "doc-1-4"],
         "note": "near-identical passages: one origin, no corroboration"}
    ]  # fmt: skip

    independent = "Borrowed tools come back within ten days. This was agreed by the members in spring."
    answer["claims"][0]["supporting_sources"][1] = support("p4", "Borrowed tools come back within ten days.")
    assert run(loans(ANSWER, independent), answer).outcome == "clean"


def test_a_copy_of_the_support_does_not_contradict() -> None:
    """The trap of two copies: one of them is never the other side."""
    answer = broken(contradicting_sources=[against("p4", "A late day costs 2 euros for each tool.")])
    unit = run(loans(ANSWER, COPY), answer)
    assert unit.reason == "answer_checks"
    assert "its copy" in unit.attempts[0].errors[0]


def test_an_answer_that_says_nothing_has_no_claims_and_no_finding() -> None:
    refusal = {**plain(), "abstention_notes": "The answer does not say when the desk is open."}
    assert run(loans("I could not find that in the documents."), refusal).outcome == "clean"


def test_sentences_made_of_a_passage_must_have_a_claim() -> None:
    answer = right()
    del answer["claims"][1]
    unit = run(loans("You may keep tools for ten days [1]. A late day costs 2 euros for each tool [1]."), answer)
    assert unit.reason == "answer_checks"
    assert "states a fact, but no claim quotes it" in unit.attempts[0].errors[0]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"retrieval": "partial"}, "no_passages_captured"),
        ({"retrieval": "ids_only"}, "no_passages_captured"),
        ({"retrieval": "not_captured", "passages": ()}, "no_passages_captured"),
        ({"answer": None, "answer_state": "failed"}, "no_answers"),
        ({"answer": None, "answer_state": "not_captured"}, "content_not_captured"),
    ],
)
def test_only_answered_turns_with_their_passages_are_audited(fields: dict[str, Any], reason: str | None) -> None:
    given_turn = {"passages": (Passage("d", RULES, 1),), **fields}
    audited = session(turn(1, "?", given_turn.pop("answer", ANSWER), RULES, **given_turn))
    eligibility = AUDIT.eligibility(audited, AuditSettings())
    assert (eligibility.eligible, eligibility.reason) == (reason is None, reason)


def test_a_turn_that_does_not_fit_is_never_cut() -> None:
    unit = run(loans(ANSWER), right(), limit=JudgeLimits(input_tokens=2_000))
    assert (unit.outcome, unit.reason, unit.calls) == ("inconclusive", "turn_exceeds_window", 0)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_worked_examples_would_pass_and_show_what_they_say(number: int) -> None:
    (about, *passages, answered), expected = examples_in(prompting.load(PROMPT).text)[number]
    one = turn(1, about["question"], answered["answer"], *[passage["text"] for passage in passages])
    dated = [replace(p, date=given.get("date")) for p, given in zip(one.passages, passages, strict=True)]
    case = case_of(session(one), replace(one, passages=tuple(dated)))
    answer = ConflictAnswer.model_validate(expected)
    assert check_answer(answer, case.shown.text, case.sources, case.origin) == []
    assert check_coverage(answer.claims, case.shown.text, case.sources) == []
    unit = run(session(case.turn), expected)
    assert [kind for kind, _ in kinds(unit)] == [["UNRESOLVED_CLAIM"], [], []][number]
