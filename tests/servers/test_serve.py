"""The whole service: an SDK and a real collector → receiver → audit → Phoenix; Prometheus raises the alarm."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from drift_cases import drifting
from free_ports import free_address
from model_server import ModelServer, Reply
from otel_drift.ledger import Ledger
from otel_drift.model import Span
from otel_drift.testing import conversation
from servers.conftest import PostgresCluster
from servers.monitoring import EVALUATION_SECONDS, alertmanager, prometheus, until, webhook
from servers.phoenix_server import PROGRAM, Phoenix, running
from servers.test_rotel import _program, _running
from service_process import MODEL, QUICK, asked_by, judged_by, serving, wait_until

HINT = "is not installed (Debian: prometheus, prometheus-alertmanager)"


@pytest.fixture(scope="module")
def phoenix(require: Callable[..., Any]) -> Iterator[Phoenix]:
    require(PROGRAM.exists(), "Phoenix is not installed (python -m venv .servers/phoenix; pip install arize-phoenix)")
    with running() as server:
        yield server


@contextmanager
def application(project: str, *exporters: SpanExporter) -> Iterator[Callable[[Sequence[Span]], None]]:
    """An application with OpenTelemetry's SDK: yields a function that records spans like the ones given."""
    provider = TracerProvider(resource=Resource.create({"service.name": "shop", "openinference.project.name": project}))
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
    tracer = provider.get_tracer("shop")

    def record(spans: Sequence[Span]) -> None:
        made: dict[str, trace.Span] = {}
        for span in spans:
            within = trace.set_span_in_context(made[span.parent_id]) if span.parent_id else None
            made[span.span_id] = tracer.start_span(
                span.name, within, attributes=dict(span.attributes), start_time=span.start
            )
        for span in spans:
            made[span.span_id].end(span.end)

    try:
        yield record
    finally:
        provider.shutdown()


@pytest.mark.server("phoenix")
@pytest.mark.server("rotel")
@pytest.mark.server("prometheus")
def test_from_an_application_through_a_collector_to_phoenix_and_to_the_alarm(
    phoenix: Phoenix, require: Callable[..., Any], tmp_path: Path
) -> None:
    """A critical finding stands on Phoenix' span, and its alarm is at the webhook within two evaluation intervals."""
    collector = require(_program(), "the collector is not installed (PyPI: rotel, Linux on x86-64 only)")
    watcher = require(shutil.which("prometheus"), f"prometheus {HINT}")
    manager = require(shutil.which("prometheus-alertmanager"), f"prometheus-alertmanager {HINT}")
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer([Reply(drifting())]))
        rule_hook, push_hook = stack.enter_context(webhook()), stack.enter_context(webhook())
        pushed_to = stack.enter_context(alertmanager(manager, push_hook.url))
        config = (
            QUICK
            + f'\n[output]\nsinks = ["phoenix:{phoenix.url}?project=live"]\n'
            + f'\n[alerts]\nto = ["alertmanager:{str(pushed_to.base_url).rstrip("/")}"]\ngroup_seconds = 0\n'
            + judged_by(model)
        )
        phoenix.ingest("live", conversation("before"))  # a project is there once something was sent
        service = stack.enter_context(serving(tmp_path, config, MODEL))
        ruled = stack.enter_context(alertmanager(manager, rule_hook.url))
        target = service.addresses["admin"].removeprefix("http://")
        watched = stack.enter_context(prometheus(watcher, target, ruled.base_url.netloc.decode()))
        until(watched, 'otel_drift_findings_total{type="CONTRADICTION",severity="CRITICAL"} == 0')

        http, rpc = free_address(), free_address()
        command = [
            *(str(collector), "start", "--exporter", "otlp", "--otlp-exporter-protocol", "http"),
            *("--otlp-exporter-endpoint", service.addresses["http"], "--batch-timeout", "100ms"),
            *("--otlp-http-endpoint", http, "--otlp-grpc-endpoint", rpc),
            *("--pid-file", str(tmp_path / "pid"), "--log-file", str(tmp_path / "collector.log")),
        ]
        stack.enter_context(_running(command, http, rpc))
        to_both = (HttpExporter(f"{phoenix.url}/v1/traces"), GrpcExporter(f"http://{rpc}", insecure=True))
        with application("live", *to_both) as record:
            record(conversation("live-1", ends=time.time_ns()))

        def found() -> list[dict[str, Any]]:
            said = [one for one in phoenix.annotations("live", "span") if one["name"] == "factual_drift.contradiction"]
            return [one for one in said if one["result"]["label"] != "NONE"]

        wait_until(lambda: phoenix.path("live") != "" and bool(found()), "Phoenix has the finding", 90)
        counted = time.monotonic()
        told, alert = rule_hook.wait_for("OtelDriftCriticalFinding")
        pushed = push_hook.wait()
        assert told - counted <= 2 * EVALUATION_SECONDS
        assert alert["labels"]["severity"] == "critical"
        assert [one["labels"]["session_id"] for one in pushed["alerts"]] == ["live-1"]
        assert len(found()) == 1
        assert found()[0]["result"]["label"] == "CRITICAL"

        event = pushed["alerts"][0]["labels"]["event_id"]
        rejected = service.command(
            "review", "resolve", event, "--ledger", "ledger.db", "--reject", "--by", "me", "--why", "no drift"
        )
        assert rejected.returncode == 0, rejected.stderr
        wait_until(lambda: not found(), "a rejected finding stands no more", 60)
        wait_until(lambda: push_hook.told[-1][1]["status"] == "resolved", "and its alert resolved", 60)
        assert service.status()["problems"] == []
        assert service.stop() == 0


