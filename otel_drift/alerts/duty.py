"""Tells alerters what they are to be told: grouped, limited, repeated, again after failures; one stops no other."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from otel_drift.alerts import wording
from otel_drift.alerts.reconciling import LinksFor, Subject, took_up, went_on
from otel_drift.errors import ConfigError, OtelDriftError, PlatformError
from otel_drift.ledger import Ledger
from otel_drift.ledger.alert_rows import AlerterState, AlertRow
from otel_drift.protocols import Alert, Alerter
from otel_drift.report.escape import said_of, terminal_safe
from otel_drift.retry import Backoff
from otel_drift.times import DAY, HOUR, SECOND

log = logging.getLogger(__name__)

MOST = 200
"""Alerts in one notification."""
PAUSES = Backoff(5 * SECOND, 300 * SECOND)
"""Between two tries of an alerter that fails; the pause doubles."""
REFUSED = frozenset({400, 413, 422})
"""Statuses of a receiver that was reached and does not take what it was given: it is given less at once."""
KEPT = 90 * DAY
"""How long alerts that ended are kept."""


class Telling(Protocol):
    """The part of the telemetry that hears of alerts."""

    def alerted(self, alerter: str, state: str, ok: bool, number: int = 1) -> None:
        """Alerts were told, or were not."""
        ...


class Noting(Protocol):
    """Who is told that an alerter fails, and that it works again."""

    def note(self, name: str, message: str) -> None:
        """Something is wrong."""
        ...

    def clear(self, name: str) -> None:
        """It is right again."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How alerts go out, in nanoseconds and numbers: see the settings ``[alerts]``."""

    group: int = 10 * SECOND
    per_hour: int = 60
    repeat: int = 60 * SECOND
    expire: int = 168 * HOUR

    @property
    def holds(self) -> int:
        """How long an alert told to an alerter that wants repetitions holds without one."""
        return max(5 * self.repeat, 2 * PAUSES.longest)


@dataclass(frozen=True, slots=True)
class Channel:
    """An alerter and what it is told of. `name` is that of its rows in the ledger."""

    name: str
    alerter: Alerter
    subject: Subject


