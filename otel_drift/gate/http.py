"""The gate over HTTP, for stacks that are not Python: ``POST /v1/gate`` and ``GET /healthz``.

Needs the extra ``otel-drift[gate]``. A request is a JSON object with ``query`` and ``passages``; the answer is the
decision, 200 for proceed and abstain alike. Errors are ``{"error": {"code", "message"}}``. No text of a request is
logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from otel_drift.errors import ConfigError
from otel_drift.gate.conflict_gate import ConflictGate
from otel_drift.http_server import (
    HttpServer,
    Impatience,
    RefusedError,
    authorise,
    check_exposure,
    check_token,
    missing,
    read_body,
)

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
    check_token(token, TOKEN_VARIABLE)

    under_way = 0

    async def decide(request: Request) -> Response:
        nonlocal under_way
        under_way += 1
        try:
            if under_way > MOST_REQUESTS:
                raise RefusedError(503, "busy", f"{MOST_REQUESTS} requests are under way; try again shortly")
            authorise(request, token, "the gate's")
            query, passages = _question(await _body(request, body_seconds))
            decision = await gate.acheck(query, passages)
        except RefusedError as refused:
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
    check_exposure(address, token, setting="--serve", server="the gate", variable=TOKEN_VARIABLE)
    server = HttpServer(
        build_app(gate, token=token),
        address,
        setting="--serve",
        extra="gate",
        patience=Impatience(header_seconds=BODY_SECONDS),
        grace=gate.deadline + 1,
    )
    announce(f"{server.url}/v1/gate")
    server.run()


async def _body(request: Request, seconds: float) -> bytes:
    """The body, within its limits of size and time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":  # a browser may send other types across origins without asking first
        raise RefusedError(415, "unsupported_media_type", "send application/json")
    if request.headers.get("content-encoding", "identity").casefold() != "identity":
        raise RefusedError(415, "unsupported_media_type", "send the body without compression")
    return await read_body(request, most=MOST_BODY, seconds=seconds)


def _question(body: bytes) -> tuple[str, list[Any]]:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise RefusedError(400, "invalid_json", "the body is no JSON") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("query"), str):
        raise RefusedError(422, "invalid_request", "send an object with query (a text) and passages (a list)")
    if not isinstance(asked.get("passages"), list):
        raise RefusedError(422, "invalid_request", "passages must be a list of objects with id and text")
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
        raise missing("starlette", "gate") from error
    return starlette
