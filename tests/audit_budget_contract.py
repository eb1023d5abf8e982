"""How the service spends a day's budget; run as `audit_duty_contract` is."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest

from audit_desk import DAY, DRIFTING, HOUR, NOON, AuditDeskContract, Desk, conversation, turn
from otel_drift.audits.citation_conflict import CitationConflict
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.errors import ConfigError
from otel_drift.judges.rules import RulesJudge
from otel_drift.model import JudgeLimits
from otel_drift.service import auditing


class AuditBudgetContract(AuditDeskContract):
    """Subclasses give the fixture `place`, a path or URL of an empty ledger."""

    def test_the_riskiest_of_all_that_is_due_come_first_and_the_rest_another_day(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(auditing, "RANKED", 16)
        desk.told(budget={"calls_per_day": 3, "high_risk": ["feedback", "error", "tag:vip", "environment:prod"]})
        risky = {35: {"user.feedback": "thumbs: down", "tag.tags": ["vip"]}, 20: {"user.feedback": "thumbs: down"}}
        failed = turn(99_003, "s30", 3, "", error=True)
        desk.receive(failed, *(conversation(number, attributes=risky.get(number)) for number in range(40))).work()

        assert desk.judge.asked[0] == "s35"
        assert set(desk.judge.asked[1:]) == {"s20", "s30"}
        assert desk.counts().put_off == {"budget": 37}
        assert "00:00 UTC" in desk.notes.now["budget"]

        desk.clock.later(2 * HOUR)
        desk.receive(conversation(200, attributes={"user.feedback": "thumbs: down"})).work()
        assert len(desk.judge.asked) == 3
        desk.clock.now = NOON + 13 * HOUR
        desk.work()
        assert desk.judge.asked[3] == "s200"
        assert len(desk.judge.asked) == 6
        assert len(desk.results()) == 6

    def test_the_riskiest_come_first_also_where_several_are_judged_at_once(self, desk: Desk) -> None:
        others = threading.Event()
        desk.line.workers = 3
        desk.judge.while_asked = lambda name: others.set() if name != "s2" else None

        def redact(text: str) -> str:  # takes its time over the riskiest one only
            if "s2" in text and not desk.judge.asked:
                others.wait(0.2)
            return text

        desk.line.redact = redact
        desk.told(budget={"calls_per_day": 1, "high_risk": ["feedback"]})
        angry = {"user.feedback": "thumbs: down"}
        desk.receive(conversation(1), conversation(2, attributes=angry), conversation(3)).work()
        assert desk.judge.asked == ["s2"]

    def test_the_embedded_judges_suspicion_ranks(self, desk: Desk) -> None:
        desk.told(budget={"calls_per_day": 1})
        desk.receive(conversation(1), conversation(2), conversation(3, DRIFTING), conversation(4)).work()
        assert desk.judge.asked == ["s3"]

    def test_new_records_rank_a_waiting_session_anew(self, desk: Desk) -> None:
        desk.told(budget={"calls_per_day": 1, "high_risk": ["feedback"]})
        desk.receive(conversation(1), conversation(2), conversation(3)).work()
        assert len(desk.judge.asked) == 1
        waiting = next(number for number in (1, 2, 3) if f"s{number}" not in desk.judge.asked)
        spans = conversation(waiting)
        desk.receive([replace(spans[0], span_id=f"{999:016x}", attributes={"user.feedback": "thumbs: down"})])
        desk.clock.now = NOON + 13 * HOUR
        desk.work()
        assert desk.judge.asked[1] == f"s{waiting}"

    def test_over_the_budget_the_embedded_judge_says_that_it_is_that(self, desk: Desk) -> None:
        desk.told(budget={"calls_per_day": 1, "over": "embedded", "high_risk": ["feedback"]})
        desk.receive(conversation(1, DRIFTING, attributes={"user.feedback": "thumbs: down"}), conversation(2)).work()
        assert desk.results() == {"s1": "findings", "s2": "clean (rules)"}
        assert desk.duty.done["embedded_instead"] == 1
        assert "embedded" in desk.notes.now["budget"]
        assert desk.counts().open == 0

    def test_only_what_the_budget_refused_of_a_session_gets_the_embedded_judge(self, desk: Desk) -> None:
        desk.line.audits = [FactualDrift(), CitationConflict()]
        desk.told(budget={"calls_per_day": 2, "over": "embedded", "high_risk": []})
        desk.receive(conversation(1, DRIFTING)).work()
        assert Counter((one["audit"], one["judge"]) for one in desk.ledger.record()) == {
            ("factual_drift", "openai/reader"): 1,
            ("citation_conflict", "openai/reader"): 1,
            ("citation_conflict", "rules"): 1,
        }
        assert desk.counts().open == 0

    def test_where_sessions_come_faster_than_they_are_ranked_some_are_judged_all_the_same(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(auditing, "RANKED", 4)
        monkeypatch.setattr(auditing, "MOST_RANKING", 3)
        desk.told(budget={"calls_per_day": 100, "high_risk": ["feedback"]})
        for number in range(16):
            desk.receive(conversation(3 * number), conversation(3 * number + 1), conversation(3 * number + 2))
            desk.receive(conversation(1000 + number))
            desk.duty.step()
        assert 2 < len(desk.judge.asked) < 60

    def test_a_place_of_many_sessions_is_audited_in_parts(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(auditing, "AT_ONCE", 3)
        talks = [
            [
                *turn(number * 100 + 1, None, 1, f"Returns take {number} days."),
                *turn(number * 100 + 2, None, 2, f"Yes, {number} days.", history=[
                    ("Question 1: how long do returns take?", f"Returns take {number} days.")
                ]),
            ]
            for number in range(1, 20)
        ]  # fmt: skip
        desk.receive(*talks)
        assert desk.duty.step()
        assert 3 <= len(desk.judge.asked) < 10
        desk.work()
        assert (len(desk.judge.asked), len(desk.results()), desk.counts().open) == (19, 19, 0)

    def test_what_was_spent_without_a_limit_counts_once_there_is_one(self, desk: Desk) -> None:
        desk.receive(conversation(1), conversation(2)).work()
        assert desk.ledger.spent(desk.clock.now)["calls"] == 2
        desk.told(budget={"calls_per_day": 2})
        desk.receive(conversation(3)).work()
        assert len(desk.judge.asked) == 2
        assert desk.counts().put_off == {"budget": 1}

    def test_higher_limits_count_at_once_after_a_restart(self, desk: Desk) -> None:
        desk.told(budget={"calls_per_day": 1})
        desk.receive(conversation(1), conversation(2)).work()
        assert len(desk.judge.asked) == 1
        desk.told(budget={"calls_per_day": 5}).work()
        assert len(desk.judge.asked) == 2
        assert desk.counts().open == 0

    def test_what_is_known_costs_nothing_of_a_budget_that_is_used_up(self, desk: Desk) -> None:
        desk.told(budget={"calls_per_day": 1})
        desk.receive(conversation(1)).work()
        desk.receive(turn(201, "s2", 1), [replace(conversation(1)[0], span_id=f"{999:016x}", attributes={})]).work()
        assert desk.results() == {"s1": "clean", "s2": "not_applicable"}
        assert (len(desk.judge.asked), desk.counts().open) == (1, 0)

    def test_sessions_without_an_id_wait_for_the_budget_and_the_riskiest_of_a_place_come_first(
        self, desk: Desk
    ) -> None:
        desk.told(budget={"calls_per_day": 1, "high_risk": ["feedback"]})
        talks = []
        for number in range(1, 5):
            feedback = {"user.feedback": "thumbs: down"} if number == 3 else None
            first, second = f"Returns take {number}0 days.", f"Yes, {number}0 days."
            pair = [("Question 1: how long do returns take?", first)]
            talks.append(
                [*turn(number * 100 + 1, None, 1, first, attributes=feedback),
                 *turn(number * 100 + 2, None, 2, second, history=pair)]
            )  # fmt: skip
        desk.receive(*talks).work()
        assert desk.judge.asked == [f"{301:032x}"]
        assert desk.counts().put_off == {"budget": 1}  # the place
        for _ in range(3):
            desk.clock.later(DAY)
            desk.work()
        assert len(desk.judge.asked) == 4
        assert (len(desk.results()), desk.counts().open) == (4, 0)

    def test_a_budget_of_money_needs_a_price(self, desk: Desk) -> None:
        desk.judge.limit = JudgeLimits()
        with pytest.raises(ConfigError, match="price"):
            _ = desk.told(budget={"cost_per_day": 1.0}).duty

    def test_the_embedded_judge_needs_no_budget(self, desk: Desk) -> None:
        desk.line.judge = RulesJudge()  # type: ignore[assignment]
        desk.told(budget={"calls_per_day": 0, "cost_per_day": 0.0})
        desk.receive(conversation(1), conversation(2)).work()
        assert len(desk.results()) == 2
