"""``otel-drift serve``: receive or follow production traces, audit, annotate, alert, until stopped."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from otel_drift.cli import app
from otel_drift.cli.common import ConfigOption
from otel_drift.errors import ConfigError

if TYPE_CHECKING:
    from otel_drift.config import Settings
    from otel_drift.errors import RecordError
    from otel_drift.inbox import Inbox
    from otel_drift.ledger import Ledger
    from otel_drift.links import Links
    from otel_drift.protocols import Source
    from otel_drift.receiver import Receiver
    from otel_drift.service.conditions import Conditions
    from otel_drift.service.duties import Duty
    from otel_drift.service.following import FollowDuty
    from otel_drift.service.service import Service
    from otel_drift.telemetry import Telemetry


log = logging.getLogger(__name__)

REPEATED_SECONDS = 1.0
"""A second signal so soon is the same one: shells and supervisors signal whole groups."""


@app.command()
def serve(
    config: ConfigOption = None,
    ledger: Annotated[str | None, typer.Option(help="File or postgresql:// URL that keeps everything.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say whether it could start.")] = False,
) -> None:
    """Receive OTLP and follow platforms, audit sessions once they settle, write back, alert; until SIGTERM or Ctrl-C.

    Senders must send the bearer token in OTEL_DRIFT_SERVE_TOKEN; without one it listens on loopback only.
    """
    from otel_drift.cli.serve_check import check as checked
    from otel_drift.config import load_settings
    from otel_drift.report.escape import terminal_safe
    from otel_drift.service.logs import set_up

    settings = load_settings(config, {"ledger": {"url": ledger}})
    set_up(settings.telemetry.log_format)
    stopping = threading.Event()
    if check:
        wrong, down = checked(settings, opened)
        _say([*down, *([] if wrong else _vain(settings))])
        for line in map(str, wrong or ("the settings are in order",)):
            typer.echo(f"otel-drift: {terminal_safe(line)}", err=True)
        if wrong:
            raise typer.Exit(2 if any(isinstance(one, ConfigError) for one in wrong) else 3)
        return
    with ExitStack() as stack:
        service, down = opened(settings, stack, stopping)
        _say([*down, *_vain(settings)])
        with _stopped_by_signals(stopping):
            service.run(stopping)


def opened(settings: Settings, stack: ExitStack, stopping: threading.Event) -> tuple[Service, list[str]]:
    """All parts of the service, checked before anything is received or paid for, and closed by `stack`.

    Returns:
        the service, and what is down for now, a sentence each.

    Raises:
        ConfigError: a setting, a key or a URL is wrong, or an extra is not installed.
        LedgerError: the ledger cannot be opened.
    """
    from otel_drift.alerts import alert_duty
    from otel_drift.cli.sources import back_to, check_sinks, links_of
    from otel_drift.cli.wiring import open_line, open_sink
    from otel_drift.inbox import RECEIVED, Inbox
    from otel_drift.links import Links
    from otel_drift.service.auditing import AuditDuty
    from otel_drift.service.conditions import Conditions
    from otel_drift.service.delivering import DeliveryDuty
    from otel_drift.service.keeping import RetentionDuty
    from otel_drift.service.service import Service
    from otel_drift.telemetry import Telemetry
    from otel_drift.telemetry.judge import ObservedJudge

    _no_address_twice(settings)
    process_id = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    conditions, telemetry = Conditions(), Telemetry.open(settings)
    stack.callback(telemetry.close)
    back = not settings.output.sinks  # to the platforms that are followed
    settings.output.sinks = [sink for sink in settings.output.sinks if sink != "none"]
    line, sinks = open_line(settings, stack)
    line.judge = ObservedJudge(line.judge, telemetry)
    inbox = Inbox(line.ledger, session_attributes=settings.sessions.session_id_attributes)
    receiver = _receiver(settings, inbox, telemetry)
    lines = {RECEIVED: line}
    links = {RECEIVED: Links(settings.output.trace_url, settings.output.session_url)}
    duties: list[Duty] = []
    for spec in settings.serve.follow:
        source, duty = _follower(spec, settings, stack, inbox, line.ledger, conditions, stopping)
        duties.append(duty)
        own = [open_sink(one, settings, stack) for one in back_to([spec])] if back else []
        sinks |= {sink.name: sink for sink in own}
        lines[source.name] = replace(line, sinks=tuple(sink.name for sink in own) or line.sinks)
        links[source.name] = links_of(source, settings)
    if receiver is None and not duties:
        raise ConfigError("[serve] names nothing to receive or follow: set http, grpc or follow")

    def links_for(trace_id: str) -> Links:
        return links[inbox.origin_of(trace_id, links) or RECEIVED]

    alerts = alert_duty(settings, line.ledger, links_for, telemetry, conditions=conditions)
    stack.callback(alerts.close)
    down = [*check_sinks(sinks), *alerts.check()]
    auditing = AuditDuty(inbox, lines, settings, process_id, telemetry, conditions=conditions)
    duties += [
        auditing,
        *(DeliveryDuty(line.ledger, name, sink, telemetry) for name, sink in sinks.items()),
        alerts,
        RetentionDuty(inbox, line.ledger, settings.retention, conditions),
    ]
    service = Service(
        process_id,
        line.ledger,
        inbox,
        auditing,
        duties,
        conditions,
        receiver=receiver,
        telemetry=telemetry,
        settings=settings,
    )
    return service, down


def _no_address_twice(settings: Settings) -> None:
    from otel_drift.http_server import parse_address

    serve = settings.serve
    taken: dict[tuple[str, int], str] = {}
    for name, address in (("http", serve.http), ("grpc", serve.grpc), ("admin", serve.admin)):
        place = parse_address(address, f"[serve] {name}") if address else ("", 0)
        if place[1] and (other := taken.setdefault(place, name)) != name:
            raise ConfigError(f"[serve] {other} and {name} are both {address}: each needs a port of its own")


def _say(warnings: Iterable[str]) -> None:
    for warning in warnings:
        log.warning("%s", warning)


def _vain(settings: Settings) -> Iterator[str]:
    """Settings that go together, but not to any effect."""
    receives, embedded = bool(settings.serve.http or settings.serve.grpc), not settings.judge.model
    if receives and not [sink for sink in settings.output.sinks if sink != "none"]:
        yield "findings of what is received are written nowhere ([output] sinks is empty): the ledger, metrics, alerts"
    alerts = settings.alerts
    if embedded and alerts.to and not alerts.embedded:
        yield "no alert will be told: the judge is the embedded one, which [alerts] embedded = true would let through"
    elif embedded and alerts.to and alerts.severity == "critical":
        yield 'no alert will be told: the embedded judge finds major at most; set [alerts] severity = "major"'


def _receiver(settings: Settings, inbox: Inbox, telemetry: Telemetry) -> Receiver | None:
    from otel_drift.receiver import TOKEN_VARIABLE, Receiver

    if not settings.serve.http and not settings.serve.grpc:
        return None
    token = os.environ.get(TOKEN_VARIABLE) or None
    return Receiver(inbox, settings.serve, token=token, telemetry=telemetry)


def _follower(
    spec: str,
    settings: Settings,
    stack: ExitStack,
    inbox: Inbox,
    ledger: Ledger,
    conditions: Conditions,
    stopping: threading.Event,
) -> tuple[Source, FollowDuty]:
    """A source that is followed, asked whether it can be read; one that is down for now is followed all the same."""
    from otel_drift import plugins
    from otel_drift.cli.choice import FIRST_TIME, moment
    from otel_drift.cli.sources import answering, platform_of
    from otel_drift.errors import SourceError
    from otel_drift.service.following import MOST_PROBLEMS, FollowDuty

    platform = platform_of([spec])
    if platform is None:
        raise ConfigError(f"[serve] follow {spec}: name a platform, e.g. phoenix:http://localhost:6006?project=NAME")
    problems: deque[RecordError] = deque(maxlen=MOST_PROBLEMS)
    source: Source = plugins.opened("sources", *platform, settings.connectors, on_problem=problems.append)
    if close := getattr(source, "close", None):
        stack.callback(close)
    if check := getattr(source, "check", None):
        try:
            with answering(source.name):
                check()
        except SourceError as error:
            conditions.note(f"source {source.name}", str(error))
    now = time.time_ns()
    duty = FollowDuty(
        source,
        inbox,
        ledger,
        settings.pull,
        every=settings.serve.follow_minutes * 60,
        first=moment(settings.pull.since, "pull.since", now) if settings.pull.since else now - FIRST_TIME,
        problems=problems,
        conditions=conditions,
        stopping=stopping,
    )
    return source, duty


@contextmanager
def _stopped_by_signals(stopping: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT stop in good order; a second one at once."""
    asked_at = 0.0

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked_at
        if not stopping.is_set():
            asked_at = time.monotonic()
            stopping.set()
        elif time.monotonic() - asked_at > REPEATED_SECONDS:
            log.warning("stopped at once; what was under way is taken up after the lease")
            os._exit(130)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
