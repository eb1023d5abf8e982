"""The running service: its parts started in order, watched, and stopped so that nothing is lost."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from otel_drift.errors import OtelDriftError
from otel_drift.report.wording import outcome_words
from otel_drift.service.admin import Admin
from otel_drift.service.duties import Duties, Duty
from otel_drift.service.keeping import BeatDuty
from otel_drift.times import SECOND

if TYPE_CHECKING:
    from otel_drift.config import Settings
    from otel_drift.inbox import Inbox
    from otel_drift.ledger import Ledger
    from otel_drift.receiver import Receiver
    from otel_drift.service.auditing import AuditDuty
    from otel_drift.service.conditions import Conditions
    from otel_drift.telemetry import Telemetry

log = logging.getLogger(__name__)

SAY_SECONDS = 60.0
RECEIVER_GRACE = 10.0
"""Seconds a stop waits for requests that are being taken in."""


class Service:
    """The parts of a service, made by the command line; `run` starts them and stops them again."""

    def __init__(
        self,
        process_id: str,
        ledger: Ledger,
        inbox: Inbox,
        auditing: AuditDuty,
        duties: Sequence[Duty],
        conditions: Conditions,
        *,
        receiver: Receiver | None,
        telemetry: Telemetry,
        settings: Settings,
    ) -> None:
        self.addresses: dict[str, str] = {}
        self._process_id = process_id
        self._ledger = ledger
        self._inbox = inbox
        self._auditing = auditing
        self._conditions = conditions
        self._receiver = receiver
        self._settings = settings
        beat = BeatDuty(ledger, process_id, self._about, conditions)
        self._duties = Duties([beat, *duties], conditions)
        self._telemetry = telemetry
        self._admin: Admin | None = None
        self._said: Counter[str] = Counter()
        self._said_at = time.monotonic()
        self._show(telemetry)

    def run(self, stopping: threading.Event) -> None:
        """Work until `stopping` is set; then take nothing more in, finish what is being judged, hand back the rest.

        Raises:
            ConfigError: an address cannot be listened on.
        """
        try:
            self._start()
            stopping.wait()
        finally:
            self._stop()

    def _start(self) -> None:
        if self._settings.serve.admin:
            metrics, health, ready = self._telemetry.page, self._health, self._readiness
            self._admin = Admin(self._settings.serve.admin, metrics=metrics, health=health, ready=ready)
            self._admin.start()
            self.addresses["admin"] = self._admin.url
        if self._receiver is not None:
            self._receiver.start()
            self.addresses |= self._receiver.addresses
        self._duties.start()
        for name, address in self.addresses.items():
            log.info("listening: %s %s", name, address)
        log.info("working as %s on %s", self._process_id, self._ledger.name)

    def _stop(self) -> None:
        began = time.monotonic()
        log.info("stopping: what is being judged is finished, the rest handed back")
        if self._receiver is not None:
            self._receiver.stop(min(self._settings.serve.stop_seconds, RECEIVER_GRACE))
        self._auditing.stop()
        late = self._duties.stop(max(1.0, self._settings.serve.stop_seconds - (time.monotonic() - began)))
        if late:
            log.warning("not finished in time: %s; the next start goes on with it", ", ".join(late))
        try:
            self._inbox.release(self._process_id)
            self._ledger.stopped(self._process_id)
        except OtelDriftError as error:
            log.warning("at the end: %s", error)
        if self._admin is not None:
            self._admin.stop()
        log.info("stopped")
        if late:
            logging.shutdown()
            os._exit(0)  # their threads would keep the process; everything is in the database

    def _about(self) -> dict[str, Any]:
        """For ``otel-drift status``, through the ledger."""
        from otel_drift import __version__

        self._look_at_receiver()
        self._log_work()
        now = self._conditions.now()
        return {
            "version": __version__,
            "addresses": self.addresses,
            "host": socket.gethostname(),
            "done": dict(self._auditing.done),
            "conditions": {name: {"message": one.message, "since": one.since} for name, one in now.items()},
        }

    def _log_work(self) -> None:
        """A line a minute in which something was audited."""
        new = Counter(self._auditing.done) - self._said
        if new and time.monotonic() - self._said_at >= SAY_SECONDS:
            told = ", ".join(f"{number} {outcome_words(name)}" for name, number in sorted(new.items()))
            log.info("sessions audited: %s", told)
            self._said, self._said_at = Counter(self._auditing.done), time.monotonic()

    def _look_at_receiver(self) -> None:
        """Senders that are told to wait make a process not ready: whoever balances load sends elsewhere."""
        problem = self._receiver.problem() if self._receiver is not None else None
        if problem:
            self._conditions.note("receiver", problem, blocking=True)
        else:
            self._conditions.clear("receiver")

    def _health(self) -> tuple[bool, dict[str, Any]]:
        """Whether the process works at all: every duty's thread is alive."""
        dead = self._duties.dead
        return not dead, {"process": self._process_id, "dead": dead}

    def _readiness(self) -> tuple[bool, dict[str, Any]]:
        """Whether it can take work in, and what is wrong right now."""
        self._look_at_receiver()  # the heartbeat may be waiting for the database
        now = self._conditions.now()
        said = {name: one.message for name, one in now.items()}
        # The heartbeat is what is written most often: without it, nothing that comes could be kept either.
        blocking = [name for name, one in now.items() if one.blocking or name == BeatDuty.name]
        try:
            self._ledger.cursor("")
        except OtelDriftError as error:
            said["database"] = str(error)
            blocking.append("database")
        return not blocking, {"blocking": blocking, "conditions": said}

    def _show(self, telemetry: Telemetry) -> None:
        """Metrics that are read when asked for."""
        names = ("open", "due", "held", "put_off", "oldest_due")
        telemetry.gauges([*(f"backlog.{name}" for name in names), "inbox.spans", "inbox.size"], self._backlog)
        telemetry.gauges(["delivery.owed", "delivery.lag"], self._owed)
        telemetry.gauges(["budget.spent", "budget.limit"], self._spent)
        telemetry.gauge("condition", lambda: dict.fromkeys(self._conditions.now(), 1))
        telemetry.gauge("degraded", lambda: int(bool(self._conditions.now())))

    def _backlog(self) -> Mapping[str, Any]:
        counts = self._inbox.counts(time.time_ns(), **self._settings.serve.due())
        return {
            "backlog.open": counts.open,
            "backlog.due": counts.due,
            "backlog.held": counts.held,
            "backlog.put_off": counts.put_off,
            "backlog.oldest_due": counts.oldest_due / SECOND,
            "inbox.spans": counts.spans,
            "inbox.size": counts.bytes,
        }

    def _owed(self) -> Mapping[str, Any]:
        now, lags = time.time_ns(), self._ledger.delivery_lags()
        counts = self._ledger.delivery_counts(now)
        return {
            "delivery.owed": {name: states.get("owed", 0) for name, states in counts.items()},
            "delivery.lag": {name: max(0, now - lags.get(name, now)) / SECOND for name in counts},
        }

    def _spent(self) -> Mapping[str, Any]:
        spent, limits = self._ledger.spent(time.time_ns()), self._settings.budget
        told = {"cost": limits.cost_per_day, "tokens": limits.tokens_per_day, "calls": limits.calls_per_day}
        return {
            "budget.spent": {name: spent[name] for name in told},
            "budget.limit": {name: limit for name, limit in told.items() if limit is not None},
        }
