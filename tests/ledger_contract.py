"""What every ledger must do; run over SQLite by test_ledger.py and over PostgreSQL by servers/test_postgres.py."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ledger_samples import ANSWER, PROMPT, TASK, annotation, conflicting, finding, session, unit
from otel_drift import findings
from otel_drift.delivery import deliver
from otel_drift.errors import LedgerError
from otel_drift.ledger import Ledger
from otel_drift.model import Annotation, Attempt, Rejection, Unit, WriteReport
from otel_drift.redaction import opaque

WORKER = Path(__file__).with_name("ledger_worker.py")
SINK = "jsonl:here"


def commit(ledger: Ledger, one: Unit, sinks: tuple[str, ...] = (SINK,), **options: Any) -> None:
    ledger.commit_unit(None, one, findings.annotations(one), sinks, **options)


def rows(ledger: Ledger, sql: str) -> list[Any]:
    with ledger._database.reading() as connection:
        return list(connection.execute(sa.text(sql)))


def take(ledger: Ledger, sink: str = SINK) -> list[Annotation]:
    """Everything a sink is owed, settled as written."""
    taken = ledger.owed(sink, 1000)
    ledger.settle(sink, WriteReport(written=tuple(one.id for one in taken)))
    return taken


class LedgerContract:
    """Subclasses give the fixture `place`, a path or URL of an empty ledger."""

    @pytest.fixture
    def place(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def ledger(self, place: str) -> Iterator[Ledger]:
        with Ledger.open(place) as opened:
            yield opened

    # --- units ---

    def test_a_committed_unit_is_found_by_exactly_its_fingerprint(self, place: str, ledger: Ledger) -> None:
        made = unit(finding(3), finding(4, type="DROPPED_QUALIFICATION", severity="MINOR", earlier_turn=None))
        commit(ledger, made)
        now = session(turns=4)

        with Ledger.open(place) as again:
            found = again.find_unit("unit-1", "fingerprint-1", now)
            other = again.find_unit("unit-1", "fingerprint-2", now), again.find_unit("unit-2", "fingerprint-1", now)

        expected = replace(made, calls=0, input_tokens=0, output_tokens=0, cost=0.0, attempts=())
        assert expected == found
        assert found is not None
        assert now is found.session
        assert other == (None, None)

    def test_every_attempt_is_kept_with_prompt_errors_answer_and_usage(self, ledger: Ledger) -> None:
        run_id = ledger.begin_run({"paths": ["x.json"]})
        attempts = (
            Attempt("session", 1, PROMPT, "key-1", None, ("timeout: RetryableJudgeError",), False, TASK.messages),
            Attempt("session", 1, PROMPT, "key-2", ANSWER, ("quote not found",), False, TASK.messages),
            Attempt("session", 2, PROMPT, "key-3", replace(ANSWER, text="[]"), (), True, TASK.messages),
        )
        ledger.commit_unit(run_id, unit(attempts=attempts), (), ())
        ledger.end_run(run_id, {"units": 1})

        kept = rows(
            ledger,
            "SELECT a.number, a.cache_key, a.cached, a.errors, a.answer IS NULL, a.model, a.input_tokens, a.cost,"
            " a.prompt_id, u.run_id FROM otel_drift_attempt a JOIN otel_drift_unit u USING (result_id)"
            " ORDER BY attempt_id",
        )

        prompt = PROMPT.id
        assert [
            (1, "key-1", False, '["timeout: RetryableJudgeError"]', True, None, 0, None, prompt, run_id),
            (1, "key-2", False, '["quote not found"]', False, "model-2026", 900, 0.0123, prompt, run_id),
            (2, "key-3", True, "[]", False, "model-2026", 900, 0.0123, prompt, run_id),
        ] == [tuple(row) for row in kept]
        assert len(rows(ledger, "SELECT 1 FROM otel_drift_run WHERE ended IS NOT NULL")) == 1

    def test_a_new_result_supersedes_the_old_and_history_is_kept(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        commit(ledger, unit(content_sha256="fingerprint-2"))

        assert ledger.find_unit("unit-1", "fingerprint-1", session()) is None
        assert ledger.find_unit("unit-1", "fingerprint-2", session()) is not None
        assert [
            tuple(row) for row in rows(ledger, "SELECT fingerprint, current FROM otel_drift_unit ORDER BY result_id")
        ] == [("fingerprint-1", False), ("fingerprint-2", True)]

    def test_what_was_found_before_is_known_until_it_is_graver(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3), finding(4)))
        commit(ledger, unit(finding(4), content_sha256="fingerprint-2"))  # the other one vanished
        again = unit(finding(3), finding(4, severity="CRITICAL"), finding(5), content_sha256="fingerprint-3")

        assert ledger.found_before(again) == {"event-3"}
        assert ledger.found_before(unit()) == set()

    def test_a_session_that_is_none_any_more_has_no_result_and_its_values_are_withdrawn(self, ledger: Ledger) -> None:
        run_id = ledger.begin_run({})
        old = unit(finding(3))
        other = replace(unit(finding(3)), unit_id="unit-2", session=session(key="shop|s2", session_id="s2"))
        for one in (old, other):
            ledger.commit_unit(run_id, one, findings.annotations(one), (SINK,))
        said = {one.id for one in take(ledger)}

        assert ledger.retire_session(old.session.key, run_id) == 1
        assert ledger.retire_session(old.session.key, run_id) == 0

        gone = take(ledger)
        kept = {one.id for one in findings.annotations(other)}
        assert {one.id for one in gone if one.withdrawn} == said - kept
        assert {one.metadata["unit_id"] for one in gone if not one.withdrawn} <= {"unit-2"}
        assert ledger.find_unit("unit-1", "fingerprint-1", old.session) is None
        assert ledger.find_unit("unit-2", "fingerprint-1", other.session) is not None
        assert [(one["outcome"], len(one["findings"])) for one in ledger.members(run_id)] == [
            ("findings", 1), ("not_applicable", 0),
        ]  # fmt: skip
        assert {one["session_key"] for one in ledger.current_findings()} == {other.session.key}
        assert [row[0] for row in rows(ledger, "SELECT reason FROM otel_drift_unit ORDER BY result_id")] == [
            None, None, "session_changed",
        ]  # fmt: skip

        commit(ledger, old)  # its traces came apart again
        assert {one.id for one in take(ledger) if not one.withdrawn} >= said - kept
        assert ledger.find_unit("unit-1", "fingerprint-1", old.session) is not None

    def test_a_retired_session_asks_nobody_any_more_and_verdicts_stay(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3), finding(4)))
        decided, open_ = sorted(one["item_id"] for one in ledger.review_items())
        ledger.resolve(decided, "rejected", by="Ada", why="both are right")

        ledger.retire_session("shop|s1")

        assert {one["item_id"]: one["status"] for one in ledger.review_items(("rejected", "withdrawn"))} == {
            decided: "rejected",
            open_: "withdrawn",
        }
        assert not any(not one.withdrawn for one in take(ledger))

    def test_a_retired_session_may_have_been_redacted_or_erased(self, ledger: Ledger) -> None:
        hidden = replace(session(), key=opaque("shop|ada@x.example"))
        commit(ledger, unit(finding(3), session=hidden))
        commit(ledger, replace(unit(finding(4)), unit_id="unit-2"))
        take(ledger)
        ledger.forget(session="s1")
        take(ledger)

        assert ledger.retire_session("shop|ada@x.example") == 1
        assert ledger.retire_session("shop|s1") == 1
        assert ledger.current_findings() == []
        taken = take(ledger)
        assert taken
        assert all(one.withdrawn for one in taken)

    def test_committing_a_found_unit_changes_nothing(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        take(ledger)
        found = ledger.find_unit("unit-1", "fingerprint-1", session())
        assert found is not None

        commit(ledger, found)

        assert ledger.owed(SINK) == []
        assert len(rows(ledger, "SELECT 1 FROM otel_drift_unit")) == 1
        assert len(rows(ledger, "SELECT 1 FROM otel_drift_attempt")) == 1

    def test_the_same_verdict_from_cached_answers_adds_no_history(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        (asked,) = unit().attempts

        commit(ledger, unit(finding(3), attempts=(replace(asked, cached=True),), calls=0))
        assert len(rows(ledger, "SELECT 1 FROM otel_drift_unit")) == 1

        commit(ledger, unit(finding(3, severity="MINOR"), attempts=(replace(asked, cached=True),), calls=0))
        assert len(rows(ledger, "SELECT 1 FROM otel_drift_unit")) == 2

    @pytest.mark.parametrize(
        ("reason", "found"),
        [
            ("timeout", False),
            ("rate_limited", False),
            ("budget_exhausted", False),
            ("authentication", False),
            ("answer_empty", False),
            ("answer_truncated", False),
            ("answer_checks", True),
            ("answer_schema: 2 errors", True),
            ("turn_exceeds_window", True),
        ],
    )
    def test_an_inconclusive_unit_is_audited_again_unless_it_would_end_so_again(
        self, ledger: Ledger, reason: str, found: bool
    ) -> None:
        commit(ledger, unit(outcome="inconclusive", reason=reason, report=None))

        assert found == (ledger.find_unit("unit-1", "fingerprint-1", session()) is not None)

    def test_a_commit_that_fails_leaves_nothing_behind(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)), cursor=("source", "page-1"))
        before = rows(ledger, "SELECT * FROM otel_drift_annotation ORDER BY annotation_id, revision")

        def sinks() -> Iterator[str]:
            yield SINK
            raise RuntimeError("cut off")

        one = unit(finding(3, severity="CRITICAL"), content_sha256="fingerprint-2")
        with pytest.raises(RuntimeError, match="cut off"):
            ledger.commit_unit(None, one, findings.annotations(one), sinks(), cursor=("source", "page-2"))

        assert ledger.find_unit("unit-1", "fingerprint-1", session()) is not None
        assert before == rows(ledger, "SELECT * FROM otel_drift_annotation ORDER BY annotation_id, revision")
        assert ledger.cursor("source") == "page-1"

    def test_cursors(self, ledger: Ledger) -> None:
        assert ledger.cursor("a") is None
        ledger.set_cursor("a", "1")
        commit(ledger, unit(), cursor=("b", "2"))
        ledger.set_cursor("a", "3")
        assert (ledger.cursor("a"), ledger.cursor("b")) == ("3", "2")

    def test_hostile_text_comes_back_as_it_was(self, ledger: Ledger) -> None:
        text = (
            "NUL \0 lone \ud800 bidi \u202e emoji 🙂 quote ' \" \\ %s :x ; DROP TABLE otel_drift_unit; --"
            + "x" * 300_000
        )
        made = unit(
            finding(3, explanation=text, quotes=(text,)),
            session=replace(session(), key=text[:200], session_id=text[:200]),
            report={"text": text, text[:50]: [None, True, 2**70, 1e-300]},
            reason=text[:100],
            unit_id="unit-\0-\ud800",
            attempts=(Attempt("s\0", 1, PROMPT, "k", replace(ANSWER, text=text, model="m\0\ud800"), (text,), False),),
        )
        ledger.remember("k", replace(TASK, step="s\0"), replace(ANSWER, text=text, model="m\0\ud800"))

        commit(ledger, made)
        found = ledger.find_unit(made.unit_id, made.content_sha256, made.session)

        assert found is not None
        assert (made.report, made.findings, made.reason) == (found.report, found.findings, found.reason)
        answer = ledger.lookup("k")
        assert answer is not None
        assert text == answer.text
        assert findings.annotations(made)[0].explanation == ledger.owed(SINK)[0].explanation

    # --- annotations and what is owed ---

    def test_an_unchanged_annotation_keeps_its_revision_and_is_not_owed_again(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        first = take(ledger)

        commit(ledger, unit(finding(3), content_sha256="fingerprint-2"))

        assert {1} == {one.revision for one in first}
        assert ledger.owed(SINK) == []

    def test_a_changed_annotation_gets_the_next_revision_and_is_owed_again(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        first = take(ledger)

        commit(ledger, unit(finding(3, severity="CRITICAL"), content_sha256="fingerprint-2"))
        second = take(ledger)

        assert {one.id for one in first} == {one.id for one in second}
        assert {2} == {one.revision for one in second}
        assert {"CRITICAL", "CONTRADICTION"} == {one.label for one in second}

    def test_what_vanished_is_withdrawn_where_it_may_have_arrived(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)), (SINK, "otlp:there"))
        take(ledger)

        commit(ledger, unit(content_sha256="fingerprint-2"), (SINK, "otlp:there"))
        here, there = take(ledger), take(ledger, "otlp:there")

        on_session = {"factual_drift", "drift_severity"}
        assert {("session", name, False) for name in on_session} == {
            (one.target, one.name, one.withdrawn) for one in there
        }
        withdrawn = [one for one in here if one.withdrawn]
        assert len(withdrawn) == 6
        assert {("span", 2, None, None), ("trace", 2, None, None)} == {
            (one.target, one.revision, one.score, one.explanation) for one in withdrawn
        }
        commit(ledger, unit(content_sha256="fingerprint-3"))
        assert take(ledger) == []

    def test_passages_are_kept_and_a_withdrawal_still_names_them(self, ledger: Ledger) -> None:
        """So that a sink finds what it wrote on them; said again they are nothing new."""
        one = conflicting(("desk", "lab"), ("desk", "prompt"))
        commit(ledger, one)
        assert [(said.name, said.passages) for said in take(ledger)] == [
            (said.name, said.passages) for said in findings.annotations(one)
        ]
        commit(ledger, replace(one, findings=one.findings[::-1], content_sha256="fingerprint-2"))
        assert [said.name for said in take(ledger) if said.passages] == []

        commit(ledger, unit(audit="source_conflict", content_sha256="fingerprint-3"))
        (gone,) = [said for said in take(ledger) if said.passages]
        assert (gone.name, gone.withdrawn, gone.passages) == (
            "source_conflict", True, findings.annotations(one)[0].passages,
        )  # fmt: skip

    def test_an_annotation_that_returns_after_withdrawal_is_written_again(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        take(ledger)
        commit(ledger, unit(content_sha256="fingerprint-2"))
        take(ledger)

        commit(ledger, unit(finding(3), content_sha256="fingerprint-3"))

        assert {(3, False)} == {(one.revision, one.withdrawn) for one in take(ledger)}

    def test_an_inconclusive_unit_takes_nothing_back(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        take(ledger)

        down = unit(outcome="inconclusive", reason="timeout", report=None, content_sha256="fingerprint-2")
        commit(ledger, down)

        assert {("session", "inconclusive", None, "timeout")} == {
            (one.target, one.label, one.score, one.error_type) for one in take(ledger)
        }
        commit(ledger, unit(content_sha256="fingerprint-3"))
        assert len([one for one in take(ledger) if one.withdrawn]) == 6

    def test_a_sink_added_later_gets_what_is_current_once(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        commit(ledger, unit(finding(3, severity="CRITICAL"), content_sha256="fingerprint-2"))
        assert ledger.owed("new") == []

        ledger.owe("unit-1", ["new"])
        ledger.owe("unit-1", ["new"])

        assert {2} == {one.revision for one in take(ledger, "new")}
        ledger.owe("unit-1", ["new"])
        assert ledger.owed("new") == []

    def test_a_run_without_sinks_leaves_no_stale_value_behind(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        take(ledger)
        commit(ledger, unit(content_sha256="fingerprint-2"), ())
        assert ledger.owed(SINK) == []

        found = ledger.find_unit("unit-1", "fingerprint-2", session())
        assert found is not None
        commit(ledger, found)

        assert [False, False, *[True] * 6] == sorted(one.withdrawn for one in take(ledger))

    def test_only_the_latest_revision_is_owed(self, ledger: Ledger) -> None:
        for number, severity in enumerate(["MINOR", "MAJOR", "CRITICAL"]):
            commit(ledger, unit(finding(3, severity=severity), content_sha256=f"fingerprint-{number}"))

        assert {3} == {one.revision for one in take(ledger) if one.name != findings.TYPE_NAME}

    def test_the_worst_of_several_units_stands(self, ledger: Ledger) -> None:
        shared_span = annotation(7, name="drift_severity", revision=0)

        def says(severity: str, outcome: str = "findings") -> Annotation:
            return replace(shared_span, label=severity, metadata={"severity": severity, "outcome": outcome})

        def of(name: str) -> Unit:
            return unit(unit_id=name, audit=name)

        def stands() -> list[tuple[str, bool]]:
            return [(one.label, one.withdrawn) for one in take(ledger)]

        ledger.commit_unit(None, of("a"), [says("MAJOR")], [SINK])
        assert stands() == [("MAJOR", False)]
        ledger.commit_unit(None, of("b"), [says("MINOR")], [SINK])
        assert stands() == []
        ledger.commit_unit(None, of("c"), [says("CRITICAL")], [SINK])
        assert stands() == [("CRITICAL", False)]
        ledger.commit_unit(None, of("c"), [says("NONE", "clean")], [SINK])
        assert stands() == [("MAJOR", False)]
        ledger.commit_unit(None, of("a"), [], [SINK])
        assert stands() == [("MINOR", False)]
        ledger.commit_unit(None, of("b"), [replace(says("x", "inconclusive"), label="inconclusive")], [SINK])
        assert stands() == [("inconclusive", False)]
        ledger.commit_unit(None, of("b"), [replace(says("x", "not_applicable"), label="not_applicable")], [SINK])
        assert stands() == [("NONE", False)]
        ledger.commit_unit(None, of("b"), [], [SINK])
        ledger.commit_unit(None, of("c"), [], [SINK])
        assert stands() == [("withdrawn", True)]

    def test_settling(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        first, second, third, fourth, *rest = ledger.owed(SINK)
        ledger.settle(
            SINK,
            WriteReport(
                written=(first.id,),
                unchanged=(second.id,),
                rejected=(Rejection(third.id, "too long"), Rejection(fourth.id, "busy", retryable=True)),
            ),
        )

        assert [fourth, *rest] == ledger.owed(SINK)
        assert {SINK: {"written": 1, "unchanged": 1, "rejected": 1, "owed": 1 + len(rest)}} == ledger.delivery_counts()
        assert (ledger.owed_to(SINK), ledger.owed_to("another")) == (1 + len(rest), 0)
        assert {("too long",), ("busy",)} == {
            tuple(row) for row in rows(ledger, "SELECT reason FROM otel_drift_delivery WHERE reason IS NOT NULL")
        }

    def test_owed_respects_limit_order_and_place(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(2), finding(3), finding(4)))

        first = ledger.owed(SINK, 5)
        again = ledger.hand_out(SINK, 100)
        behind = ledger.hand_out(SINK, 100, after=again[4][0])

        assert len(first) == 5
        assert first == [one for _place, one in again[:5]]
        assert behind == again[5:]

    def test_services_say_that_they_are_at_work(self, ledger: Ledger) -> None:
        ledger.beat("one", 5, {"state": "ready", "degraded": {}})
        ledger.beat("one", 5, {"state": "degraded", "degraded": {"disk": "full"}})
        ledger.beat("two", 7, {"state": "ready"})
        ledger.stopped("two")

        two, one = ledger.processes()
        assert (one["process_id"], one["started"], one["stopped"]) == ("one", 5, None)
        assert (one["state"], one["degraded"]) == ("degraded", {"disk": "full"})
        assert two["stopped"] >= two["heartbeat"] > 0

    def test_a_revision_made_while_the_one_before_is_written_stays_owed(self, place: str, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))
        in_flight = ledger.owed(SINK)
        with Ledger.open(place) as other:
            commit(other, unit(finding(3, severity="CRITICAL"), content_sha256="fingerprint-2"))

        ledger.settle(SINK, WriteReport(written=tuple(one.id for one in in_flight)))

        assert {2} == {one.revision for one in ledger.owed(SINK)}

    def test_own_results_are_known(self, ledger: Ledger) -> None:
        commit(ledger, unit(finding(3)))

        assert ledger.knows_result(ledger.owed(SINK)[0].id)
        assert not ledger.knows_result("0" * 32)
        assert not ledger.knows_result("\0\ud800")

    # --- answers ---

    def test_answers_are_remembered_across_openings_and_the_first_stays(self, place: str, ledger: Ledger) -> None:
        assert ledger.lookup("key") is None
        ledger.remember("key", TASK, ANSWER)
        ledger.remember("key", TASK, replace(ANSWER, text="another"))

        with Ledger.open(place) as again:
            assert again.lookup("key") == ANSWER

    def test_threads_share_a_ledger(self, ledger: Ledger) -> None:
        def work(number: int) -> bool:
            ledger.remember(f"key-{number % 20}", TASK, ANSWER)
            made = unit(finding(3), unit_id=f"unit-{number % 10}")
            commit(ledger, made)
            return (
                ledger.lookup(f"key-{number % 20}") == ANSWER
                and ledger.find_unit(made.unit_id, made.content_sha256, made.session) is not None
            )

        with ThreadPoolExecutor(12) as pool:
            assert all(pool.map(work, range(60)))
        assert len(rows(ledger, "SELECT 1 FROM otel_drift_unit WHERE current")) == 10

    # --- opening ---

    def test_several_open_a_new_ledger_at_once(self, place: str) -> None:
        ready = threading.Barrier(6)

        def open_it(number: int) -> None:
            ready.wait()
            with Ledger.open(place) as opened:
                opened.remember(f"key-{number}", TASK, ANSWER)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(open_it, range(6)))

        with Ledger.open(place) as ledger:
            assert all(ledger.lookup(f"key-{number}") for number in range(6))

    def test_a_newer_schema_is_refused(self, place: str, ledger: Ledger) -> None:
        with ledger._database.writing() as connection:
            connection.execute(sa.text("UPDATE otel_drift_version SET version_num = '9999'"))

        with pytest.raises(LedgerError, match=r"newer otel-drift \(schema 9999.*upgrade otel-drift"):
            Ledger.open(place)

    def test_the_migrations_make_the_schema_the_code_expects(self, ledger: Ledger) -> None:
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext

        import otel_drift.inbox.tables  # noqa: F401  (they are among the ledger's)
        from otel_drift.ledger.schema import VERSION_TABLE, metadata

        with ledger._database.reading() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert compare_metadata(context, metadata) == []

    def test_a_ledger_of_an_earlier_version_is_brought_up_to_date_with_what_it_holds(
        self, place: str, ledger: Ledger
    ) -> None:
        commit(ledger, unit(finding(3)))
        take(ledger)
        with ledger._database.writing() as connection:  # what 0005 added
            connection.execute(sa.text("DROP INDEX otel_drift_delivery_settled"))
            connection.execute(sa.text("UPDATE otel_drift_version SET version_num = '0004'"))
        counted = ledger.delivery_counts()

        with Ledger.open(place) as again:
            assert again.delivery_counts() == counted
            assert counted[SINK].keys() == {"written"}
            self.test_the_migrations_make_the_schema_the_code_expects(again)

    # --- faults ---

    def test_two_deliverers_never_write_the_same_twice(self, place: str, ledger: Ledger) -> None:
        commit(ledger, unit(finding(2), finding(3), finding(4)))
        meet = threading.Barrier(2)
        written: list[str] = []

        class Recorder:
            name, upserts = SINK, False

            def write(self, annotations: Any) -> WriteReport:
                with suppress(threading.BrokenBarrierError):
                    meet.wait(0.2)  # both get here only if nothing keeps them apart
                written.extend(one.id for one in annotations)
                return WriteReport(written=tuple(one.id for one in annotations))

            def close(self) -> None: ...

        def run(_: int) -> None:
            with Ledger.open(place) as mine:
                deliver(mine, {SINK: Recorder()}, batch=5)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(run, range(2)))

        assert len(set(written)) == len(written) == sum(ledger.delivery_counts()[SINK].values())

    @pytest.mark.parametrize("seed", [1, 2])
    def test_killed_again_and_again_nothing_is_lost_and_nothing_doubled(
        self, place: str, tmp_path: Path, seed: int
    ) -> None:
        chance = random.Random(seed)
        output = tmp_path / "out.jsonl"
        command = [sys.executable, str(WORKER), str(place), str(output)]
        kills = 0
        for _ in range(6):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            with process, process.stdout as said:
                stop_at = chance.randrange(1, 60)
                for number, _line in enumerate(said, 1):
                    if number == stop_at:
                        process.kill()
                        break
            kills += process.returncode == -signal.SIGKILL
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)

        assert kills, "one that ends before it is killed, on a busy machine, proves nothing"
        assert done.stdout.splitlines()[-1] == "done"
        with Ledger.open(place) as ledger:
            history = rows(ledger, "SELECT unit_id, count(*) FROM otel_drift_unit GROUP BY unit_id ORDER BY unit_id")
            states = {state for by_state in ledger.delivery_counts().values() for state in by_state}
            owners = rows(ledger, "SELECT count(*) FROM otel_drift_annotation")[0][0]
        assert [(f"unit-{n:02}", 1) for n in range(30)] == [tuple(row) for row in history]
        assert states <= {"written", "unchanged"}
        lines = output.read_text().splitlines()
        assert owners == len(lines) == len(set(lines))
