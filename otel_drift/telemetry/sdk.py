"""OpenTelemetry's SDK as the service uses it: instruments from the table, a page for Prometheus, OTLP where asked."""

from __future__ import annotations

import functools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from otel_drift.errors import ConfigError
from otel_drift.telemetry.instruments import INSTRUMENTS, SECONDS
from otel_drift.telemetry.labels import cleaned

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Tracer

log = logging.getLogger(__name__)

SERVICE = "otel-drift"
"""``service.name`` of what the service says about itself."""
SCOPE = "otel_drift.service"
"""The instrumentation scope of its own spans and metrics."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of `Meters.page`: the format every Prometheus reads."""
MOST_SERIES = 20_000
"""Series of one metric; the SDK adds up what comes beyond. Labels are bounded so that nothing does."""
EXPORT_SECONDS = 5.0
"""For sending metrics or spans by OTLP, the exporter's own retries included; a stop waits as long for the last ones."""
READ_SECONDS = 2.0
"""For what several gauges show, before they show nothing; Prometheus gives up on a page after 10 by default."""

Reading: TypeAlias = float | Mapping[str, float] | None
"""What a gauge shows: a number, one for each value of its label, or nothing right now."""


class Meters:
    """The instruments of the table.

    Args:
        otlp: Endpoint that is sent the metrics as well; empty: none.

    Raises:
        ConfigError: the extra is not installed, or the endpoint is none.
    """

    def __init__(self, otlp: str = "") -> None:
        try:
            from opentelemetry.exporter.prometheus import PrometheusMetricReader
            from prometheus_client import CollectorRegistry, ProcessCollector
        except ImportError as error:
            raise ConfigError(
                "the metrics of the service need opentelemetry-exporter-prometheus: pip install 'otel-drift[serve]'"
            ) from error
        from opentelemetry.sdk.metrics import Counter, MeterProvider

        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)  # memory, open files and processor time of this process
        readers: list[MetricReader] = [
            PrometheusMetricReader(
                disable_target_info=True,
                scope_info_enabled=False,
                registry=self._registry,
                cardinality_limits={Counter: MOST_SERIES},
            )
        ]
        if otlp:
            readers.append(_otlp_reader(otlp))
        self._provider = MeterProvider(readers, resource())
        self._meter = self._provider.get_meter(SCOPE)
        self._page_lock = threading.Lock()
        self._made: dict[str, Any] = {
            one.name: self._meter.create_counter(one.name, one.unit, one.about)
            if one.kind == "counter"
            else self._meter.create_histogram(
                one.name, one.unit, one.about, explicit_bucket_boundaries_advisory=list(SECONDS)
            )
            for one in INSTRUMENTS.values()
            if one.kind != "gauge"
        }

    def add(self, name: str, amount: float, **labels: str) -> None:
        """Count; `name` without ``otel_drift.``."""
        self._made[f"otel_drift.{name}"].add(amount, labels)

    def record(self, name: str, value: float, **labels: str) -> None:
        """Record one value of a histogram."""
        self._made[f"otel_drift.{name}"].record(value, labels)

    def gauges(self, names: Iterable[str], read: Callable[[], Mapping[str, Reading]]) -> None:
        """Show what `read` says for each of `names` (without ``otel_drift.``), read once for all of them."""
        shared = _Shared(read)
        for name in names:
            one = INSTRUMENTS[f"otel_drift.{name}"]
            if one.kind != "gauge":
                raise KeyError(f"{one.name} is no gauge")
            callback = functools.partial(_observed, shared, name, one.labels[0] if one.labels else "")
            self._meter.create_observable_gauge(one.name, [callback], one.unit, one.about)

    def page(self) -> bytes:
        """What Prometheus reads."""
        from prometheus_client import generate_latest

        with self._page_lock:  # the exporter's collector is not made for two readers at once
            return generate_latest(self._registry)

    def close(self) -> None:
        """Send what is left to the OTLP endpoint."""
        self._provider.shutdown()


class _Shared:
    """One reading for the gauges of a collection, at most once a second. What fails or takes too long shows nothing.

    The metrics must be there above all when the database is not.
    """

    def __init__(self, read: Callable[[], Mapping[str, Reading]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._began = self._ended = float("-inf")
        self._last: Mapping[str, Reading] = {}

    def __call__(self) -> Mapping[str, Reading]:
        with self._lock:
            if self._thread is None and time.monotonic() - self._ended >= 1.0:
                # A daemon: it holds nothing that a stop would have to wait for.
                self._thread = threading.Thread(target=self._run, name="gauges", daemon=True)
                self._began = time.monotonic()
                self._thread.start()
            thread, until = self._thread, self._began + READ_SECONDS
        if thread is not None:
            thread.join(max(0.0, until - time.monotonic()))
        with self._lock:
            return self._last if self._thread is None else {}

    def _run(self) -> None:
        try:
            last = self._read()
        except Exception as error:  # no number rather than a wrong one
            log.debug("a gauge cannot be read: %s", type(error).__name__)
            last = {}
        with self._lock:
            self._last, self._ended, self._thread = last, time.monotonic(), None


def _observed(
    read: Callable[[], Mapping[str, Reading]], name: str, label: str, _options: CallbackOptions
) -> list[Observation]:
    from opentelemetry.metrics import Observation

    reading = read().get(name)
    if isinstance(reading, Mapping):
        return [Observation(number, {label: cleaned(value)}) for value, number in reading.items()]
    return [] if reading is None else [Observation(reading)]


def tracer(otlp: str) -> tuple[Tracer, Callable[[], None]]:
    """A tracer for the service's own spans, and how to close it.

    Raises:
        ConfigError: the endpoint is none.
    """
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

    exporter: SpanExporter
    protocol, url = _endpoint(otlp, "traces")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        exporter = Grpc(endpoint=url, insecure=url.startswith("http://"), timeout=EXPORT_SECONDS)
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

        exporter = Http(endpoint=url, timeout=EXPORT_SECONDS)
    provider = TracerProvider(resource=resource())
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider.get_tracer(SCOPE), provider.shutdown


def resource() -> Resource:
    """Who speaks. The name stays whatever the environment says: by it the receiver knows what not to audit."""
    from opentelemetry.sdk.resources import Resource

    from otel_drift import __version__

    own = {"service.name": SERVICE, "service.version": __version__, "service.instance.id": uuid.uuid4().hex}
    return Resource.create().merge(Resource(own))


def _otlp_reader(otlp: str) -> MetricReader:
    from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader

    exporter: MetricExporter
    protocol, url = _endpoint(otlp, "metrics")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as Grpc

        exporter = Grpc(endpoint=url, insecure=url.startswith("http://"), timeout=EXPORT_SECONDS)
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as Http

        exporter = Http(endpoint=url, timeout=EXPORT_SECONDS)
    return PeriodicExportingMetricReader(exporter)


def _endpoint(given: str, signal: str) -> tuple[str, str]:
    """The protocol and the URL of a signal: ``grpc(s)://HOST:PORT``, or HTTP with ``/v1/…`` behind it."""
    text = "http" + given.removeprefix("grpc") if given.startswith(("grpc://", "grpcs://")) else given
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(
            f"telemetry: {parts.scheme}://{parts.hostname or ''} is no OTLP endpoint; use http://collector:4318 or "
            "grpc://collector:4317, credentials in OTEL_EXPORTER_OTLP_HEADERS"
        )
    if text is not given:
        return "grpc", text
    path = parts.path.rstrip("/")
    return "http", text if path.endswith(f"/v1/{signal}") else parts._replace(path=f"{path}/v1/{signal}").geturl()
