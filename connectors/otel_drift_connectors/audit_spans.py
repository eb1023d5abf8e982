"""Writing to trace stores (Tempo, Jaeger), which have no annotations: audit spans by OTLP, events to a log store."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from otel_drift.errors import ConfigError, SinkError
from otel_drift.model import Annotation, Rejection, WriteReport
from otel_drift_connectors.otlp import OtlpSink

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class AuditSpanSink:
    """Sends annotations where the store (or the collector before it) takes OTLP.

    Args:
        platform: ``tempo`` or ``jaeger``.
        name: Of the sink: the store, not the way there, so that another way owes nothing anew.
        options: `otlp`, base URL for spans (else ``OTEL_EXPORTER_OTLP_ENDPOINT``); `logs`, base URL of a log store for
            ``gen_ai.evaluation.result`` events; `otlp_headers`, sent with both.
        headers: Sent with the spans (a tenant).

    Raises:
        ConfigError: a URL or the headers are wrong.
    """

    upserts = False

    def __init__(
        self, platform: str, name: str, options: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        own = options.get("otlp_headers", {})
        if not isinstance(own, Mapping):
            raise ConfigError(f"{platform}: otlp_headers is a table: otlp_headers = {{ NAME = 'value' }}")
        otlp, logs = str(options.get("otlp", "")), str(options.get("logs", ""))
        self._nowhere = (
            f"{platform}: nothing is written back, because no OTLP endpoint is known: set otlp = "
            f'"http://HOST:4318" in [connectors.{platform}] or OTEL_EXPORTER_OTLP_ENDPOINT, or say --sink none'
        )
        self._sinks: list[OtlpSink] = []
        if otlp or any(os.environ.get(variable) for variable in _ENDPOINTS):
            self._sinks.append(OtlpSink(f"{otlp}#spans", headers={**(headers or {}), **own}))
        if logs:
            self._sinks.append(OtlpSink(f"{logs}#logs", headers=dict(own)))

    def check(self) -> str:
        """Say where it writes; sends nothing, because a store keeps everything it is sent."""
        if not self._sinks:
            return self._nowhere
        return (
            f"{self.name}: writes to {', '.join(sink.name.removeprefix('otlp:') for sink in self._sinks)} (not tried)"
        )

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Send the annotations.

        Raises:
            SinkError: no endpoint is known, or one did not confirm; all stay owed.
        """
        if not self._sinks:
            raise SinkError(self._nowhere)
        rejected: dict[str, Rejection] = {}
        for sink in self._sinks:
            rejected |= {one.annotation_id: one for one in sink.write(annotations).rejected}
        written = tuple(one.id for one in annotations if one.id not in rejected)
        return WriteReport(written=written, rejected=tuple(rejected.values()))

    def close(self) -> None:
        """Close the connections."""
        for sink in self._sinks:
            sink.close()
