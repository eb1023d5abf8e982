"""The whole product in one line of code; read this file first.

source ─▶ normalise ─▶ sessions ─▶ audits ⇄ judge ─▶ validation ─▶ ledger ─▶ sinks

A `Line` names the parts; `audit` runs records through it and yields one `Unit` per audit and session, each already
committed to the ledger together with the deliveries it owes; `deliver` (in `delivery`) then writes what is owed.

The service (`service`, started by ``otel-drift serve``) is the same line, always on: the `receiver` and followers put
records into the `inbox`; `service.auditing` takes sessions that have settled through `judged` and `committed`, so that
what passes by itself (no budget, no judge) waits instead of being committed; `alerts` tells of what the ledger holds.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from otel_drift import findings, fingerprints, planning, sessions, validation
from otel_drift.budget import Budget
from otel_drift.errors import OtelDriftError
from otel_drift.ledger import Ledger
from otel_drift.model import LogRecord, Record, Session, Unit
from otel_drift.planning import Plan
from otel_drift.protocols import Audit, AuditSettings, Judge, Source
from otel_drift.redaction import redact_session
from otel_drift.selection import Choice, Selection
from otel_drift.sessions import ReconstructOptions
from otel_drift.spool import SpanSpool

RESULT_ID = "otel_drift.result.id"
"""The attribute that marks our own output; it hides a record only if the ledger knows the id."""


@dataclass(slots=True)
class Line:
    """The parts of one run."""

    audits: Sequence[Audit]
    judge: Judge
    settings: AuditSettings
    ledger: Ledger
    sinks: Sequence[str] = ()
    options: ReconstructOptions = field(default_factory=ReconstructOptions)
    redact: Callable[[str], str] | None = None
    budget: Budget = field(default_factory=Budget)
    selection: Selection = field(default_factory=Selection)
    sample: float = 1.0
    workers: int = 1
    run_id: int | None = None
    own_output: int = 0
    not_sampled: int = 0
    choice: Choice | None = None
    """Which sessions the last reading left out, and why."""


def audit(source: Source, line: Line) -> Iterator[Unit]:
    """Audit every session of a source; yields units in the order of the sessions, committed.

    Sessions are judged `line.workers` at a time; at most twice as many are held in memory. A session that goes wrong
    becomes an inconclusive unit and never stops the others.
    """
    with SpanSpool() as spool:
        chosen = _chosen(read_sessions(source, line, spool), line)
        for _session, _line, units in judged(((session, line) for session in chosen), line.workers):
            yield from committed(units, line)


def judged(
    given: Iterable[tuple[Session, Line]], workers: int
) -> Generator[tuple[Session, Line, list[Unit]], None, None]:
    """Judge sessions, `workers` at a time, each by its line; yields them in the order given, nothing committed.

    Where this is broken off, what is being asked is waited for and its answers kept, and nothing more is asked: the
    budgets of the lines under way are stopped.
    """
    with ThreadPoolExecutor(workers, thread_name_prefix="judge") as pool:
        pending: deque[tuple[Session, Line, Future[list[Unit]]]] = deque()
        try:
            for session, line in given:
                pending.append((session, line, pool.submit(_judge, session, line)))
                while len(pending) >= 2 * workers:
                    yield _result_of(pending)
            while pending:
                yield _result_of(pending)
        except BaseException:
            for _, line, _ in pending:
                line.budget.stop()
            raise
        finally:
            for _, _, future in pending:
                future.cancel()


def _judge(session: Session, line: Line) -> list[Unit]:
    try:
        return judge_session(session, line)
    finally:
        line.budget.leave()


def committed(units: Iterable[Unit], line: Line) -> Iterator[Unit]:
    """Commit units to the ledger, with what they owe the sinks; yields them with what people said of them."""
    for unit in units:
        yield line.ledger.commit_unit(line.run_id, unit, findings.annotations, line.sinks, domain=line.settings.domain)


def _result_of(
    pending: deque[tuple[Session, Line, Future[list[Unit]]]],
) -> tuple[Session, Line, list[Unit]]:
    session, line, future = pending[0]
    units = future.result()
    pending.popleft()
    return session, line, units


def plan(source: Source, line: Line) -> Iterator[tuple[str, Session, Plan]]:
    """Say what each audit of each session would ask, cost and, where that is known, write; sends and writes nothing.

    Yields:
        the audit's name, the session, the plan (no calls where the result is in the ledger already).
    """
    with SpanSpool() as spool:
        for session in _chosen(read_sessions(source, line, spool), line):
            redacted = _redacted(session, line)
            for one, part in parts(redacted, line):
                fingerprint = fingerprints.unit_fingerprint(one, part, line.judge, line.settings)
                unit = _known(one, part, fingerprint, line)
                if unit is not None:
                    yield one.name, part, Plan(eligible=True, reason="judged already", unit=unit)
                    continue
                if line.judge.embedded:  # costs nothing, and its text goes nowhere
                    unit = validation.audit_session(one, part, line.judge, settings=line.settings)
                yield one.name, part, replace(planning.plan(one, part, line.judge, line.settings), unit=unit)


def read_sessions(source: Source, line: Line, spool: SpanSpool) -> Iterator[Session]:
    """Reconstruct the sessions of a source, one at a time, our own output left out."""
    return sessions.stream(foreign(_records(source, line), line), spool, line.options)


def _records(source: Source, line: Line) -> Iterator[Record]:
    for page, _cursor in source.read(None, line.selection.window):
        yield from page


def foreign(records: Iterable[Record], line: Line) -> Iterator[Record]:
    """The records that are not our own output: that has our marker, with an id which the ledger knows."""
    for record in records:
        result_id = record.attributes.get(RESULT_ID)
        if isinstance(result_id, str) and line.ledger.knows_result(result_id):
            line.own_output += not isinstance(record, LogRecord)
        else:
            yield record


def _chosen(all_sessions: Iterator[Session], line: Line) -> Iterator[Session]:
    line.choice = Choice(line.selection, time.time_ns())
    for session in line.choice.of(all_sessions):
        if not is_sampled(session, line):
            line.not_sampled += 1
        else:
            yield session


def is_sampled(session: Session, line: Line) -> bool:
    """Whether a session is among the share that is audited: the same ones in every run."""
    return line.sample >= 1 or _share(session.key) < line.sample


def _share(key: str) -> float:
    """A stable number in [0, 1): the same sessions are chosen in every run."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64


