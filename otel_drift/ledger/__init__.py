"""The ledger: what was judged, what was found, what is owed to whom; one transaction a unit.

SQLAlchemy is imported when a ledger is opened, not with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from otel_drift.ledger.desk import Desk
from otel_drift.model import Annotation, JudgeAnswer, JudgeTask, Rejection, Session, Unit, WriteReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_drift.ledger.database import Database

__all__ = ["Ledger"]


class Ledger(Desk):
    """A database of runs, units, judge answers and deliveries; safe to use from threads and several processes.

    Every method may raise LedgerError: the database failed, and the message says where and what to do.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, where: str | Path | None = None) -> Ledger:
        """Open a ledger, creating and migrating it as needed.

        Args:
            where: A file, ``sqlite:///FILE``, ``postgresql://…`` (needs ``otel-drift[postgres]``), ``:memory:`` for
                one that is forgotten at the end, or None for the user's own file.

        Raises:
            ConfigError: the URL is malformed or its driver is not installed.
            LedgerError: it cannot be opened, or is not a ledger this version can use.
        """
        from otel_drift.ledger.database import open_database

        return cls(open_database(where))

    @property
    def name(self) -> str:
        """Where it is, for people: the file, or the URL without user and password."""
        return self._database.name

    @property
    def database(self) -> Database:
        """The database, for what else is kept in it: the inbox of a service, alerts."""
        return self._database

    def lookup(self, cache_key: str) -> JudgeAnswer | None:
        """The stored judge answer, or None."""
        from otel_drift.ledger import answers

        with self._database.reading() as connection:
            return answers.find(connection, cache_key)

    def remember(self, cache_key: str, task: JudgeTask, answer: JudgeAnswer, *, instead: bool = False) -> None:
        """Store a judge answer durably; the first one stored for a key stays, unless this is to stand `instead`."""
        from otel_drift.ledger import answers

        with self._database.writing() as connection:
            answers.keep(connection, cache_key, task, answer, instead=instead)

    def begin_run(self, description: Mapping[str, Any]) -> int:
        """Note that a run begins, and return its id."""
        from otel_drift.ledger import runs

        with self._database.writing() as connection:
            return runs.begin(connection, description)

    def end_run(self, run_id: int, totals: Mapping[str, Any]) -> None:
        """Note that a run came to its end; one without is under way, or was cut short."""
        from otel_drift.ledger import runs

        with self._database.writing() as connection:
            runs.end(connection, run_id, totals)

    def find_unit(self, unit_id: str, fingerprint: str, session: Session) -> Unit | None:
        """The committed result for exactly this fingerprint, with the session given and no costs.

        An inconclusive result is found only if the same ask would end so again; after a judge that was down, a
        time-out, a rate limit or a budget, the unit is audited again.
        """
        from otel_drift.ledger import units

        with self._database.reading() as connection:
            return units.find(connection, unit_id, fingerprint, session)

    def found_before(self, unit: Unit) -> set[str]:
        """Which findings of a unit that is not committed yet are not new: their event ids.

        A finding that became graver is new.
        """
        from otel_drift.ledger import units

        if not unit.findings:
            return set()
        with self._database.reading() as connection:
            return units.found_before(connection, unit)

    def commit_unit(
        self,
        run_id: int | None,
        unit: Unit,
        annotations: Sequence[Annotation] | Callable[[Unit], Sequence[Annotation]],
        sinks: Iterable[str],
        *,
        cursor: tuple[str, str | None] | None = None,
        domain: str | None = None,
    ) -> Unit:
        """Commit a unit, its attempts, findings and annotations, and what it owes each sink, in one transaction.

        What it asks of people (`policy.demands`) becomes review items in the same transaction; what people have said
        of its findings before (verdicts, mutes) is put into the unit that is returned, and said on platforms.

        An annotation that says something new gets the next revision and is owed to every sink; one that says the
        same is owed only to sinks that never had it; one the unit no longer makes is withdrawn (unless the unit is
        inconclusive, which takes nothing back). Where several units speak for one annotation, the worst stands.
        Committing a unit that was found again changes nothing but what new sinks are owed.

        Args:
            run_id: From `begin_run`.
            unit: The result; ``unit.content_sha256`` is the fingerprint it is found by.
            annotations: What it says on platforms: `findings.annotations` itself, which is then given the unit with
                what people said of it; or annotations made before, taken as they are.
            sinks: Names of the sinks that are to get it.
            cursor: A source's name and the cursor to go on from once this is committed.
            domain: The domain the run was told; abstentions in high-stakes ones go to review.
        """
        from otel_drift.ledger import runs, units

        with self._database.writing() as connection:
            settled = units.commit(connection, run_id, unit, annotations, sinks, domain)
            if cursor is not None:
                runs.set_cursor(connection, *cursor)
        return settled

    def retire_session(self, key: str, run_id: int | None = None) -> int:
        """Take back the current results of a session that is none any more; its traces are in another now.

        They are superseded by results with the reason ``session_changed``; what they said is withdrawn on every sink
        that had it, review items nobody decided are withdrawn. All of it stays in the record. Once retired, it changes
        nothing to do it again.

        Args:
            key: The session's key.
            run_id: The run that found it out.

        Returns:
            How many results were taken back.
        """
        from otel_drift.ledger import retiring

        with self._database.writing() as connection:
            return retiring.retire(connection, key, run_id)

    def owe(self, unit_id: str, sinks: Iterable[str]) -> None:
        """Owe sinks what is current of a unit and never was owed to them (`commit_unit` does this too)."""
        from otel_drift.ledger import revisions

        with self._database.writing() as connection:
            revisions.owe(connection, unit_id, sinks)

    def owed(self, sink: str, limit: int = 100) -> list[Annotation]:
        """Hand out what a sink is owed, oldest first, and count the attempt."""
        return [one for _place, one in self.hand_out(sink, limit)]

    def hand_out(
        self, sink: str, limit: int = 100, *, after: int = 0, patient: bool = False
    ) -> list[tuple[int, Annotation]]:
        """Hand out what a sink is owed, oldest first, each with its place in the queue, and count the attempt.

        Args:
            sink: The sink's name.
            limit: At most so many.
            after: Only what is behind this place.
            patient: What the sink put off before waits, the longer the oftener it was.
        """
        from otel_drift.ledger import deliveries

        with self._database.writing() as connection:
            return deliveries.hand_out(connection, sink, limit, after, patient=patient)

    def settle(self, sink: str, report: WriteReport) -> None:
        """Record what became of annotations handed out; rejected ones stay owed only if retryable."""
        from otel_drift.ledger import deliveries

        with self._database.writing() as connection:
            deliveries.settle(connection, sink, report)

    def give_up(self, sink: str) -> list[Rejection]:
        """Let go of what a sink has put off for a week, mostly values of spans it never had; the record keeps them."""
        from otel_drift.ledger import deliveries

        with self._database.writing() as connection:
            return deliveries.give_up(connection, sink)

    def owed_to(self, sink: str) -> int:
        """How many values a sink is owed; cheap however much was delivered."""
        from otel_drift.ledger import deliveries

        with self._database.reading() as connection:
            return deliveries.owed_to(connection, sink)

    def put_off(self) -> dict[str, int]:
        """How many of the values owed each sink has put off, mostly of spans it does not have (yet)."""
        from otel_drift.ledger import deliveries

        with self._database.reading() as connection:
            return deliveries.put_off(connection)

    def delivery_lags(self) -> dict[str, int]:
        """When the first annotation that a sink is still owed was made (nanoseconds), by sink."""
        from otel_drift.ledger import deliveries

        with self._database.reading() as connection:
            return deliveries.lags(connection)

    def delivery_counts(self, since: int = 0) -> dict[str, dict[str, int]]:
        """By sink and state: what is owed, and what was written, unchanged or rejected since a time (nanoseconds).

        Cheap however much was delivered before.
        """
        from otel_drift.ledger import deliveries

        with self._database.reading() as connection:
            return deliveries.counts(connection, since)

    @contextmanager
    def delivering(self, sink: str) -> Iterator[None]:
        """Be the only one, among processes too, that delivers to a sink; waits for the other to finish.

        The lock goes with the process that holds it, so a killed one blocks nobody.
        """
        from otel_drift.ledger.locking import delivery_lock

        with delivery_lock(self._database, sink):
            yield

    def knows_result(self, result_id: str) -> bool:
        """Whether an annotation with this id was ever made here: a marker alone proves nothing."""
        from otel_drift.ledger import revisions

        with self._database.reading() as connection:
            return revisions.is_known(connection, result_id)

    def cursor(self, source: str) -> str | None:
        """Where a source goes on from; None at its beginning."""
        from otel_drift.ledger import runs

        with self._database.reading() as connection:
            return runs.cursor(connection, source)

    def set_cursor(self, source: str, cursor: str | None) -> None:
        """Note where a source goes on from (`commit_unit` does it together with a unit)."""
        from otel_drift.ledger import runs

        with self._database.writing() as connection:
            runs.set_cursor(connection, source, cursor)

    def made_since(self, since: int) -> dict[str, Any]:
        """What was committed since a time (nanoseconds): results by outcome and severity, calls, tokens, cost."""
        from otel_drift.ledger import history

        with self._database.reading() as connection:
            return history.made_since(connection, since)

    def cursors(self) -> dict[str, tuple[str | None, int]]:
        """How far each source was read, and when that was noted (nanoseconds), by name."""
        from otel_drift.ledger import runs

        with self._database.reading() as connection:
            return runs.cursors(connection)

    def beat(self, process_id: str, started: int, body: Mapping[str, Any]) -> None:
        """Say that a service is at work here, and what it says of itself (ids and numbers, no texts)."""
        from otel_drift.ledger import processes

        with self._database.writing() as connection:
            processes.beat(connection, process_id, started, body)

    def stopped(self, process_id: str) -> None:
        """Say that a service ended in good order."""
        from otel_drift.ledger import processes

        with self._database.writing() as connection:
            processes.stopped(connection, process_id)

    def processes(self) -> list[dict[str, Any]]:
        """The services heard of lately on this ledger, the newest first."""
        from otel_drift.ledger import processes

        with self._database.reading() as connection:
            return processes.listed(connection)

    def spend(self, day: str, *, calls: int, input_tokens: int, output_tokens: int, cost: float) -> None:
        """Count what judges took on a day (UTC, ``2026-11-30``), of all processes together."""
        from otel_drift.ledger import spend

        with self._database.writing() as connection:
            spend.add(connection, day, calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)

    def spent(self, now: int) -> dict[str, Any]:
        """What judges took on the day (UTC) of a time: ``day``, ``calls``, ``tokens``, ``cost`` (US dollars)."""
        from otel_drift.ledger import spend

        with self._database.reading() as connection:
            return spend.of_day(connection, spend.day_of(now))

    def close(self) -> None:
        """Close every connection."""
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
