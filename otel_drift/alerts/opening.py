"""From settings to the duty that raises the alarm."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from otel_drift import plugins
from otel_drift.alerts.duty import AlertDuty, Channel, Noting, Pace, Telling
from otel_drift.alerts.reconciling import Actions, Findings, LinksFor
from otel_drift.errors import ConfigError
from otel_drift.ledger import Ledger
from otel_drift.policy import AlertRule
from otel_drift.protocols import Alerter
from otel_drift.times import HOUR, SECOND

if TYPE_CHECKING:
    from otel_drift.config import Settings


def alert_duty(
    settings: Settings,
    ledger: Ledger,
    links_for: LinksFor,
    telemetry: Telling | None = None,
    *,
    clock: Callable[[], int] = time.time_ns,
    conditions: Noting | None = None,
) -> AlertDuty:
    """The duty for ``[alerts] to`` and ``[actions] longform``; with neither it has no channels and nothing to do.

    From now on, what is committed to the ledger is told; close it at the end.

    Args:
        settings: All settings.
        ledger: Open; what it holds already is not told to alerters that are new.
        links_for: The links for a trace id, of the platform it came from.
        telemetry: Counts alerts.
        clock: Nanoseconds since the epoch.
        conditions: Told of alerters that fail, under ``alerts NAME``.

    Raises:
        ConfigError: no such alerter, a wrong option or URL, a missing secret or extra.
        LedgerError: the ledger cannot be used.
    """
    alerts, actions = settings.alerts, settings.actions
    rule = AlertRule(alerts.severity.upper(), alerts.confidence, alerts.embedded)  # type: ignore[arg-type]
    alerters: dict[str, Alerter] = {}
    for spec in dict.fromkeys([*alerts.to, *actions.longform]):
        name, _, target = spec.partition(":")
        alerters[spec] = plugins.opened("alerters", name, target, settings.connectors)
    channels = [Channel(alerters[spec].name, alerters[spec], Findings(rule)) for spec in dict.fromkeys(alerts.to)]
    recommended = Actions(frozenset(actions.recommended), rule)
    channels += [
        Channel(f"{alerters[spec].name} (actions)", alerters[spec], recommended)
        for spec in dict.fromkeys(actions.longform)
    ]
    names = [channel.name for channel in channels]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"[alerts] to, [actions] longform: {', '.join(doubled)} is named twice")
    return AlertDuty(
        ledger,
        channels,
        pace=Pace(
            int(alerts.group_seconds * SECOND),
            alerts.per_hour,
            int(alerts.repeat_seconds * SECOND),
            int(alerts.expire_hours * HOUR),
        ),
        links_for=links_for,
        quotes=alerts.quotes,
        telemetry=telemetry,
        conditions=conditions,
        clock=clock,
    )
