"""Who is told of what: found, withdrawn, rejected, muted, expired; over restarts, once each, with the same key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from alerting import HOUR, SECOND, Desk, Remembering, critical, result
from otel_drift.findings import annotations
from otel_drift.ledger.alerts import AlertBook
from otel_drift.policy import EMBEDDED_JUDGES, AlertRule


@pytest.fixture(params=["one process", "a new process at every step"])
def desk(open_desk: Callable[..., Desk], request: pytest.FixtureRequest) -> Desk:
    made = open_desk()
    if request.param != "one process":
        step = made.step

        def restarting(seconds: float = 1.0) -> None:
            made.restart()
            step(seconds)
            made.restart()

        made.step = restarting  # type: ignore[method-assign]
    return made


def held_bodies(desk: Desk) -> list[dict[str, Any]]:
    import sqlalchemy as sa

    from otel_drift.ledger.schema import alert

    with desk.ledger.database.reading() as connection:
        return [json.loads(body) for body in connection.execute(sa.select(alert.c.body)).scalars()]


FIRING, RESOLVED = [("s1", "firing")], [("s1", "resolved")]


def test_a_critical_finding_is_told_once(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    desk.step()
    assert desk.told == [FIRING]
    (alert,) = desk.alerters[0].told[0]
    assert (alert.application, alert.environment, alert.judge) == ("shop-bot", "production", "litellm:model")
    assert (alert.kind, alert.audit, alert.type, alert.severity) == (
        "finding",
        "factual_drift",
        "CONTRADICTION",
        "CRITICAL",
    )
    assert alert.event_id == "event-1"
    assert alert.confidence == 0.9
    assert alert.link == "https://traces.example/" + "0" * 31 + "3?span=" + "0" * 14 + "31"
    assert alert.session_link == "https://traces.example/sessions/s1"
    assert alert.quotes == ()


@pytest.mark.parametrize(
    ("rule", "changes", "judge"),
    [
        (AlertRule(), {"severity": "MAJOR"}, "model"),
        (AlertRule(), {"confidence": 0.69}, "model"),
        (AlertRule("MAJOR"), {"severity": "MINOR"}, "model"),
        (AlertRule(confidence=0.95), {}, "model"),
        (AlertRule("MAJOR"), {"severity": "MAJOR"}, "rules"),
    ],
)
def test_what_the_rule_does_not_allow_is_not_told(
    open_desk: Callable[..., Desk], rule: AlertRule, changes: dict[str, Any], judge: str
) -> None:
    desk = open_desk(rule=rule)
    desk.commit(result(1, critical(**changes), judge=judge))
    desk.step()
    assert desk.told == []
    desk.commit(result(2, critical(2)))
    desk.step()
    assert desk.told == ([] if rule.confidence > 0.9 else [[("s2", "firing")]])


def test_the_embedded_judge_is_told_where_it_may(open_desk: Callable[..., Desk]) -> None:
    from otel_drift.judges.rules import RulesJudge

    assert RulesJudge().name in EMBEDDED_JUDGES
    desk = open_desk(rule=AlertRule("MAJOR", embedded=True))
    desk.commit(result(1, critical(severity="MAJOR"), judge="rules"))
    desk.step()
    assert desk.told == [FIRING]


def test_found_again_in_another_result_it_is_the_same_alert(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    desk.commit(result(1, critical(confidence=0.8), print_="again", judge="another-model"))
    desk.step()
    assert desk.told == [FIRING]


def test_worse_or_of_another_type_it_is_told_again_under_its_key(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(rule=AlertRule("MAJOR"))
    desk.commit(result(1, critical(severity="MAJOR")))
    desk.step()
    desk.commit(result(1, critical(), print_="worse"))
    desk.step()
    desk.step()
    (first,), (second,) = desk.alerters[0].told
    assert (first.key, first.severity, first.state) == (second.key, "MAJOR", "firing")
    assert (second.severity, second.state, second.started) == ("CRITICAL", "firing", first.started)


@pytest.mark.parametrize(
    "after",
    [
        {"print_": "clean"},
        {"print_": "none", "outcome": "not_applicable"},
    ],
)
def test_withdrawn_it_is_resolved_and_found_again_it_fires(desk: Desk, after: dict[str, Any]) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    desk.commit(result(1, **after))
    desk.step()
    desk.step()
    assert desk.told == [FIRING, RESOLVED]
    desk.commit(result(1, critical(), print_="back"))
    desk.step()
    assert desk.told == [FIRING, RESOLVED, FIRING]
    assert len({one.key for group in desk.alerters[0].told for one in group}) == 1
    (first,), (ended,), _ = desk.alerters[0].told
    assert ended.ended is not None
    assert ended.ended > first.started


def test_milder_it_is_resolved(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    desk.commit(result(1, critical(severity="MINOR"), print_="milder"))
    desk.step()
    assert desk.told == [FIRING, RESOLVED]


def test_an_inconclusive_result_takes_nothing_back(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    desk.commit(result(1, print_="down", outcome="inconclusive"))
    desk.step()
    assert desk.told == [FIRING]
    desk.commit(result(1, print_="clean"))
    desk.step()
    assert desk.told == [FIRING, RESOLVED]


def test_a_unit_that_is_gone_is_resolved(desk: Desk) -> None:
    import sqlalchemy as sa

    from otel_drift.ledger.schema import unit

    desk.commit(result(1, critical()))
    desk.step()
    with desk.ledger.database.writing() as connection:
        connection.execute(sa.update(unit).where(unit.c.unit_id == "unit-1").values(current=False))
    desk.step()
    assert desk.told == [FIRING, RESOLVED]


def test_rejected_by_a_person_it_is_resolved_and_confirmed_after_all_it_fires(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    desk.ledger.resolve("event-1", "rejected", by="Ann", why="it is right")
    desk.step()
    desk.step()
    assert desk.told == [FIRING, RESOLVED]
    desk.commit(result(1, critical(), print_="again"))
    desk.step()
    assert desk.told == [FIRING, RESOLVED], "a person's verdict holds in the next result too"
    desk.ledger.resolve("event-1", "confirmed", by="Bob", why="it is wrong")
    desk.step()
    assert desk.told == [FIRING, RESOLVED, FIRING]


def test_a_verdict_on_a_whole_unit_holds_for_its_findings(desk: Desk) -> None:
    desk.commit(result(1, print_="down", outcome="inconclusive"))
    (item,) = desk.ledger.review_items(("open",))
    desk.ledger.resolve(item["item_id"], "rejected", by="Ann", why="a test conversation")
    settled = desk.commit(result(1, critical(), print_="up"))
    desk.step()
    assert settled.findings[0].status == "rejected"
    assert desk.told == []
    desk.ledger.resolve("event-1", "confirmed", by="Bob", why="this one is real")
    desk.step()
    assert desk.told == [FIRING], "a finding's own verdict goes before that on its unit"


def test_rejected_before_anybody_was_told_nobody_is(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.ledger.resolve("event-1", "rejected", by="Ann", why="it is right")
    desk.step()
    desk.commit(result(1, print_="clean"))
    desk.step()
    assert desk.told == []


def test_muted_it_is_resolved_and_unmuted_it_fires(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    mute = desk.ledger.mute("event-1", why="known")
    desk.step()
    assert desk.told == [FIRING, RESOLVED]
    desk.commit(result(2, critical(2)))
    desk.step()
    assert desk.told == [FIRING, RESOLVED], "the same claims in another session are muted too"
    desk.ledger.unmute(mute["mute_id"])
    desk.step()
    assert desk.told[:2] == [FIRING, RESOLVED]
    assert sorted(one for group in desk.told[2:] for one in group) == [("s1", "firing"), ("s2", "firing")]


def test_erased_it_is_resolved_and_audited_again_it_fires(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.commit(result(2, critical(2)))
    desk.step()
    desk.ledger.forget(session="s1")
    desk.step()
    desk.step()
    assert desk.told[1:] == [RESOLVED]
    desk.commit(result(1, critical(), print_="again"))
    desk.step()
    assert desk.told[2:] == [FIRING]
    assert len({one.key for group in desk.alerters[0].told for one in group}) == 2


def test_erased_under_an_inconclusive_result_it_is_resolved(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    until = time.time_ns()
    desk.commit(result(1, print_="down", outcome="inconclusive"))
    desk.step()
    desk.ledger.forget(before=until)
    desk.step()
    assert desk.told == [FIRING, RESOLVED]


def test_erased_results_before_one_that_finds_it_too_end_nothing(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    until = time.time_ns()
    desk.commit(result(1, critical(), print_="again"))
    desk.ledger.forget(before=until)
    desk.step()
    desk.step()
    assert desk.told == [FIRING]


def test_erased_while_a_person_had_rejected_it_nothing_more_is_told(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    desk.ledger.resolve("event-1", "rejected", by="Ann", why="it is right")
    desk.step()
    desk.ledger.forget(session="s1")
    desk.step()
    assert held_bodies(desk) == [{"type": "CONTRADICTION", "severity": "CRITICAL"}]
    desk.ledger.resolve("event-1", "confirmed", by="Bob", why="it is wrong")
    desk.step()
    assert desk.told == [FIRING, RESOLVED]


def test_erased_before_anybody_was_told_nobody_is(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(pace={"group": 10 * SECOND})
    desk.commit(result(1, critical()))
    desk.step()
    desk.ledger.forget(session="s1")
    desk.step(20)
    assert desk.told == []
    assert held_bodies(desk) == [{"type": "CONTRADICTION", "severity": "CRITICAL"}]


def test_erased_while_the_receiver_is_down_its_ids_stay_until_it_was_told(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    desk.commit(result(1, critical()))
    desk.step()
    desk.alerters[0].down = True
    desk.ledger.forget(session="s1")
    desk.step()
    assert held_bodies(desk)[0]["session_id"] == "s1"
    desk.alerters[0].down = False
    desk.step(600)
    assert desk.told == [FIRING, RESOLVED]
    assert held_bodies(desk) == [{"type": "CONTRADICTION", "severity": "CRITICAL"}]


def test_erased_while_the_duty_looks_it_does_not_come_back(
    open_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(quotes=True)
    desk.commit(result(1, critical()))
    looked = AlertBook.found_since

    def overtaken(self: AlertBook, *given: Any, **options: Any) -> Any:
        found = looked(self, *given, **options)
        desk.ledger.forget(session="s1")
        return found

    monkeypatch.setattr(AlertBook, "found_since", overtaken)
    desk.step()
    assert desk.told == []
    assert held_bodies(desk) == [{"type": "CONTRADICTION", "severity": "CRITICAL"}]


def test_what_nobody_ends_expires_once(desk: Desk) -> None:
    desk.commit(result(1, critical()))
    desk.step()
    desk.step(167 * 3600)
    assert desk.told == [FIRING]
    desk.step(2 * 3600)
    desk.step(2 * 3600)
    assert desk.told == [FIRING, RESOLVED]
    desk.commit(result(1, critical(), print_="again"))
    desk.step()
    assert desk.told == [FIRING, RESOLVED], "expired, it is not news because it is audited again"


def test_what_was_there_before_an_alerter_is_not_told_to_it(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    desk.commit(result(1, critical()))
    desk.step()
    late = Remembering("late")
    desk.alerters = (*desk.alerters, late)
    desk.restart()
    desk.step()
    desk.commit(result(2, critical(2)))
    desk.step()
    assert desk.told == [FIRING, [("s2", "firing")]]
    assert late.states == [[("s2", "firing")]]


def test_what_is_older_than_an_alert_lasts_is_not_told(open_desk: Callable[..., Desk]) -> None:
    """An alerter that is configured again after a month is not flooded."""
    desk = open_desk()
    desk.commit(result(1, critical()))
    desk.now += 169 * HOUR
    desk.step()
    assert desk.told == []


def test_two_findings_of_a_session_are_two_alerts_and_end_apart(desk: Desk) -> None:
    desk.commit(result(1, critical(1), critical(2, turn_number=4)))
    desk.step()
    desk.commit(result(1, critical(2, turn_number=4), print_="one"))
    desk.step()
    assert [sorted((one.event_id, one.state) for one in group) for group in desk.alerters[0].told] == [
        [("event-1", "firing"), ("event-2", "firing")],
        [("event-1", "resolved")],
    ]


def test_the_same_event_of_two_customers_is_two_alerts(desk: Desk) -> None:
    one = result(1, critical())
    other = replace(one, unit_id="other", session=replace(one.session, key="bank|s1"))
    desk.ledger.commit_unit(None, one, annotations, [])
    desk.ledger.commit_unit(None, other, annotations, [])
    desk.step()
    assert len(desk.alerters[0].firing) == 2


def test_many_new_results_are_looked_at_in_parts(
    open_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_drift.ledger.alerts.LOOKED_AT", 3)
    desk = open_desk(pace={"group": 10 * SECOND})
    for number in range(1, 12):
        desk.commit(result(number, *([critical(number)] if number % 4 == 1 else [])))
    desk.step()
    desk.step(11)
    assert [sorted(session or "" for session, _ in group) for group in desk.told] == [["s1", "s5", "s9"]]
