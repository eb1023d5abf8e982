"""A real collector (PyPI ``rotel``) exports to the receiver: spans sent = spans stored, also over a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import grpc
import httpx
import pytest

from free_ports import free_address
from otlp.samples import attribute, log, log_request, protobuf, request, span
from receiver_desk import METHODS, PROTOBUF, Desk, receiving
from servers.test_rotel import _program, _running

pytestmark = pytest.mark.server("rotel")

Start = Callable[[str, str], tuple[str, str]]


@pytest.fixture
def collector(tmp_path: Path, require: Callable[[Path | None, str], Path]) -> Iterator[Start]:
    """Start a collector that exports to a URL by a protocol; returns where it listens itself: HTTP and gRPC."""
    program = require(_program(), "the collector is not installed (PyPI: rotel, Linux on x86-64 only)")
    with ExitStack() as stack:

        def start(protocol: str, url: str) -> tuple[str, str]:
            http, rpc = free_address(), free_address()
            command = [
                *(str(program), "start", "--exporter", "otlp", "--otlp-exporter-protocol", protocol),
                *("--otlp-exporter-endpoint", url, "--batch-timeout", "20ms", "--otlp-exporter-compression", "gzip"),
                *("--otlp-http-endpoint", http, "--otlp-grpc-endpoint", rpc),
                *("--pid-file", str(tmp_path / "pid"), "--log-file", str(tmp_path / "log")),
            ]
            stack.enter_context(_running(command, http, rpc))
            return http, rpc

        yield start


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("into", ["http", "grpc"])
def test_what_an_application_sends_to_a_collector_is_kept(
    tmp_path: Path, collector: Start, protocol: str, into: str
) -> None:
    with receiving(tmp_path) as desk:
        http, rpc = collector(protocol, _url(desk, protocol))
        for first in range(0, 500, 50):
            _send(http, rpc, into, "traces", protobuf(request(*_spans(range(first, first + 50)))))
        _send(http, rpc, into, "logs", protobuf(log_request(*_logs(range(50)))))

        _wait(lambda: desk.spans_kept() >= 500 and sum(one[2] for one in desk.telemetry.accepted) >= 50)
        kept = desk.kept()

    assert (len([one for one in kept if hasattr(one, "logs")]), len(kept)) == (500, 550)
    assert desk.telemetry.refusals == []
    assert {one[0] for one in desk.telemetry.accepted} == {protocol}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_nothing_is_lost_while_the_receiver_is_down(tmp_path: Path, collector: Start, protocol: str) -> None:
    """The collector keeps what was not acknowledged and sends it once the receiver is back at its address."""
    place = free_address()
    with receiving(tmp_path, **{protocol: place}) as desk:
        http, rpc = collector(protocol, _url(desk, protocol))
        _send(http, rpc, "http", "traces", protobuf(request(*_spans(range(100)))))
        _wait(lambda: desk.spans_kept() == 100)
    _send(http, rpc, "http", "traces", protobuf(request(*_spans(range(100, 200)))))
    with receiving(tmp_path, **{protocol: place}) as desk:
        _send(http, rpc, "http", "traces", protobuf(request(*_spans(range(200, 300)))))
        _wait(lambda: desk.spans_kept() >= 300)
        assert len(desk.span_ids()) == 300


def _url(desk: Desk, protocol: str) -> str:
    return desk.receiver.addresses[protocol].replace("grpc://", "http://")


def _spans(numbers: Sequence[int]) -> list[dict[str, object]]:
    values = [
        attribute("session.id", "s"),
        attribute("openinference.span.kind", "CHAIN"),
        attribute("input.value", "x"),
    ]
    return [span(number, traceId=f"{number // 10 + 1:032x}", attributes=values) for number in numbers]


def _logs(numbers: Sequence[int]) -> list[dict[str, object]]:
    return [log(number, traceId=f"{number // 10 + 1:032x}") for number in numbers]


def _send(http: str, rpc: str, into: str, signal: str, body: bytes) -> None:
    if into == "http":
        answer = httpx.post(f"http://{http}/v1/{signal}", content=body, headers={"content-type": PROTOBUF}, timeout=60)
        assert answer.is_success, answer
        return
    with grpc.insecure_channel(rpc) as channel:
        channel.unary_unary(METHODS[signal])(body, timeout=30)


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
