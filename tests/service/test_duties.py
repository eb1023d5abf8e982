"""Duties are run until stopped; one that fails is said to, waits longer each time, and stops no other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from otel_drift.errors import SinkError
from otel_drift.service.conditions import Conditions
from otel_drift.service.duties import Duties


class Work:
    """A duty that does what it is told, and counts."""

    every = 0.01

    def __init__(self, name: str, behave: Callable[[int], bool], enough: int = 3) -> None:
        self.name = name
        self.steps = 0
        self.done = threading.Event()
        self._behave = behave
        self._enough = enough

    def step(self) -> bool:
        self.steps += 1
        if self.steps >= self._enough:
            self.done.set()
        return self._behave(self.steps)


def failing(error: Exception, times: int = 10**9) -> Callable[[int], bool]:
    def behave(number: int) -> bool:
        if number <= times:
            raise error
        return False

    return behave


def test_one_that_fails_stops_no_other_and_is_in_order_again_once_it_works() -> None:
    conditions = Conditions()
    fails, works = Work("fails", failing(SinkError("down"), times=1), 2), Work("works", lambda _: False)
    duties = Duties([fails, works], conditions)
    duties.start()
    try:
        assert works.done.wait(60)
        assert fails.done.wait(60)
    finally:
        assert duties.stop(60) == []
    assert conditions.now() == {}
    assert duties.dead == []


def test_what_a_fault_quotes_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    """An error not raised on purpose may hold text of a trace: only its kind is told."""
    conditions = Conditions()
    work = Work("audits", failing(ValueError("PRIVATE TEXT")), 1)
    duties = Duties([work], conditions)
    with caplog.at_level(logging.INFO):
        duties.start()
        work.done.wait(60)
        duties.stop(60)
    assert "unexpected ValueError" in conditions.now()["audits"].message
    assert "PRIVATE" not in caplog.text


def test_a_stop_waits_for_no_pause() -> None:
    work = Work("slow", lambda _: False, 1)
    work.every = 3600
    duties = Duties([work], Conditions())
    duties.start()
    assert work.done.wait(60)
    assert duties.stop(60) == []


def test_a_condition_keeps_the_time_it_began_and_is_said_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    conditions = Conditions()
    with caplog.at_level(logging.INFO):
        conditions.note("disk", "full")
        since = conditions.now()["disk"].since
        conditions.note("disk", "full")
        conditions.note("disk", "fuller", blocking=True)
        conditions.clear("disk")
        conditions.clear("disk")
    assert since > 0
    assert [record.getMessage().partition(" after")[0] for record in caplog.records] == [
        "disk: full",
        "disk: fuller",
        "disk: in order again",
    ]
