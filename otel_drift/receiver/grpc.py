"""Receiver: OTLP over gRPC: ``Export`` of the trace and log services, and of the one for metrics (`NO_METRICS`).

Methods are served as if they took a stream of requests, which looks the same on the wire: so a sender is refused before
its message is read, and a message that does not come in time keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Any, NoReturn

from otel_drift.errors import ConfigError
from otel_drift.http_server import is_bearer, parse_address
from otel_drift.receiver.admission import Admission
from otel_drift.receiver.answers import accepted, retry_info, status_of
from otel_drift.receiver.intake import Intake, Outcome, Sent
from otel_drift.receiver.refusals import Refusal, Refusals
from otel_drift.tls import Renewal, Tls

log = logging.getLogger(__name__)

METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
}
MESSAGE_SECONDS = 30.0
"""A client may take to send a message."""
MOST_READ = 16
"""Messages read at the same time: their size is not known before."""
MOST_CONNECTIONS = 512
_STREAMS = 128
"""Calls on one connection; a sender keeps further ones back."""
_HANDSHAKE_MS = 10_000
_IDLE_MS = 600_000
_PING_MS = 10_000


class GrpcServer:
    """The gRPC server of a receiver, in a thread of its own.

    Args:
        intake: Keeps what is sent.
        admission: Whether there is room.
        refusals: Is told of them.
        address: ``HOST:PORT``; port 0 takes a free one.
        setting: What the address is called in errors.
        token: Senders must send it as ``authorization: Bearer …``.
        tls: Certificate and key.
    """

    def __init__(
        self,
        intake: Intake,
        admission: Admission,
        refusals: Refusals,
        *,
        address: str,
        setting: str,
        token: str | None,
        tls: Tls | None,
    ) -> None:
        self.url = ""
        self._intake, self._admission, self._refusals = intake, admission, refusals
        self._address, self._setting, self._token, self._tls = address, setting, token, tls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._grace = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen; `url` is known afterwards.

        Raises:
            ConfigError: it cannot listen at the address.
        """
        listening: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, args=[listening], name="receiver-grpc")
        self._thread.start()
        try:
            self.url = listening.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise

    def stop(self, grace: float) -> None:
        """Take nothing more, wait up to `grace` seconds for requests under way, and end the thread."""
        if self._thread is None or self._loop is None or self._stop is None:
            return
        self._grace = grace
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._thread = None

    def _run(self, listening: Future[str]) -> None:
        try:
            asyncio.run(self._serve(listening))
        except Exception as error:  # the boundary of a thread
            if not listening.done():
                listening.set_exception(error)
                return
            log.error("receiver: gRPC ended: %s", type(error).__name__)

    async def _serve(self, listening: Future[str]) -> None:
        from grpc import aio  # type: ignore[import-untyped]

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._reading = asyncio.Semaphore(MOST_READ)
        server = aio.server(
            options=[
                ("grpc.so_reuseport", 0),  # else a second process takes the same port without a word
                ("grpc.max_receive_message_length", self._admission.most_unpacked),
                ("grpc.max_concurrent_streams", _STREAMS),
                ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ("grpc.max_connection_idle_ms", _IDLE_MS),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", _PING_MS),
                ("grpc.keepalive_permit_without_calls", 1),
            ]
        )
        server.add_generic_rpc_handlers([_services(self._export)])
        self._bind(server)
        await server.start()
        listening.set_result(self._bound)
        await self._stop.wait()
        await server.stop(self._grace)

    def _bind(self, server: Any) -> None:
        host, port = parse_address(self._address, self._setting)
        shown = f"[{host}]" if ":" in host else host
        try:
            if self._tls is None:
                taken = server.add_insecure_port(f"{shown}:{port}")
            else:
                taken = server.add_secure_port(f"{shown}:{port}", _credentials(self._tls))
        except (RuntimeError, OSError) as error:
            raise ConfigError(f"{self._setting} {self._address}: cannot listen there; is the port taken?") from error
        self._bound = f"{'grpcs' if self._tls else 'grpc'}://{shown}:{taken}"

    async def _export(self, signal: Any, messages: AsyncIterator[bytes], context: Any) -> bytes:
        try:
            self._authorise(context)
            with self._admission.ticket() as ticket:
                body = await self._message(messages)
                if signal == "metrics":
                    outcome = Outcome(0)
                else:
                    ticket.resize(len(body))
                    outcome = await self._intake.take(Sent("grpc", signal, body), ticket)
            return bytes(accepted(signal, outcome).SerializeToString())
        except asyncio.CancelledError:  # the sender does not wait any more; gRPC would log it as an error
            return b""
        except Refusal as refusal:
            await self._refuse(context, refusal)
        except Exception as error:  # the boundary of a request; its text must not reach a log or the sender
            log.error("receiver: a request failed: %s", type(error).__name__)
            await self._refuse(context, Refusal("internal_error", "the request could not be read"))

    def _authorise(self, context: Any) -> None:
        if self._token is None:
            return
        given = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        if not any(isinstance(value, str) and is_bearer(value, self._token) for value in given):
            raise Refusal("unauthorized", "send the service's token as authorization: Bearer …")

    async def _message(self, messages: AsyncIterator[bytes]) -> bytes:
        try:
            async with asyncio.timeout(MESSAGE_SECONDS), self._reading:
                async for message in messages:
                    return message
        except TimeoutError:
            raise Refusal("timeout", f"the message did not come within {MESSAGE_SECONDS:g} seconds") from None
        raise Refusal("bad_data", "there was no message")

    async def _refuse(self, context: Any, refusal: Refusal) -> NoReturn:
        from grpc import StatusCode

        self._refusals.tell("grpc", refusal)
        trailer = [("grpc-status-details-bin", status_of(refusal).SerializeToString())]
        if refusal.reason.delay is not None:  # where OpenTelemetry's SDK for Python looks for it
            trailer.append(("google.rpc.retryinfo-bin", retry_info(refusal.reason.delay).SerializeToString()))
        code = next(one for one in StatusCode if one.value[0] == refusal.reason.rpc)
        await context.abort(code, str(refusal), tuple(trailer))
        raise AssertionError("abort does not return")


def _credentials(tls: Tls) -> Any:
    """The certificate, asked for anew by each connection; one that was replaced is served from then on."""
    import grpc

    renewal = Renewal(tls)

    def configuration() -> Any:
        with open(tls.key, "rb") as key, open(tls.certificate, "rb") as certificate:
            return grpc.ssl_server_certificate_configuration([(key.read(), certificate.read())])

    return grpc.dynamic_ssl_server_credentials(configuration(), lambda: configuration() if renewal.is_due() else None)


def _services(export: Any) -> Any:
    import grpc

    class Services(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            signal = METHODS.get(details.method)
            if signal is None:
                return None  # gRPC answers UNIMPLEMENTED

            async def method(messages: AsyncIterator[bytes], context: Any) -> bytes:
                return bytes(await export(signal, messages, context))

            return grpc.stream_unary_rpc_method_handler(method)

    return Services()
