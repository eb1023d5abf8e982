"""Receiver: OTLP over HTTP, protobuf or JSON: ``POST /v1/traces``, ``/v1/logs``, and ``/v1/metrics`` (`NO_METRICS`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING

from otel_drift.http_server import RefusedError, authorise, declared_size, read_body
from otel_drift.otlp.records import Signal
from otel_drift.receiver.admission import Admission
from otel_drift.receiver.answers import accepted, encoded, status_of
from otel_drift.receiver.intake import Intake, Outcome, Sent
from otel_drift.receiver.refusals import Refusal
from otel_drift.receiver.unpacking import ACCEPTED, PACKED, PLAIN

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from otel_drift.telemetry import Telemetry

log = logging.getLogger(__name__)

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
BODY_SECONDS = 30.0
"""A client may take to send a body."""


def build_app(
    intake: Intake,
    admission: Admission,
    workers: Executor,
    telemetry: Telemetry,
    *,
    token: str | None,
) -> Starlette:
    """The application.

    Args:
        intake: Keeps what is sent.
        admission: Whether there is room.
        workers: Where requests are unpacked, decoded and kept.
        telemetry: Is told of refusals.
        token: Senders must send it as ``Authorization: Bearer …``. Without one only requests addressed to this
            machine's loopback are served, which keeps web pages that rebind a name out.

    """
    from starlette import applications, routing
    from starlette.requests import ClientDisconnect

    async def export(request: Request, signal: Signal) -> Response:
        kind, encoding = _form(request)
        with admission.ticket(declared_size(request)) as ticket:
            body = await read_body(
                request,
                most=admission.most_body,
                seconds=BODY_SECONDS,
                growing=lambda size: ticket.resize(max(size, declared_size(request))),
            )
            sent = Sent("http", signal, body, kind == JSON, encoding)
            outcome = await asyncio.get_running_loop().run_in_executor(workers, intake.take, sent, ticket)
        return _response(200, encoded(accepted(signal, outcome), is_json=kind == JSON), kind)

    async def metrics(request: Request) -> Response:
        kind, _ = _form(request)
        with admission.ticket():
            async with asyncio.timeout(BODY_SECONDS):
                async for _ in request.stream():  # a client may not read an answer before it has sent everything
                    pass
        return _response(200, encoded(accepted("metrics", Outcome(0)), is_json=kind == JSON), kind)

    def answered(serve: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                authorise(request, token, "the service's")
                return await serve(request)
            except ClientDisconnect:
                return _response(400, b"", PROTOBUF)  # nobody reads it
            except TimeoutError:
                return refused(request, Refusal("timeout", "the body did not come in time"))
            except RefusedError as error:
                return refused(request, Refusal(error.code, str(error)))
            except Refusal as refusal:
                return refused(request, refusal)
            except Exception as error:  # the boundary of a request; its text must not reach a log or the sender
                log.error("receiver: a request failed: %s", type(error).__name__)
                return refused(request, Refusal("internal_error", "the request could not be read"))

        return answer

    def refused(request: Request, refusal: Refusal) -> Response:
        telemetry.refused("http", refusal.code, refusal.records)
        kind = _media_type(request)
        kind = kind if kind in (PROTOBUF, JSON) else JSON
        headers = {}
        if refusal.reason.delay is not None:
            headers["Retry-After"] = str(max(1, round(refusal.reason.delay)))
        if refusal.code == "unauthorized":
            headers["WWW-Authenticate"] = "Bearer"
        if refusal.code == "unsupported_media_type":
            headers["Accept-Encoding"] = ACCEPTED
        return _response(refusal.reason.http, encoded(status_of(refusal), is_json=kind == JSON), kind, headers)

    async def unknown(request: Request, error: Exception) -> Response:
        if getattr(error, "status_code", 404) == 405:
            response = refused(request, Refusal("method_not_allowed", "use POST"))
            response.headers.update(getattr(error, "headers", None) or {})
            return response
        return refused(request, Refusal("not_found", "there is POST /v1/traces and POST /v1/logs"))

    return applications.Starlette(
        routes=[
            routing.Route("/v1/traces", answered(partial(export, signal="traces")), methods=["POST"]),
            routing.Route("/v1/logs", answered(partial(export, signal="logs")), methods=["POST"]),
            routing.Route("/v1/metrics", answered(metrics), methods=["POST"]),
        ],
        exception_handlers={404: unknown, 405: unknown},
    )


def _form(request: Request) -> tuple[str, str]:
    """Media type and content encoding, where we understand both."""
    kind = _media_type(request)
    if kind not in (PROTOBUF, JSON):
        raise Refusal("unsupported_media_type", f"send {PROTOBUF} or {JSON}")
    encoding = request.headers.get("content-encoding", "").strip().casefold()
    if encoding not in PLAIN and encoding not in PACKED:
        raise Refusal("unsupported_media_type", f"send the body plain or compressed as {ACCEPTED}")
    return kind, encoding


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().casefold()


def _response(status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> Response:
    from starlette.responses import Response

    return Response(body, status, headers, media_type=kind)
