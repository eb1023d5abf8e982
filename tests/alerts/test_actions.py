"""Actions on long answers: called for once each, only those that are configured, and no text leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from alerting import Desk, KilledError, Remembering, critical, result
from drift_cases import session, turn
from otel_drift.audits.longform_drift import LongformDrift
from otel_drift.judges.rules import RulesJudge
from otel_drift.model import Unit
from otel_drift.policy import AlertRule
from otel_drift.protocols import AuditSettings
from otel_drift.validation import audit_session

OpenDesk = Callable[..., Desk]
RECOMMENDED = frozenset({"flag_for_review", "regenerate_from_drift_point", "reject"})
CANARY = "CANARY-7f3a"


def long_answer(number: int = 1, *, print_: str = "", action: str = "reject", start: int = 412, **changes: Any) -> Unit:
    """A longform result that recommends an action."""
    report = {
        "drift_detected": True,
        "drift_start_sentence_index": 3,
        "drift_start_sentence_text": CANARY,
        "drift_start_char": start,
        "drift_severity": "severe",
        "drift_severity_score": 0.72,
        "cumulative_drift_summary": CANARY,
        "recommended_action": action,
    }
    found = critical(number, audit="longform_drift", type="UNGROUNDED", severity="MAJOR", quotes=(CANARY,))
    made = result(number, found, print_=f"{print_}{action}{start}", audit="longform_drift", report=report)
    return replace(made, **changes)


@pytest.fixture
def desk(open_desk: OpenDesk) -> Desk:
    return open_desk(actions=RECOMMENDED)


def test_an_action_is_called_for_once_with_its_point_and_no_text(desk: Desk) -> None:
    desk.commit(long_answer())
    desk.step()
    desk.restart()
    desk.step(3600)
    ((alert,),) = desk.alerters[0].told
    assert (alert.kind, alert.state, alert.audit) == ("action", "firing", "longform_drift")
    assert alert.details == {
        "recommended_action": "reject",
        "drift_start_sentence_index": 3,
        "drift_start_char": 412,
        "drift_severity": "severe",
        "drift_severity_score": 0.72,
        "unit_id": "unit-1",
    }
    assert CANARY not in repr(alert)


def test_quotes_never_leave_with_actions(open_desk: OpenDesk) -> None:
    desk = open_desk(actions=RECOMMENDED, quotes=True)
    desk.commit(long_answer())
    desk.step()
    assert CANARY not in repr(desk.alerters[0].told)


def test_audited_again_with_the_same_point_it_is_not_called_for_again(desk: Desk) -> None:
    desk.commit(long_answer())
    desk.step()
    desk.commit(long_answer(print_="again"))
    desk.step()
    assert len(desk.told) == 1


@pytest.mark.parametrize("changes", [{"action": "regenerate_from_drift_point"}, {"start": 88}])
def test_another_action_or_point_is_another_call(desk: Desk, changes: dict[str, Any]) -> None:
    desk.commit(long_answer())
    desk.step()
    desk.commit(long_answer(**changes))
    desk.step()
    assert len(desk.told) == 2


@pytest.mark.parametrize(
    "one",
    [
        long_answer(action="pass"),
        long_answer(judge="rules"),
        result(1, critical()),
        result(1, audit="longform_drift"),
    ],
)
def test_nothing_else_is_called_for(desk: Desk, one: Unit) -> None:
    desk.commit(one)
    desk.step()
    assert desk.told == []


def test_what_no_longer_holds_is_not_called_for(open_desk: OpenDesk) -> None:
    desk = open_desk(Remembering(down=True), actions=RECOMMENDED)
    desk.commit(long_answer(1))
    desk.commit(long_answer(2))
    desk.step()
    desk.commit(result(1, audit="longform_drift", print_="clean"))
    desk.ledger.resolve("event-2", "rejected", by="Ann", why="it is right")
    desk.alerters[0].down = False
    desk.step(600)
    assert desk.told == []
    desk.ledger.resolve("event-2", "confirmed", by="Ann", why="it is wrong after all")
    desk.step()
    assert desk.told == [[("s2", "firing")]]


@pytest.mark.parametrize("repeats", [False, True])
def test_an_action_that_was_called_for_is_never_repeated_nor_taken_back(open_desk: OpenDesk, repeats: bool) -> None:
    desk = open_desk(Remembering(repeats=repeats), actions=RECOMMENDED)
    desk.commit(long_answer())
    desk.step()
    desk.commit(result(1, audit="longform_drift", print_="clean"))
    desk.step(300)
    desk.step(169 * 3600)
    assert desk.told == [[("s1", "firing")]]


@pytest.mark.parametrize("called", [False, True])
def test_an_action_whose_texts_were_erased_is_not_called_for_any_more(open_desk: OpenDesk, called: bool) -> None:
    desk = open_desk(Remembering(down=not called), actions=RECOMMENDED)
    desk.commit(long_answer())
    desk.step()
    desk.ledger.forget(session="s1")
    desk.alerters[0].down = False
    desk.step(600)
    assert desk.told == [[("s1", "firing")]] * called
    with desk.ledger.database.reading() as connection:
        held = connection.execute(sa.text("SELECT body FROM otel_drift_alert")).scalar_one()
    assert json.loads(held).keys() == {"type", "severity"}


def test_killed_while_calling_it_calls_again_with_the_same_key(open_desk: OpenDesk) -> None:
    desk = open_desk(Remembering(kills="after"), actions=RECOMMENDED)
    desk.commit(long_answer())
    with pytest.raises(KilledError):
        desk.step()
    desk.alerters[0].kills = ""
    desk.restart()
    desk.step()
    assert len(desk.told) == 2
    assert len(desk.alerters[0].firing) == 1


def test_a_real_report_has_what_an_action_says(open_desk: OpenDesk) -> None:
    folder = Path(__file__).resolve().parents[2] / "examples" / "longform"
    source, answer = ((folder / name).read_text() for name in ("inspection.md", "summary.md"))
    judge = RulesJudge()
    settings = AuditSettings(embedded_judge=True, count_tokens=judge.count_tokens)
    unit = audit_session(LongformDrift(), session(turn(1, "Summarise it.", answer, source)), judge, settings=settings)
    assert unit.report is not None
    desk = open_desk(actions=RECOMMENDED, rule=AlertRule(embedded=True))
    desk.commit(unit)
    desk.step()
    ((alert,),) = desk.alerters[0].told
    assert alert.details["recommended_action"] == "regenerate_from_drift_point"
    for name in ("recommended_action", "drift_start_sentence_index", "drift_start_char", "drift_severity_score"):
        assert alert.details[name] == unit.report[name]
    start = alert.details["drift_start_char"]
    assert answer[start:].startswith(unit.report["drift_start_sentence_text"])
    assert answer[start : start + 20] not in repr(alert)
