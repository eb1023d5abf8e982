"""Alerts to Prometheus Alertmanager (API v2), told again and again until they are resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_drift.alerts import wording
from otel_drift.errors import PlatformError
from otel_drift.platform import Platform, Target
from otel_drift.protocols import Alert
from otel_drift.retry import NO_RETRY
from otel_drift.times import utc

NAMES: Mapping[str, str] = {"finding": "OtelDriftFinding", "action": "OtelDriftAction"}
"""The label ``alertname`` by kind of alert."""


class Alertmanager:
    """Posts alerts. Each carries the time until which it holds, so that one nobody repeats ends by itself.

    Several Alertmanagers of one cluster are alerters of their own: tell all of them. The duty that tells alerters
    tries again, so this does not.

    Args:
        target: Base URL; ``http://localhost:9093`` where empty.
        headers: Sent with every request, never shown.
        token: Bearer token, never shown.
        user: With `password`, basic authentication.
        password: Never shown.
        timeout: Seconds for one request.
        allow_plain_http: Let credentials travel unencrypted to another machine.

    Raises:
        ConfigError: no URL, or credentials over plain http.
    """

    repeats = True

    def __init__(
        self,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        token: str = "",
        user: str = "",
        password: str = "",
        timeout: float = 10.0,
        allow_plain_http: bool = False,
    ) -> None:
        url = Target.parse("alertmanager", target, options=(), default="http://localhost:9093").url
        self.name = f"alertmanager:{url}"
        self._platform = Platform(
            "alertmanager",
            url,
            headers={**(headers or {}), **({"authorization": f"Bearer {token}"} if token else {})},
            auth=(user, password) if user else None,
            remedy="set token, or user and password, in [connectors.alertmanager]",
            timeout=timeout,
            policy=NO_RETRY,
            max_bytes=4 * 1024 * 1024,
            allow_plain_http=allow_plain_http,
        )

    def check(self) -> str:
        """One line of what answers there.

        Raises:
            ConfigError: the credentials are refused.
            SinkError: nothing answers, or no Alertmanager.
        """
        status = self._platform.get("/api/v2/status").json()
        version = (status.get("versionInfo") or {}).get("version") if isinstance(status, dict) else None
        if not isinstance(version, str):
            raise PlatformError(f"{self.name} is no Alertmanager: its status has no version")
        return f"{self.name}: Alertmanager {wording.name(version)}"

    def notify(self, alerts: Sequence[Alert]) -> None:
        """Post alerts; what Alertmanager knows already it takes as a repetition.

        Raises:
            SinkError: they were not taken.
        """
        self._platform.post("/api/v2/alerts", [_posted(one) for one in alerts])

    def close(self) -> None:
        """Close the connections."""
        self._platform.close()


def _posted(alert: Alert) -> dict[str, Any]:
    """As ``postableAlert`` of Alertmanager's OpenAPI. Labels are what makes an alert the same one."""
    labels = {
        "alertname": NAMES[alert.kind],
        "severity": alert.severity.lower(),
        "drift_type": alert.type,
        "audit": alert.audit,
        "application": alert.application,
        "environment": alert.environment,
        "event_id": alert.event_id,
        "session_id": alert.session_id,
    }
    ends = alert.ended if alert.state == "resolved" else alert.holds_until
    posted: dict[str, Any] = {
        # Alertmanager's templates show labels in chats: nothing in them mentions or links anybody.
        "labels": {name: safe for name, value in labels.items() if value and (safe := wording.label(value))},
        "annotations": {name: value for name, value in _annotations(alert).items() if value},
        "startsAt": utc(alert.started),
    }
    if ends is not None:
        posted["endsAt"] = utc(max(ends, alert.started))
    if alert.link or alert.session_link:
        posted["generatorURL"] = alert.link or alert.session_link
    return posted


def _annotations(alert: Alert) -> dict[str, str | None]:
    details = {name: wording.name(str(value)) for name, value in alert.details.items() if value is not None}
    return {
        "summary": wording.summary(alert),
        "description": wording.description(alert),
        "link": alert.link,
        "session_link": alert.session_link,
        "judge": wording.name(alert.judge),
        "confidence": None if alert.confidence is None else f"{alert.confidence:.2f}",
        "alert_key": alert.key,
        **details,
    }
