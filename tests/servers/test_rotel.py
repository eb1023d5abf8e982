"""The sink ``otlp`` through a real collector (PyPI ``rotel``): what we send is what arrives behind it."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from free_ports import free_address
from ledger_samples import annotation, finding, unit
from otel_drift import findings
from otel_drift.delivery import deliver
from otel_drift.ledger import Ledger
from otel_drift_connectors.otlp import OtlpSink
from otlp_receiver import Receiver, http_receiver, values

pytestmark = pytest.mark.server("rotel")


@dataclass(frozen=True)
class Collector:
    """Where a collector listens, and who gets what it forwards."""

    http: str
    grpc: str
    behind: Receiver
    start: Callable[[], None]


@pytest.fixture
def collector(tmp_path: Path, require: Callable[[Path | None, str], Path]) -> Iterator[Collector]:
    program = require(_program(), "the collector is not installed (PyPI: rotel, Linux on x86-64 only)")
    http, grpc = free_address(), free_address()
    with ExitStack() as stack:
        behind = stack.enter_context(http_receiver())
        command = [
            *(str(program), "start", "--exporter", "otlp", "--otlp-exporter-protocol", "http"),
            *("--otlp-exporter-endpoint", behind.url, "--batch-timeout", "20ms"),
            *("--otlp-http-endpoint", http, "--otlp-grpc-endpoint", grpc),
            *("--pid-file", str(tmp_path / "pid"), "--log-file", str(tmp_path / "log")),
        ]
        yield Collector(
            f"http://{http}", f"grpc://{grpc}", behind, lambda: stack.enter_context(_running(command, http, grpc))
        )


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_events_and_spans_arrive_behind_a_collector(collector: Collector, protocol: str) -> None:
    collector.start()
    made = findings.annotations(unit(finding(3), finding(4, severity="MINOR")))
    sink = OtlpSink(getattr(collector, protocol) + "#logs,spans")

    report = sink.write(made)
    sink.close()
    collector.behind.wait(2 * len(made))

    ids = {one.id for one in made}
    assert set(report.written) == ids
    for records in (collector.behind.logs, collector.behind.spans):
        assert {values(record.attributes)["otel_drift.result.id"] for record in records} == ids
    spans = {values(record.attributes)["otel_drift.result.id"]: record for record in collector.behind.spans}
    for one in made:
        if one.target == "span":
            assert (spans[one.id].trace_id.hex(), spans[one.id].parent_span_id.hex()) == (one.trace_id, one.span_id)
    event = next(record for record in collector.behind.logs if record.trace_id.hex() == made[0].trace_id)
    assert event.event_name == "gen_ai.evaluation.result"
    assert values(event.attributes)["gen_ai.evaluation.name"] == "factual_drift"
    assert {resource["service.name"] for _, resource, _, _ in collector.behind.arrived} == {"otel-drift"}


def test_a_collector_that_is_down_delays_and_loses_nothing(collector: Collector, tmp_path: Path) -> None:
    sink = OtlpSink(collector.http, timeout=1)
    made = findings.annotations(unit(finding(3)))
    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.commit_unit(None, unit(finding(3)), made, [sink.name])

        down = deliver(ledger, {sink.name: sink})
        assert "stay owed" in down.problems[0]

        collector.start()
        up = deliver(ledger, {sink.name: sink})
        collector.behind.wait(len(made))
        sink.close()

    assert up.problems == []
    arrived = [values(record.attributes)["otel_drift.result.id"] for record in collector.behind.logs]
    assert sorted(arrived) == sorted(one.id for one in made)


def test_a_batch_larger_than_a_platforms_page_arrives_whole(collector: Collector) -> None:
    collector.start()
    sink = OtlpSink(collector.grpc)

    assert len(sink.write([annotation(number) for number in range(500)]).written) == 500
    sink.close()
    collector.behind.wait(500)

    assert len({values(record.attributes)["otel_drift.result.id"] for record in collector.behind.logs}) == 500


@contextmanager
def _running(command: list[str], *addresses: str) -> Iterator[None]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "ROTEL_"))}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for address in addresses:
                _wait_for(address, process)
            yield
        finally:
            process.kill()


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    host, _, port = address.partition(":")
    for _ in range(600):
        assert process.poll() is None, f"the collector ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    pytest.fail(f"the collector does not listen on {address}")


def _program() -> Path | None:
    package = importlib.util.find_spec("rotel")
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).with_name("rotel-agent")
    return program if os.access(program, os.X_OK) else None
