"""What any alerter must do, seen from who receives: everything arrives, repeated without harm, nothing escapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from otel_drift import retry
from otel_drift.errors import ConfigError, SinkError
from otel_drift.protocols import Alert, Alerter
from otel_drift.testing.lines import is_one_safe_line, shows_no_secret
from otel_drift.times import SECOND

STARTED = 1_790_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class AlerterCase:
    """An alerter and how to look at what arrives.

    Args:
        open: Makes the alerter anew, as a process that starts does.
        received: Texts that arrived so far, one a notification, as a person or a program reads them.
        failing: Label → a context in which nothing arrives: down, overloaded. Telling must raise, and work after it.
        broken: What is wrong → makes an alerter that is wrong so.
        secrets: Texts that may appear nowhere.
    """

    open: Callable[[], Alerter]
    received: Callable[[], Iterable[str]]
    failing: Mapping[str, Callable[[], AbstractContextManager[object]]] = field(default_factory=dict)
    broken: Mapping[str, Callable[[], Alerter]] = field(default_factory=dict)
    secrets: Collection[str] = ()


def sample_alert(number: int = 1, **changes: object) -> Alert:
    """An alert of the session ``session-<number>``."""
    made = Alert(
        key=f"{number:032x}",
        kind="finding",
        state="firing",
        audit="factual_drift",
        type="CONTRADICTION",
        severity="CRITICAL",
        session_id=f"session-{number}",
        span_ref=f"{number:032x}:{number:016x}",
        started=STARTED + number * SECOND,
        event_id=f"event-{number}",
        application="shop-bot",
        environment="production",
        judge="openai/gpt-4.1",
        confidence=0.93,
        link=f"https://traces.example/{number:032x}",
        session_link=f"https://traces.example/sessions/session-{number}",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def check_alerter(case: AlerterCase) -> None:
    """Check that alerts arrive, end, repeat without harm, survive faults, and that hostile names stay inert.

    Raises:
        AssertionError: what a user would see go wrong.
    """
    _arrives(case)
    _ends(case)
    _takes_repetitions(case)
    _takes_many(case)
    _stays_inert(case)
    _survives_faults(case)
    _clear_errors(case)


def _arrives(case: AlerterCase) -> None:
    (text,) = _tell(case, sample_alert(1), sample_alert(2))
    for part in ("event-1", "event-2", "session-1", "CONTRADICTION", "CRITICAL", "https://traces.example/"):
        assert part.casefold() in text.casefold(), f"{part!r} does not arrive"


def _ends(case: AlerterCase) -> None:
    (text,) = _tell(case, sample_alert(1, state="resolved", ended=STARTED + 60 * SECOND))
    assert "event-1" in text, "it is not said what has ended"
    (fires,) = _tell(case, sample_alert(1))
    assert text != fires, "the end reads like the alarm"


def _takes_repetitions(case: AlerterCase) -> None:
    for _ in range(2):
        assert "event-3" in " ".join(_tell(case, sample_alert(3)))


def _takes_many(case: AlerterCase) -> None:
    texts = _tell(case, *(sample_alert(number) for number in range(10, 210)))
    assert "event-10" in " ".join(texts), "of two hundred not even the first arrives"


def _stays_inert(case: AlerterCase) -> None:
    hostile = "<!here> @channel [win](https://evil.example) <script>\u202e\x00\x1b[2J" + "x" * 5000
    alert = sample_alert(
        4,
        session_id=hostile,
        application=hostile,
        environment=hostile,
        type=hostile,
        event_id="event-4",
        judge=hostile,
        link=None,
        session_link=None,
    )
    (text,) = _tell(case, alert)
    assert "event-4" in text, "an alert with odd names does not arrive"
    assert "\x1b" not in text, "control sequences get through"
    _tell(case, replace(alert, session_id="\ud800", application="", environment=None, type="", judge=""))


def _survives_faults(case: AlerterCase) -> None:
    for number, (label, failing) in enumerate(case.failing.items(), 300):
        alerter = case.open()
        try:
            with failing(), retry.testing():
                try:
                    alerter.notify([sample_alert(number)])
                except (SinkError, ConfigError):
                    pass
                else:
                    raise AssertionError(f"{label}: nobody was told, and nobody knows")
        finally:
            _close(alerter)
        assert f"event-{number}" in " ".join(_tell(case, sample_alert(number))), (
            f"{label}: it cannot be told afterwards"
        )


def _clear_errors(case: AlerterCase) -> None:
    alerter = case.open()
    name = alerter.name
    _close(alerter)
    shows_no_secret(case.secrets, f"{name} {alerter!r}", "a name")
    for label, make in case.broken.items():
        try:
            with retry.testing():
                alerter = make()
                try:
                    if check := getattr(alerter, "check", None):
                        check()
                    alerter.notify([sample_alert(5)])
                finally:
                    _close(alerter)
        except (ConfigError, SinkError) as error:
            is_one_safe_line(case.secrets, str(error), f"{label}: the error")
            continue
        raise AssertionError(f"{label}: no error")


def _tell(case: AlerterCase, *alerts: Alert) -> list[str]:
    """What arrives of one notification, told by a process of its own."""
    before = len(list(case.received()))
    alerter = case.open()
    try:
        alerter.notify(alerts)
    finally:
        _close(alerter)
    arrived = list(case.received())[before:]
    assert arrived, "nothing arrives"
    assert not any(secret in text for secret in case.secrets for text in arrived), "what arrives shows a secret"
    return arrived


def _close(alerter: Alerter) -> None:
    if (close := getattr(alerter, "close", None)) is not None:
        close()
