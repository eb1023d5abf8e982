"""OTLP over gRPC: what is accepted, what is refused, with which code and whether to be tried again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_drift.errors import LedgerError
from otel_drift.receiver import grpc as over_grpc
from otlp.samples import attribute, log, log_request, protobuf, request, span, span_id
from receiver_desk import METHODS, Desk, delay, receiving, rpc_status

TOKEN = "0123456789abcdef-token"
SESSION = [attribute("session.id", "s"), attribute("openinference.span.kind", "CHAIN"), attribute("input.value", "x")]
PLAIN, GZIP, DEFLATE = grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with receiving(tmp_path, http="") as running:
        yield running


def refused(desk: Desk, *given: Any, **options: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        desk.call(*given, **options)
    return caught.value


@pytest.mark.parametrize("compression", [PLAIN, GZIP, DEFLATE])
def test_what_is_accepted_is_kept(desk: Desk, compression: grpc.Compression) -> None:
    sent = protobuf(request(span(1, attributes=SESSION), span(2, parent=1, attributes=SESSION)))

    assert desk.call("traces", sent, compression) == b""
    assert desk.call("logs", protobuf(log_request(log(1))), compression) == b""
    assert [record.span_id for record in desk.kept()] == [span_id(1), span_id(1), span_id(2)]
    assert [one[:3] for one in desk.telemetry.accepted] == [("grpc", 2, 0), ("grpc", 0, 1)]


def test_broken_records_are_rejected_and_the_rest_is_kept(desk: Desk) -> None:
    traces = desk.call("traces", protobuf(request(span(1), span(2, traceId="abcd"), span(3))))
    logs = desk.call("logs", protobuf(log_request(log(1), log(2, traceId="abcd"))))

    rejected = ExportTraceServiceResponse.FromString(traces).partial_success
    assert (rejected.rejected_spans, rejected.error_message[:6]) == (1, "1 of 3")
    assert ExportLogsServiceResponse.FromString(logs).partial_success.rejected_log_records == 1
    assert desk.spans_kept() == 2


def test_metrics_are_answered_so_that_nobody_retries_and_said_not_to_be_kept(desk: Desk) -> None:
    answer = ExportMetricsServiceResponse.FromString(desk.call("metrics", b"\x0a\x00"))

    assert "keeps no metrics" in answer.partial_success.error_message


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x7bgarbage", grpc.StatusCode.INVALID_ARGUMENT),
        (protobuf(request(span(1, traceId=""))), grpc.StatusCode.INVALID_ARGUMENT),
        (protobuf(log_request(log(1))), grpc.StatusCode.INVALID_ARGUMENT),
        (protobuf(request(*[{}] * 60_000)), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_what_cannot_be_accepted_is_refused_for_good(desk: Desk, sent: bytes, code: grpc.StatusCode) -> None:
    error = refused(desk, "traces", sent)

    assert (error.code(), rpc_status(error).code) == (code, code.value[0])
    assert rpc_status(error).message == error.details()
    assert delay(rpc_status(error)) is None  # RESOURCE_EXHAUSTED without it must not be retried
    assert desk.spans_kept() == 0


@pytest.mark.parametrize("compression", [PLAIN, GZIP])
def test_a_message_that_is_too_large_is_refused_before_it_is_unpacked(
    desk: Desk, compression: grpc.Compression
) -> None:
    error = refused(desk, "traces", b"\x00" * 100_000_000, compression)

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" not in dict(error.trailing_metadata())
    assert desk.call("traces", protobuf(request(span(1)))) == b""


def test_other_services_are_unimplemented(desk: Desk) -> None:
    with grpc.insecure_channel(desk.address) as channel:
        for method in ("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", "/x/y"):
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(method)(b"", timeout=60)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"])
def test_a_token_is_asked_for_where_there_is_one(tmp_path: Path, header: str | None) -> None:
    with receiving(tmp_path, token=TOKEN, http="") as desk:
        for signal in METHODS:
            error = refused(desk, signal, b"", metadata=[("authorization", header)] if header else [])
            assert (error.code(), rpc_status(error).code) == (grpc.StatusCode.UNAUTHENTICATED, 16)
        assert desk.call("traces", b"", metadata=[("authorization", f"Bearer {TOKEN}")]) == b""


def test_without_the_token_nothing_is_read(tmp_path: Path) -> None:
    """A sender that is not let in is told so although its message never comes."""
    with receiving(tmp_path, token=TOKEN, http="") as desk, grpc.insecure_channel(desk.address) as channel:
        waiting = channel.stream_unary(METHODS["traces"]).future(_held(desk), timeout=20)
        with pytest.raises(grpc.RpcError) as caught:
            waiting.result()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        desk.inbox.go_on.set()


def test_a_failing_database_is_unavailable_and_to_be_tried_again(desk: Desk) -> None:
    desk.inbox.failure = lambda: LedgerError("ledger x cannot be written: the disk is full")
    error = refused(desk, "traces", protobuf(request(span(1))))

    assert (error.code(), delay(rpc_status(error))) == (grpc.StatusCode.UNAVAILABLE, 2.0)
    desk.inbox.failure = lambda: None
    assert desk.call("traces", protobuf(request(span(1)))) == b""


def test_a_message_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_grpc, "MESSAGE_SECONDS", 0.2)
    with receiving(tmp_path, http="") as desk, grpc.insecure_channel(desk.address) as channel:
        waiting = channel.stream_unary(METHODS["traces"]).future(_held(desk), timeout=60)
        with pytest.raises(grpc.RpcError) as caught:
            waiting.result()
        assert (caught.value.code(), delay(rpc_status(caught.value))) == (grpc.StatusCode.UNAVAILABLE, 1.0)
        desk.inbox.go_on.set()


def _held(desk: Desk) -> Iterator[bytes]:
    desk.inbox.go_on.clear()
    desk.inbox.go_on.wait(30)
    yield b""


def test_many_senders_at_once_are_all_served(desk: Desk) -> None:
    with grpc.insecure_channel(desk.address) as channel:
        call = channel.unary_unary(METHODS["traces"])
        sent = [call.future(protobuf(request(span(number))), timeout=60) for number in range(100)]
        assert [one.result() for one in sent] == [b""] * 100
    assert desk.spans_kept() == 100
