"""How alerts go out: grouped, limited, repeated, at least once, and a dead alerter stops no other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from alerting import HOUR, SECOND, Desk, KilledError, Remembering, critical, result
from otel_drift.errors import SinkError
from otel_drift.ledger import Ledger
from otel_drift.ledger.alerts import AlertBook
from otel_drift.policy import AlertRule
from otel_drift.protocols import Alert

OpenDesk = Callable[..., Desk]


class Heard:
    """What telemetry and conditions hear."""

    def __init__(self) -> None:
        self.alerts: list[tuple[str, str, bool]] = []
        self.wrong: dict[str, str] = {}

    def alerted(self, alerter: str, state: str, ok: bool, number: int = 1) -> None:
        self.alerts += [(alerter, state, ok)] * number

    def note(self, name: str, message: str) -> None:
        self.wrong[name] = message

    def clear(self, name: str) -> None:
        del self.wrong[name]


def sessions(groups: list[list[Alert]]) -> list[list[str | None]]:
    return [sorted(one.session_id or "" for one in group) for group in groups]


def test_what_comes_together_goes_out_together(open_desk: OpenDesk) -> None:
    desk = open_desk(pace={"group": 10 * SECOND})
    desk.commit(result(1, critical(1)))
    desk.step()
    desk.commit(result(2, critical(2)))
    desk.step(8)
    assert desk.told == []
    desk.restart()
    desk.step(2)
    assert sessions(desk.alerters[0].told) == [["s1", "s2"]]


def test_what_ends_before_its_group_goes_out_is_not_told(open_desk: OpenDesk) -> None:
    desk = open_desk(pace={"group": 10 * SECOND})
    desk.commit(result(1, critical(1)))
    desk.commit(result(2, critical(2)))
    desk.step()
    desk.commit(result(1, print_="clean"))
    desk.step(10)
    assert sessions(desk.alerters[0].told) == [["s2"]]


def test_no_more_than_so_many_notifications_an_hour_and_the_rest_waits_together(open_desk: OpenDesk) -> None:
    desk = open_desk(pace={"per_hour": 3})
    for number in range(1, 9):
        desk.commit(result(number, critical(number)))
        desk.step(60)
        if number == 4:
            desk.restart()
    assert sessions(desk.alerters[0].told) == [["s1"], ["s2"], ["s3"]]
    desk.step(3600 - 8 * 60 + 60)
    assert sessions(desk.alerters[0].told)[3:] == [["s4", "s5", "s6", "s7", "s8"]]


def test_in_any_hour_there_are_no_more_than_that(open_desk: OpenDesk) -> None:
    desk = open_desk(pace={"per_hour": 4})
    times = []
    for number in range(1, 41):
        desk.commit(result(number, critical(number)))
        before = len(desk.told)
        desk.step(300)
        times += [desk.now] * (len(desk.told) - before)
    assert all(sum(at <= other < at + HOUR for other in times) <= 4 for at in times)
    assert sorted(one for group in sessions(desk.alerters[0].told) for one in group) != []


def test_a_large_group_is_cut_and_all_of_it_arrives(open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_drift.alerts.duty.MOST", 3)
    desk = open_desk(pace={"group": 10 * SECOND})
    for number in range(1, 9):
        desk.commit(result(number, critical(number)))
    desk.step(10)
    desk.step(10)
    assert sorted(map(len, desk.told), reverse=True) == [3, 3, 2]
    assert len(desk.alerters[0].firing) == 8


def test_an_alerter_that_is_down_for_an_hour_is_told_afterwards(open_desk: OpenDesk) -> None:
    """With growing pauses, and without holding up another one."""
    down, up, heard = Remembering("down", down=True), Remembering("up"), Heard()
    tries = []
    desk = open_desk(down, up, telemetry=heard, conditions=heard)
    desk.commit(result(1, critical(1)))
    for _ in range(120):
        before = len(heard.alerts)
        desk.step(30)
        tries += [desk.now] * sum(not ok for _, _, ok in heard.alerts[before:])
    desk.commit(result(2, critical(2)))
    desk.step(1)
    assert sessions(up.told) == [["s1"], ["s2"]]
    assert heard.wrong == {"alerts down": "memory cannot be reached"}
    assert 8 < len(tries) < 20
    assert max(b - a for a, b in itertools.pairwise(tries)) <= 330 * SECOND
    down.down = False
    desk.restart()
    desk.step(300)
    assert sessions(down.told) == [["s1", "s2"]]
    assert heard.wrong == {}
    assert heard.alerts.count(("down", "firing", True)) == 2


def test_what_was_withdrawn_while_an_alerter_was_down_is_told_as_resolved(open_desk: OpenDesk) -> None:
    """It may have got through: what an attempt came to is not known."""
    desk = open_desk(Remembering(down=True))
    desk.commit(result(1, critical(1)))
    desk.step()
    desk.commit(result(1, print_="clean"))
    desk.alerters[0].down = False
    desk.step(600)
    assert desk.told == [[("s1", "resolved")]]


@pytest.mark.parametrize("kills", ["before", "after"])
def test_killed_while_telling_it_tells_again_with_the_same_keys(open_desk: OpenDesk, kills: str) -> None:
    desk = open_desk(Remembering(kills=kills))
    desk.commit(result(1, critical(1)))
    with pytest.raises(KilledError):
        desk.step()
    desk.alerters[0].kills = ""
    desk.restart()
    desk.step()
    desk.step()
    assert desk.told == [[("s1", "firing")]] * (2 if kills == "after" else 1)
    assert len(desk.alerters[0].firing) == 1
    assert len({(one.key, one.started) for group in desk.alerters[0].told for one in group}) == 1


def test_killed_while_telling_and_withdrawn_meanwhile_it_is_resolved(open_desk: OpenDesk) -> None:
    desk = open_desk(Remembering(kills="after"))
    desk.commit(result(1, critical(1)))
    with pytest.raises(KilledError):
        desk.step()
    desk.alerters[0].kills = ""
    desk.commit(result(1, print_="clean"))
    desk.restart()
    desk.step()
    assert desk.told == [[("s1", "firing")], [("s1", "resolved")]]


def test_an_alerter_that_wants_repetitions_gets_them_until_it_ends(open_desk: OpenDesk) -> None:
    heard = Heard()
    desk = open_desk(Remembering(repeats=True), pace={"per_hour": 2}, telemetry=heard)
    desk.commit(result(1, critical(1)))
    for minute in range(10):
        desk.step(60)
        if minute == 4:
            desk.restart()
    assert desk.told == [[("s1", "firing")]] * 10, "repetitions do not count as notifications"
    assert heard.alerts == [("memory", "firing", True)], "nor as alerts"
    for (one,) in desk.alerters[0].told:
        assert one.holds_until is not None
    last = desk.alerters[0].told[-1][0]
    assert 600 * SECOND <= (last.holds_until or 0) - desk.now <= 1200 * SECOND
    desk.commit(result(1, print_="clean"))
    desk.step(10)
    desk.step(600)
    assert desk.told[10:] == [[("s1", "resolved")]]
    assert desk.alerters[0].told[-1][0].holds_until is None


def test_an_alert_holds_longer_than_the_pauses_after_failures(open_desk: OpenDesk) -> None:
    """Alertmanager must not take an alert for resolved because it was down for a while."""
    desk = open_desk(Remembering(repeats=True))
    desk.commit(result(1, critical(1)))
    desk.step(60)
    held = desk.alerters[0].told[-1][0].holds_until or 0
    desk.alerters[0].down = True
    for _ in range(27):
        desk.step(10)
    desk.alerters[0].down = False
    while len(desk.told) == 1:
        desk.step(10)
    assert desk.now < held


def test_one_alert_that_is_refused_keeps_none_back(open_desk: OpenDesk) -> None:
    alerter = Remembering(refuses={"s3"})
    desk = open_desk(alerter)
    for number in range(1, 6):
        desk.commit(result(number, critical(number)))
    for _ in range(120):
        desk.step(10)
    assert sorted({one.session_id for group in alerter.told for one in group}) == ["s1", "s2", "s4", "s5"]
    assert len(alerter.firing) == 4
    alerter.refuses.clear()
    desk.step(3600)
    desk.step(3600)
    assert len(alerter.firing) == 5, "it is tried again"
    assert all(len(group) < 6 for group in alerter.told)


def test_a_clock_that_is_set_back_stops_nothing(open_desk: OpenDesk) -> None:
    alerter = Remembering(repeats=True, down=True)
    desk = open_desk(alerter, pace={"per_hour": 1, "group": 10 * SECOND})
    desk.commit(result(1, critical(1)))
    desk.step()
    desk.step(20)
    alerter.down = False
    desk.step(-48 * 3600)
    assert desk.told == [[("s1", "firing")]], "neither a pause nor a group waits for the old time"
    desk.step(-48 * 3600)
    assert len(desk.told) == 2, "repetitions go on"
    desk.commit(result(2, critical(2)))
    desk.step(60)
    desk.step(60)
    assert {one.session_id for group in desk.alerters[0].told for one in group} == {"s1", "s2"}


def test_what_did_not_go_out_does_not_count(open_desk: OpenDesk) -> None:
    desk = open_desk(Remembering(down=True), pace={"per_hour": 1})
    desk.commit(result(1, critical(1)))
    desk.step()
    desk.alerters[0].down = False
    desk.step(60)
    assert desk.told == [[("s1", "firing")]]


def test_of_two_processes_one_tells(open_desk: OpenDesk) -> None:
    desk = open_desk()
    desk.commit(result(1, critical(1)))
    other = Ledger.open(desk.file)
    book = AlertBook(other.database)
    with book.alone("memory") as held:
        assert held
        started = time.monotonic()
        desk.step()
        assert time.monotonic() - started < 20, "nobody waits for the one that tells"
        assert desk.told == []
    desk.step()
    assert desk.told == [[("s1", "firing")]]
    other.close()


def test_an_alerter_that_breaks_in_any_way_shows_no_text(open_desk: OpenDesk) -> None:
    class Broken(Remembering):
        def notify(self, alerts: Any) -> None:
            raise ValueError("the answer was: secret text of a trace")

    heard = Heard()
    broken, fine = Broken("broken"), Remembering("fine")
    desk = open_desk(broken, fine, conditions=heard)
    desk.commit(result(1, critical(1)))
    desk.step()
    assert len(fine.told) == 1
    assert heard.wrong == {"alerts broken": "unexpected ValueError (a fault of the alerter; run with debug logging)"}
    assert "secret text" not in str(AlertBook(desk.ledger.database).summary())


def test_status_says_what_fires_and_what_waits(open_desk: OpenDesk) -> None:
    desk = open_desk(Remembering("a"), Remembering("b", down=True))
    desk.commit(result(1, critical(1)))
    desk.step()
    summary = AlertBook(desk.ledger.database).summary()
    assert (summary["a"]["firing"], summary["a"]["waiting"], summary["a"]["failures"]) == (1, 0, 0)
    assert (summary["b"]["firing"], summary["b"]["waiting"], summary["b"]["failures"]) == (1, 1, 1)
    assert summary["b"]["reason"] == "memory cannot be reached"
    assert summary["b"]["waiting_since"] <= desk.now


def test_checking_says_which_alerter_is_down_for_now(open_desk: OpenDesk) -> None:
    class Checked(Remembering):
        def check(self) -> str:
            if self.down:
                raise SinkError("nobody answers")
            return "fine"

    desk = open_desk(Checked("a"), Checked("b", down=True), Remembering("c"))
    assert desk.duty.check() == ["alerts b: nobody answers; it is told later"]


def test_alerts_that_ended_long_ago_are_forgotten(open_desk: OpenDesk) -> None:
    desk = open_desk()
    desk.commit(result(1, critical(1)))
    desk.step()
    desk.commit(result(1, print_="clean"))
    desk.step()
    desk.now += 91 * 24 * HOUR
    desk.commit(result(2))
    desk.step()
    assert AlertBook(desk.ledger.database).summary()["memory"].get("resolved", 0) == 0


CANARY = "CANARY-7f3a"


def test_nothing_of_the_trace_s_text_leaves_unless_quotes_may(open_desk: OpenDesk) -> None:
    found = critical(
        1,
        explanation=f"{CANARY} explained",
        quotes=(f"{CANARY} <!here> @channel [win](https://evil.example) " + "x" * 500, "<b>two</b>", "three"),
        likely_cause=CANARY,
    )
    silent, quoting = open_desk(), open_desk(quotes=True)
    for desk in (silent, quoting):
        desk.commit(result(1, found))
        desk.step()
    assert CANARY not in repr(silent.alerters[0].told)
    quotes = quoting.alerters[0].told[0][0].quotes
    assert CANARY in quotes[0]
    assert len(quotes) == 2
    assert all(len(one) <= 240 for one in quotes)
    for live in ("@channel", "<", "](", "https://", "evil.example"):
        assert live not in " ".join(quotes)
    with quoting.ledger.database.reading() as connection:
        import sqlalchemy as sa

        held = connection.execute(sa.text("SELECT body FROM otel_drift_alert")).scalars().all()
    assert CANARY not in str(held), "a privacy deletion need not look here"


def test_after_a_privacy_deletion_no_quote_leaves(open_desk: OpenDesk) -> None:
    desk = open_desk(quotes=True)
    desk.commit(result(1, critical(1, quotes=(CANARY,))))
    desk.ledger.forget(session="s1")
    desk.step()
    assert CANARY not in repr(desk.alerters[0].told)


def test_the_rule_may_be_milder(open_desk: OpenDesk) -> None:
    desk = open_desk(rule=AlertRule("MINOR", 0.2))
    desk.commit(result(1, critical(1, severity="MINOR", confidence=0.3)))
    desk.step()
    assert desk.told == [[("s1", "firing")]]
