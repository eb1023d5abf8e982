"""The sink ``otlp`` against a real receiver, over HTTP and gRPC."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from ledger_samples import SECOND, START, annotation, conflicting, finding, ref, session, span, trace, unit
from otel_drift import findings
from otel_drift.errors import ConfigError, SinkError
from otel_drift.protocols import Sink
from otel_drift_connectors.otlp import OtlpSink
from otel_drift_connectors.otlp.records import attributes
from otlp_receiver import Receiver, grpc_receiver, http_receiver, values

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OTEL_") and not name.startswith("OTEL_DRIFT_"):
            monkeypatch.delenv(name)


@pytest.fixture
def http() -> Iterator[Receiver]:
    with http_receiver() as receiver:
        yield receiver


@pytest.fixture(params=["http", "grpc"])
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    with http_receiver() if request.param == "http" else grpc_receiver() as running:
        yield running


@pytest.fixture
def sinks() -> Iterator[list[OtlpSink]]:
    opened: list[OtlpSink] = []
    yield opened
    for sink in opened:
        sink.close()


def open_sink(sinks: list[OtlpSink], target: str, **options: Any) -> OtlpSink:
    sinks.append(OtlpSink(target, **options))
    return sinks[-1]


# --- what is sent ---


def test_an_annotation_is_an_evaluation_event_on_the_judged_span(receiver: Receiver, sinks: list[OtlpSink]) -> None:
    one = annotation(1)

    report = open_sink(sinks, receiver.url).write([one])

    assert report.written == (one.id,)
    ((signal, resource, scope, record),) = receiver.arrived
    assert (signal, scope, record.event_name) == ("logs", "otel_drift", "gen_ai.evaluation.result")
    assert (resource["service.name"], resource["telemetry.sdk.name"]) == ("otel-drift", "opentelemetry")
    assert (record.trace_id.hex(), record.span_id.hex()) == (one.trace_id, one.span_id)
    assert (record.flags & 1, record.severity_text) == (1, "WARN")
    assert record.time_unix_nano > one.end
    assert values(record.attributes) == {
        "gen_ai.evaluation.name": "factual_drift",
        "gen_ai.evaluation.score.label": "MAJOR",
        "gen_ai.evaluation.score.value": 0.7,
        "gen_ai.evaluation.explanation": "Contradiction, turn 1 → turn 3.",
        "gen_ai.conversation.id": "s1",
        "otel_drift.result.id": one.id,
        "otel_drift.result.revision": 1,
        "otel_drift.audit": "factual_drift",
        "otel_drift.target": "span",
        "otel_drift.links": [ref(1)],
        "otel_drift.severity": "MAJOR",
        "otel_drift.outcome": "findings",
        "otel_drift.prompts": ["p@v1:cdcdcdcdcdcd"],
    }


def test_what_was_not_audited_has_an_error_type_and_no_score(http: Receiver, sinks: list[OtlpSink]) -> None:
    down = unit(outcome="inconclusive", reason="timeout", report=None)

    open_sink(sinks, http.url).write(findings.annotations(down))

    for record in http.logs:
        attributes = values(record.attributes)
        assert attributes["error.type"] == "timeout"
        assert attributes["gen_ai.evaluation.score.label"] == "inconclusive"
        assert "gen_ai.evaluation.score.value" not in attributes
    assert len(http.logs) == 2


def test_everything_a_unit_says_arrives(receiver: Receiver, sinks: list[OtlpSink]) -> None:
    made = findings.annotations(unit(finding(3), finding(4, type="DROPPED_QUALIFICATION")))

    report = open_sink(sinks, receiver.url + "#logs,spans").write(made)

    ids = [one.id for one in made]
    assert list(report.written) == ids
    assert [values(record.attributes)["otel_drift.result.id"] for record in receiver.logs] == ids
    assert [values(record.attributes)["otel_drift.result.id"] for record in receiver.spans] == ids
    root = f"{trace(1)}:{span(16)}"
    on_session = [record for record in receiver.logs if values(record.attributes)["otel_drift.target"] == "session"]
    assert {f"{record.trace_id.hex()}:{record.span_id.hex()}" for record in on_session} == {root}


def test_passages_are_said_where_documents_can_be_annotated_and_nowhere_else() -> None:
    """An attribute holds no list of records, and stores cut it at 2,048 bytes."""
    one = findings.annotations(conflicting(("desk", "lab")))[0]
    assert one.passages
    assert attributes(one) == attributes(replace(one, passages=()))


def test_an_audit_span_joins_the_audited_trace_inside_its_time(receiver: Receiver, sinks: list[OtlpSink]) -> None:
    one = annotation(1)

    open_sink(sinks, receiver.url + "#spans").write([one])

    assert receiver.logs == []
    (made,) = receiver.spans
    assert made.name == "otel_drift.audit"
    assert (made.trace_id.hex(), made.parent_span_id.hex()) == (one.trace_id, one.span_id)
    assert START <= made.start_time_unix_nano <= made.end_time_unix_nano <= START + 10 * SECOND
    assert made.end_time_unix_nano - made.start_time_unix_nano <= 1_000_000
    assert [f"{link.trace_id.hex()}:{link.span_id.hex()}" for link in made.links] == [ref(1)]
    attributes = values(made.attributes)
    assert attributes["openinference.span.kind"] == "EVALUATOR"
    assert attributes["gen_ai.evaluation.score.label"] == "MAJOR"
    assert attributes["otel_drift.result.id"] == one.id


def test_a_span_sent_again_has_the_same_id_and_a_revision_another(http: Receiver, sinks: list[OtlpSink]) -> None:
    sink = open_sink(sinks, http.url, audit_spans=True)
    for one in (annotation(1), annotation(1), annotation(1, revision=2), annotation(2)):
        sink.write([one])

    first, again, revised, other = (record.span_id for record in http.spans)
    assert first == again
    assert len({first, revised, other}) == 3


def test_a_withdrawal_says_so(http: Receiver, sinks: list[OtlpSink]) -> None:
    open_sink(sinks, http.url).write([annotation(1, revision=3, withdrawn=True, label="withdrawn", score=None)])

    attributes = values(http.logs[0].attributes)
    assert attributes["otel_drift.result.withdrawn"] is True
    assert attributes["otel_drift.result.revision"] == 3


def test_ids_that_are_not_opentelemetrys_do_not_break_anything(http: Receiver, sinks: list[OtlpSink]) -> None:
    foreign = annotation(1, trace_id="tr-0123", span_id="zz", links=("tr-0123:zz", "half"))
    rootless = annotation(2, span_id=None)

    report = open_sink(sinks, http.url + "#logs,spans").write([foreign, rootless])

    assert [(record.trace_id.hex(), record.span_id.hex()) for record in http.logs] == [
        ("", ""),
        (rootless.trace_id, ""),
    ]
    assert [(record.trace_id.hex(), record.parent_span_id.hex()) for record in http.spans] == [(rootless.trace_id, "")]
    assert report.written == (rootless.id,)
    assert "no OpenTelemetry id" in report.rejected[0].reason


def test_hostile_text_arrives_whole_or_escaped_never_dropped(receiver: Receiver, sinks: list[OtlpSink]) -> None:
    open_sink(sinks, receiver.url).write([annotation(1, explanation="a\ud800b", session_id="s\ud800\0", label="🙂")])

    attributes = values(receiver.logs[0].attributes)
    assert attributes["gen_ai.evaluation.explanation"] == "a\\ud800b"
    assert attributes["gen_ai.conversation.id"] == "s\\ud800\0"
    assert attributes["gen_ai.evaluation.score.label"] == "🙂"


# --- what the receiver answers ---


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {}, b""), "HTTP 401"),
        ((404, {}, b""), "HTTP 404"),
        ((500, {}, b""), "HTTP 500"),
        ((302, {"Location": "https://login.example"}, b""), "HTTP 302"),
        ((200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>"), "web page"),
    ],
)
def test_http_answers_that_confirm_nothing_leave_everything_owed(
    http: Receiver, sinks: list[OtlpSink], answer: Any, said: str
) -> None:
    http.http = lambda _: answer

    with pytest.raises(SinkError, match=said):
        open_sink(sinks, http.url).write([annotation(1)])


def test_a_busy_receiver_is_asked_again(http: Receiver, sinks: list[OtlpSink]) -> None:
    http.http = lambda number: (503, {"Retry-After": "0"}, b"") if number < 3 else None

    assert open_sink(sinks, http.url).write([annotation(1)]).written
    assert (http.requests, len(http.logs)) == (3, 1)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT])
def test_grpc_errors_leave_everything_owed(sinks: list[OtlpSink], code: grpc.StatusCode) -> None:
    with grpc_receiver() as receiver:
        receiver.rpc = lambda _, context: context.abort(code, "no \x1b[1m entry")
        with pytest.raises(SinkError, match=f"gRPC {code.name}: no"):
            open_sink(sinks, receiver.url).write([annotation(1)])


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_nobody_there_leaves_everything_owed(sinks: list[OtlpSink], scheme: str) -> None:
    with pytest.raises(SinkError, match=r"127\.0\.0\.1:1.* did not accept: (no connection|gRPC UNAVAILABLE)"):
        open_sink(sinks, f"{scheme}://127.0.0.1:1", timeout=0.5).write([annotation(1)])


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_receiver_that_never_answers_is_left_after_the_timeout(sinks: list[OtlpSink], scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SinkError, match="did not accept"):
            open_sink(sinks, target, timeout=0.3).write([annotation(1)])


def partial(rejected: int, message: str) -> ExportLogsServiceResponse:
    return ExportLogsServiceResponse(
        partial_success=ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
    )


def test_a_partial_success_is_a_rejection_with_the_reason(receiver: Receiver, sinks: list[OtlpSink]) -> None:
    receiver.http = lambda _: (200, PROTOBUF, partial(1, "too old").SerializeToString())
    receiver.rpc = lambda _, __: partial(1, "too old")
    sink = open_sink(sinks, receiver.url)

    one = sink.write([annotation(1)])
    several = sink.write([annotation(1), annotation(2)])

    assert one.written == several.written == ()
    assert one.rejected[0].reason == "the receiver rejected the log record: too old"
    assert {rejection.reason for rejection in several.rejected} == {"the receiver rejected 1 of 2 log records: too old"}
    assert not any(rejection.retryable for rejection in several.rejected)


def test_rejected_spans_are_told_too(receiver: Receiver, sinks: list[OtlpSink]) -> None:
    refusal = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=1, error_message="trace is closed")
    )
    receiver.http = lambda _: (200, PROTOBUF, refusal.SerializeToString())
    receiver.rpc = lambda _, __: refusal

    report = open_sink(sinks, receiver.url + "#spans").write([annotation(1)])

    assert report.rejected[0].reason == "the receiver rejected the span: trace is closed"


def test_a_warning_without_rejections_is_a_success(receiver: Receiver, sinks: list[OtlpSink]) -> None:
    receiver.http = lambda _: (200, PROTOBUF, partial(0, "use gzip").SerializeToString())
    receiver.rpc = lambda _, __: partial(0, "use gzip")

    assert open_sink(sinks, receiver.url).write([annotation(1)]).written


def test_failures_are_not_printed_by_the_exporter(http: Receiver) -> None:
    code = (
        "from otel_drift_connectors.otlp import OtlpSink\nfrom ledger_samples import annotation\n"
        f"try: OtlpSink({http.url!r}).write([annotation(1)])\nexcept Exception as error: print(type(error).__name__)"
    )
    http.http = lambda _: (400, {}, b"")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("SinkError\n", "")


# --- where it is sent, and with what ---


def test_it_is_a_sink_and_imports_no_exporter_before_it_writes() -> None:
    assert isinstance(OtlpSink("http://127.0.0.1:4318"), Sink)
    code = (
        "import sys\nfrom otel_drift_connectors.otlp import OtlpSink\nOtlpSink('http://127.0.0.1:4318')\n"
        "print([m for m in sys.modules if m.startswith(('grpc', 'opentelemetry.exporter', 'requests'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("target", "environment", "name"),
    [
        ("", {}, "otlp:http://localhost:4318/v1/logs"),
        ("http://localhost:1", {}, "otlp:http://localhost:1/v1/logs"),
        ("http://localhost:1/base/", {}, "otlp:http://localhost:1/base/v1/logs"),
        ("http://localhost:1/v1/logs", {}, "otlp:http://localhost:1/v1/logs"),
        ("http://localhost:1/v1/logs#spans", {}, "otlp:http://localhost:1/v1/traces"),
        ("https://h:1?key=secret#logs,spans", {}, "otlp:https://h:1/v1/logs+https://h:1/v1/traces"),
        ("", {"ENDPOINT": "https://h/x"}, "otlp:https://h/x/v1/logs"),
        ("", {"ENDPOINT": "https://h", "LOGS_ENDPOINT": "https://l/own"}, "otlp:https://l/own"),
        ("https://mine", {"LOGS_ENDPOINT": "https://l/own"}, "otlp:https://mine/v1/logs"),
        ("grpc://localhost:1", {}, "otlp:http://localhost:1(logs)"),
        ("grpcs://h:1#spans", {}, "otlp:https://h:1(traces)"),
        ("", {"PROTOCOL": "grpc"}, "otlp:http://localhost:4317(logs)"),
        ("", {"LOGS_PROTOCOL": "grpc", "ENDPOINT": "h:4317"}, "otlp:https://h:4317(logs)"),
        ("", {"PROTOCOL": "grpc", "ENDPOINT": "h:4317", "INSECURE": "true"}, "otlp:http://h:4317(logs)"),
    ],
)
def test_the_endpoint_is_the_options_or_the_environments(
    monkeypatch: pytest.MonkeyPatch, target: str, environment: dict[str, str], name: str
) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{key}", value)

    assert OtlpSink(target).name == name


def test_the_environment_is_honoured(
    receiver: Receiver, sinks: list[OtlpSink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.replace("grpc:", "http:"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc" if receiver.url.startswith("grpc") else "http/protobuf")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,x-scope-orgid=7")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "the-chatbot")

    open_sink(sinks, "", headers={"X-Own": "1"}).write([annotation(1)])

    assert {"api-key": "a b", "x-scope-orgid": "7", "x-own": "1"}.items() <= receiver.headers[0].items()
    assert receiver.headers[0].get("content-encoding", "gzip") == "gzip"
    resource = receiver.arrived[0][1]
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("otel-drift", "prod")


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("http://collector:4318", {"Authorization": "Bearer hunter2"}),
        ("grpc://collector:4317", {"x-api-key": "hunter2"}),
        ("http://10.0.0.7:4318", {"x-custom": "Basic hunter2"}),
        ("http://collector:4318?token=hunter2", {}),
        ("http://user:hunter2@localhost:4318", {}),
        ("https://user:hunter2@collector", {}),
    ],
)
def test_credentials_do_not_travel_in_the_open(target: str, headers: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="credentials") as caught:
        OtlpSink(target, headers=headers)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("https://collector", {"Authorization": "Bearer x"}),
        ("http://localhost:4318", {"Authorization": "Bearer x"}),
        ("http://127.0.0.7:4318", {"Authorization": "Bearer x"}),
        ("http://[::1]:4318", {"Authorization": "Bearer x"}),
        ("http://collector:4318", {"X-Scope-OrgID": "7"}),
    ],
)
def test_credentials_may_travel_encrypted_or_not_at_all_far(target: str, headers: dict[str, str]) -> None:
    assert OtlpSink(target, headers=headers).name


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("collector:4318", {}, "is no URL"),
        ("ftp://collector", {}, "is no URL"),
        ("http://", {}, "is no URL"),
        ("http://h:99999", {}, "is no URL"),
        ("http://h", {"protocol": "http/json"}, "not supported"),
        ("http://h#metrics", {}, "after # comes"),
    ],
)
def test_a_wrong_endpoint_is_told_at_once(target: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        OtlpSink(target, **options)


def test_a_failure_shows_no_header_and_no_query(http: Receiver, sinks: list[OtlpSink]) -> None:
    http.http = lambda _: (403, {}, b"")
    sink = open_sink(sinks, http.url + "?key=hunter2", headers={"Authorization": "Bearer hunter2"})

    with pytest.raises(SinkError) as caught:
        sink.write([annotation(1)])

    assert "hunter2" not in f"{caught.value} {sink.name} {sink!r}"


def test_a_session_of_another_kind_of_source_still_arrives(http: Receiver, sinks: list[OtlpSink]) -> None:
    made = findings.annotations(unit(session=session(session_id=None)))

    assert len(open_sink(sinks, http.url).write(made).written) == 2
