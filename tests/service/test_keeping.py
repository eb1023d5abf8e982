"""Heartbeat, clock and retention."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_samples import finding, unit
from otel_drift.config import RetentionSettings
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.service.conditions import Conditions
from otel_drift.service.keeping import BeatDuty, RetentionDuty
from otel_drift.testing import conversation
from otel_drift.times import DAY, SECOND

NOW = 1_800_000_000 * SECOND


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger") as opened:
        yield opened


def test_a_clock_that_is_set_is_said_for_a_while(ledger: Ledger) -> None:
    wall, passed = NOW, 0.0
    conditions = Conditions()
    beat = BeatDuty(ledger, "me", dict, conditions, clock=lambda: wall, monotonic=lambda: passed)

    def step(wall_by: float, passed_by: float) -> list[str]:
        nonlocal wall, passed
        wall += int(wall_by * SECOND)
        passed += passed_by
        beat.step()
        return list(conditions.now())

    assert step(5, 5) == []
    assert step(5 - 3600, 5) == ["clock"]
    assert "-3600 s" in conditions.now()["clock"].message
    assert step(300, 300) == ["clock"]
    assert step(900, 900) == []
    assert [one["process_id"] for one in ledger.processes()] == ["me"]


def test_old_spans_and_texts_are_forgotten_and_young_ones_stay(ledger: Ledger) -> None:
    now = NOW
    inbox = Inbox(ledger, clock=lambda: now)
    inbox.add(conversation("old"))
    for claim in inbox.claim("me", now=now, settle=0, cap=1, cap_spans=1, lease=SECOND, limit=9):
        list(inbox.records(claim, SECOND))
        inbox.finish(claim, dict.fromkeys(claim.traces, "key"))
    now += 10 * DAY
    inbox.add(conversation("young"))
    kept = len(conversation("young"))
    ledger.commit_unit(None, unit(finding(3)), [], [])
    conditions = Conditions()
    retention = RetentionDuty(
        inbox, ledger, RetentionSettings(span_days=7, record_days=0), conditions, clock=lambda: now
    )

    conditions.note("clock", "it jumped")
    retention.step()
    assert inbox.counts(now, settle=0, cap=1, cap_spans=1).spans == 2 * kept, "what an odd clock calls old stays"
    conditions.clear("clock")
    retention.step()

    assert inbox.counts(now, settle=0, cap=1, cap_spans=1).spans == kept
    assert ledger.forgettable(before=2**62), "0 = for ever"

    ten_years = RetentionSettings(span_days=0, record_days=7)
    RetentionDuty(inbox, ledger, ten_years, conditions, clock=lambda: 2**62).step()

    assert inbox.counts(now, settle=0, cap=1, cap_spans=1).spans == kept
    assert ledger.forgettable(before=2**62) == []
