"""OpenTelemetry's own OTLP exporters, asked for the receiver's reply, which they keep to themselves.

`export()` of an exporter says success or failure. Whether records were rejected (partial success), whether a
"success" was a redirect or a web page, and why it failed is only in the reply: it is read on its way, in the HTTP
session and around the gRPC stub.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc  # type: ignore[import-untyped]
import requests
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_drift.errors import SinkError
from otel_drift_connectors.otlp.endpoint import Endpoint

# The exporters log every failure; we raise it. Without a handler Python would print those lines to stderr.
logging.getLogger("opentelemetry.exporter.otlp").addHandler(logging.NullHandler())

_RESPONSES: dict[str, Any] = {"logs": ExportLogsServiceResponse, "traces": ExportTraceServiceResponse}
_LONGEST_REASON = 300


@dataclass(slots=True)
class Reply:
    """What the receiver said last: a failure in words, or how many records it rejected and why."""

    failure: str | None = None
    rejected: int = 0
    message: str = ""

    def read(self, response: Any) -> None:
        """Take the partial success of an OTLP response message."""
        partial = response.partial_success
        self.rejected = (
            partial.rejected_log_records if hasattr(partial, "rejected_log_records") else partial.rejected_spans
        )
        self.message = partial.error_message[:_LONGEST_REASON]


class Exporter:
    """One exporter of one signal; `export` returns only once the receiver has confirmed."""

    def __init__(self, endpoint: Endpoint, timeout: float | None) -> None:
        self.endpoint = endpoint
        self.reply = Reply()
        self._exporter: Any
        if endpoint.protocol == "grpc":
            kind: Any = _grpc_exporters[endpoint.signal]
            headers = {name.lower(): value for name, value in endpoint.headers.items()}
            insecure = endpoint.url.startswith("http://")
            self._exporter = kind(
                self, endpoint=endpoint.url, insecure=insecure, headers=headers or None, timeout=timeout
            )
        else:
            kind = HttpLogExporter if endpoint.signal == "logs" else HttpSpanExporter
            self._exporter = kind(
                endpoint=endpoint.url, headers=dict(endpoint.headers), timeout=timeout, session=_Session(self)
            )

    def export(self, batch: Sequence[Any]) -> Reply:
        """Send a batch.

        Raises:
            SinkError: it was not confirmed; none, some or all of it may have arrived.
        """
        self.reply = Reply()
        result = self._exporter.export(batch)
        if self.reply.failure or result.name != "SUCCESS":
            raise SinkError(f"{self.endpoint.public} did not accept: {self.reply.failure or 'no answer in time'}")
        return self.reply

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()


class _Session(requests.Session):
    """Reads the reply of each request on its way to the HTTP exporter."""

    def __init__(self, exporter: Exporter) -> None:
        super().__init__()
        self._owner = exporter

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        self._owner.reply = Reply()
        try:
            response = super().request(*args, **kwargs)
        except requests.RequestException as error:
            self._owner.reply.failure = _cause(error)
            raise
        self._read(response)
        return response

    def _read(self, response: requests.Response) -> None:
        reply, signal = self._owner.reply, self._owner.endpoint.signal
        content_type = response.headers.get("Content-Type", "").split(";")[0].strip().lower()
        if not 200 <= response.status_code < 300:
            # A redirect counts as success for the exporter, but nothing was stored.
            reply.failure = f"HTTP {response.status_code} {response.reason or ''}".strip()
        elif content_type == "text/html":
            reply.failure = "the answer is a web page, so this is no OTLP endpoint"
        elif content_type == "application/x-protobuf" and response.content:
            message = _RESPONSES[signal]()
            try:
                message.ParseFromString(response.content)
            except Exception:  # protobuf's DecodeError; accepted with 2xx all the same
                return
            reply.read(message)


class _Stub:
    """Reads the reply of each call on its way to the gRPC exporter."""

    def __init__(self, stub: Any, exporter: Exporter) -> None:
        self._stub = stub
        self._owner = exporter

    def Export(self, **call: Any) -> Any:  # noqa: N802  the name of the RPC
        self._owner.reply = Reply()
        try:
            response = self._stub.Export(**call)
        except grpc.RpcError as error:
            details = (error.details() or "")[:_LONGEST_REASON]
            self._owner.reply.failure = f"gRPC {error.code().name}: {details}" if details else error.code().name
            raise
        self._owner.reply.read(response)
        return response


class _GrpcLogs(GrpcLogExporter):
    def __init__(self, owner: Exporter, **options: Any) -> None:
        self._owner = owner
        super().__init__(**options)

    def _initialize_channel_and_stub(self) -> None:
        super()._initialize_channel_and_stub()  # type: ignore[no-untyped-call]
        self._client: Any = _Stub(self._client, self._owner)


class _GrpcSpans(GrpcSpanExporter):
    def __init__(self, owner: Exporter, **options: Any) -> None:
        self._owner = owner
        super().__init__(**options)

    def _initialize_channel_and_stub(self) -> None:
        super()._initialize_channel_and_stub()  # type: ignore[no-untyped-call]
        self._client: Any = _Stub(self._client, self._owner)


_grpc_exporters: dict[str, type[Any]] = {"logs": _GrpcLogs, "traces": _GrpcSpans}


def _cause(error: requests.RequestException) -> str:
    """The kind of a transport error; its text may hold the whole URL with its query."""
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "the TLS certificate could not be verified"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__
