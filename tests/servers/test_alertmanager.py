"""The real Alertmanager: an alert shows, reaches a receiver once, stays while it is repeated, and ends in time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alert_receiver import AlertReceiver, alert_receiver
from alerting import LINKS, SECOND, critical, result
from alertmanager_server import PROGRAM, AlertmanagerServer, alertmanager_server
from otel_drift.alerts import AlertDuty, Channel, Findings, Pace
from otel_drift.findings import annotations
from otel_drift.ledger import Ledger
from otel_drift.policy import AlertRule
from otel_drift_connectors.alertmanager import Alertmanager

pytestmark = pytest.mark.server("alertmanager")


@pytest.fixture(scope="module")
def hook() -> Iterator[AlertReceiver]:
    with alert_receiver() as made:
        yield made


@pytest.fixture(scope="module")
def server(require: Callable[..., str], hook: AlertReceiver) -> Iterator[AlertmanagerServer]:
    require(shutil.which(PROGRAM), f"{PROGRAM} is not installed (Debian: {PROGRAM})")
    with alertmanager_server(hook.url) as made:
        yield made


class Desk:
    """A ledger and a duty that tells the server, by a clock that runs on and can be turned."""

    def __init__(self, file: Path, server: AlertmanagerServer, **pace: Any) -> None:
        self.ledger, self.server, self.ahead = Ledger.open(file), server, 0
        self.alerter = Alertmanager(server.url)
        channel = Channel(self.alerter.name, self.alerter, Findings(AlertRule()))
        self.duty = AlertDuty(
            self.ledger,
            [channel],
            pace=Pace(**{"group": 0, "repeat": SECOND, **pace}),
            links_for=lambda _trace: LINKS,
            clock=lambda: time.time_ns() + self.ahead,
        )

    def commit(self, one: Any) -> None:
        self.ledger.commit_unit(None, one, annotations, [])

    def step(self) -> None:
        while self.duty.step():
            pass

    def firing(self, event_id: str) -> list[dict[str, Any]]:
        return [one for one in self.server.alerts() if one["labels"]["event_id"] == event_id]

    def close(self) -> None:
        self.duty.close()
        self.ledger.close()


def until(what: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)
    return found


def told(hook: AlertReceiver, event_id: str) -> list[tuple[str, str]]:
    """What the receiver was told of an event: the status of the alert and of its group, in order."""
    return [
        (alert["status"], posted.json["status"])
        for posted in hook.taken
        for alert in posted.json["alerts"]
        if alert["labels"]["event_id"] == event_id
    ]


def test_it_says_what_is_there(server: AlertmanagerServer) -> None:
    with closing(Alertmanager(server.url)) as alerter:
        assert alerter.check().startswith(f"alertmanager:{server.url}: Alertmanager 0.")


def test_a_finding_fires_stays_and_ends_when_a_person_rejects_it(
    tmp_path: Path, server: AlertmanagerServer, hook: AlertReceiver
) -> None:
    with closing(Desk(tmp_path / "ledger.sqlite3", server)) as desk:
        desk.commit(result(1, critical(1)))
        desk.step()
        (alert,) = until(lambda: desk.firing("event-1"))
        assert alert["status"]["state"] == "active"
        assert alert["labels"]["alertname"] == "OtelDriftFinding"
        assert alert["labels"]["severity"] == "critical"
        assert alert["labels"]["session_id"] == "s1"
        assert alert["generatorURL"].startswith("https://traces.example/")
        until(lambda: told(hook, "event-1"))
        first_end = _time(alert["endsAt"])
        assert timedelta(minutes=9) < first_end - datetime.now(UTC) < timedelta(minutes=11)

        desk.ahead = 300 * SECOND
        desk.step()
        (again,) = desk.firing("event-1")
        assert again["fingerprint"] == alert["fingerprint"]
        assert again["startsAt"] == alert["startsAt"]
        assert _time(again["endsAt"]) > first_end + timedelta(minutes=4), "each repetition holds it for longer"

        desk.ledger.resolve("event-1", "rejected", by="Ann", why="it is right")
        desk.ahead = 0
        desk.step()
        until(lambda: not desk.firing("event-1"))
        until(lambda: ("resolved", "resolved") in told(hook, "event-1"))
        assert told(hook, "event-1") == [("firing", "firing"), ("resolved", "resolved")], "each told once"


def test_names_that_are_hostile_are_taken_and_inert(
    tmp_path: Path, server: AlertmanagerServer, hook: AlertReceiver
) -> None:
    from dataclasses import replace

    with closing(Desk(tmp_path / "ledger.sqlite3", server)) as desk:
        one = result(2, critical(2))
        about = replace(
            one.session, session_id='<!here> @channel {{ .Labels }} "\n\x00\ud800', project="", environment=""
        )
        desk.commit(replace(one, session=about))
        desk.step()
        (alert,) = until(lambda: desk.firing("event-2"))
        assert "@" not in alert["labels"]["session_id"]
        assert "<" not in alert["labels"]["session_id"]
        assert "application" not in alert["labels"]


def test_an_alert_that_nobody_repeats_ends_by_itself(
    tmp_path: Path, server: AlertmanagerServer, hook: AlertReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a service that died leaves no alarm for ever."""
    monkeypatch.setattr(Pace, "holds", 6 * SECOND)
    with closing(Desk(tmp_path / "ledger.sqlite3", server)) as desk:
        desk.commit(result(3, critical(3)))
        desk.step()
        until(lambda: desk.firing("event-3"))
        until(lambda: not desk.firing("event-3"))
        until(lambda: "resolved" in [status for status, _ in told(hook, "event-3")])


def test_many_alerts_are_taken_at_once(tmp_path: Path, server: AlertmanagerServer) -> None:
    with closing(Desk(tmp_path / "ledger.sqlite3", server)) as desk:
        for number in range(100, 320):
            desk.commit(result(number, critical(number)))
        desk.step()
        held = {one["labels"]["event_id"] for one in server.alerts()}
        assert {f"event-{number}" for number in range(100, 320)} <= held


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
