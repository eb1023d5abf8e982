"""However records come and whatever fails meanwhile, in the end the ledger holds what a batch over all would."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from audit_desk import CALM, DRIFTING, HOUR, MINUTE, SINK, Desk, conversation, turn
from otel_drift import pipeline
from otel_drift.errors import JudgeError, RetryableJudgeError
from otel_drift.ledger import Ledger
from otel_drift.model import Span, WriteReport
from otel_drift.testing import MemorySink, MemorySource


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Ledger.open(tmp_path / "ledger.sqlite3") as ledger:
        yield Desk(ledger)


def records(rng: random.Random) -> list[Span]:
    """Sessions with an id, without, with one that stands in a late span only, and one id of two users."""
    spans = conversation(1, CALM) + conversation(2, DRIFTING) + conversation(3, (*DRIFTING, *CALM))
    talk = [("Question 1: how long do returns take?", "Returns take 45 days.")]
    spans += turn(401, None, 1, "Returns take 45 days.") + turn(402, None, 2, "Returns take 50 days.", history=talk)
    late = turn(501, None, 1, "Returns take 70 days.") + turn(502, None, 2, "Returns take 80 days.")
    spans += late + [
        replace(one, span_id=f"{9000 + n:016x}", attributes={"session.id": "s5"})
        for n, one in enumerate(late)
        if one.parent_id is None
    ]
    for n, user in enumerate(("ada", "bob")):
        own = conversation(6 + n, DRIFTING if n else CALM, name="shared")
        spans += [*own, replace(own[0], span_id=f"{9900 + n:016x}", attributes={"user.id": user})]
        spans += [replace(own[3], span_id=f"{9950 + n:016x}", attributes={"user.id": user})]
    rng.shuffle(spans)
    return spans


@pytest.mark.parametrize("seed", range(8))
def test_in_the_end_the_results_are_those_of_a_batch(desk: Desk, seed: int) -> None:
    rng = random.Random(seed)
    spans = records(rng)
    limits = {"calls_per_day": 3, "high_risk": ["feedback"]} if seed % 3 == 0 else {}
    over = {"over": "wait", "longest_wait_hours": 1e6}
    sink = MemorySink(SINK)

    def deliver() -> None:
        owed = desk.ledger.owed(SINK, 1000)
        desk.ledger.settle(SINK, sink.write(owed) if owed else WriteReport())

    def fails(name: str) -> JudgeError | None:
        return RetryableJudgeError("now and then", reason="transport") if rng.random() < 0.3 else None

    desk.judge.fails = fails
    desk.told(budget={**limits, **over})
    waiting = list(spans)
    while waiting:
        count = rng.randint(1, 8)
        desk.inbox.add(waiting[:count])
        del waiting[:count]
        desk.clock.later(rng.randint(1, 25) * MINUTE)
        for _ in range(rng.randint(0, 3)):
            desk.duty.step()
        if rng.random() < 0.3:
            deliver()
        if rng.random() < 0.1:  # another process goes on
            desk.duty.stop()
            desk.told(budget={**limits, **over})

    desk.judge.fails = lambda name: None
    for _ in range(300):
        desk.clock.later(HOUR)
        desk.work()
        if desk.counts().open == 0:
            break
    deliver()

    with Ledger.open(":memory:") as ledger:
        batch = replace(desk.line, ledger=ledger)
        expected = {
            unit.unit_id: (unit.session.key, unit.outcome, unit.severity)
            for unit in pipeline.audit(MemorySource(spans), batch)
        }
        said = {one.id: one.label for one in ledger.owed(SINK, 1000)}
    found = {
        one["unit_id"]: (one["session_key"], one["outcome"], one["severity"])
        for one in desk.ledger.record()
        if one["current"] and one["reason"] != "session_changed"
    }
    assert found == expected
    assert {one.id: one.label for one in sink.values.values()} == said
    assert len({key for key, _, _ in expected.values()}) == 7
