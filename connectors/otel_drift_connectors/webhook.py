"""Alerts as signed JSON to any web address, by the Standard Webhooks specification."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from otel_drift.alerts import wording
from otel_drift.alerts.webhook_signature import secret_bytes, sign
from otel_drift.errors import ConfigError
from otel_drift.platform import Platform, Target, is_loopback
from otel_drift.protocols import Alert
from otel_drift.retry import NO_RETRY
from otel_drift.times import utc

SECRET_VARIABLE = "OTEL_DRIFT_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable, no secret


class Webhook:
    """Posts each notification as JSON, signed; see `alerts.webhook_signature.verify` for the receiving side.

    The duty that tells alerters tries again, so this does not. Redirects are not followed.

    Args:
        target: An https URL, or http on loopback. It may hold a query.
        secret: ``whsec_…`` or at least 24 characters; else from ``OTEL_DRIFT_WEBHOOK_SECRET``.
        headers: Sent as well, never shown.
        timeout: Seconds for one request.
        allow_plain_http: Send unencrypted to other machines.
        clock: Seconds since the epoch.

    Raises:
        ConfigError: no URL, no secret, or one that is too short.
    """

    repeats = False

    def __init__(
        self,
        target: str,
        *,
        secret: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        allow_plain_http: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        bare, mark, query = target.partition("?")
        url = Target.parse("webhook", bare, options=()).url
        parts = urlsplit(url)
        self._secret = secret or os.environ.get(SECRET_VARIABLE, "")
        if not self._secret:
            raise ConfigError(f"webhook: set {SECRET_VARIABLE} to the secret that the receiver checks signatures with")
        try:
            secret_bytes(self._secret)
        except ValueError as error:
            raise ConfigError(f"webhook: {SECRET_VARIABLE}: {error}") from None
        if parts.scheme == "http" and not allow_plain_http and not is_loopback(parts.hostname or ""):
            raise ConfigError(
                f"webhook: alerts would go to {parts.hostname} over plain http; use https, or allow it by "
                "allow_plain_http = true in [connectors.webhook]"
            )
        # Paths and queries of webhooks often are secrets: they are shown nowhere, and told apart by a hash.
        self._path = parts.path + mark + query
        origin = f"{parts.scheme}://{parts.netloc}"
        digest = hashlib.sha256(self._path.encode("utf-8", "backslashreplace")).hexdigest()[:8]
        self.name = f"webhook:{origin}" + (f"/…{digest}" if self._path else "")
        self._platform = Platform(
            "webhook",
            origin,
            headers=headers,
            timeout=timeout,
            policy=NO_RETRY,
            max_bytes=1024 * 1024,
            allow_plain_http=allow_plain_http,
            remedy="is the address right, does the receiver know the secret?",
        )
        self._clock = clock

    def __repr__(self) -> str:
        return f"Webhook({self.name!r})"

    def notify(self, alerts: Sequence[Alert]) -> None:
        """Post one notification. Its id is the same whenever the same alerts are told in the same states.

        Raises:
            SinkError: it was not taken.
            ConfigError: the receiver refuses it for good (401, 403).
        """
        body = payload(alerts)
        message_id, timestamp = notification_id(alerts), int(self._clock())
        self._platform.request(
            "POST",
            self._path,
            content=body,
            headers={
                "content-type": "application/json",
                "webhook-id": message_id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": sign(self._secret, message_id, timestamp, body),
            },
        )

    def close(self) -> None:
        """Close the connections."""
        self._platform.close()


def notification_id(alerts: Sequence[Alert]) -> str:
    """The key to recognise a repetition by: ``msg_`` and 32 hex digits of what is told."""
    told = sorted([one.key, one.kind, one.state, one.severity, one.started] for one in alerts)
    return f"msg_{hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]}"


def payload(alerts: Sequence[Alert]) -> bytes:
    """The JSON body: ``type`` (``drift.alerts`` or ``drift.actions``), ``timestamp``, and ``data`` with the alerts."""
    kind = "drift.actions" if all(one.kind == "action" for one in alerts) else "drift.alerts"
    newest = max((one.ended or one.started for one in alerts), default=0)
    data = {"title": wording.title(alerts), "text": wording.text(alerts), "alerts": [_record(one) for one in alerts]}
    return orjson.dumps({"type": kind, "timestamp": utc(newest), "data": data})


def _record(alert: Alert) -> dict[str, Any]:
    told = {
        "key": alert.key,
        "kind": alert.kind,
        "state": alert.state,
        "audit": alert.audit,
        "type": alert.type,
        "severity": alert.severity,
        "confidence": alert.confidence,
        "judge": alert.judge,
        "event_id": alert.event_id,
        "application": alert.application,
        "environment": alert.environment,
        "session_id": alert.session_id,
        "span_ref": alert.span_ref,
        "link": alert.link,
        "session_link": alert.session_link,
        "started": utc(alert.started),
        "ended": None if alert.ended is None else utc(alert.ended),
        "quotes": list(alert.quotes),
        "details": dict(alert.details),
    }
    return {name: _encodable(value) for name, value in told.items()}


def _encodable(value: Any) -> Any:
    """Text as UTF-8 can hold it: lone surrogates written as escapes."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
