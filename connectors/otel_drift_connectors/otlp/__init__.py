"""Sink ``otlp:URL``: evaluation events as OTLP log records, and audit spans on request.

Append-only: each record carries ``otel_drift.result.id`` and ``otel_drift.result.revision``; the highest revision
counts, a record with ``otel_drift.result.withdrawn`` takes the value back, and one that comes twice has equal both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from otel_drift.errors import ConfigError, SinkError
from otel_drift.model import Annotation, Rejection, WriteReport
from otel_drift_connectors.otlp.endpoint import Endpoint, resolve

if TYPE_CHECKING:
    from otel_drift_connectors.otlp.export import Exporter, Reply

__all__ = ["OtlpSink"]

log = logging.getLogger(__name__)


class OtlpSink:
    """Sends annotations through OpenTelemetry's OTLP exporters and waits for the receiver to confirm.

    Retries, compression, certificates and time-outs are the exporters' (``OTEL_EXPORTER_OTLP_*``).

    Args:
        target: Base URL: ``http://collector:4318``, ``https://…``; gRPC as ``grpc://collector:4317`` or ``grpcs://…``
            (TLS). Empty: what ``OTEL_EXPORTER_OTLP_ENDPOINT`` says. A fragment chooses what is sent:
            ``#logs`` (the default), ``#spans`` (for Tempo and Jaeger, which store no logs), ``#logs,spans``.
        protocol: ``http/protobuf`` or ``grpc``; default: the URL's scheme, then ``OTEL_EXPORTER_OTLP_PROTOCOL``.
        headers: Sent with every request, besides ``OTEL_EXPORTER_OTLP_HEADERS``; never shown.
        audit_spans: Also send audit spans (the fragment's long form).
        timeout: Seconds for a batch with its retries.

    Raises:
        ConfigError: the URL or an option is wrong, or credentials would travel over plain http off loopback.
    """

    upserts = False

    def __init__(
        self,
        target: str = "",
        *,
        protocol: str | None = None,
        headers: Mapping[str, str] | None = None,
        audit_spans: bool = False,
        timeout: float | None = None,
    ) -> None:
        url, _, fragment = target.partition("#")
        kinds = _kinds(fragment, audit_spans)
        self._logs = resolve("logs", url, protocol, headers) if "logs" in kinds else None
        self._spans = resolve("traces", url, protocol, headers) if "spans" in kinds else None
        self._timeout = timeout
        self._exporters: dict[str, Exporter] = {}
        self.name = "otlp:" + "+".join(_place(one) for one in (self._logs, self._spans) if one)

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Send the annotations.

        Raises:
            SinkError: the receiver did not confirm; all stay owed.
        """
        from otel_drift_connectors.otlp import records

        writer = records.resource()
        rejected: dict[str, Rejection] = {}
        if self._logs:
            reply = self._exporter(self._logs).export([records.log_record(one, writer) for one in annotations])
            _note(rejected, annotations, reply, "log record")
        if self._spans:
            spans = {one.id: records.audit_span(one, writer) for one in annotations}
            for key, span in spans.items():
                if span is None:
                    rejected[key] = Rejection(key, "its trace has no OpenTelemetry id, so no span can join it")
            sent = [one for one in annotations if spans[one.id] is not None]
            if sent:
                reply = self._exporter(self._spans).export([spans[one.id] for one in sent])
                _note(rejected, sent, reply, "span")
        written = tuple(one.id for one in annotations if one.id not in rejected)
        return WriteReport(written=written, rejected=tuple(rejected.values()))

    def close(self) -> None:
        """Close the connections."""
        while self._exporters:
            self._exporters.popitem()[1].close()

    def _exporter(self, endpoint: Endpoint) -> Exporter:
        from otel_drift_connectors.otlp.export import Exporter

        if endpoint.signal not in self._exporters:
            try:
                self._exporters[endpoint.signal] = Exporter(endpoint, self._timeout)
            except (OSError, ValueError) as error:  # a certificate file, a time-out variable
                raise SinkError(f"the OTLP exporter cannot be set up: {error}") from error
        return self._exporters[endpoint.signal]


def _kinds(fragment: str, audit_spans: bool) -> set[str]:
    kinds = {kind.strip() for kind in fragment.split(",")} if fragment else {"logs"}
    if audit_spans:
        kinds.add("spans")
    if not kinds <= {"logs", "spans"}:
        raise ConfigError(f"sink otlp: after # comes logs, spans or logs,spans, not {fragment!r}")
    return kinds


def _place(endpoint: Endpoint) -> str:
    return endpoint.public if endpoint.protocol != "grpc" else f"{endpoint.public}({endpoint.signal})"


def _note(rejected: dict[str, Rejection], sent: Sequence[Annotation], reply: Reply, kind: str) -> None:
    """Turn a partial success into rejections. It counts rejected records and doesn't name them: all are in doubt.

    Source: the OTLP specification, which also forbids to send them again.
    """
    if not reply.rejected:
        if reply.message:
            log.warning("the OTLP receiver accepted everything and says: %s", reply.message)
        return
    count = f"{reply.rejected} of {len(sent)} {kind}s" if len(sent) > 1 else f"the {kind}"
    reason = f"the receiver rejected {count}: {reply.message or 'no reason given'}"
    for one in sent:
        rejected[one.id] = Rejection(one.id, reason)
