"""The service's own pages: ``/healthz`` (does it live), ``/readyz`` (can it take work in), ``/metrics``.

They are served without a token, as probes and Prometheus expect: the answers hold numbers and names of parts, no text
of traces. On a loopback address only requests addressed to loopback are served, which keeps web pages that rebind a
name out; on another one whoever reaches the port may read, and messages, which name hosts and paths, stay inside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson

from otel_drift.http_server import HttpServer, Impatience, RefusedError, authorise, missing, parse_address
from otel_drift.platform import is_loopback
from otel_drift.telemetry import CONTENT_TYPE

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)

SETTING = "serve.admin"
NAMES_ONLY = frozenset({"blocking", "dead"})
"""Of the details, those that are shown off loopback too: lists of names of parts."""
MOST_CONNECTIONS = 64
LEAST_COMPRESSED = 1_024
"""Bytes of a page from which on it is compressed for who takes that, as Prometheus does."""
STOP_SECONDS = 2.0

Said = Callable[[], tuple[bool, dict[str, Any]]]
"""Whether all is well, and the details; called in a thread, may take its time and may raise."""


class Admin:
    """Serves the pages in a thread of its own.

    Args:
        address: ``HOST:PORT``; port 0 takes a free one.
        metrics: The page for Prometheus.
        health: Whether the process works at all.
        ready: Whether it can take work in.

    Raises:
        ConfigError: the address is none or taken, or the extra ``serve`` is not installed.
    """

    def __init__(self, address: str, *, metrics: Callable[[], bytes], health: Said, ready: Said) -> None:
        inside = is_loopback(parse_address(address, SETTING)[0])
        app = _app(metrics, health, ready, inside=inside)
        patience = Impatience(most_connections=MOST_CONNECTIONS)
        self._server = HttpServer(app, address, setting=SETTING, extra="serve", patience=patience)
        self.url = self._server.url

    def start(self) -> None:
        """Serve from now on."""
        self._server.start("admin")

    def stop(self) -> None:
        """Serve no more."""
        self._server.stop(STOP_SECONDS)


def _app(metrics: Callable[[], bytes], health: Said, ready: Said, *, inside: bool) -> Starlette:
    try:
        from starlette import applications, middleware, responses, routing
        from starlette.middleware.gzip import GZipMiddleware
    except ImportError as error:
        raise missing("starlette", "serve") from error

    def answered(page: Callable[[], Response]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                if inside:
                    authorise(request, None, "")
                return await asyncio.to_thread(page)
            except RefusedError as error:
                return say({"error": {"code": error.code, "message": str(error)}}, error.status)
            except Exception as error:  # the boundary of a page: whoever asks is told that it failed
                log.warning("admin: %s failed: %s", request.url.path, type(error).__name__)
                return say({"error": {"code": "internal_error", "message": type(error).__name__}}, 500)

        return answer

    def say(value: dict[str, Any], status: int) -> Response:
        body = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
        return responses.Response(body, status, {"Cache-Control": "no-store"}, media_type="application/json")

    def told(state: str, ask: Said) -> Callable[[], Response]:
        def page() -> Response:
            good, details = ask()
            shown = {name: detail for name, detail in details.items() if inside or name in NAMES_ONLY}
            return say({state: good, **shown}, 200 if good else 503)

        return page

    def numbers() -> Response:
        return responses.Response(metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def unknown(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        text = "there is GET /healthz, /readyz and /metrics"
        return say({"error": {"code": "not_found", "message": text}}, status)

    pages = {"/healthz": told("healthy", health), "/readyz": told("ready", ready), "/metrics": numbers}
    return applications.Starlette(
        routes=[routing.Route(path, answered(page), methods=["GET"]) for path, page in pages.items()],
        exception_handlers={404: unknown, 405: unknown},
        middleware=[middleware.Middleware(GZipMiddleware, minimum_size=LEAST_COMPRESSED)],
    )
