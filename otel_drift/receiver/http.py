"""Receiver: OTLP over HTTP, protobuf or JSON: ``POST /v1/traces``, ``/v1/logs``, and ``/v1/metrics`` (`NO_METRICS`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from otel_drift.http_server import RefusedError, authorise, declared_size, read_body
from otel_drift.otlp.records import Signal
from otel_drift.receiver.admission import Admission
from otel_drift.receiver.answers import accepted, encoded, status_of
from otel_drift.receiver.intake import Intake, Outcome, Sent
from otel_drift.receiver.refusals import Refusal, Refusals
from otel_drift.receiver.unpacking import ACCEPTED, PACKED, PLAIN

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
BODY_SECONDS = 30.0
"""A client may take to send a body."""


def build_app(intake: Intake, admission: Admission, refusals: Refusals, *, token: str | None) -> Starlette:
    """The application.

    Args:
        intake: Keeps what is sent.
        admission: Whether there is room.
        refusals: Is told of them.
        token: Senders must send it as ``Authorization: Bearer …``. Without one only requests addressed to this
            machine's loopback are served, which keeps web pages that rebind a name out.
    """
    from starlette.applications import Starlette
    from starlette.routing import Route

    otlp = _Otlp(intake, admission, refusals, token)
    paths = {"/v1/traces": otlp.traces, "/v1/logs": otlp.logs, "/v1/metrics": otlp.metrics}
    return Starlette(
        routes=[Route(path, partial(otlp.answer, serve), methods=["POST"]) for path, serve in paths.items()],
        exception_handlers={404: otlp.unknown, 405: otlp.unknown},
    )


class _Otlp:
    def __init__(self, intake: Intake, admission: Admission, refusals: Refusals, token: str | None) -> None:
        self._intake, self._admission = intake, admission
        self._refusals, self._token = refusals, token

    async def answer(self, serve: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
        from starlette.requests import ClientDisconnect

        try:
            authorise(request, self._token, "the service's")
            return await serve(request)
        except ClientDisconnect:
            return _response(400, b"", PROTOBUF)  # nobody reads it
        except TimeoutError:
            return self._refused(request, Refusal("timeout", "the body did not come in time"))
        except RefusedError as error:
            return self._refused(request, Refusal(error.code, str(error)))
        except Refusal as refusal:
            return self._refused(request, refusal)
        except Exception as error:  # the boundary of a request; its text must not reach a log or the sender
            log.error("receiver: a request failed: %s", type(error).__name__)
            return self._refused(request, Refusal("internal_error", "the request could not be read"))

    async def traces(self, request: Request) -> Response:
        return await self._export(request, "traces")

    async def logs(self, request: Request) -> Response:
        return await self._export(request, "logs")

    async def metrics(self, request: Request) -> Response:
        kind, _ = _form(request)
        with self._admission.ticket():
            async with asyncio.timeout(BODY_SECONDS):
                async for _ in request.stream():  # a client may not read an answer before it has sent everything
                    pass
        return _response(200, encoded(accepted("metrics", Outcome(0)), is_json=kind == JSON), kind)

    async def unknown(self, request: Request, error: Exception) -> Response:
        if getattr(error, "status_code", 404) == 405:
            response = self._refused(request, Refusal("method_not_allowed", "use POST"))
            response.headers.update(getattr(error, "headers", None) or {})
            return response
        return self._refused(request, Refusal("not_found", "there is POST /v1/traces and POST /v1/logs"))

    async def _export(self, request: Request, signal: Signal) -> Response:
        kind, encoding = _form(request)
        most = self._admission.most_body
        declared = min(declared_size(request), most)  # more is refused for good when the body is read
        with self._admission.ticket(declared) as ticket:
            body = await read_body(
                request, most=most, seconds=BODY_SECONDS, growing=lambda size: ticket.resize(max(size, declared))
            )
            sent = Sent("http", signal, body, kind == JSON, encoding)
            outcome = await self._intake.take(sent, ticket)
        return _response(200, encoded(accepted(signal, outcome), is_json=kind == JSON), kind)

    def _refused(self, request: Request, refusal: Refusal) -> Response:
        self._refusals.tell("http", refusal)
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