@pytest.mark.server("phoenix")
def test_a_platform_that_is_followed_gets_its_findings_back(phoenix: Phoenix, tmp_path: Path) -> None:
    """Without a sink named: what is read from Phoenix is written to Phoenix, once; a new turn later counts."""
    spans = conversation("followed-1", ends=time.time_ns())
    phoenix.ingest("followed", spans[:6])
    config = QUICK.replace("stop_seconds", f'follow = ["phoenix:{phoenix.url}?project=followed"]\nstop_seconds')
    with serving(tmp_path, config + "follow_minutes = 0.03\n") as service:
        wait_until(lambda: bool(phoenix.annotations("followed", "session")), "two turns are audited", 90)
        assert phoenix.annotations("followed", "span") == []

        phoenix.ingest("followed", spans[6:])
        wait_until(lambda: bool(phoenix.annotations("followed", "span")), "the third turn contradicts", 90)
        first = {one["id"] for one in phoenix.annotations("followed", "span")}
        time.sleep(5)  # several further readings
        assert {one["id"] for one in phoenix.annotations("followed", "span")} == first
        told = service.status()
        assert told["kept"]["spans"] == len(spans), "what is read again is kept once"
        assert told["sources"][0]["behind_seconds"] < 60
        assert service.stop() == 0


@pytest.mark.server("postgresql")
def test_two_processes_share_the_work_on_postgresql(postgres: PostgresCluster, tmp_path: Path) -> None:
    """No session is judged twice; one of them is killed in the middle, and the other finishes."""
    sessions = [f"s{number:02}" for number in range(24)]
    with ModelServer([Reply(drifting(), delay=0.3)]) as model:
        url = postgres.new_schema()
        config = QUICK + judged_by(model) + f'max_concurrency = 2\n\n[ledger]\nurl = "{url}"\n'
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        with serving(folders[0], config, MODEL) as one, serving(folders[1], config, MODEL) as two:
            for number, session in enumerate(sessions):
                spans = conversation(session, turns=asked_by(session), ends=time.time_ns())
                assert (one, two)[number % 2].send(spans).status_code == 200
            wait_until(lambda: len(model.requests) > len(sessions) // 2, "half of them are judged", 120)
            one.kill()
            wait_until(lambda: two.status()["sessions"]["open"] == 0, "the other finishes", 120)
            assert {process["state"] for process in two.status()["processes"]} <= {"running", "silent"}
            assert two.stop() == 0
        with Ledger.open(url) as ledger:
            assert [one["outcome"] for one in ledger.record(since=0)] == ["findings"] * len(sessions)
        in_flight = 2
        assert len(sessions) <= len(model.requests) <= len(sessions) + in_flight
