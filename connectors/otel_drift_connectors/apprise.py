"""Alerts through Apprise: Slack, Teams, PagerDuty, mail and whatever else it speaks."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence

from otel_drift.alerts import wording
from otel_drift.errors import ConfigError, SinkError
from otel_drift.protocols import Alert

VARIABLE = "OTEL_DRIFT_APPRISE_"


class AppriseAlerter:
    """Sends a text to one or more Apprise URLs; if one of several fails, all are told again.

    Args:
        target: A name; the URLs (they hold tokens) are in the environment variable ``OTEL_DRIFT_APPRISE_<NAME>``,
            separated by white space or commas.

    Raises:
        ConfigError: no such variable, no URL that Apprise takes, or Apprise is not installed.
    """

    repeats = False

    def __init__(self, target: str) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,60}", target):
            raise ConfigError(
                f"apprise: write apprise:NAME, and put the URL into {VARIABLE}NAME; NAME is letters, digits and _"
            )
        variable = VARIABLE + target.upper().replace("-", "_")
        urls = os.environ.get(variable, "").strip()
        if not urls:
            raise ConfigError(f"apprise:{target}: set {variable} to an Apprise URL, e.g. slack://…, mailtos://…")
        try:
            import apprise
        except ImportError:
            raise ConfigError("apprise needs an extra: pip install 'otel-drift[alerts]'") from None
        self.name = f"apprise:{target}"
        # Its debug messages hold URLs with their tokens, and what is sent.
        log = logging.getLogger("apprise")
        log.setLevel(max(log.level, logging.WARNING))
        asset = apprise.AppriseAsset(app_id="otel-drift", app_desc="otel-drift", async_mode=False)
        self._apprise = apprise.Apprise(asset=asset)
        if not self._apprise.add(urls):
            raise ConfigError(f"apprise:{target}: {variable} holds something that is no Apprise URL")

    def __repr__(self) -> str:
        return f"AppriseAlerter({self.name!r})"

    def notify(self, alerts: Sequence[Alert]) -> None:
        """Send one message.

        Raises:
            SinkError: at least one of the URLs did not take it.
        """
        import apprise

        firing = [one for one in alerts if one.state == "firing"]
        critical = any(one.severity == "CRITICAL" for one in firing)
        kind = apprise.NotifyType.FAILURE if critical else apprise.NotifyType.WARNING
        sent = self._apprise.notify(
            body=wording.text(alerts),
            title=wording.title(alerts),
            notify_type=kind if firing else apprise.NotifyType.SUCCESS,
            body_format=apprise.NotifyFormat.TEXT,
            interpret_escapes=False,
        )
        if not sent:
            raise SinkError(f"{self.name} was not delivered; Apprise's warnings in the log say more")
