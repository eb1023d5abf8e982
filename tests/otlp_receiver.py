"""A real OTLP receiver in this process, HTTP and gRPC, that decodes what it gets and answers as told."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from http_serving import served

REQUESTS = {
    "/v1/logs": logs_service_pb2.ExportLogsServiceRequest,
    "/v1/traces": trace_service_pb2.ExportTraceServiceRequest,
    "/v1/metrics": metrics_service_pb2.ExportMetricsServiceRequest,
}


@dataclass
class Receiver:
    """What arrived, as ``(signal, resource attributes, scope, record)``, and how to answer.

    `http` may set status, headers and body of an HTTP answer; `rpc` gets the call's context and may abort it or
    return a response.
    """

    url: str = ""
    requests: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    arrived: list[tuple[str, dict[str, Any], str, Any]] = field(default_factory=list)
    http: Callable[[int], tuple[int, dict[str, str], bytes] | None] = lambda _: None
    rpc: Callable[[int, Any], Any] = lambda _, __: None
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def logs(self) -> list[Any]:
        return [record for signal, _, _, record in self.arrived if signal == "logs"]

    @property
    def spans(self) -> list[Any]:
        return [record for signal, _, _, record in self.arrived if signal == "traces"]

    def wait(self, records: int, seconds: float = 120) -> None:
        """Wait until so many records have arrived."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.arrived) >= records, seconds), f"{len(self.arrived)} arrived"

    def take(self, message: Any) -> None:
        """Unpack an export request."""
        with self.changed:
            self._unpack(message)
            self.changed.notify_all()

    def _unpack(self, message: Any) -> None:
        for resource in getattr(message, "resource_logs", ()):
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    self.arrived.append(("logs", values(resource.resource.attributes), scope.scope.name, record))
        for resource in getattr(message, "resource_spans", ()):
            for scope in resource.scope_spans:
                for record in scope.spans:
                    self.arrived.append(("traces", values(resource.resource.attributes), scope.scope.name, record))
        for resource in getattr(message, "resource_metrics", ()):
            for scope in resource.scope_metrics:
                for record in scope.metrics:
                    self.arrived.append(("metrics", values(resource.resource.attributes), scope.scope.name, record))


def values(attributes: Any) -> dict[str, Any]:
    """OTLP key-values as a dict."""
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def http_receiver() -> Iterator[Receiver]:
    """Listen on a free loopback port for OTLP/HTTP with protobuf bodies."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests += 1
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = receiver.http(receiver.requests)
            if answer is None or answer[0] == 200:
                encoding = self.headers.get("Content-Encoding")
                body = {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(encoding or "", bytes)(body)
                message = REQUESTS[self.path]()
                message.ParseFromString(body)
                receiver.take(message)
            status, headers, content = answer or (200, {"Content-Type": "application/x-protobuf"}, b"")
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None: ...

    with served(Handler) as receiver.url:
        yield receiver


@contextmanager
def grpc_receiver() -> Iterator[Receiver]:
    """Listen on a free loopback port for OTLP/gRPC."""
    receiver = Receiver()

    def export(request: Any, context: Any) -> Any:
        receiver.requests += 1
        receiver.headers.append({key: value for key, value in context.invocation_metadata() if isinstance(value, str)})
        answer = receiver.rpc(receiver.requests, context)
        receiver.take(request)
        return answer

    class Logs(logs_service_pb2_grpc.LogsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            return export(request, context) or logs_service_pb2.ExportLogsServiceResponse()

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            return export(request, context) or trace_service_pb2.ExportTraceServiceResponse()

    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
        receiver.url = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield receiver
        finally:
            server.stop(None).wait()