def _redacted(session: Session, line: Line) -> Session:
    return redact_session(session, line.redact) if line.redact else session


def judge_session(session: Session, line: Line) -> list[Unit]:
    """The results of a session, nothing committed."""
    try:
        redacted = _redacted(session, line)
    except Exception as error:  # a user's callable: nothing of this session may go out
        return [validation.unredacted(one, session, line.judge, error) for one in line.audits]
    try:
        return [_result(one, part, line) for one, part in parts(redacted, line)]
    except OtelDriftError:
        raise
    except Exception as error:  # an audit that fails before it is run: one session never stops the others
        return [validation.broken(one, redacted, line.judge, error) for one in line.audits]


def parts(session: Session, line: Line) -> Iterator[tuple[Audit, Session]]:
    """The units of a session: itself, or for an audit of single turns each turn that is eligible.

    Where no turn is, the session stands for them, so that its line says why.
    """
    for one in line.audits:
        turns = [replace(session, turns=(turn,)) for turn in session.turns] if getattr(one, "per_turn", False) else []
        eligible = [part for part in turns if one.eligibility(part, line.settings).eligible]
        for part in eligible or [session]:
            yield one, part


def _result(one: Audit, session: Session, line: Line) -> Unit:
    fingerprint = fingerprints.unit_fingerprint(one, session, line.judge, line.settings)
    known = _known(one, session, fingerprint, line)
    if known is not None:
        return known
    unit = validation.audit_session(
        one, session, line.judge, cache=line.ledger, settings=line.settings, budget=line.budget
    )
    return replace(unit, content_sha256=fingerprint)


def _known(one: Audit, session: Session, fingerprint: str, line: Line) -> Unit | None:
    """The committed result of exactly this: same text, prompts, judge and settings."""
    unit_id = fingerprints.unit_id(one.name, session, per_turn=getattr(one, "per_turn", False))
    known = line.ledger.find_unit(unit_id, fingerprint, session)
    return None if known is not None and known.outcome == "inconclusive" and line.settings.ask_again else known
