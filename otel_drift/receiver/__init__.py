"""The OTLP receiver of the service: traces and logs over HTTP and gRPC into the inbox.

What is answered with success is durable. What cannot be taken in now is answered so that senders try again; what never
can be, so that they don't. Needs the extra ``otel-drift[serve]``. Texts of requests are never logged.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from otel_drift.errors import ConfigError
from otel_drift.http_server import (
    HttpServer,
    Impatience,
    check_exposure,
    check_installed,
    check_token,
    parse_address,
)
from otel_drift.platform import is_loopback
from otel_drift.tls import Tls

if TYPE_CHECKING:
    from otel_drift.config import ServeSettings
    from otel_drift.inbox import Inbox
    from otel_drift.receiver.grpc import GrpcServer
    from otel_drift.telemetry import Telemetry

log = logging.getLogger(__name__)

TOKEN_VARIABLE = "OTEL_DRIFT_SERVE_TOKEN"  # noqa: S105 - the name of a variable, no secret
"""The environment variable with the bearer token that senders must send."""
WORKERS = 8
"""Requests being kept at the same time; they share transactions."""
MOST_CONNECTIONS = 512
"""Open HTTP connections."""
_ANSWER_SECONDS = 0.5
"""For the last answers to be sent."""
IDLE_SECONDS = 75.0
"""An HTTP connection may be idle: longer than the intervals of exporters, who find it closed only when they send."""


class Receiver:
    """Receives OTLP at the addresses of the settings, until stopped.

    Args:
        inbox: Where spans and log records go.
        settings: Addresses, TLS, limits.
        token: Senders must send it as ``Authorization: Bearer …``; without one only loopback is listened on.
        telemetry: Is told what was received and refused.

    Raises:
        ConfigError: an address, the token or the certificate is wrong, or the extra is not installed.
    """

    def __init__(self, inbox: Inbox, settings: ServeSettings, *, token: str | None, telemetry: Telemetry) -> None:
        from otel_drift.receiver.admission import Admission
        from otel_drift.receiver.intake import Intake
        from otel_drift.receiver.refusals import Refusals

        self.addresses: dict[str, str] = {}
        self._settings, self._token = settings, token
        self._tls = _checked(settings, token)
        self._admission = Admission(inbox, settings)
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="receiver")
        self._refusals = Refusals(telemetry)
        self._intake = Intake(inbox, self._admission, telemetry, self._workers)
        self._http: HttpServer | None = None
        self._grpc: GrpcServer | None = None

    def start(self) -> None:
        """Listen, in threads of its own.

        Raises:
            ConfigError: a port is taken.
        """
        from otel_drift.receiver.grpc import GrpcServer
        from otel_drift.receiver.http import build_app

        settings = self._settings
        try:
            if settings.http:
                self._http = HttpServer(
                    build_app(self._intake, self._admission, self._refusals, token=self._token),
                    settings.http,
                    setting="[serve] http",
                    extra="serve",
                    tls=self._tls,
                    patience=Impatience(idle_seconds=IDLE_SECONDS, most_connections=MOST_CONNECTIONS),
                )
                self._http.start("receiver-http")
                self.addresses["http"] = self._http.url
            if settings.grpc:
                self._grpc = GrpcServer(
                    self._intake,
                    self._admission,
                    self._refusals,
                    address=settings.grpc,
                    setting="[serve] grpc",
                    token=self._token,
                    tls=self._tls,
                )
                self._grpc.start()
                self.addresses["grpc"] = self._grpc.url
        except BaseException:
            self.stop(0)
            raise

    def problem(self) -> str | None:
        """Why senders are told to wait right now, for people; None where they are not. May wait for the database."""
        from otel_drift.receiver.refusals import Refusal

        try:
            self._admission.look()
        except Refusal as refusal:
            return str(refusal)
        return None

    def stop(self, grace: float) -> None:
        """Refuse what comes from now on, wait up to `grace` seconds for requests under way, and close."""
        self._admission.stop(grace)
        self._intake.give_up()
        if self._grpc is not None:
            self._grpc.stop(_ANSWER_SECONDS)
        if self._http is not None:
            self._http.stop(_ANSWER_SECONDS)
        self._workers.shutdown(cancel_futures=True)


def _checked(settings: ServeSettings, token: str | None) -> Tls | None:
    """What can be said to be wrong before anything is listened on; the certificate's files, if any."""
    check_token(token, TOKEN_VARIABLE)
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise ConfigError("[serve] tls_certificate and tls_key: give both or neither")
    tls = Tls(settings.tls_certificate, settings.tls_key) if settings.tls_certificate else None
    if tls is not None:
        tls.check()
    for name, address in (("http", settings.http), ("grpc", settings.grpc)):
        if not address:
            continue
        setting = f"[serve] {name}"
        check_exposure(address, token, setting=setting, server="the receiver", variable=TOKEN_VARIABLE)
        if tls is None and not is_loopback(parse_address(address, setting)[0]):
            log.warning("%s %s: without TLS, tokens and traces cross the network readable", setting, address)
    if settings.http:
        check_installed("serve")
    return tls
