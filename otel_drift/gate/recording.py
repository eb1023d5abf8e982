"""Where decisions go besides the caller: the ledger and a span, each on a thread of its own that nobody waits for long.

A ledger that is locked or an exporter that hangs delays the record, never the decision. What cannot be kept is logged
by its id.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_drift.fingerprints import content_sha256, unit_id
from otel_drift.gate.decision import GateDecision
from otel_drift.gate.outcome import Outcome
from otel_drift.model import Session, Unit
from otel_drift.protocols import Judge

if TYPE_CHECKING:
    from otel_drift.ledger import Ledger

log = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""Records that may wait for a ledger or exporter that hangs; further ones are dropped, and logged."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """What the record says about the gate that decided."""

    preset: str | None
    high_stakes: bool


class Lane:
    """One daemon thread that does jobs in order; a job that hangs blocks this lane only."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.Queue[tuple[Callable[[], object], str, threading.Event] | None] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._last: threading.Event | None = None

    def submit(self, job: Callable[[], object], about: str) -> threading.Event:
        """Queue a job; the event is set once it succeeded. `about` is an id for the log."""
        done = threading.Event()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"gate-{self._name}", daemon=True)
                self._thread.start()
            try:
                self._jobs.put_nowait((job, about, done))
            except queue.Full:
                log.error("gate: %s is stuck; decision %s is not kept there", self._name, about)
        return done

    def finish(self, timeout: float) -> bool:
        """Wait until all jobs queued so far are through; False if time ran out."""
        if self._thread is None:
            return True
        through = threading.Event()
        try:
            self._jobs.put((through.set, "", threading.Event()), timeout=timeout)
        except queue.Full:
            return False
        return through.wait(timeout)

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, about, done = entry
            try:
                job()
                done.set()
            except Exception as error:  # the boundary of a record: the next one must still be kept
                log.error("gate: decision %s could not be kept in the %s: %s", about, self._name, type(error).__name__)


class Recorder:
    """Keeps decisions in a ledger and as spans.

    Args:
        ledger: a ledger, a file or URL to open when the first decision is kept, or None for the user's own.
    """

    def __init__(self, ledger: Ledger | str | Path | None) -> None:
        self._where = ledger
        self._ledger: Ledger | None = None
        self._opened_here = False
        self._to_ledger, self._to_spans = Lane("ledger"), Lane("span")

    def keep(self, unit: Unit) -> threading.Event:
        """Commit a unit; the event is set once it is durable."""
        decision_id = unit.session.turns[0].turn_id
        return self._to_ledger.submit(lambda: self._open().commit_unit(None, unit, (), ()), decision_id)

    def span(
        self, decision_id: str, start: int, end: int, context: Any, attributes: Mapping[str, Any]
    ) -> threading.Event:
        """Emit the span ``otel_drift.gate`` from `start` to `end` (ns) under `context`; nothing without an SDK."""
        return self._to_spans.submit(lambda: _emit(start, end, context, attributes), decision_id)

    def close(self, timeout: float) -> bool:
        """Wait for what is queued, then close a ledger opened here; False if time ran out."""
        kept = self._to_ledger.finish(timeout)
        spans = self._to_spans.finish(timeout)
        if kept and self._opened_here and self._ledger is not None:
            self._ledger.close()
            self._ledger, self._opened_here = None, False
        return kept and spans

    def _open(self) -> Ledger:
        if self._ledger is None:
            from otel_drift.ledger import Ledger

            if isinstance(self._where, str | Path) or self._where is None:
                self._ledger, self._opened_here = Ledger.open(self._where), True
            else:
                self._ledger = self._where
        return self._ledger


def decision_unit(session: Session, outcome: Outcome, judge: Judge, decision: GateDecision, about: Stakes) -> Unit:
    """The decision as a unit of the audit record: an ordinary one of ``source_conflict``, the gate's part added."""
    gate = {
        "decision": decision.decision,
        "reason": decision.reason,
        "safety_override": decision.safety_override,
        "answerability": decision.answerability,
        "preset": about.preset,
        "high_stakes": about.high_stakes,
        "review": decision.review,
        "decision_id": decision.decision_id,
        "seconds": round(decision.seconds, 3),
        "left_out": [asdict(one) for one in decision.left_out],
    }
    failed = outcome.override is not None
    unit = outcome.unit or Unit(
        unit_id=unit_id("source_conflict", session, per_turn=True),
        audit="source_conflict",
        session=session,
        outcome="inconclusive" if failed else "not_applicable",
        reason=outcome.override if failed else outcome.reason,
        severity="NONE",
        report=None,
        findings=(),
        judge=judge.name,
        judge_note=judge.note,
    )
    return replace(unit, report={**decision.report, "gate": gate}, content_sha256=content_sha256(session))


def span_attributes(decision: GateDecision, about: Stakes) -> dict[str, Any]:
    """What the span says: no text of question, passages or judge."""
    report = decision.report
    attributes = {
        "otel_drift.gate.decision": decision.decision,
        "otel_drift.gate.reason": decision.reason,
        "otel_drift.gate.decision_id": decision.decision_id,
        "otel_drift.gate.safety_override": decision.safety_override,
        "otel_drift.gate.preset": about.preset,
        "otel_drift.gate.high_stakes": about.high_stakes,
        "otel_drift.gate.review": decision.review,
        "otel_drift.gate.passages": report["passages"],
        "otel_drift.gate.conflict_pairs": report["conflict_pairs_found"],
        "otel_drift.gate.pair_threshold": report["pair_threshold"],
        "otel_drift.gate.severity_threshold": report["severity_threshold"],
        "otel_drift.gate.answerability": decision.answerability,
        "otel_drift.judge": decision.judge,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def calling_span() -> tuple[Any, tuple[str, str] | None]:
    """The caller's OTel context, and the trace and span id of its span if it records one."""
    from opentelemetry import context, trace

    current = trace.get_current_span().get_span_context()
    ids = (f"{current.trace_id:032x}", f"{current.span_id:016x}") if current.is_valid else None
    return context.get_current(), ids


def _emit(start: int, end: int, context: Any, attributes: Mapping[str, Any]) -> None:
    from opentelemetry import trace

    from otel_drift import __version__

    tracer = trace.get_tracer("otel_drift.gate", __version__)
    span = tracer.start_span("otel_drift.gate", context=context, start_time=start, attributes=dict(attributes))
    span.end(end_time=end)
