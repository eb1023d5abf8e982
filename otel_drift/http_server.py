"""What our HTTP servers share: who may listen and ask, how large and how slow a request may be, and the server itself.

Needs uvicorn and Starlette, which come with the extras that serve something (``gate``, ``serve``).
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import importlib
import logging
import math
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_drift.errors import ConfigError
from otel_drift.platform import is_loopback
from otel_drift.tls import Renewal, Tls

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)

SHORTEST_TOKEN = 16
"""Characters a bearer token must have."""
_START_SECONDS = 30.0


class RefusedError(Exception):
    """A request that is not served: HTTP status, code, message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code = status, code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Impatience:
    """How long and how many connections are put up with."""

    header_seconds: float = 10.0
    """For the headers of a request, and for the TLS handshake before the first."""
    idle_seconds: float = 5.0
    """Between two requests on a connection."""
    most_connections: int | None = None
    """Open at the same time; a further one takes the place of the one that has been without a request longest."""


def parse_address(address: str, setting: str) -> tuple[str, int]:
    """``HOST:PORT`` in its parts (``[::1]:8080`` for IPv6); `setting` names it in errors.

    Raises:
        ConfigError: it is none.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{setting} {address!r}: use HOST:PORT, e.g. 127.0.0.1:8765")
    return host, int(port)


def check_token(token: str | None, variable: str) -> None:
    """Raise ConfigError where there is a token (of the environment's `variable`) that can be guessed or not sent."""
    if token is None:
        return
    if len(token) < SHORTEST_TOKEN:
        raise ConfigError(f"{variable} must have at least {SHORTEST_TOKEN} characters")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{variable} must be printable ASCII without spaces")


def check_exposure(address: str, token: str | None, *, setting: str, server: str, variable: str) -> None:
    """Raise ConfigError where an address can be reached from elsewhere though there is no token."""
    host, _ = parse_address(address, setting)
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"{setting} {address}: without a token {server} listens on loopback only (127.0.0.1, ::1, localhost); "
            f"set {variable}, and put TLS before it"
        )


def is_bearer(authorization: str, token: str) -> bool:
    """Whether an ``Authorization`` header holds the token; takes as long for a wrong one as for the right one."""
    scheme, _, given = authorization.partition(" ")
    same = hmac.compare_digest(given.strip().encode(errors="surrogateescape"), token.encode())
    return scheme.casefold() == "bearer" and same


def authorise(request: Request, token: str | None, owner: str) -> None:
    """Let a request through that has the token or, where there is none, is addressed to loopback.

    A web page that rebinds its own name to this machine still sends that name.

    Raises:
        RefusedError: 401 or 403.
    """
    if token is None:
        if not is_loopback(request.url.hostname or ""):
            raise RefusedError(403, "forbidden", "without a token only requests to loopback are served")
    elif not is_bearer(request.headers.get("authorization", ""), token):
        raise RefusedError(401, "unauthorized", f"send {owner} token as Authorization: Bearer …")


def declared_size(request: Request) -> int:
    """The ``Content-Length`` of a request; 0 where it says none."""
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 19 else 0


async def read_body(
    request: Request, *, most: int, seconds: float, growing: Callable[[int], object] | None = None
) -> bytes:
    """The body, of up to `most` bytes within `seconds`.

    Args:
        request: Whose body.
        most: Bytes.
        seconds: From now on.
        growing: Is told how many bytes are there, after each part; what it raises ends the reading.

    Raises:
        RefusedError: 413 or 408.
    """
    too_large = RefusedError(413, "too_large", f"a request may have {most:,} bytes")
    if declared_size(request) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_large
                if growing is not None:
                    growing(len(body))
    except TimeoutError:
        raise RefusedError(408, "timeout", f"the body did not come within {seconds:g} seconds") from None
    return bytes(body)


