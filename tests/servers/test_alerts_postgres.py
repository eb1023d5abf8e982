"""Alerts on PostgreSQL: the same states as on SQLite, and of two processes one tells while the other goes on."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from alerting import LINKS, Remembering, critical, result
from otel_drift.alerts import AlertDuty, Channel, Findings, Pace
from otel_drift.findings import annotations
from otel_drift.ledger import Ledger
from otel_drift.policy import AlertRule

pytestmark = pytest.mark.server("postgres")


@pytest.fixture
def url(postgres: Any) -> str:
    made: str = postgres.new_schema()
    return made


def duty(ledger: Ledger, alerter: Remembering) -> AlertDuty:
    channel = Channel(alerter.name, alerter, Findings(AlertRule()))
    return AlertDuty(ledger, [channel], pace=Pace(group=0), links_for=lambda _trace: LINKS)


def run(one: AlertDuty) -> None:
    while one.step():
        pass


def test_found_rejected_confirmed_inconclusive_withdrawn(url: str) -> None:
    alerter = Remembering()
    with Ledger.open(url) as ledger:
        one = duty(ledger, alerter)
        ledger.commit_unit(None, result(1, critical(1)), annotations, [])
        run(one)
        ledger.resolve("event-1", "rejected", by="Ann", why="it is right")
        run(one)
        ledger.resolve("event-1", "confirmed", by="Ann", why="it is wrong")
        run(one)
        ledger.commit_unit(None, result(1, print_="down", outcome="inconclusive"), annotations, [])
        run(one)
        assert alerter.states == [[("s1", "firing")], [("s1", "resolved")], [("s1", "firing")]]
        ledger.commit_unit(None, result(1, print_="clean"), annotations, [])
        run(one)
        assert alerter.states[3:] == [[("s1", "resolved")]]


def test_while_one_process_tells_the_other_does_not_wait_and_nothing_is_told_twice(url: str) -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Remembering):
        def notify(self, alerts: Any) -> None:
            entered.set()
            assert go_on.wait(30)
            super().notify(alerts)

    slow, other = Slow(), Remembering()
    with Ledger.open(url) as first, Ledger.open(url) as second:
        telling, idle = duty(first, slow), duty(second, other)
        first.commit_unit(None, result(1, critical(1)), annotations, [])
        thread = threading.Thread(target=run, args=(telling,))
        thread.start()
        try:
            assert entered.wait(30)
            started = time.monotonic()
            run(idle)
            assert time.monotonic() - started < 20, "the other is held up for 30 s"
            assert other.told == []
        finally:
            go_on.set()
            thread.join()
        run(idle)
    assert slow.states == [[("s1", "firing")]]
    assert other.told == []
