"""Every way an answer can be wrong is refused with a sentence that says what to mend; right ones pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from drift_cases import (
    RETURNS,
    ScriptedJudge,
    claim,
    event,
    examples_in,
    returns_answer,
    session,
    session_of,
    turn,
)
from otel_drift import prompting
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.audits.factual_drift_answer import ClaimAnswer, ClaimsAnswer, answer_models
from otel_drift.audits.factual_drift_checks import check_claims, check_events, refs
from otel_drift.audits.factual_drift_quotes import find_quote, is_long_enough, is_restatement
from otel_drift.model import Session
from otel_drift.validation import audit_session


def errors_of(audited: Session, answer: dict[str, Any]) -> list[str]:
    whole = answer_models()[0].model_validate(answer)
    known = refs(audited)
    claims = {one.id: one for one in whole.claims}
    return [*check_claims(whole.claims, known), *check_events(whole.drift_events, claims, known)]


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    answer = copy.deepcopy(returns_answer())
    change(answer)
    return answer


def set_claim(index: int, **fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer["claims"][index].update(fields)


def set_event(index: int, **fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer["drift_events"][index].update(fields)


def evidence(ref: str, quote: str) -> list[dict[str, str]]:
    return [{"passage": ref, "quote": quote}]


WRONG = {
    "invented turn": (set_claim(0, turn="t9"), "there is no turn “t9”"),
    "claim id used twice": (set_claim(1, id="c1"), "used twice"),
    "invented quote": (
        set_claim(0, quote="Items can be returned whenever you feel like it."),
        "verbatim in the answer",
    ),
    "quote of another turn's answer": (
        set_claim(0, quote="Shipping costs are not refunded."),
        "verbatim in the answer",
    ),
    "quote in other case": (set_claim(2, quote="shipping COSTS are not refunded."), "verbatim in the answer"),
    "quote cut out of a number": (set_claim(1, quote="Items can be returned within 6"), "verbatim in the answer"),
    "quote of one word": (set_claim(0, quote="usually"), "is too short"),
    "evidence of one word": (set_claim(0, evidence=evidence("t1.p1", "usually")), "is too short"),
    "evidence of three words": (set_claim(0, evidence=evidence("t1.p1", "within 30 days")), "is too short"),
    "invented evidence": (
        set_claim(0, evidence=evidence("t1.p1", "All items may be returned at any time.")),
        "does not stand verbatim in passage t1.p1",
    ),
    "invented passage": (set_claim(0, evidence=evidence("t1.p7", "Shipping costs are not refunded.")), "no passage"),
    "evidence of another turn": (
        set_claim(0, evidence=evidence("t3.p1", "Most items can usually be returned within 30 days of purchase.")),
        "passage t3.p1 belongs to t3; evidence must come from the passages of t1 (there the same text is t1.p1)",
    ),
    "evidence of another turn, given for a text this turn has not": (
        set_claim(2, evidence=evidence("t2.p1", "Opening hours are nine to five.")),
        "passage t2.p1 belongs to t2; evidence must come from the passages of t3.",
    ),
    "grounded without evidence": (set_claim(0, evidence=[]), "needs evidence"),
    "unsupported with evidence": (set_claim(0, grounding_status="UNSUPPORTED"), "must have no evidence"),
    "not groundable though passages are known": (set_claim(1, grounding_status="NOT_GROUNDABLE"), "only for turns"),
    "invented qualifier": (set_claim(0, qualifiers=["perhaps"]), "does not stand in the answer"),
    "missing qualifier of a grounded claim": (set_claim(0, missing_qualifier="usually"), "only for PARTIALLY"),
    "invented missing qualifier": (
        set_claim(2, grounding_status="PARTIALLY_GROUNDED", missing_qualifier="on Sundays"),
        "stands in no passage of t3",
    ),
    "invented claim": (set_event(0, later_claim="c77"), "there is no claim “c77”"),
    "invented earlier claim": (set_event(0, earlier_claim="c77"), "there is no claim “c77”"),
    "wrong turn": (set_event(0, turn="t3"), "belongs to “t2”"),
    "earlier after later": (set_event(0, earlier_claim="c3"), "does not come before t2"),
    "contradiction of one claim": (set_event(0, earlier_claim=None), "must name the earlier claim"),
    "unsupported new claim of two": (set_event(1, earlier_claim="c1"), "must be null"),
    "grounded unsupported claim": (set_event(1, later_claim="c3"), "must be UNSUPPORTED"),
    "silent correction": (set_event(0, acknowledged_correction=True), "does not say that it corrects"),
    "dropped qualification of one claim": (
        set_event(1, drift_type="DROPPED_QUALIFICATION"),
        "must name the earlier claim",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_answer_is_refused(case: str) -> None:
    change, message = WRONG[case]
    found = errors_of(RETURNS, changed(change))
    assert any(message in error for error in found), found
    unit = audit_session(FactualDrift(), RETURNS, ScriptedJudge([changed(change)]))
    assert (unit.outcome, unit.reason, unit.findings, unit.report) == ("inconclusive", "answer_checks", (), None)
    assert unit.calls == 2


def test_the_right_answer_passes() -> None:
    assert errors_of(RETURNS, returns_answer()) == []


@pytest.mark.parametrize("earlier_status", ["UNSUPPORTED", "NOT_GROUNDABLE"])
def test_a_contradiction_needs_a_grounded_earlier_claim(earlier_status: str) -> None:
    states = {"UNSUPPORTED": "none", "NOT_GROUNDABLE": "not_captured"}
    audited = session(
        turn(1, "How big?", "The boiler holds eighty litres of water.", retrieval=states[earlier_status]),
        turn(2, "Sure?", "The boiler holds ninety litres of water.", "The boiler holds ninety litres of water."),
    )
    answer = {
        "claims": [
            claim("c1", "t1", "The boiler holds eighty litres of water.", earlier_status),
            claim("c2", "t2", "The boiler holds ninety litres of water.", "GROUNDED",
                  ("t2.p1", "The boiler holds ninety litres of water.")),
        ],
        "drift_events": [event("t2", "CONTRADICTION", "c1", "c2")],
        "overall_assessment": "",
    }  # fmt: skip
    assert any("needs an earlier claim that is GROUNDED" in error for error in errors_of(audited, answer))


@pytest.mark.parametrize("retrieval", ["not_captured", "ids_only", "partial"])
@pytest.mark.parametrize("status", ["GROUNDED", "UNSUPPORTED"])
def test_claims_over_passages_nobody_recorded_are_never_unsupported(retrieval: str, status: str) -> None:
    audited = session(
        turn(1, "?", "The boiler holds eighty litres.", "The boiler holds eighty litres.", retrieval=retrieval)
    )
    proof = [("t1.p1", "The boiler holds eighty litres.")] if status == "GROUNDED" else []
    one = ClaimAnswer.model_validate(claim("c1", "t1", "The boiler holds eighty litres.", status, *proof))
    assert any("must be NOT_GROUNDABLE" in error for error in check_claims([one], refs(audited)))
    fine = ClaimAnswer.model_validate(claim("c1", "t1", "The boiler holds eighty litres.", "NOT_GROUNDABLE"))
    assert check_claims([fine], refs(audited)) == []


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("Parcels usually arrive within three days.", "Parcels arrive within three days.", None),
        ("Parcels arrive within three days. This is usually the case.", "Parcels arrive within three days.", None),
        ("You get a refund if the seal is intact.", "You get a refund from us.", None),
        ("The trip takes about 40 minutes by bus.", "The trip takes 40 minutes by bus.", None),
        ("It will likely rain in the north.", "It will probably rain in the north.", "same kind"),
        ("Parcels usually arrive within three days.", "Parcels generally arrive within three days.", "same kind"),
        ("Parcels arrive within three days.", "Parcels arrive within three working days.", "no explicit qualifier"),
        ("The market opens in May near the river.", "The market opens near the river.", "no explicit qualifier"),
    ],
)
def test_a_dropped_qualification_needs_one_that_was_there_and_is_gone(
    before: str, after: str, error: str | None
) -> None:
    audited = session(turn(1, "?", before, before), turn(2, "?", after, after))
    answer = {
        "claims": [
            claim("c1", "t1", before.split(". ")[0], "GROUNDED", ("t1.p1", before)),
            claim("c2", "t2", after, "GROUNDED", ("t2.p1", after)),
        ],
        "drift_events": [event("t2", "DROPPED_QUALIFICATION", "c1", "c2")],
        "overall_assessment": "",
    }
    found = errors_of(audited, answer)
    assert (found == []) if error is None else (len(found) == 1 and error in found[0]), found


@pytest.mark.parametrize(
    ("user", "earlier", "later", "restates"),
    [
        ("?", "The boiler holds eighty litres of water.", "The boiler holds eighty litres.", True),
        ("My boiler holds eighty litres of water.", None, "Your boiler holds eighty litres.", True),
        ("Does my boiler hold eighty litres?", None, "Your boiler holds eighty litres.", False),
        ("?", "The boiler holds eighty litres of water.", "The boiler holds ninety litres.", False),
        ("?", "The boiler holds eighty litres of water.", "The boiler does not hold eighty litres.", False),
        ("?", "The boiler usually holds eighty litres.", "The boiler holds eighty litres.", False),
    ],
)
def test_a_restatement_is_not_new(user: str, earlier: str | None, later: str, restates: bool) -> None:
    first = earlier or "Let me look that up."
    audited = session(turn(1, user, first, first), turn(2, "?", later))
    answer = {
        "claims": [
            *([claim("c1", "t1", earlier, "GROUNDED", ("t1.p1", earlier))] if earlier else []),
            claim("c2", "t2", later, "UNSUPPORTED"),
        ],
        "drift_events": [event("t2", "UNSUPPORTED_NEW_CLAIM", None, "c2")],
        "overall_assessment": "",
    }
    assert any("is not new" in error for error in errors_of(audited, answer)) == restates


def test_the_same_words_in_another_order_are_no_restatement() -> None:
    assert not is_restatement("The fee is 50 dollars.", "The fee is 30 dollars and the limit is 50.")


def test_an_answer_without_any_claim_is_refused_where_answers_restate_passages() -> None:
    nothing = {"claims": [], "drift_events": [], "overall_assessment": "No drift found."}
    unit = audit_session(FactualDrift(), RETURNS, ScriptedJudge([nothing]))
    assert (unit.outcome, unit.reason) == ("inconclusive", "answer_checks")
    chat = session(*[turn(n, "Thanks!", "You are welcome, have a nice day.", "The boiler is blue.") for n in (1, 2)])
    assert audit_session(FactualDrift(), chat, ScriptedJudge([nothing])).outcome == "clean"


@pytest.mark.parametrize(
    ("source", "quote", "held"),
    [
        ("It costs 40\u00a0euros\n\ta month.", "It costs 40 euros a month.", True),
        ("She said \u201cyes\u201d, didn\u2019t she?", 'She said "yes", didn\'t she?', True),
        ("It costs 40 euros.", "It costs 40  Euros.", False),
        ("It costs 140 euros a month.", "40 euros a month", False),
        ("It costs 1.40 euros a month.", "40 euros a month", False),
        ("It costs 40,000 a month.", "It costs 40", False),
        ("Unhappy, then happy people.", "happy people", True),
        ("東京タワーの高さは333メートルです。", "高さは333メートル", True),
        ("It costs 40 euros.", "   ", False),
        ("", "anything", False),
    ],
)
def test_quotes_are_verbatim_but_for_white_space_and_quotation_marks(source: str, quote: str, held: bool) -> None:
    assert (find_quote(source, quote) is not None) == held


@pytest.mark.parametrize(
    ("source", "quote", "enough"),
    [
        ("Yes. The fee is 40 euros.", "Yes.", True),
        ("- 30 days\n- 40 euros", "30 days", True),
        ("Within 30 days.", "days", False),
        ("東京タワーの高さは333メートルです。", "高さは333メートル", True),
    ],
)
def test_short_quotes_count_only_as_whole_sentences(source: str, quote: str, enough: bool) -> None:
    assert is_long_enough(source, quote, 4) == enough


def test_finding_a_quote_stays_quick_on_hostile_text() -> None:
    assert find_quote("a" * 200_000, "a") is None


@pytest.mark.parametrize("prompt_id", ["factual_drift/session", "factual_drift/claims"])
def test_the_worked_examples_pass_our_own_checks(prompt_id: str) -> None:
    examples = examples_in(prompting.load(prompt_id).text)
    assert len(examples) >= 2
    for lines, answer in examples:
        audited = session_of(lines)
        if prompt_id.endswith("claims"):
            assert check_claims(ClaimsAnswer.model_validate(answer).claims, refs(audited)) == []
            continue
        unit = audit_session(FactualDrift(), audited, ScriptedJudge([answer]))
        assert unit.attempts[0].errors == ()
        assert unit.outcome in ("findings", "clean")


def test_the_examples_of_the_comparison_pass_and_show_drift_and_none() -> None:
    sessions = [session_of(lines) for lines, _ in examples_in(prompting.load("factual_drift/session").text)]
    wholes = [answer for _, answer in examples_in(prompting.load("factual_drift/session").text)]
    outcomes = []
    compare = examples_in(prompting.load("factual_drift/compare").text)
    for audited, whole, (lines, answer) in zip(sessions, wholes, compare, strict=True):
        claims = {one["id"]: ClaimAnswer.model_validate(one) for one in whole["claims"]}
        assert [one["id"] for line in lines for one in line["claims"]] == list(claims)
        events = answer_models()[1].model_validate(answer).drift_events
        assert check_events(events, claims, refs(audited)) == []
        outcomes.append(len(events))
    assert 0 in outcomes
    assert max(outcomes) > 1