def impatient(patience: Impatience) -> type[H11Protocol]:
    """The HTTP protocol that drops a connection whose request headers don't arrive in time.

    uvicorn has no limit for them, so connections that send nothing, or a byte now and then, would pile up; and its
    limit of connections keeps newcomers out, so that idle ones could lock out everybody.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    opened: dict[H11Protocol, None] = {}

    class Impatient(H11Protocol):
        _due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            opened[self] = None
            if patience.most_connections is not None and len(opened) > patience.most_connections:
                next((one for one in opened if one._is_idle()), self)._drop()  # type: ignore[attr-defined]
            self._expect_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            opened.pop(self, None)
            self._forget_due()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._due is None and self._is_idle():
                self._expect_headers()
            super().data_received(data)
            if not self._is_idle():
                self._forget_due()

        def on_response_complete(self) -> None:
            if self in opened:  # last in the row again
                opened[self] = opened.pop(self)
            super().on_response_complete()

        def _is_idle(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _expect_headers(self) -> None:
            self._due = self.loop.call_later(patience.header_seconds, self._drop)

        def _forget_due(self) -> None:
            if self._due is not None:
                self._due.cancel()
                self._due = None

        def _drop(self) -> None:
            opened.pop(self, None)
            if not self.transport.is_closing():
                self.transport.close()

    return Impatient


class HttpServer:
    """uvicorn on one address: `run` in the main thread until a signal ends it, or `start` and `stop` a thread of it."""

    def __init__(
        self,
        app: Starlette,
        address: str,
        *,
        setting: str,
        extra: str,
        tls: Tls | None = None,
        patience: Impatience | None = None,
        grace: float = 5.0,
    ) -> None:
        """Take the port, so that `url` is known and senders wait rather than fail from now on.

        Args:
            app: The application.
            address: ``HOST:PORT``; port 0 takes a free one.
            setting: What the address is called in errors.
            extra: The extra that brings uvicorn.
            tls: Serve https.
            patience: With slow and idle connections.
            grace: How many seconds `run` waits in the end for requests under way.

        Raises:
            ConfigError: the address is none or is taken, the certificate cannot be used, or the extra is missing.
        """
        host, port = parse_address(address, setting)
        patience = patience or Impatience()
        if tls is not None:
            tls.check()
        uvicorn = _uvicorn(extra)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",  # its warnings tell of every request that is no HTTP
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            http=impatient(patience),
            timeout_keep_alive=math.ceil(patience.idle_seconds),
            timeout_graceful_shutdown=math.ceil(grace),
            ssl_certfile=tls and tls.certificate,
            ssl_keyfile=tls and tls.key,
        )
        self._tls = tls
        self._handshake_seconds = patience.header_seconds if tls else None
        self._server = uvicorn.Server(config)
        try:
            self._socket = _listen(host, port)
        except OSError as error:
            raise ConfigError(
                f"{setting} {address}: cannot listen there ({error.strerror}); is the port taken?"
            ) from error
        host, port = self._socket.getsockname()[:2]
        self.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until interrupted."""
        with self._socket:
            asyncio.run(self._serve())

    def start(self, name: str = "http") -> None:
        """Serve in a thread of that name; returns once it does."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run_in_thread, args=[ready], name=name)
        self._thread.start()
        ready.wait(_START_SECONDS)

    def stop(self, grace: float) -> None:
        """Take no more connections, wait up to `grace` seconds for requests under way, and end the thread."""
        if self._thread is None:
            self._socket.close()
            return
        self._server.config.timeout_graceful_shutdown = max(grace, 0.1)  # 0 would cancel what has just been answered
        self._server.should_exit = True
        self._thread.join()

    def _run_in_thread(self, ready: threading.Event) -> None:
        try:
            with self._socket:
                asyncio.run(self._serve(ready))
        except Exception as error:  # the boundary of a thread
            log.error("serving %s ended: %s", self.url, type(error).__name__)
        finally:
            ready.set()

    async def _serve(self, ready: threading.Event | None = None) -> None:
        loop: Any = asyncio.get_running_loop()
        if self._handshake_seconds:
            # uvicorn leaves it at asyncio's 60 s, in which connections that never say hello are not even counted.
            loop.create_server = functools.partial(loop.create_server, ssl_handshake_timeout=self._handshake_seconds)
        if ready is not None:
            loop.call_soon(ready.set)
        if self._tls is not None:
            begins = _renewing(self._tls)  # before they are read, so that what is replaced meanwhile is noticed
            self._server.config.load()
            self._server.config.ssl.sni_callback = begins
        await self._server.serve(sockets=[self._socket])


def _renewing(tls: Tls) -> Callable[[Any, str | None, Any], None]:
    """What a TLS context calls for each connection: a certificate that was replaced is served from the next one on."""
    renewal = Renewal(tls)

    def begins(_connection: Any, _name: str | None, context: Any) -> None:
        if renewal.is_due():
            context.load_cert_chain(tls.certificate, tls.key)

    return begins


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def _uvicorn(extra: str) -> Any:
    check_installed(extra)
    import uvicorn

    return uvicorn


def check_installed(extra: str) -> None:
    """Raise ConfigError where what serves HTTP is not installed."""
    for name in ("starlette", "uvicorn"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise missing(name, extra) from error


def missing(name: str, extra: str) -> ConfigError:
    """The error where an extra is not installed."""
    return ConfigError(f"serving this needs {name}: pip install 'otel-drift[{extra}]'")
