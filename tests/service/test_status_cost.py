"""What is said of a service costs the same however much was audited, delivered and told before."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from otel_drift.config import Settings
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.ledger import schema as tables
from otel_drift.service.status import status
from otel_drift.times import DAY

SINKS = ("jsonl:here", "phoenix:there", "tempo:nowhere")
OWED = 4


def filled(file: Path, number: int) -> Ledger:
    """A ledger of which all but `OWED` values were delivered, and all alerts resolved, two days ago."""
    ledger = Ledger.open(file)
    then = time.time_ns() - 2 * DAY
    verdict = {"fingerprint": "", "current": True, "audit": "factual_drift", "outcome": "clean", "severity": "NONE"}
    spent = {"body_sha256": "", "calls": 1, "input_tokens": 1, "output_tokens": 1, "created": then}
    says = {"current": True, "withdrawn": False, "content_sha256": "", "body": "{}", "created": then}
    told = {"body": "{}", "started": then, "ended": then, "told": then, "told_state": "resolved"}
    units, annotations, deliveries, alerts = [], [], [], []
    for n in range(number):
        unit_id, annotation_id = f"unit-{n}", f"says-{n}"
        units.append({"unit_id": unit_id, "session_key": f"session-{n}", **verdict, **spent})
        annotations.append({"annotation_id": annotation_id, "revision": 1, "unit_id": unit_id, **says})
        alerts.append(
            {"alerter": "webhook:x", "alert_key": unit_id, "unit_id": unit_id, "result_id": n, "state": "resolved"}
            | told
        )
        value = {"annotation_id": annotation_id, "attempts": 1}
        done = {"revision": 1, "state": "written", "settled": then, "reason": None}
        deliveries += [{**value, **done, "sink": sink} for sink in SINKS]
        if n < OWED:
            owed = {"revision": 2, "state": "owed", "settled": None, "reason": "not there"}
            deliveries.append({**value, **owed, "sink": SINKS[1]})
    alerter = {"alerter": "webhook:x", "since": then, "seen": 0, "sent": "[]", "failures": 0, "refusals": 0}
    with ledger.database.writing() as connection:
        for table, rows in (
            (tables.unit, units),
            (tables.annotation, annotations),
            (tables.delivery, deliveries),
            (tables.alert, alerts),
            (tables.alerter, [alerter]),
        ):
            connection.execute(sa.insert(table), rows)
    return ledger


def steps(ledger: Ledger, ask: Callable[[], object]) -> int:
    """How many instructions the database runs to answer."""
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    def watched(connection: Any, _record: object, _proxy: object) -> None:
        connection.set_progress_handler(step, 1)

    engine = ledger.database._engine
    sa.event.listen(engine, "checkout", watched)
    try:
        ask()
    finally:
        sa.event.remove(engine, "checkout", watched)
    return taken


def test_a_scrape_and_a_status_read_what_is_open_and_no_history(tmp_path: Path) -> None:
    asked: dict[int, list[int]] = {}
    for number in (OWED, 1_000):
        with filled(tmp_path / f"ledger-{number}", number) as ledger:
            now = time.time_ns()
            asked[number] = [
                steps(ledger, ledger.delivery_lags),
                steps(ledger, lambda: ledger.delivery_counts(now)),  # noqa: B023  (called at once)
                steps(ledger, lambda: status(ledger, Inbox(ledger), Settings(), now)),  # noqa: B023
            ]
    few, many = asked.values()
    assert all(few)
    assert [many[at] - few[at] < 20 for at in range(3)] == [True] * 3, asked


def test_a_status_tells_what_is_owed_and_what_was_delivered_today(tmp_path: Path) -> None:
    with filled(tmp_path / "ledger", 10) as ledger:
        now = time.time_ns()
        with ledger.database.writing() as connection:
            connection.execute(
                sa.update(tables.delivery)
                .where(tables.delivery.c.annotation_id.in_(("says-8", "says-9")))
                .values(settled=now)
            )
        told = status(ledger, Inbox(ledger), Settings(), now)

    jsonl, phoenix, tempo = (told["sinks"][name] for name in SINKS)
    nothing = {"oldest_owed_seconds": None, "put_off": 0}
    assert jsonl == tempo == {"written": 2, **nothing}
    assert phoenix["owed"] == phoenix["put_off"] == OWED
    assert phoenix["written"] == 2
    alerts = told["alerts"]["webhook:x"]
    assert (alerts["waiting"], alerts["waiting_since"]) == (0, None)
