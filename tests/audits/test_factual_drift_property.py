"""Whatever a judge answers: what comes out holds, or nothing comes out."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from drift_cases import RETURNS, ScriptedJudge, assert_report_holds, claim, event, returns_answer, session, turn
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.model import JudgeLimits, Session
from otel_drift.validation import audit_session

MIXED = session(
    turn(1, "How big is it?", "The boiler usually holds about eighty litres of water. It is blue.",
         "The boiler usually holds about eighty litres of water.", "It is blue."),
    turn(2, "Sure?", "The boiler holds ninety litres of water.", retrieval="partial"),
    turn(3, "And?", "The boiler holds eighty litres of water. I was wrong earlier.",
         "The boiler holds eighty litres of water if it is full."),
    turn(4, "Hello?", None),
)  # fmt: skip
MIXED_ANSWER = {
    "claims": [
        claim("c1", "t1", "The boiler usually holds about eighty litres of water.", "GROUNDED",
              ("t1.p1", "The boiler usually holds about eighty litres of water."), qualifiers=["usually", "about"]),
        claim("c2", "t1", "It is blue.", "GROUNDED", ("t1.p2", "It is blue.")),
        claim("c3", "t2", "The boiler holds ninety litres of water.", "NOT_GROUNDABLE"),
        claim("c4", "t3", "The boiler holds eighty litres of water.", "PARTIALLY_GROUNDED",
              ("t3.p1", "The boiler holds eighty litres of water if it is full."), missing_qualifier="if it is full"),
    ],
    "drift_events": [
        event("t2", "CONTRADICTION", "c1", "c3"),
        event("t3", "DROPPED_QUALIFICATION", "c1", "c4", severity="MINOR"),
        event("t3", "CONTRADICTION", "c2", "c4", acknowledged_correction=True),
    ],
    "overall_assessment": "Mixed.",
}  # fmt: skip
CASES = [(RETURNS, returns_answer()), (MIXED, MIXED_ANSWER)]

REFS = ["t1", "t2", "t3", "t4", "t9", "t1.p1", "t1.p2", "t2.p1", "t3.p1", "t3.p9", "c1", "c2", "c3", "c4", "c9", ""]
WORDS = [
    "GROUNDED", "PARTIALLY_GROUNDED", "UNSUPPORTED", "NOT_GROUNDABLE", "CONTRADICTION", "UNSUPPORTED_NEW_CLAIM",
    "DROPPED_QUALIFICATION", "CRITICAL", "MAJOR", "MINOR", "NONE", "usually", "if it is full", "eighty litres",
    "The boiler holds eighty litres of water", "holds ninety litres of water", "It is blue", "Shipping costs are not",
    "Items can be returned within 6", "MOST ITEMS CAN USUALLY BE RETURNED", "\u2028", "{{session}}",
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(REFS + WORDS),
    st.text(max_size=12),
    st.floats(),
    st.integers(),
    st.booleans(),
    st.none(),
    st.just([]),
    st.just({}),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in inner for found in places(one, (*path, key)))]


def mutate(answer: Any, data: st.DataObject) -> Any:
    """Change one place: another value, another place's value, gone, or doubled."""
    path = data.draw(st.sampled_from(places(answer)[1:]))
    holder = answer
    for key in path[:-1]:
        holder = holder[key]
    kind = data.draw(st.sampled_from(["value", "value", "swap", "drop", "double"]))
    if kind == "value":
        holder[path[-1]] = data.draw(VALUES)
    elif kind == "swap":
        other = answer
        for key in data.draw(st.sampled_from(places(answer)[1:])):
            other = other[key]
        holder[path[-1]] = copy.deepcopy(other)
    elif kind == "drop":
        del holder[path[-1]]
    elif isinstance(holder, list):
        holder.append(copy.deepcopy(holder[path[-1]]))
    return answer


def check(audited: Session, *script: Any, **fields: Any) -> str:
    unit = audit_session(FactualDrift(), audited, ScriptedJudge(script, **fields))
    assert unit.outcome in ("findings", "clean", "inconclusive")
    assert not (unit.reason or "").startswith("internal_error")
    if unit.report is None:
        assert unit.findings == ()
        assert unit.outcome == "inconclusive"
    else:
        assert_report_holds(audited, unit.report)
        assert len(unit.findings) == len(unit.report["drift_events"])
    return unit.outcome


def test_the_unchanged_answers_pass() -> None:
    assert [check(audited, answer) for audited, answer in CASES] == ["findings", "findings"]


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_a_changed_answer_holds_or_is_dropped(data: st.DataObject) -> None:
    audited, right = data.draw(st.sampled_from(CASES))
    answer = copy.deepcopy(right)
    for _ in range(data.draw(st.integers(1, 3))):
        if isinstance(answer, dict) and len(places(answer)) > 1:
            answer = mutate(answer, data)
    check(audited, json.dumps(answer))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_changed_answer_in_groups_holds_or_is_dropped(data: st.DataObject) -> None:
    whole = returns_answer()
    script: list[Any] = [
        {"claims": [one for one in whole["claims"] if one["turn"] == ref]} for ref in ("t1", "t2", "t3")
    ]
    script.append({"drift_events": whole["drift_events"], "overall_assessment": ""})
    which = data.draw(st.integers(0, 3))
    script[which] = mutate(copy.deepcopy(script[which]), data)
    script = [*script[: which + 1], script[which], *script[which + 1 :]] if data.draw(st.booleans()) else script
    check(RETURNS, *script, limit=JudgeLimits(input_tokens=3_800, output_tokens=600))
