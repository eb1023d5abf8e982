"""What the service's audits must do; run over SQLite by service/test_auditing.py and over PostgreSQL by servers/."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from audit_desk import (
    CALM,
    DAY,
    DRIFTING,
    ELSEWHERE,
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    SINK,
    AuditDeskContract,
    Desk,
    conversation,
    turn,
)
from captures import records_of
from otel_drift import pipeline
from otel_drift.errors import LedgerError, PermanentJudgeError, RetryableJudgeError
from otel_drift.inbox.tables import chunk
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.model import Session, Unit
from otel_drift.pipeline import RESULT_ID, Line
from otel_drift.sessions import build as sessions_build
from otel_drift.sessions.linking import Group
from otel_drift.telemetry import Telemetry
from otel_drift.testing import MemorySource


class AuditDutyContract(AuditDeskContract):
    """Subclasses give the fixture `place`, a path or URL of an empty ledger."""

    def test_settled_sessions_are_audited_once_and_owed_to_the_sinks_of_their_origin(self, desk: Desk) -> None:
        desk.inbox.add(conversation(1, DRIFTING))
        desk.work()
        assert desk.judge.asked == []  # still being written

        desk.receive(conversation(2), origin=ELSEWHERE).work().work()

        assert sorted(desk.judge.asked) == ["s1", "s2"]
        assert desk.results() == {"s1": "findings", "s2": "clean"}
        assert set(desk.owed(SINK)) == {"s1"}
        assert set(desk.owed(ELSEWHERE)) == {"s2"}
        assert (desk.counts().open, desk.counts().held) == (0, 0)

    def test_late_spans_open_a_session_again_and_the_new_result_replaces_the_old(self, desk: Desk) -> None:
        desk.receive(conversation(1, CALM)).work()
        assert desk.results() == {"s1": "clean"}

        desk.receive(turn(109, "s1", 3, "Returns take 90 days.")).work()

        assert desk.results() == {"s1": "findings"}
        assert [(one["outcome"], one["current"]) for one in desk.ledger.record()] == [
            ("clean", False), ("findings", True),
        ]  # fmt: skip
        assert desk.work().counts().open == 0
        assert len(desk.judge.asked) == 2

    def test_findings_are_counted_once_by_whatever_process_meets_them_again(self, desk: Desk) -> None:
        def counted(telemetry: Telemetry) -> float:
            return sum(float(n) for n in re.findall(rb"^otel_drift_findings_total{.*} (.*)$", telemetry.page(), re.M))

        desk.telemetry = Telemetry.open(desk.settings)
        desk.receive(conversation(1, DRIFTING)).work()
        assert counted(desk.telemetry) == 1
        desk.telemetry.close()

        later = Desk(desk.ledger, desk.clock, "two")
        later.telemetry = Telemetry.open(later.settings)
        later.receive(turn(109, "s1", 3, "Returns take 90 days.")).work()
        assert len(later.ledger.current_findings()) == 2
        assert counted(later.telemetry) == 1
        later.telemetry.close()

    def test_a_session_id_that_comes_late_retires_the_result_without_it(self, desk: Desk) -> None:
        pair = [("Question 1: how long do returns take?", "Returns take 30 days.")]
        spans = [
            *turn(101, None, 1, "Returns take 30 days."),
            *turn(102, None, 2, "Returns take 60 days.", history=pair),
        ]
        desk.receive(spans).work()
        assert list(desk.results().values()) == ["findings"]
        [(old, _)] = desk.results().items()
        desk.ledger.settle(SINK, _written(desk.ledger.owed(SINK, 100)))

        late = [replace(one, span_id=f"{900 + n:016x}", attributes={"session.id": "s1"}) for n, one in enumerate(spans)]
        desk.receive([one for one in late if one.parent_id is None]).work()

        assert desk.results() == {"s1": "findings", old: "not_applicable"}
        assert {one["session_id"] for one in desk.ledger.current_findings()} == {"s1"}
        gone = [one for one in desk.ledger.owed(SINK, 100) if one.withdrawn]
        assert not {one.id for one in gone if one.target == "span"}  # the same answers have the same finding
        assert desk.work().counts().open == 0

    def test_two_users_sessions_of_one_id_come_apart_when_the_users_are_known(self, desk: Desk) -> None:
        first, second = turn(101, "1", 1), turn(102, "1", 2, "Returns take 60 days.")
        desk.receive([*first, *second]).work()
        assert list(desk.results().values()) == ["findings"]

        users = [
            replace(spans[0], span_id=f"{900 + n:016x}", attributes={"user.id": user})
            for n, (spans, user) in enumerate(((first, "ada"), (second, "bob")))
        ]
        desk.receive(users).work()

        assert desk.ledger.current_findings() == []
        reasons = {one["session_key"]: one["reason"] for one in desk.ledger.record() if one["current"]}
        assert sorted(reasons.values()) == ["session_changed", "single_turn", "single_turn"]

    def test_what_is_not_asked_for_is_finished_and_counted(self, desk: Desk) -> None:
        desk.told(pull={"min_turns": 2, "flagged": ["feedback"]}, run={"sample": 1.0})
        complaint = turn(301, "s3", 1, attributes={"user.feedback": "thumbs: down"})
        desk.receive(conversation(1), turn(201, "s2", 1), complaint).work()

        assert desk.judge.asked == ["s1"]
        assert desk.results() == {"s1": "clean", "s3": "not_applicable"}
        assert desk.duty.done == {"clean": 1, "few_turns": 1, "not_applicable": 1}
        assert desk.counts().open == 0

    def test_a_sample_is_audited_and_the_rest_is_finished(self, desk: Desk) -> None:
        desk.line.sample = 0.5
        desk.receive(*(conversation(number) for number in range(20))).work()
        assert 0 < len(desk.judge.asked) < 20
        assert desk.duty.done["not_sampled"] == 20 - len(desk.judge.asked)
        assert desk.counts().open == 0

    def test_what_was_audited_of_a_place_is_not_rebuilt_for_what_comes_beside_it(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.receive(*(conversation(one, name=None, at=NOON - one * 10 * MINUTE) for one in range(1, 6))).work()
        rebuilt: list[str] = []

        def build(group: Group, *given: Any) -> Session | None:
            rebuilt.extend(group.traces)
            return sessions_build.build(group, *given)

        monkeypatch.setattr(import_module("otel_drift.sessions.reconstruct"), "build", build)
        new = conversation(9, name=None)
        desk.receive(new).work()

        assert sorted(rebuilt) == sorted({span.trace_id for span in new})
        assert desk.counts().open == 0

    def test_only_what_is_due_of_sessions_without_an_id_is_audited(self, desk: Desk) -> None:
        old = conversation(1, name=None)
        desk.receive(old[:3], old[3:])
        desk.inbox.add(conversation(2, name=None, at=desk.clock.now - 10 * HOUR))
        desk.work()
        settled = len(desk.judge.asked) + len(desk.results())
        desk.clock.later(HOUR)
        desk.work()
        assert len(desk.judge.asked) + len(desk.results()) > settled
        assert desk.counts().open == 0

    # --- the judge ---

    def test_a_judge_that_is_down_loses_nothing_and_is_asked_ever_more_rarely(self, desk: Desk) -> None:
        desk.judge.fails = lambda name: RetryableJudgeError("down", reason="transport")
        desk.receive(*(conversation(number) for number in range(6)))
        desk.duty.step()
        assert (desk.results(), "judge" in desk.notes.now) == ({}, True)
        tried = len(desk.judge.asked)

        pauses = []
        for _ in range(12):
            before = len(desk.judge.asked)
            begun = desk.clock.now
            while len(desk.judge.asked) == before:
                desk.clock.later(SECOND)
                desk.duty.step()
            pauses.append((desk.clock.now - begun) // SECOND)
            assert len(desk.judge.asked) == before + 1
        assert tried <= 6
        assert pauses[-1] > 60
        assert max(pauses) < 400
        assert [*desk.ledger.record()] == []

        desk.judge.fails = lambda name: None
        desk.clock.later(HOUR)
        desk.work()
        assert Counter(desk.results().values()) == {"clean": 6}
        assert (desk.notes.now, desk.counts().open) == ({}, 0)

    def test_a_judge_that_was_set_right_is_asked_at_once_after_a_restart(self, desk: Desk) -> None:
        desk.judge.fails = lambda name: RetryableJudgeError("down", reason="transport")
        desk.receive(conversation(1))
        desk.duty.step()
        assert (desk.results(), desk.counts().put_off) == ({}, {"judge": 1})

        desk.judge.fails = lambda name: None
        desk.told().duty.step()
        assert list(desk.results().values()) == ["clean"]

    def test_a_session_that_only_the_judge_cannot_take_waits_alone(self, desk: Desk) -> None:
        desk.judge.fails = lambda name: RetryableJudgeError("slow", reason="timeout") if name == "s1" else None
        desk.receive(*(conversation(number) for number in range(5))).work()

        assert desk.results() == {"s0": "clean", "s2": "clean", "s3": "clean", "s4": "clean"}
        assert desk.counts().put_off == {"judge": 1}
        assert "judge" not in desk.notes.now

    def test_one_session_of_a_place_that_the_judge_cannot_take_keeps_no_other_waiting(self, desk: Desk) -> None:
        bad = f"{101:032x}"
        desk.judge.fails = lambda name: RetryableJudgeError("slow", reason="timeout") if name == bad else None
        seen = 0
        for number in range(1, 12):
            first = f"Returns take {number}0 days."
            pair = [("Question 1: how long do returns take?", first)]
            talk = [
                *turn(number * 100 + 1, None, 1, first),
                *turn(number * 100 + 2, None, 2, f"Yes, {number}0 days.", history=pair),
            ]
            desk.receive(talk)
            for _ in range(4):  # where it alone is asked, the judge may be down
                desk.work().clock.later(5 * SECOND)
            assert len(desk.results()) == number - 1
            assert desk.counts().put_off == {"judge": 1}
            seen = desk.judge.asked.count(bad)
        assert 3 < seen < 12  # ever more rarely
        desk.clock.later(80 * HOUR)
        desk.work()
        assert len(desk.results()) == 11
        assert desk.counts().open == 0

    def test_what_does_not_pass_is_a_result(self, desk: Desk) -> None:
        desk.judge.fails = lambda name: PermanentJudgeError("no", reason="content_filter")
        desk.receive(conversation(1)).work()
        assert desk.results() == {"s1": "inconclusive"}
        assert desk.counts().open == 0

    def test_what_waited_too_long_gets_the_embedded_judge(self, desk: Desk) -> None:
        desk.told(budget={"longest_wait_hours": 5.0})
        desk.judge.fails = lambda name: RetryableJudgeError("down", reason="overloaded")
        desk.receive(conversation(1, DRIFTING))
        while not desk.results():
            desk.clock.later(10 * MINUTE)
            desk.duty.step()
        assert desk.results()["s1"].endswith(" (rules)")
        assert 5 * HOUR < desk.clock.now - NOON < 7 * HOUR
        assert desk.duty.done["embedded_instead"] == 1
        assert desk.counts().open == 0

    # --- stopping, failing, sharing ---

    def test_a_stop_finishes_what_is_asked_and_hands_back_the_rest(self, desk: Desk) -> None:
        desk.line.workers = 2
        under_way = threading.Semaphore(0)
        go_on = threading.Event()

        def wait(name: str) -> None:
            under_way.release()
            assert go_on.wait(60)

        desk.judge.while_asked = wait
        desk.receive(*(conversation(number) for number in range(8)))
        with ThreadPoolExecutor(1) as pool:
            stepping = pool.submit(desk.duty.step)
            assert under_way.acquire(timeout=60)
            assert under_way.acquire(timeout=60)
            desk.duty.stop()
            go_on.set()
            stepping.result(60)

        assert len(desk.judge.asked) == 2
        assert set(desk.results().values()) == {"clean"}
        assert len(desk.results()) == 2
        assert (desk.counts().held, desk.counts().open, desk.counts().put_off) == (0, 6, {})
        assert desk.duty.step() is False
        [run] = desk.ledger.runs()
        assert run["totals"]["outcomes"] == {"clean": 2}

        again = Desk(desk.ledger, desk.clock, owner="two")
        again.work()
        assert len(again.judge.asked) == 6
        assert set(again.results().values()) == {"clean"}
        assert len(again.results()) == 8

    def test_a_stop_within_a_session_leaves_no_result_of_it(self, desk: Desk) -> None:
        desk.receive(conversation(1))

        def stop(name: str) -> None:
            desk.duty.stop()

        desk.judge.while_asked = stop
        desk.judge.fails = lambda name: RetryableJudgeError("broken off", reason="transport")
        desk.duty.step()
        assert desk.results() == {}
        assert (desk.counts().held, desk.counts().open) == (0, 1)

    def test_a_lease_is_renewed_while_the_judge_thinks(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        desk.told(serve={"lease_seconds": 0.03})
        renewed = threading.Semaphore(0)
        real = desk.inbox.renew

        def renew(*arguments: Any) -> set[str]:
            desk.clock.later(20 * SECOND // 1000)
            lost = real(*arguments)
            renewed.release()
            return lost

        monkeypatch.setattr(desk.inbox, "renew", renew)
        other = Desk(desk.ledger, desk.clock, owner="two")

        def wait(name: str) -> None:
            for _ in range(4):
                assert renewed.acquire(timeout=60)
            assert other.duty.step() is False

        desk.judge.while_asked = wait
        desk.receive(conversation(1)).duty.step()
        assert (desk.judge.asked, other.judge.asked) == (["s1"], [])
        assert desk.results() == {"s1": "clean"}

    def test_two_processes_audit_nothing_twice(self, place: str, desk: Desk) -> None:
        desk.told(budget={"calls_per_day": 1000})
        desk.receive(*(conversation(number) for number in range(40)))
        with Ledger.open(place) as second:
            other = Desk(second, desk.clock, owner="two").told(budget={"calls_per_day": 1000})
            for one in (desk, other):
                one.line.workers = 3
            start = threading.Barrier(2)

            def work(one: Desk) -> None:
                start.wait(60)
                one.work(1000)

            with ThreadPoolExecutor(2) as pool:
                list(pool.map(work, (desk, other)))
            desk.work()
            asked = [*desk.judge.asked, *other.judge.asked]
        assert sorted(asked) == sorted(f"s{number}" for number in range(40))
        assert len(list(desk.ledger.record())) == 40
        assert desk.counts().open == 0

    def test_a_ledger_that_fails_ends_the_step_and_nothing_is_lost(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.receive(conversation(1), conversation(2), conversation(3))

        def fails(*_: Any, **__: Any) -> None:
            raise LedgerError("the disk is full")

        for name in ("remember", "find_unit", "commit_unit"):
            with monkeypatch.context() as broken:
                broken.setattr(desk.ledger, name, fails)
                with pytest.raises(LedgerError):
                    desk.duty.step()
            assert desk.results() == {}
            assert desk.counts().held == 0
            desk.clock.later(HOUR)
        desk.work()
        assert set(desk.results().values()) == {"clean"}
        assert len(desk.results()) == 3
        assert len(set(desk.judge.asked)) == 3

    def test_one_bad_session_stops_no_other_and_is_given_up_at_last(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever goes wrong: reading it, redacting it, or committing it."""
        real = desk.inbox.records
        monkeypatch.setattr(
            desk.inbox,
            "records",
            lambda claim, gap: real(claim, gap) if claim.session_id != "s1" else iter([object()]),
        )
        committed = desk.ledger.commit_unit

        def commit(run_id: Any, unit: Any, *rest: Any, **options: Any) -> Any:
            if unit.session.session_id == "s2":
                raise RuntimeError("a fault of ours")
            return committed(run_id, unit, *rest, **options)

        monkeypatch.setattr(desk.ledger, "commit_unit", commit)

        def redact(text: str) -> str:
            if "thirteen" in text:
                raise ValueError("a fault of theirs")
            return text

        desk.line.redact = redact
        desk.receive(conversation(1), conversation(2), conversation(3, ("thirteen", "thirteen")), conversation(4))
        desk.work()
        assert desk.results() == {"s3": "inconclusive", "s4": "clean"}
        assert desk.counts().put_off == {"error": 2}
        for _ in range(20):
            desk.clock.later(HOUR)
            desk.work()
        assert desk.duty.done["failed"] == 2
        assert (desk.counts().open, desk.results()) == (0, {"s3": "inconclusive", "s4": "clean"})

    def test_a_session_that_is_deleted_while_it_is_judged_leaves_nothing(self, desk: Desk) -> None:
        """Whoever asked for the deletion was told that it is done: no result, no answer, and nothing for the sinks."""

        def delete(session: str) -> None:
            if session == "s1":
                desk.ledger.forget(session=session)
                desk.inbox.forget(session=session)

        desk.judge.while_asked = delete
        desk.receive(conversation(1, DRIFTING), conversation(2, DRIFTING)).work()
        assert sorted(desk.judge.asked) == ["s1", "s2"]
        assert set(desk.owed(SINK)) == {"s2"}
        assert [one["session_id"] for one in desk.ledger.record() if not one["erased"]] == ["s2"]
        assert desk.ledger.forget(session="s1")["results"] == 0
        assert desk.counts().open == 0

    def test_what_is_damaged_in_the_database_stops_no_other(self, desk: Desk) -> None:
        desk.receive(conversation(1), conversation(2))
        with desk.ledger.database.writing() as connection:
            connection.execute(sa.update(chunk).values(payload=b"damaged"))
        desk.receive(conversation(3), conversation(4))
        for _ in range(5):
            with suppress(LedgerError):
                desk.duty.step()
        assert desk.results() == {"s3": "clean", "s4": "clean"}
        assert desk.counts().put_off == {"error": 2}

    @pytest.mark.parametrize("named", [True, False])
    def test_a_session_that_cannot_be_judged_at_all_stops_no_other_and_is_given_up(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, named: bool
    ) -> None:
        judge_session = pipeline.judge_session

        def judged(session: Session, line: Line) -> list[Unit]:
            if f"{101:032x}" in session.trace_ids:
                raise RecursionError("a fault of ours")
            return judge_session(session, line)

        monkeypatch.setattr(pipeline, "judge_session", judged)
        desk.receive(*(conversation(number, name="" if named else None) for number in range(4)))
        desk.work()
        others = 3 if named else 7  # of traces without an id each is a session
        assert (len(desk.results()), desk.counts().put_off) == (others, {"error": 1})
        for _ in range(20):
            desk.clock.later(HOUR)
            desk.work()
        assert desk.duty.done["failed"] == 1
        assert (desk.counts().open, len(desk.results())) == (0, others)

    @pytest.mark.parametrize("name", ["find_unit", "remember", "commit_unit", "earlier_keys"])
    def test_a_session_that_the_ledger_always_refuses_stops_no_other(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        def refuses(real: Any, error: Exception, about: str = "'s1'") -> Any:
            def call(*given: Any, **options: Any) -> Any:
                if any(about in repr(one) for one in given):
                    raise error
                return real(*given, **options)

            return call

        if name == "earlier_keys":
            fault = RuntimeError("a fault of ours")
            monkeypatch.setattr(desk.inbox, name, refuses(desk.inbox.earlier_keys, fault, f"{101:032x}"))
        else:
            monkeypatch.setattr(desk.ledger, name, refuses(getattr(desk.ledger, name), LedgerError("no")))
        desk.receive(*(conversation(number) for number in range(4)))
        for _ in range(10):
            with suppress(LedgerError):
                desk.duty.step()
        found = desk.results()
        assert {name: found[name] for name in ("s0", "s2", "s3")} == {"s0": "clean", "s2": "clean", "s3": "clean"}
        assert desk.counts().put_off == {"error": 1}

    def test_our_own_output_is_not_audited(self, desk: Desk) -> None:
        desk.receive(conversation(1, DRIFTING)).work()
        [known] = [
            one.id for one in desk.ledger.owed(SINK, 100) if one.target == "session" and one.name == "factual_drift"
        ]
        asked = len(desk.judge.asked)
        spans = [
            replace(
                one, span_id=f"{800 + n:016x}", attributes={**one.attributes, RESULT_ID: known, "output.value": "x"}
            )
            for n, one in enumerate(turn(101, "s1", 1))
        ]
        desk.receive(spans, [replace(one, trace_id=f"{77:032x}") for one in spans]).work()
        assert len(desk.judge.asked) == asked
        assert desk.results() == {"s1": "findings"}
        assert desk.counts().open == 0

    def test_each_day_of_a_process_is_a_run(self, desk: Desk) -> None:
        desk.receive(conversation(1)).work()
        desk.clock.later(DAY)
        desk.receive(conversation(2, DRIFTING), turn(301, "s3", 1)).work()
        desk.duty.stop()
        first, second = desk.ledger.runs()
        assert (first["description"]["day"], second["description"]["day"]) == ("2026-11-30", "2026-12-01")
        assert (first["totals"]["outcomes"], first["units"]) == ({"clean": 1}, 1)
        assert second["totals"]["outcomes"] == {"findings": 1, "not_applicable": 1}
        assert second["totals"]["calls"] == 1

    @pytest.mark.parametrize("name", ["openinference-openai/cloudlimits-nosession", "openlit-openai/telecom-chroma"])
    def test_captures_have_the_results_of_a_batch(self, desk: Desk, shared: Path, name: str) -> None:
        records = list(records_of(shared, name))
        desk.line.judge = RulesJudge()  # type: ignore[assignment]
        with Ledger.open(":memory:") as ledger:
            batch = replace(desk.line, ledger=ledger)
            source = MemorySource(records)  # type: ignore[arg-type]
            expected = sorted((unit.unit_id, unit.outcome, unit.severity) for unit in pipeline.audit(source, batch))
        desk.receive(*([one] for one in records)).work()
        found = [(one["unit_id"], one["outcome"], one["severity"]) for one in desk.ledger.record()]
        assert sorted(found) == expected
        assert expected


def _written(handed: Sequence[Any]) -> Any:
    from otel_drift.model import WriteReport

    return WriteReport(written=tuple(one.id for one in handed))
