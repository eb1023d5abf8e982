"""``otel-drift serve --check``: all that is wrong with the settings, at once; nothing is changed, kept or sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from otel_drift.config import AlertSettings, AuditSection, BudgetSettings, JudgeSettings, PrivacySettings, ServeSettings
from otel_drift.errors import OtelDriftError

if TYPE_CHECKING:
    from otel_drift.config import Settings
    from otel_drift.service.service import Service

Opened = Callable[["Settings", ExitStack, threading.Event], tuple["Service", list[str]]]


def check(settings: Settings, opened: Opened) -> tuple[list[OtelDriftError], list[str]]:
    """See whether a service could start, without one, on a ledger in memory.

    Args:
        settings: All of them.
        opened: Makes a service, and says what is down for now.

    Returns:
        All that is wrong, and what is down for now, a sentence each.
    """
    from otel_drift.config import default_ledger
    from otel_drift.ledger.database import check_database

    wrong: dict[str, OtelDriftError] = {}
    down: dict[str, None] = {}

    def found(step: Callable[[], list[str]]) -> None:
        try:
            down.update(dict.fromkeys(step()))
        except OtelDriftError as error:
            wrong.setdefault(str(error), error)

    def tried(part: Settings) -> Callable[[], list[str]]:
        def step() -> list[str]:
            with ExitStack() as stack:
                return opened(part, stack, threading.Event())[1]

        return step

    found(lambda: check_database(settings.ledger.url or default_ledger()))
    settings.ledger.url = ":memory:"
    settings.telemetry.otlp = settings.telemetry.traces = ""
    found(tried(settings.model_copy(deep=True)))
    if wrong:  # it stopped at the first: each part is tried beside others that are in order
        for part in _parts(settings):
            found(tried(part))
    return list(wrong.values()), list(down)


def _parts(settings: Settings) -> Iterator[Settings]:
    """The settings as often as they have parts, each with one of them and nothing else that could be wrong."""

    def only(**sections: object) -> Settings:
        quiet = {
            "judge": JudgeSettings(),
            "audit": AuditSection(),
            "budget": BudgetSettings(),
            "privacy": PrivacySettings(),
            "alerts": AlertSettings(),
            "actions": settings.actions.model_copy(update={"longform": []}),
            "serve": ServeSettings(http="127.0.0.1:0", grpc="", admin=""),
            "output": settings.output.model_copy(update={"sinks": ["none"]}),
        }
        return settings.model_copy(update=quiet | sections, deep=True)

    serve, output, alerts, actions = settings.serve, settings.output, settings.alerts, settings.actions
    if serve.http or serve.grpc:
        yield only(serve=serve.model_copy(update={"follow": []}))
    yield only(judge=settings.judge, budget=settings.budget)
    yield only(audit=settings.audit)
    yield only(privacy=settings.privacy)
    for spec in output.sinks:
        yield only(output=output.model_copy(update={"sinks": [spec]}))
    for spec in serve.follow:
        followed = serve.model_copy(update={"http": "", "grpc": "", "admin": "", "follow": [spec]})
        yield only(serve=followed, **({} if output.sinks else {"output": output.model_copy()}))
    for spec in alerts.to:
        yield only(alerts=alerts.model_copy(update={"to": [spec]}))
    for spec in actions.longform:
        yield only(actions=actions.model_copy(update={"longform": [spec]}))
