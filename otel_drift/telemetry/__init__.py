"""What a running service says about itself: metrics, and on request spans of its own; numbers and ids, never text."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from otel_drift import retry
from otel_drift.delivery import SinkDelivery
from otel_drift.errors import JudgeError
from otel_drift.faults import Fault
from otel_drift.findings import standing
from otel_drift.model import JudgeAnswer, Session, Turn, Unit
from otel_drift.telemetry.labels import Bounded, BoundedTuples
from otel_drift.telemetry.possible import SEVERITIES, possible_types
from otel_drift.telemetry.sdk import CONTENT_TYPE, SCOPE, SERVICE, Meters, Reading

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from otel_drift.config import Settings

__all__ = ["CONTENT_TYPE", "SCOPE", "SERVICE", "Telemetry"]

log = logging.getLogger(__name__)

MOST_APPLICATIONS = 50
MOST_ENVIRONMENTS = 20
MOST_MODELS = 50
MOST_PROMPTS = 100
MOST_ORIGINS = 200
"""Distinct applications, environments, models, prompt versions, and combinations of them: then ``other``."""
MOST_CODES = 100
"""Distinct values of any other label."""
MOST_LINKS = 32
"""Traces that a span of ours names."""

F = TypeVar("F", bound=Callable[..., None])


def _never_raises(method: F) -> F:
    """What is said about the work must not stop the work."""

    @functools.wraps(method)
    def quiet(self: Telemetry, *arguments: Any, **named: Any) -> None:
        if self._meters is None:
            return
        try:
            method(self, *arguments, **named)
        except Exception as error:  # the boundary between the work and what is said of it
            log.debug("telemetry: %s failed", method.__name__, exc_info=error)

    return cast("F", quiet)


class Telemetry:
    """Counts what the service does; every method is cheap, safe to call from any thread, and never raises.

    Args:
        meters: The instruments; None: nothing is counted, and the SDK is not loaded.
        types: Audit → types of findings it can make, which are shown at 0 from the start.
        tracer: Makes a span of each session audited; None: none.
        close: Called at the end, after `meters` was closed.
    """

    def __init__(
        self,
        meters: Meters | None = None,
        *,
        types: Mapping[str, Collection[str]] | None = None,
        tracer: Tracer | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._meters = meters
        self._types = types or {}
        self._tracer = tracer
        self._close_tracer = close
        self._origin = BoundedTuples((MOST_APPLICATIONS, MOST_ENVIRONMENTS, MOST_MODELS, MOST_PROMPTS), MOST_ORIGINS)
        self._labels: dict[str, Bounded] = {}
        self._lock = threading.Lock()
        self._at_zero: set[tuple[str, ...]] = set()
        self._forget_retries = retry.tell(self.retried) if meters else lambda: None
        self._begin()

    @classmethod
    def open(cls, settings: Settings) -> Telemetry:
        """As the settings say.

        Raises:
            ConfigError: the extra ``serve`` is not installed, an endpoint is none, or the taxonomy is wrong.
        """
        from otel_drift.telemetry.sdk import tracer

        types = possible_types(settings.audit.taxonomy)
        made, close = tracer(settings.telemetry.traces) if settings.telemetry.traces else (None, lambda: None)
        return cls(Meters(settings.telemetry.otlp), types=types, tracer=made, close=close)

    @classmethod
    def none(cls) -> Telemetry:
        """Counts nothing."""
        return cls()

    def page(self) -> bytes:
        """The metrics as Prometheus reads them (`CONTENT_TYPE`)."""
        return self._meters.page() if self._meters else b""

    def gauge(self, name: str, read: Callable[[], Reading]) -> None:
        """Show what `read` returns whenever the metrics are read.

        Args:
            name: Of a gauge in `instruments.INSTRUMENTS`, without ``otel_drift.``.
            read: A number, a mapping from the value of the gauge's label to a number, or None for nothing right now.
                Called from other threads; may raise.

        Raises:
            KeyError: there is no such gauge.
        """
        self.gauges([name], lambda: {name: read()})

    def gauges(self, names: Iterable[str], read: Callable[[], Mapping[str, Reading]]) -> None:
        """As `gauge`, for several that one reading tells: `read` returns one for each name, and is called once."""
        if self._meters:
            self._meters.gauges(names, read)

    @_never_raises
    def received(self, protocol: str, spans: int, logs: int, size: int) -> None:
        """The receiver accepted a request: `protocol` ``http`` or ``grpc``, `size` in bytes as sent."""
        self._add("received.spans", spans, protocol=protocol)
        self._add("received.log_records", logs, protocol=protocol)
        self._add("received.size", size, protocol=protocol)

    @_never_raises
    def refused(self, protocol: str, reason: str, records: int = 0) -> None:
        """The receiver refused a request, or `records` of one; `reason` is a code."""
        self._add("receiver.refusals", 1, protocol=protocol, reason=reason)
        self._add("receiver.refused_records", records, protocol=protocol, reason=reason)

    @_never_raises
    def session(
        self,
        outcome: str,
        session: Session | None = None,
        units: Sequence[Unit] = (),
        *,
        started: int | None = None,
        ended: int | None = None,
    ) -> None:
        """A session is done with.

        Args:
            outcome: What came of it, a code: an outcome of a unit (the gravest of its units), or why it was left out.
            session: It, where it was audited: its turns are counted, and where own traces are on, a span is made.
            units: The results.
            started: When its audit began, nanoseconds since the epoch, for the span.
            ended: When it ended.
        """
        self._add("sessions", 1, outcome=outcome)
        if session is not None:
            self._add("turns", len(session.turns))
            if self._tracer is not None and started is not None:
                _trace(self._tracer, outcome, session, units, started, ended)

    @_never_raises
    def unit(self, unit: Unit, known: Collection[str] = ()) -> None:
        """A result was committed. One that the ledger had already (it has no attempts) says nothing new.

        Args:
            unit: The result, with what people said of it.
            known: Event ids of findings that are not new (`otel_drift.ledger.Ledger.found_before`).
        """
        verdict = unit.outcome in ("findings", "clean")
        if verdict and not unit.attempts:
            return
        reason = "" if verdict else (unit.reason or "").partition(":")[0]
        self._add("units", 1, audit=unit.audit, outcome=unit.outcome, reason=reason)
        self._count_failures(unit)
        if verdict:
            self._count_findings(unit, known)

    @_never_raises
    def asked(self, judge: str, answer: JudgeAnswer | None, error: BaseException | None, seconds: float) -> None:
        """A judge was asked: what it answered, or why it did not (an error may carry an answer that was paid for)."""
        name = self._bounded("judge", judge)
        self._need().record("judge.duration", seconds, judge=name)
        if error is not None:
            reason = error.reason if isinstance(error, JudgeError) else "unexpected"
            self._add("judge.errors", 1, judge=judge, reason=reason.partition(":")[0])
        paid = answer or getattr(error, "answer", None)
        if paid is not None:
            self._add("judge.tokens", paid.input_tokens, judge=judge, direction="input")
            self._add("judge.tokens", paid.output_tokens, judge=judge, direction="output")
            self._add("judge.cost.usd", paid.cost or 0.0, judge=judge)

    @_never_raises
    def retried(self, what: str) -> None:
        """A request is tried again; `what` names the kind of request, never one."""
        self._add("retries", 1, what=what)

    @_never_raises
    def delivered(self, delivery: SinkDelivery) -> None:
        """A delivery to one sink ended."""
        put_off = sum(one.retryable for one in delivery.rejected)
        numbers = {
            "written": delivery.written,
            "unchanged": delivery.unchanged,
            "refused": len(delivery.rejected) - put_off,
            "put_off": put_off,
        }
        for outcome, number in numbers.items():
            self._add("deliveries", number, sink=delivery.sink, outcome=outcome)
        self._add("delivery.failures", int(delivery.error is not None), sink=delivery.sink)

    @_never_raises
    def alerted(self, alerter: str, state: str, ok: bool, number: int = 1) -> None:
        """An alerter was told of `number` alerts of a state (``firing``, ``resolved``), or could not be."""
        self._add("alerts", number, alerter=alerter, state=state, outcome="told" if ok else "failed")

    def close(self) -> None:
        """Send what is left, within seconds; nothing is counted afterwards."""
        self._forget_retries()
        meters, self._meters = self._meters, None
        try:
            if meters:
                meters.close()
                self._close_tracer()
        except Exception as error:
            log.debug("telemetry: cannot be closed", exc_info=error)

    @_never_raises
    def _begin(self) -> None:
        from otel_drift import __version__

        for name in sorted({name for names in self._types.values() for name in names}):
            for severity in SEVERITIES:
                self._add("findings", 0, type=name, severity=severity)
        self.gauge("build.info", lambda: {__version__: 1})

    def _count_findings(self, unit: Unit, known: Collection[str]) -> None:
        turns = {turn.number: turn for turn in unit.session.turns}
        for turn in unit.session.turns:
            if turn.answered:
                self._show_at_zero(unit.audit, self._origin_of(unit.session, turn))
        for finding in standing(unit):
            if finding.event_id not in known:
                origin = self._origin_of(unit.session, turns.get(finding.turn_number))
                self._add("findings", 1, type=finding.type, severity=finding.severity)
                labels = {"audit": unit.audit, "type": finding.type, "severity": finding.severity}
                self._add("findings.by_application", 1, **labels, **origin)

    def _show_at_zero(self, audit: str, origin: Mapping[str, str]) -> None:
        place = (audit, *origin.values())
        with self._lock:
            if place in self._at_zero:
                return
            self._at_zero.add(place)
        for name in self._types.get(audit, ()):
            for severity in SEVERITIES:
                labels = {"audit": audit, "type": name, "severity": severity}
                self._add("findings.by_application", 0, **labels, **origin)

    def _origin_of(self, session: Session, turn: Turn | None) -> dict[str, str]:
        environment = (turn.environment if turn else None) or session.environment
        prompt = " ".join(filter(None, (turn.prompt_name, turn.prompt_version))) if turn else ""
        values = self._origin(session.project, environment, turn.model if turn else None, prompt)
        return dict(zip(("application", "environment", "model", "prompt_version"), values, strict=True))

    def _count_failures(self, unit: Unit) -> None:
        for attempt in unit.attempts:
            if attempt.cached:  # was counted when it was paid for
                continue
            for rule in sorted({error.rule for error in attempt.errors if isinstance(error, Fault)}):
                about = {"prompt": attempt.prompt.id, "prompt_version": attempt.prompt.version}
                self._add("validation.failures", 1, audit=unit.audit, rule=rule, **about)

    def _add(self, name: str, amount: float, **labels: str) -> None:
        self._need().add(name, amount, **{label: self._bounded(label, value) for label, value in labels.items()})

    def _bounded(self, label: str, value: str) -> str:
        if label == "reason" and not value:
            return ""
        with self._lock:
            bound = self._labels.setdefault(label, Bounded(MOST_CODES))
        return bound(value)

    def _need(self) -> Meters:
        assert self._meters is not None
        return self._meters


def _trace(
    tracer: Tracer, outcome: str, session: Session, units: Sequence[Unit], started: int, ended: int | None
) -> None:
    """A span of our own: ids and codes only, so that it may go where the traces audited may not."""
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanContext, TraceFlags

    links = [
        Link(SpanContext(int(trace_id, 16), int(root, 16), is_remote=True, trace_flags=TraceFlags(1)))
        for trace_id, _, root in [turn.root_ref.partition(":") for turn in session.turns if turn.root_ref][:MOST_LINKS]
        if _is_hex(trace_id, 32) and _is_hex(root, 16)
    ]
    attributes = {"otel_drift.session.id": session.session_id or "", "otel_drift.outcome": outcome}
    span = tracer.start_span("audit session", Context(), links=links, attributes=attributes, start_time=started)
    for unit in units:
        span.add_event(
            "result",
            {
                "otel_drift.unit.id": unit.unit_id,
                "otel_drift.audit": unit.audit,
                "otel_drift.outcome": unit.outcome,
                "otel_drift.severity": unit.severity,
                "otel_drift.judge.calls": unit.calls,
                "otel_drift.judge.tokens": unit.input_tokens + unit.output_tokens,
            },
        )
    span.end(ended)


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and set(text) <= set("0123456789abcdef") and text.strip("0") != ""
