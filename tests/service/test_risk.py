"""How risky a session looks: each rule counts once, and what the embedded judge finds breaks ties."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_cases import RETURNS, ScriptedJudge, session, turn
from otel_drift.audits.citation_conflict import CitationConflict
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.ledger import Ledger
from otel_drift.model import Session
from otel_drift.pipeline import AuditSettings, Line
from otel_drift.service.ranking import priority_of
from otel_drift.service.risk import embedded, risk, suspected

CALM = replace(
    session(
        turn(1, "How long?", "Returns take 30 days.", "Returns take 30 days."),
        turn(2, "Really?", "Yes, returns take 30 days.", "Returns take 30 days."),
    ),
    project="shop",
    environment="prod",
)
GRAVE = session(
    turn(1, "How long?", "Returns are accepted within 30 days.", "Returns are accepted within 30 days."),
    turn(2, "How long exactly?", "Returns are accepted within 60 days.", "Returns are accepted within 30 days."),
)


def with_turn(**fields: object) -> Session:
    last = replace(CALM.turns[-1], **fields)  # type: ignore[arg-type]
    return replace(CALM, turns=(*CALM.turns[:-1], last))


def none(_: Session) -> float:
    raise AssertionError("nobody asked for it")


@pytest.mark.parametrize(
    ("rule", "applies", "not_so"),
    [
        ("feedback", with_turn(feedback="thumbs: down"), with_turn(feedback="thumbs: up")),
        ("error", with_turn(error="time-out"), CALM),
        ("error", with_turn(answer=None, answer_state="failed"), CALM),
        ("tag:vip", with_turn(tags=("vip", "de")), with_turn(tags=("vipx",))),
        ("environment:prod", CALM, replace(CALM, environment="dev")),
        ("environment:canary", with_turn(environment="canary"), CALM),
        ("project:shop", CALM, replace(CALM, project="shop-2")),
    ],
)
def test_a_rule_applies_or_not(rule: str, applies: Session, not_so: Session) -> None:
    assert (risk(applies, [rule], none), risk(not_so, [rule], none)) == (1, 0)


def test_the_more_rules_apply_the_riskier() -> None:
    rules = ["feedback", "error", "tag:vip", "project:shop"]
    one = with_turn(feedback="thumbs: down", error="time-out", tags=("vip",))
    assert risk(one, rules, none) == 4
    assert risk(one, [*rules, "feedback"], none) == 4
    assert risk(one, [], none) == 0


@given(st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_suspicion_counts_as_a_rule_and_the_graver_comes_first(grave: list[float]) -> None:
    low, high = sorted(grave)
    assert risk(CALM, ["suspicion"], lambda _: low) <= risk(CALM, ["suspicion"], lambda _: high) <= 2
    assert risk(CALM, ["suspicion", "project:shop"], lambda _: low) >= 1
    assert (risk(CALM, ["suspicion"], lambda _: low) >= 1) == (low > 0)


@given(st.floats(0, 1000), st.floats(0, 1000))
def test_priorities_are_ordered_as_risks_and_come_after_what_was_not_ranked(one: float, other: float) -> None:
    assert (priority_of(one) < priority_of(other)) <= (one < other)
    assert -1 <= priority_of(one) < 0


def test_the_embedded_judge_suspects_a_contradiction_and_nothing_else_is_asked() -> None:
    judge = ScriptedJudge([AssertionError("asked")])
    with Ledger.open(":memory:") as ledger:
        line = Line([FactualDrift(), CitationConflict()], judge, AuditSettings(), ledger)
        suspicion = suspected(line)
        assert suspicion(CALM) == 0
        assert 0.1 < suspicion(GRAVE) <= 0.7
        assert suspicion(session()) == 0
        assert judge.tasks == []
        assert list(ledger.record()) == []
        own = embedded(line)
        assert (own.judge.embedded, own.settings.embedded_judge, own.sinks) == (True, True, line.sinks)
        assert risk(RETURNS, ["suspicion"], suspicion) >= 0
