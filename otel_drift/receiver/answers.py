"""Receiver: the answers of OTLP's services and its errors, in protobuf or in JSON, as the request was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_drift.receiver.intake import Outcome
from otel_drift.receiver.refusals import Refusal

if TYPE_CHECKING:
    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

NO_METRICS = "otel-drift keeps no metrics: send them elsewhere"
"""Answered to metrics, as the warning that OTLP allows beside success: an SDK that exports all its signals to one
endpoint would take anything else for a fault, and report or retry it with every interval."""


def accepted(signal: str, outcome: Outcome) -> Any:
    """The response message of a request that was taken in, wholly or in part.

    Args:
        signal: ``traces``, ``logs`` or ``metrics``.
        outcome: What became of it; not looked at for metrics.
    """
    if signal == "metrics":
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

        metrics = ExportMetricsServiceResponse()
        metrics.partial_success.error_message = NO_METRICS
        return metrics
    why = f"{outcome.rejected} of {outcome.rejected + outcome.kept} records could not be read: {outcome.why}"
    if signal == "traces":
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        traces = ExportTraceServiceResponse()
        if outcome.rejected:
            traces.partial_success.rejected_spans = outcome.rejected
            traces.partial_success.error_message = why
        return traces
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    logs = ExportLogsServiceResponse()
    if outcome.rejected:
        logs.partial_success.rejected_log_records = outcome.rejected
        logs.partial_success.error_message = why
    return logs


def status_of(refusal: Refusal) -> Status:
    """A refusal as ``google.rpc.Status``, with the delay after which to try again."""
    from google.rpc.status_pb2 import Status

    status = Status(code=refusal.reason.rpc, message=str(refusal))
    if refusal.reason.delay is not None:
        status.details.add().Pack(retry_info(refusal.reason.delay))
    return status


def retry_info(delay: float) -> Any:
    """``google.rpc.RetryInfo`` of so many seconds."""
    from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]

    info = RetryInfo()
    info.retry_delay.FromMilliseconds(int(delay * 1000))
    return info


def encoded(message: Any, *, is_json: bool) -> bytes:
    """A message as the body of an HTTP response."""
    if not is_json:
        return bytes(message.SerializeToString())
    from google.protobuf.json_format import MessageToJson  # type: ignore[import-untyped]

    return str(MessageToJson(message, indent=None)).encode()
