"""OTLP over HTTP: what is accepted, what is refused and how, in protobuf and in JSON."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_drift.model import LogRecord, Span
from otel_drift.receiver import intake
from otlp.samples import TRACE, attribute, dumped, log, log_request, protobuf, request, span, span_id
from receiver_desk import JSON, PROTOBUF, Desk, delay, receiving, status

TOKEN = "0123456789abcdef-token"
SECRET = "the text of a trace"
SESSION = [attribute("session.id", "s"), attribute("openinference.span.kind", "CHAIN"), attribute("input.value", "x")]
ENCODINGS = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with receiving(tmp_path) as running:
        yield running


def body(document: Any, kind: str) -> bytes:
    return protobuf(document) if kind == PROTOBUF else dumped(document)


def response(message: Any, answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == PROTOBUF:
        return message.FromString(answer.content)
    return json_format.Parse(answer.content, message())


@pytest.mark.parametrize("kind", [PROTOBUF, JSON, JSON + "; charset=utf-8"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_accepted_is_kept(desk: Desk, kind: str, encoding: str) -> None:
    sent = request(span(1, attributes=SESSION), span(2, parent=1, attributes=SESSION))
    plain = body(sent, kind.partition(";")[0])
    answer = desk.post("traces", ENCODINGS[encoding](plain), kind, content_encoding=encoding or "identity")

    assert response(ExportTraceServiceResponse, answer) == ExportTraceServiceResponse()
    kept = desk.kept()
    assert [record.span_id for record in kept] == [span_id(1), span_id(2)]
    first = kept[0]
    assert isinstance(first, Span)
    assert (first.trace_id, first.resource["service.name"], first.scope) == (TRACE, "policy-bot", "tests")
    assert first.attributes["input.value"] == "x"
    assert desk.telemetry.accepted == [("http", 2, 0, len(ENCODINGS[encoding](plain)))]


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_log_records_are_kept_with_their_span_and_others_left_out(desk: Desk, kind: str) -> None:
    desk.post("traces", body(request(span(1, attributes=SESSION)), kind), kind)
    lone = log(2)
    del lone["spanId"]
    answer = desk.post("logs", body(log_request(log(1), lone), kind), kind)

    assert response(ExportLogsServiceResponse, answer) == ExportLogsServiceResponse()
    [first, second] = desk.kept()
    assert isinstance(second, LogRecord)
    assert (first.span_id, second.span_id, second.event_name) == (span_id(1), span_id(1), "gen_ai.user.message")


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
@pytest.mark.parametrize(
    ("signal", "message", "count"),
    [
        ("traces", ExportTraceServiceResponse, "rejected_spans"),
        ("logs", ExportLogsServiceResponse, "rejected_log_records"),
    ],
)
def test_broken_records_are_rejected_and_the_rest_is_kept(
    desk: Desk, kind: str, signal: str, message: Any, count: str
) -> None:
    make, wrap = (span, request) if signal == "traces" else (log, log_request)
    sent = wrap(make(1), make(2, traceId="ab" * 5), make(3))
    sent_bytes = body(sent, kind)
    answer = response(message, desk.post(signal, sent_bytes, kind)).partial_success

    assert getattr(answer, count) == 1
    assert answer.error_message.startswith("1 of 3 records could not be read: trace id is no 16-byte id")
    assert desk.telemetry.refusals == [("http", "broken_records", 1)]
    spans, logs = (2, 0) if signal == "traces" else (0, 2)
    assert desk.telemetry.accepted == [("http", spans, logs, len(sent_bytes))]


def test_no_message_repeats_what_was_sent(desk: Desk) -> None:
    for broken in ({"traceId": SECRET}, {"attributes": {SECRET: 1}}, {"spanId": [SECRET]}, {"parentSpanId": SECRET}):
        for sent in (request(span(1, **broken)), request(span(1, **broken), span(2))):
            assert SECRET not in desk.post("traces", dumped(sent), JSON).text
    for text in (SECRET, f'{{"{SECRET}": 1}}', f'{{"resourceSpans": [{{"{SECRET}": []}}]}}', f'["{SECRET}"]'):
        assert SECRET not in desk.post("traces", text.encode(), JSON).text


@pytest.mark.parametrize("empty", [b"{}", b' {"resourceSpans": []}\n'])
def test_nothing_is_accepted_too(desk: Desk, empty: bytes) -> None:
    assert desk.post("traces", empty, JSON).json() == {}
    assert desk.post("traces", b"").content == b""


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_metrics_are_answered_so_that_nobody_retries_and_said_not_to_be_kept(desk: Desk, kind: str) -> None:
    answer = desk.post("metrics", b"\x0a\x00" if kind == PROTOBUF else b'{"resourceMetrics":[]}', kind)

    assert "keeps no metrics" in response(ExportMetricsServiceResponse, answer).partial_success.error_message


BAD = [
    ("no protobuf", PROTOBUF, b"\x7bgarbage", {}, 400),
    ("no JSON", JSON, b"garbage", {}, 400),
    ("no request", JSON, b'{"a": 1}', {}, 400),
    ("an empty text", JSON, b" ", {}, 400),
    ("only broken spans", JSON, dumped(request(span(1, traceId=""))), {}, 400),
    ("only broken spans", PROTOBUF, protobuf(request(span(1, traceId=""))), {}, 400),
    ("logs as traces", JSON, dumped(log_request(log(1))), {}, 400),
    ("logs as traces", PROTOBUF, protobuf(log_request(log(1))), {}, 400),
    ("no gzip", PROTOBUF, b"garbage", {"content_encoding": "gzip"}, 400),
    ("cut gzip", JSON, gzip.compress(dumped(request(span(1))))[:-9], {"content_encoding": "gzip"}, 400),
    ("unknown compression", PROTOBUF, b"", {"content_encoding": "br"}, 415),
    ("two compressions", JSON, b"", {"content_encoding": "gzip, gzip"}, 415),
    ("a bomb", PROTOBUF, gzip.compress(b"\x00" * 100_000_000), {"content_encoding": "gzip"}, 413),
    ("a bomb", JSON, zlib.compress(b" " * 100_000_000), {"content_encoding": "deflate"}, 413),
    ("a large body", JSON, b" " * 17_000_000, {}, 413),
    ("many records", JSON, dumped(request(*[{}] * 60_000)), {}, 413),
]


@pytest.mark.parametrize(("what", "kind", "sent", "headers", "code"), BAD, ids=[f"{one[0]}-{one[1]}" for one in BAD])
def test_what_cannot_be_accepted_is_refused_for_good(
    desk: Desk, what: str, kind: str, sent: bytes, headers: dict[str, str], code: int
) -> None:
    answer = desk.post("traces", sent, kind, **headers)

    assert answer.status_code == code, what
    assert answer.headers["content-type"] == kind
    assert "retry-after" not in answer.headers
    assert status(answer).message
    assert delay(status(answer)) is None
    assert desk.spans_kept() == 0
    assert len(desk.telemetry.refusals) == 1
    assert desk.post("traces", protobuf(request(span(1)))).status_code == 200


@pytest.mark.parametrize("kind", [None, "text/plain", "multipart/form-data"])
def test_other_media_types_are_refused(desk: Desk, kind: str | None) -> None:
    """A web page may send them across origins without asking first."""
    headers = {"content-type": kind} if kind else {}
    answer = desk.http.post("/v1/traces", content=b"{}", headers=headers)

    assert (answer.status_code, status(answer).code) == (415, 3)
    assert answer.headers["accept-encoding"] == "gzip, deflate"


def test_unknown_paths_and_methods_are_said(desk: Desk) -> None:
    unknown = desk.post("profiles", b"{}", JSON)
    wrong = desk.http.get("/v1/traces")

    assert (unknown.status_code, wrong.status_code, wrong.headers["allow"]) == (404, 405, "POST")
    assert status(unknown).message
    assert status(wrong).message


@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \u00e9"])
@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_a_token_is_asked_for_where_there_is_one(tmp_path: Path, header: str | None, kind: str) -> None:
    with receiving(tmp_path, token=TOKEN, grpc="") as desk:
        headers: Any = {"content-type": kind} | ({"authorization": header.encode("latin-1")} if header else {})
        for signal in ("traces", "logs", "metrics"):
            answer = desk.http.post(f"/v1/{signal}", content=b"{}", headers=headers)

            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert status(answer).code == 16


def test_the_right_token_is_let_in_by_any_name(tmp_path: Path) -> None:
    with receiving(tmp_path, token=TOKEN, grpc="") as desk:
        named = {"authorization": f"Bearer {TOKEN}", "host": "collector.example"}
        assert desk.post("traces", protobuf(request(span(1))), **named).status_code == 200


def test_without_a_token_only_loopback_is_served(desk: Desk) -> None:
    """A web page that rebinds its name to this machine still sends its own name."""
    for host, code in (("evil.example", 403), ("localhost:4318", 200), ("[::1]:4318", 200), ("127.0.0.1", 200)):
        assert desk.post("traces", b"", host=host).status_code == code


def test_the_services_own_traces_are_dropped_and_counted(desk: Desk) -> None:
    own = request(span(1), span(2), resource="otel-drift", scope="otel_drift.service")
    others = request(span(3), resource="otel-drift")
    own["resourceSpans"] += others["resourceSpans"] + request(span(4), scope="otel_drift.service")["resourceSpans"]
    answer = desk.post("traces", protobuf(own))

    assert (answer.status_code, answer.content) == (200, b"")
    assert desk.spans_kept() == 2
    assert desk.telemetry.refusals == [("http", "own_traces", 2)]


def test_nothing_sent_is_logged(desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError(SECRET)

    with caplog.at_level(logging.DEBUG):
        desk.inbox.failure = lambda: RuntimeError(SECRET)
        failed = [desk.post("traces", dumped(request(span(1, name=SECRET))), JSON)]
        monkeypatch.setattr(intake, "_read", broken)
        failed.append(desk.post("traces", dumped(request(span(1, name=SECRET))), JSON))

    assert [answer.status_code for answer in failed] == [503, 500]
    assert SECRET not in caplog.text + "".join(answer.text for answer in failed)


def test_lone_surrogates_and_nul_come_through_clean(desk: Desk) -> None:
    text = json.dumps(request(span(1, attributes=[*SESSION, attribute("output.value", "a\x00\ud800z")])))
    assert desk.post("traces", text.encode(), JSON).status_code == 200
    [kept] = desk.kept()
    assert kept.attributes["output.value"] == "a\ufffd\ufffdz"