class AlertDuty:
    """Reconciles with the ledger and tells every channel what is due; at least once, with the same keys.

    Findings that the ledger held when a channel was first entered are not told there. A failing alerter is noted
    under ``alerts NAME`` and tried again with growing pauses. Of several processes on one ledger one tells at a time.

    Args:
        ledger: Where results and alerts are.
        channels: Who is told of what.
        pace: How often.
        links_for: The links for a trace id.
        quotes: Let quotes leave, cut and inert.
        telemetry: Hears of every alert that is told, repetitions aside, and of every try that fails.
        conditions: Hears of alerters that fail.
        clock: Nanoseconds since the epoch.

    Raises:
        LedgerError: the ledger cannot be used.
    """

    name = "alerts"
    every = 2.0

    def __init__(
        self,
        ledger: Ledger,
        channels: Sequence[Channel],
        *,
        pace: Pace,
        links_for: LinksFor,
        quotes: bool = False,
        telemetry: Telling | None = None,
        conditions: Noting | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        from otel_drift.ledger.alerts import AlertBook

        self.channels = tuple(channels)
        self._book = AlertBook(ledger.database)
        self._pace = pace
        self._links_for = links_for
        self._quotes = quotes
        self._telemetry = telemetry
        self._conditions = conditions
        self._clock = clock
        for channel in self.channels:
            self._book.enter(channel.name, clock())

    def step(self) -> bool:
        """Look once and tell each channel at most one group; True where there is more to do at once.

        Raises:
            LedgerError: the ledger failed.
        """
        more = False
        for channel in self.channels:
            with self._book.alone(channel.name) as held:
                if held:
                    more |= self._look(channel)
                    more |= self._tell(channel)
        return more

    def check(self) -> list[str]:
        """Ask the alerters whether they can be told; returns what is wrong for now, a line each.

        Raises:
            ConfigError: a key, a URL or a name is wrong.
        """
        down = []
        for one in {id(channel.alerter): channel.alerter for channel in self.channels}.values():
            check: Callable[[], str] | None = getattr(one, "check", None)
            try:
                if check is not None:
                    check()
            except ConfigError:
                raise
            except OtelDriftError as error:
                down.append(terminal_safe(f"alerts {one.name}: {error}; it is told later"))
        return down

    def close(self) -> None:
        """Close the alerters."""
        for one in {id(channel.alerter): channel.alerter for channel in self.channels}.values():
            if (close := getattr(one, "close", None)) is not None:
                close()

    def _look(self, channel: Channel) -> bool:
        """Bring a channel's alerts in line with the ledger; True where there are more new results."""
        now, subject, name = self._clock(), channel.subject, channel.name
        seen = self._book.state(name).seen
        found, upto = self._book.found_since(seen, severities=subject.severities, audit=subject.audit)
        keys = {key for one in found if (key := subject.key(one))}
        known = self._book.known(name, keys) if keys else {}
        changed = took_up(subject, found, known, self._links_for, now=now, expire=self._pace.expire)
        if upto != seen:
            self._book.note(name, changed.values(), upto)
            self._book.forget_ended(name, now - KEPT)
        changing = self._book.changing(name, seen=upto, expired=now - self._pace.expire)
        ended = went_on(subject, changing, upto, now=now, expire=self._pace.expire)
        if ended:
            self._book.note(name, ended, upto)
        return upto != seen

    def _tell(self, channel: Channel) -> bool:
        now, state, pace = self._clock(), self._book.state(channel.name), self._pace
        if state.retry_at is not None and now < state.retry_at <= now + PAUSES.longest:  # else the clock was set back
            return False
        most = max(1, MOST >> 2 * min(state.refusals, 4))
        news = self._book.due(channel.name, now, most)
        sent = tuple(at for at in state.sent if 0 <= now - at < HOUR)
        more = False
        if news and _is_ripe(news, now, pace.group, most) and len(sent) < pace.per_hour:
            self._book.attempt(channel.name, news, (*sent, now))
            if not self._notify(channel, news, state, now):
                return False
            more, state = len(news) == most, self._book.state(channel.name)
        if channel.alerter.repeats:
            again = self._book.to_repeat(channel.name, now - pace.repeat, now, most)
            if again and self._notify(channel, again, state, now):
                more |= len(again) == most
        return more

    def _notify(self, channel: Channel, rows: Sequence[AlertRow], state: AlerterState, now: int) -> bool:
        """Tell, and note what became of it; False where it failed."""
        error = self._tried(channel, self._alerts(channel, rows, now))
        self._count(channel, rows, error)
        if error is None:
            right = {"failures": 0, "refusals": max(0, state.refusals - 1), "retry_at": None, "reason": None}
            done = self._book.called if channel.subject.kind == "action" else self._book.told
            done(channel.name, rows, now, **right)
            if state.failures and self._conditions:
                self._conditions.clear(f"{self.name} {channel.name}")
            return True
        said = said_of(error, "the alerter")
        refused = isinstance(error, PlatformError) and error.status in REFUSED
        if refused and len(rows) == 1 and rows[0].due is not None:
            self._book.put_off(channel.name, rows[0], now)
        pause = PAUSES.after(state.failures)
        asked = getattr(error, "retry_after", None)
        if isinstance(asked, int | float) and asked > 0:
            pause = min(PAUSES.longest, max(pause, int(asked * SECOND)))
        self._book.set_state(
            channel.name,
            sent=state.sent,  # as before: what did not go out does not count
            failures=state.failures + 1,
            refusals=min(4, state.refusals + 1) if refused else state.refusals,
            retry_at=now + pause,
            reason=said,
        )
        if self._conditions:
            self._conditions.note(f"{self.name} {channel.name}", said)
        return False

    def _tried(self, channel: Channel, alerts: Sequence[Alert]) -> Exception | None:
        try:
            channel.alerter.notify(alerts)
        except Exception as error:  # the boundary of an alerter: a broken one stops no other
            log.debug("alerter %s failed", channel.name, exc_info=error)
            return error
        return None

    def _alerts(self, channel: Channel, rows: Sequence[AlertRow], now: int) -> list[Alert]:
        said = self._book.quotes(rows) if self._quotes and channel.subject.kind == "finding" else {}
        made = []
        for row in rows:
            one = Alert(
                key=row.alert_key,
                kind=channel.subject.kind,
                state="firing" if row.state == "firing" else "resolved",
                started=row.started,
                ended=row.ended,
                quotes=wording.quotes(said.get(row.alert_key, ())),
                **row.body,
            )
            if channel.alerter.repeats and one.state == "firing":
                one = replace(one, holds_until=now + self._pace.holds)
            made.append(one)
        return made

    def _count(self, channel: Channel, rows: Sequence[AlertRow], error: Exception | None) -> None:
        if self._telemetry is None:
            return
        counted = rows if error else [row for row in rows if row.due is not None]
        states = Counter("firing" if row.state == "firing" else "resolved" for row in counted)
        for state, number in states.items():
            self._telemetry.alerted(channel.name, state, error is None, number)


def _is_ripe(news: Sequence[AlertRow], now: int, group: int, most: int) -> bool:
    """Whether a group goes out: it is full, or its oldest has waited long enough (by a clock that may be set back)."""
    oldest: Any = news[0].due
    return len(news) >= most or oldest > now or now - oldest >= group
