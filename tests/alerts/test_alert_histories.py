"""Whatever happens in whatever order: once all is well again, exactly what stands in the ledger fires."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from alerting import Desk, KilledError, Remembering, critical, result
from otel_drift.errors import ConfigError
from otel_drift.ledger import Ledger

EVENTS = {1: (11, 12), 2: (21, 22)}
"""The findings a session may have."""
SESSIONS = st.sampled_from(sorted(EVENTS))
NUMBERS = st.sampled_from([number for numbers in EVENTS.values() for number in numbers])


class Histories(RuleBasedStateMachine):
    """Results, people, faults and time; beside them what ought to fire."""

    empty: Path | None = None

    @initialize(repeats=st.booleans(), group=st.sampled_from([0, 10_000_000_000]))
    def start(self, repeats: bool, group: int) -> None:
        folder = Path(tempfile.mkdtemp(prefix="otel-drift-alerts-"))
        self.folder, file = folder, folder / "ledger.sqlite3"
        if Histories.empty is None:
            Histories.empty = Path(tempfile.mkdtemp(prefix="otel-drift-alerts-")) / "empty.sqlite3"
            Ledger.open(Histories.empty).close()
        shutil.copy(Histories.empty, file)
        self.alerter = Remembering(repeats=repeats)
        self.desk = Desk(file, self.alerter, pace={"group": group, "per_hour": 3600})
        self.count = 0
        self.found: dict[int, dict[int, str]] = {}
        self.verdicts: dict[int, str] = {}
        self.mutes: dict[int, int] = {}

    @rule(session=SESSIONS, severities=st.lists(st.sampled_from(["CRITICAL", "MAJOR", ""]), min_size=2, max_size=2))
    def audited(self, session: int, severities: list[str]) -> None:
        found = {number: severity for number, severity in zip(EVENTS[session], severities, strict=True) if severity}
        findings = [
            critical(number, severity=severity, quotes=(f"claim {number}",)) for number, severity in found.items()
        ]
        self._commit(session, findings)
        self.found[session] = found

    @rule(session=SESSIONS)
    def judge_down(self, session: int) -> None:
        self._commit(session, [], outcome="inconclusive")

    @rule(session=SESSIONS)
    def forgotten(self, session: int) -> None:
        self.desk.ledger.forget(session=f"s{session}")
        self.found.pop(session, None)

    @rule(number=NUMBERS, decision=st.sampled_from(["rejected", "confirmed"]))
    def reviewed(self, number: int, decision: Any) -> None:
        try:
            self.desk.ledger.resolve(f"event-{number}", decision, by="Ann", why="so")
        except ConfigError:
            return
        self.verdicts[number] = decision

    @rule(number=NUMBERS)
    def muted(self, number: int) -> None:
        if number in self.mutes:
            self.desk.ledger.unmute(self.mutes.pop(number))
            return
        try:
            self.mutes[number] = self.desk.ledger.mute(f"event-{number}", why="known")["mute_id"]
        except ConfigError:
            return

    @rule(down=st.booleans())
    def receiver(self, down: bool) -> None:
        self.alerter.down = down

    @rule(seconds=st.sampled_from([1, 7, 61, 600]))
    def step(self, seconds: int) -> None:
        self.desk.step(seconds)

    @rule(kills=st.sampled_from(["before", "after"]))
    def killed(self, kills: str) -> None:
        self.alerter.kills = kills
        try:
            self.desk.step(11)
        except KilledError:
            self.desk.restart()
        finally:
            self.alerter.kills = ""

    @rule()
    def restarted(self) -> None:
        self.desk.restart()

    @invariant()
    def nothing_fires_that_never_was_found(self) -> None:
        assert {one.event_id for group in self.alerter.told for one in group} <= {
            f"event-{number}" for numbers in EVENTS.values() for number in numbers
        }

    def teardown(self) -> None:
        if not hasattr(self, "desk"):
            return
        self.alerter.down = False
        self.desk.step(400)
        self.desk.step(400)
        firing = {
            f"event-{number}"
            for found in self.found.values()
            for number, severity in found.items()
            if severity == "CRITICAL" and self.verdicts.get(number) != "rejected" and number not in self.mutes
        }
        told = {one.key: one for group in self.alerter.told for one in group}
        try:
            assert {one.event_id for one in told.values() if one.state == "firing"} == firing
            assert len({one.event_id for one in told.values()}) == len(told), "an event has one key"
            count = len(self.alerter.told)
            self.desk.step(1)
            assert len(self.alerter.told) == count, "at rest nothing more is told"
        finally:
            self.desk.close()
            shutil.rmtree(self.folder)

    def _commit(self, session: int, findings: list[Any], **changes: Any) -> None:
        self.count += 1
        self.desk.commit(result(session, *findings, print_=str(self.count), **changes))


TestHistories = Histories.TestCase
SOAK = bool(os.environ.get("OTEL_DRIFT_SOAK"))
TestHistories.settings = settings(
    max_examples=400 if SOAK else 8, stateful_step_count=40 if SOAK else 20, deadline=None, derandomize=not SOAK
)
