"""OpenTelemetry's own SDK and exporters send to the receiver: everything arrives, over both protocols, also by TLS."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_drift.errors import ConfigError, LedgerError
from otel_drift.model import LogRecord, Span
from receiver_desk import Desk, certificate, receiving

TOKEN = "0123456789abcdef-token"
RESOURCE = Resource.create({"service.name": "policy-bot"})


@pytest.fixture(autouse=True)
def _own_certificates_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """These come before the certificate an exporter is given."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=["plain", "tls"])
def desk(request: pytest.FixtureRequest, tmp_path: Path, tls: tuple[Path, Path]) -> Iterator[Desk]:
    with receiving(tmp_path, token=TOKEN, tls=tls if request.param == "tls" else None) as running:
        yield running


def exporter(desk: Desk, signal: str, protocol: str, compression: str, tls: tuple[Path, Path]) -> Any:
    """The SDK's exporter of a signal, set up as its users do."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    secure = desk.receiver.addresses[protocol].startswith(("https", "grpcs"))
    if protocol == "http":
        from opentelemetry.exporter.otlp.proto.http import Compression, _log_exporter, metric_exporter, trace_exporter

        made = {
            "traces": trace_exporter.OTLPSpanExporter,
            "logs": _log_exporter.OTLPLogExporter,
            "metrics": metric_exporter.OTLPMetricExporter,
        }[signal]
        return made(
            endpoint=f"{desk.receiver.addresses['http']}/v1/{signal}",
            headers=headers,
            compression=Compression(compression),
            certificate_file=str(tls[0]) if secure else None,
        )
    from opentelemetry.exporter.otlp.proto.grpc import _log_exporter, metric_exporter, trace_exporter

    made = {
        "traces": trace_exporter.OTLPSpanExporter,
        "logs": _log_exporter.OTLPLogExporter,
        "metrics": metric_exporter.OTLPMetricExporter,
    }[signal]
    return made(
        endpoint=desk.address,
        headers=headers,
        insecure=not secure,
        credentials=grpc.ssl_channel_credentials(tls[0].read_bytes()) if secure else None,
        compression={"gzip": grpc.Compression.Gzip, "none": grpc.Compression.NoCompression}[compression],
    )


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_spans_and_logs_arrive(desk: Desk, protocol: str, compression: str, tls: tuple[Path, Path]) -> None:
    traces = TracerProvider(resource=RESOURCE)
    traces.add_span_processor(BatchSpanProcessor(exporter(desk, "traces", protocol, compression, tls)))
    logs = LoggerProvider(resource=RESOURCE)
    logs.add_log_record_processor(BatchLogRecordProcessor(exporter(desk, "logs", protocol, compression, tls)))
    with traces.get_tracer("app").start_as_current_span("turn", attributes={"session.id": "s"}) as turn:
        turn.set_attributes({"openinference.span.kind": "CHAIN", "input.value": "Wie lange, bitte?\x00", "n": 1.5})
        turn.add_event("token", {"k": ["a", "b"]})
        logs.get_logger("app").emit(body="said in the span")
    traces.shutdown()
    logs.shutdown()

    [span, log] = desk.kept()
    assert isinstance(span, Span)
    assert isinstance(log, LogRecord)
    assert (span.name, span.span_id, span.resource["service.name"]) == (
        "turn",
        f"{turn.get_span_context().span_id:016x}",
        "policy-bot",
    )
    assert span.attributes == {
        "session.id": "s", "openinference.span.kind": "CHAIN", "input.value": "Wie lange, bitte?\ufffd", "n": 1.5,
    }  # fmt: skip
    assert span.events[0].attributes == {"k": ["a", "b"]}
    assert (log.span_id, log.body) == (span.span_id, "said in the span")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_an_sdk_that_sends_all_signals_to_one_endpoint_is_content(
    desk: Desk, protocol: str, tls: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    sender = exporter(desk, "metrics", protocol, "gzip", tls)
    results: list[Any] = []
    export = sender.export
    sender.export = lambda *given, **options: results.append(export(*given, **options)) or results[-1]
    meters = MeterProvider([PeriodicExportingMetricReader(sender, 3_600_000)], RESOURCE)
    meters.get_meter("app").create_counter("requests").add(1)
    meters.force_flush()
    meters.shutdown()

    assert set(results) == {MetricExportResult.SUCCESS}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_an_sdk_tries_again_what_was_not_acknowledged(tmp_path: Path, tls: tuple[Path, Path], protocol: str) -> None:
    with receiving(tmp_path, token=TOKEN) as desk:
        failures = iter([LedgerError("the disk is full")])
        desk.inbox.failure = lambda: next(failures, None)
        traces = TracerProvider(resource=RESOURCE)
        traces.add_span_processor(BatchSpanProcessor(exporter(desk, "traces", protocol, "gzip", tls)))
        traces.get_tracer("app").start_span("turn").end()
        traces.shutdown()

        assert desk.spans_kept() == 1
        assert [one[1] for one in desk.telemetry.refusals] == ["ledger"]


def test_tls_is_not_optional(tmp_path: Path, tls: tuple[Path, Path]) -> None:
    with receiving(tmp_path, tls=tls) as desk, grpc.insecure_channel(desk.address) as plain:
        assert desk.receiver.addresses["grpc"].startswith("grpcs://")
        with pytest.raises(httpx.TransportError):
            httpx.post(desk.receiver.addresses["http"].replace("https", "http") + "/v1/traces", content=b"", timeout=60)
        with pytest.raises(grpc.RpcError) as caught:
            desk.call("traces", b"", channel=plain)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_certificate_that_is_replaced_is_served_from_the_next_connections_on(
    tmp_path: Path, tls: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """One that cannot be used is not: what was served before is."""
    (tmp_path / "new").mkdir()
    new = certificate(tmp_path / "new")
    files = tmp_path / "tls.crt", tmp_path / "tls.key"

    def put(*contents: bytes) -> None:
        for file, content in zip(files, contents, strict=False):
            file.with_suffix(".part").write_bytes(content)
            file.with_suffix(".part").replace(file)

    put(*(file.read_bytes() for file in tls))
    with receiving(tmp_path, tls=files) as desk:
        for content, expected in ((None, tls), (b"no PEM", tls), (new[0].read_bytes(), tls)):
            if content is not None:
                put(content)
            assert {presented(desk, protocol) for _ in range(2) for protocol in ("http", "grpc")} == {der(expected[0])}
        assert "is served until the files change again" in caplog.text
        put(*(file.read_bytes() for file in new))
        for protocol in ("http", "grpc"):
            presented(desk, protocol)
            assert presented(desk, protocol) == der(new[0])


def presented(desk: Desk, protocol: str) -> bytes | None:
    """The certificate that a new connection is shown."""
    host, port = desk.receiver.addresses[protocol].rpartition("/")[2].split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection((host, int(port)), 30) as plain, context.wrap_socket(plain) as connection:
        return connection.getpeercert(binary_form=True)


def der(file: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(file.read_text())


def test_a_certificate_that_cannot_be_used_is_said_before_anything_listens(
    tmp_path: Path, tls: tuple[Path, Path]
) -> None:
    (tmp_path / "other").mkdir()
    other = certificate(tmp_path / "other")
    (tmp_path / "text").write_text("no PEM")
    cases = [(tls[0], other[1]), (tmp_path / "absent", tls[1]), (tls[0], tmp_path / "text"), (tls[1], tls[0])]
    for pair in cases:
        with pytest.raises(ConfigError, match="TLS: the certificate"), receiving(tmp_path, tls=pair):
            pass
    with pytest.raises(ConfigError, match="both or neither"), receiving(tmp_path, tls_key=str(tls[1])):
        pass
