"""The gate over HTTP, for stacks that are not Python: ``POST /v1/gate`` and ``GET /healthz``.

Needs the extra ``otel-drift[gate]``. A request is a JSON object with ``query`` and ``passages``; the answer is the
decision, 200 for proceed and abstain alike. Errors are ``{"error": {"code", "message"}}``. No text of a request is
logged.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from otel_drift.errors import ConfigError
from otel_drift.gate.conflict_gate import ConflictGate
from otel_drift.platform import is_loopback

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)

TOKEN_VARIABLE = "OTEL_DRIFT_GATE_TOKEN"  # noqa: S105 - the name of a variable, no secret
"""The environment variable with the bearer token that callers must send."""
MOST_BODY = 4_000_000
"""Bytes a request may have."""
BODY_SECONDS = 10.0
"""Seconds a client may take to send them, and as many to send the headers before them."""
MOST_REQUESTS = 128
"""Requests served at the same time; further ones are answered 503."""
SHORTEST_TOKEN = 16


class _RefusedError(Exception):
    """A request that is not decided: status, code, message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code = status, code
        super().__init__(message)


def build_app(gate: ConflictGate, *, token: str | None = None, body_seconds: float = BODY_SECONDS) -> Starlette:
    """The application, to be mounted or served.

    Args:
        gate: decides; its deadline bounds a request.
        token: callers must send it as ``Authorization: Bearer …``. Without one only requests addressed to this
            machine's loopback are served, which keeps web pages that rebind a name out.
        body_seconds: how long a client may take to send its request.

    Raises:
        ConfigError: Starlette is not installed, or the token is too short.
    """
    starlette = _starlette()
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ConfigError(f"{TOKEN_VARIABLE} must have at least {SHORTEST_TOKEN} characters")

    under_way = 0

    async def decide(request: Request) -> Response:
        nonlocal under_way
        under_way += 1
        try:
            if under_way > MOST_REQUESTS:
                raise _RefusedError(503, "busy", f"{MOST_REQUESTS} requests are under way; try again shortly")
            _authorise(request, token)
            query, passages = _question(await _body(request, body_seconds))
            decision = await gate.acheck(query, passages)
        except _RefusedError as refused:
            headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(refused.status, {})
            return _json({"error": {"code": refused.code, "message": str(refused)}}, refused.status, headers)
        except ConfigError as error:
            return _json({"error": {"code": "invalid_request", "message": str(error)}}, 422)
        except Exception as error:  # the boundary of a request; its text must not reach a log or the caller
            log.error("gate: a request failed: %s", type(error).__name__)
            return _json({"error": {"code": "internal_error", "message": "the request could not be decided"}}, 500)
        finally:
            under_way -= 1
        return _json(decision.to_dict(), 200)

    async def health(request: Request) -> Response:
        return _json({"status": "ok", "judge": gate.judge.name}, 200)

    async def unknown(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)
        code, message = {
            404: ("not_found", "there is POST /v1/gate and GET /healthz"),
            405: ("method_not_allowed", "use POST /v1/gate or GET /healthz"),
        }.get(status, ("error", "the request cannot be served"))
        return _json({"error": {"code": code, "message": message}}, status, getattr(error, "headers", None) or {})

    return starlette.applications.Starlette(  # type: ignore[no-any-return]
        routes=[
            starlette.routing.Route("/v1/gate", decide, methods=["POST"]),
            starlette.routing.Route("/healthz", health, methods=["GET"]),
        ],
        exception_handlers={404: unknown, 405: unknown},
    )


def serve(
    gate: ConflictGate, address: str, *, token: str | None = None, announce: Callable[[str], object] = log.info
) -> None:
    """Serve until interrupted.

    Args:
        gate: decides.
        address: ``HOST:PORT``; ``[::1]:8080`` for IPv6. Port 0 takes a free one.
        token: see `build_app`; without one the host must be loopback.
        announce: is told the URL once the port is taken.

    Raises:
        ConfigError: the address is none, is not loopback though there is no token, or the extra is missing.
    """
    host, port = parse_address(address)
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"--serve {address}: without a token the gate listens on loopback only (127.0.0.1, ::1, localhost); "
            f"set {TOKEN_VARIABLE}, and put TLS before it"
        )
    app = build_app(gate, token=token)
    uvicorn = _uvicorn()
    try:
        listening = _listen(host, port)
    except OSError as error:
        raise ConfigError(f"--serve {address}: cannot listen there ({error.strerror}); is the port taken?") from error
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    announce(f"http://{shown}:{port}/v1/gate")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        http=impatient(BODY_SECONDS),
        timeout_keep_alive=5,
        timeout_graceful_shutdown=math.ceil(gate.deadline) + 1,
    )
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """The HTTP protocol that drops a connection whose request headers don't arrive in time.

    uvicorn has no limit for them, so connections that send nothing, or a byte now and then, would pile up.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_headers()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._expect_headers()

        def _expect_headers(self) -> None:
            self.loop.call_later(seconds, self._drop_if_silent, self.cycle)

        def _drop_if_silent(self, last: object) -> None:
            if self.cycle is last and not self.transport.is_closing():
                self.transport.close()

    return Impatient


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=MOST_REQUESTS)


def parse_address(address: str) -> tuple[str, int]:
    """``HOST:PORT`` in its parts.

    Raises:
        ConfigError: it is none.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"--serve {address!r}: use HOST:PORT, e.g. 127.0.0.1:8765")
    return host, int(port)


def _authorise(request: Request, token: str | None) -> None:
    if token is None:
        name = request.url.hostname or ""
        if not is_loopback(name):
            raise _RefusedError(403, "forbidden", "without a token only requests to loopback are served")
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.casefold() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise _RefusedError(401, "unauthorized", "send the gate's token as Authorization: Bearer …")


async def _body(request: Request, seconds: float) -> bytes:
    """The body, within its limits of size and time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":  # a browser may send other types across origins without asking first
        raise _RefusedError(415, "unsupported_media_type", "send application/json")
    if request.headers.get("content-encoding", "identity").casefold() != "identity":
        raise _RefusedError(415, "unsupported_media_type", "send the body without compression")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MOST_BODY:
        raise _RefusedError(413, "too_large", f"a request may have {MOST_BODY:,} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY:
                    raise _RefusedError(413, "too_large", f"a request may have {MOST_BODY:,} bytes")
    except TimeoutError:
        raise _RefusedError(408, "timeout", f"the body did not come within {seconds:g} seconds") from None
    return bytes(body)


def _question(body: bytes) -> tuple[str, list[Any]]:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise _RefusedError(400, "invalid_json", "the body is no JSON") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("query"), str):
        raise _RefusedError(422, "invalid_request", "send an object with query (a text) and passages (a list)")
    if not isinstance(asked.get("passages"), list):
        raise _RefusedError(422, "invalid_request", "passages must be a list of objects with id and text")
    return asked["query"], asked["passages"]


def _json(value: Any, status: int, headers: Any = None) -> Response:
    from starlette.responses import Response

    body = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    return Response(body, status, dict(headers or {}), media_type="application/json")


def _starlette() -> Any:
    try:
        import starlette
        import starlette.applications
        import starlette.routing
    except ImportError as error:
        raise _missing("starlette") from error
    return starlette


def _uvicorn() -> Any:
    try:
        import uvicorn
    except ImportError as error:
        raise _missing("uvicorn") from error
    return uvicorn


def _missing(name: str) -> ConfigError:
    return ConfigError(f"serving the gate needs {name}: pip install 'otel-drift[gate]'")
