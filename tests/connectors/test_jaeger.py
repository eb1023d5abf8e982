"""The Jaeger connector against a strict server over HTTP, checked with the published OpenAPI; the older API too."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from captures import records_of
from jaeger_server import Jaeger, openapi
from ledger_samples import annotation
from otel_drift import delivery, pipeline, retry
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.errors import ConfigError, PlatformError, RecordError, SinkError
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.model import Session, Span
from otel_drift.protocols import AuditSettings, Window
from otel_drift.selection import Selection
from otel_drift.sessions import reconstruct
from otel_drift.testing import SourceCase, check_source, conversation
from otel_drift_connectors.jaeger import JaegerSink, JaegerSource
from otel_drift_connectors.jaeger.ui_json import spans_of
from otlp_receiver import http_receiver
from tempo_server import clients_closed, serving

SECOND = 10**9
HOUR = 3600 * SECOND
END = 1_790_000_000 * SECOND
CAPTURES = ("google-adk/hrleave-native", "langfuse-langchain/telecom-rewrite", "openinference-langchain/hrleave-agent",
            "openlit-openai/telecom-chroma", "otel-genai-openai/hrleave-doctext", "pydantic-ai/telecom-agent",
            "traceloop-openai/telecom-chroma-bare-error", "vercel-ai/guideline-tool")  # fmt: skip


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(("JAEGER_", "OTEL_EXPORTER")):
            monkeypatch.delenv(name)
    with clients_closed(monkeypatch):
        yield


@pytest.fixture
def jaeger(shared: Path) -> Iterator[Jaeger]:
    with serving(Jaeger(openapi(shared))) as server, retry.testing():
        yield server


def around(spans: Sequence[Span]) -> Window:
    return Window(min(span.start for span in spans), max(span.end for span in spans) + 1)


def read(source: JaegerSource, window: Window | None) -> list[Span]:
    return [record for page, _ in source.read(None, window) for record in page]  # type: ignore[misc]


def sessions_of(spans: Sequence[Span]) -> list[Session]:
    return sorted(reconstruct(list(spans)), key=lambda session: session.key)


def in_microseconds(span: Span) -> Span:
    """A span as a store keeps it that knows no nanoseconds, nor a scope's version."""
    return dataclasses.replace(
        span,
        start=span.start // 1000 * 1000,
        end=span.end // 1000 * 1000,
        events=tuple(dataclasses.replace(event, time=event.time // 1000 * 1000) for event in span.events),
    )


def talk(jaeger: Jaeger, *names: str, ends: int = END, **options: Any) -> list[Span]:
    spans = [span for name in names for span in conversation(name, ends=ends, **options)]
    jaeger.store.add_spans(spans)
    return spans


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("in_messages", [False, True])
def test_a_capture_is_rebuilt_as_from_its_file(shared: Path, jaeger: Jaeger, name: str, in_messages: bool) -> None:
    jaeger.store.add_capture(shared, name)
    jaeger.in_messages = in_messages
    spans = [record for record in records_of(shared, name) if isinstance(record, Span)]

    found = read(JaegerSource(jaeger.url), around(spans))

    assert sessions_of(found) == sessions_of(spans)
    assert len({span.ref for span in found}) == len(found)


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_is_rebuilt_by_the_older_api(shared: Path, jaeger: Jaeger, name: str) -> None:
    jaeger.store.add_capture(shared, name)
    jaeger.v3 = False
    spans = [record for record in records_of(shared, name) if isinstance(record, Span)]
    services = {str(span.resource.get("service.name")) for span in spans}

    found = [span for service in services for span in read(JaegerSource(jaeger.url, service=service), around(spans))]

    assert sessions_of(found) == sessions_of([in_microseconds(span) for span in spans])


@pytest.mark.parametrize("v3", [True, False])
def test_it_passes_the_conformance_checks(jaeger: Jaeger, v3: bool) -> None:
    jaeger.v3 = v3
    jaeger.authorization = "Bearer s3cret"
    spans = talk(jaeger, "old", ends=END - 40 * HOUR) + talk(jaeger, "new")
    of = {
        one: [span.ref for span in spans if span.attributes["gen_ai.conversation.id"] == one] for one in ("old", "new")
    }

    def opened(**options: Any) -> JaegerSource:
        return JaegerSource(f"{jaeger.url}?service=shop-bot", **{"token": "s3cret", **options})

    def failing() -> JaegerSource:
        jaeger.faults_from = len(jaeger.asked) + 2
        return opened()

    check_source(
        SourceCase(
            opened,
            Window(END - 30 * SECOND, END + 1),
            {"new": of["new"]},
            elsewhere=["old"],
            broken={
                "key": lambda: opened(token="wrong"),
                "url": lambda: JaegerSource(jaeger.url + "/nowhere?service=shop-bot", token="s3cret"),
            },
            secrets=["s3cret"],
            failing=failing,
        )
    )


def test_a_session_is_read_whole_by_one_request_more(jaeger: Jaeger) -> None:
    spans = talk(jaeger, *(f"s{number}" for number in range(5)))

    found = read(JaegerSource(jaeger.url), Window(END - 30 * SECOND, END + 1))

    assert {span.ref for span in found} == {span.ref for span in spans}
    assert len(jaeger.searches) == 1 + 5


def test_windows_are_halved_until_none_reaches_the_depth(jaeger: Jaeger) -> None:
    spans = [span for number in range(20) for span in talk(jaeger, f"s{number}", ends=END - number * 200 * SECOND)]

    found = read(JaegerSource(jaeger.url, limit=8), around(spans))

    assert {span.ref for span in found} == {span.ref for span in spans}


def test_a_store_that_needs_a_service_has_its_services_listed(jaeger: Jaeger) -> None:
    spans = talk(jaeger, "s") + talk(jaeger, "t", service="other-bot")
    jaeger.needs_service = True

    with pytest.raises(ConfigError, match=r"\?service=NAME, there are: other-bot, shop-bot"):
        JaegerSource(jaeger.url).check()
    found = read(JaegerSource(f"{jaeger.url}?service=shop-bot"), around(spans))
    assert {span.resource["service.name"] for span in found} == {"shop-bot"}


def test_the_older_api_lists_its_services_too(jaeger: Jaeger) -> None:
    talk(jaeger, "s")
    jaeger.v3 = False
    with pytest.raises(ConfigError, match="there are: shop-bot"):
        JaegerSource(jaeger.url).check()


def test_base_path_and_tenant_header(jaeger: Jaeger) -> None:
    jaeger.base, jaeger.tenant = "/jaeger", ("x-scope", "acme")

    source = JaegerSource(f"{jaeger.url}/jaeger?tenant=acme&tenant_header=x-scope")

    assert source.check() == f"Jaeger at {jaeger.url}/jaeger by api_v3: 0 services, no trace of the last 24 hours"
    assert source.trace_url == f"{jaeger.url}/jaeger/trace/{{trace_id}}"
    with pytest.raises(ConfigError, match="JAEGER_TOKEN"):
        JaegerSource(f"{jaeger.url}/jaeger").check()
    with pytest.raises(ConfigError, match="no Jaeger query service"):
        JaegerSource(jaeger.url).check()


@pytest.mark.parametrize("hostile", ['"}, "a": "', "ü🙂", "back\\slash", "new\nline"])
def test_session_ids_are_searched_as_they_are(jaeger: Jaeger, hostile: str) -> None:
    spans = talk(jaeger, hostile)
    assert len(read(JaegerSource(jaeger.url), Window(END - 30 * SECOND, END + 1))) == len(spans)


def test_an_id_too_long_to_be_searched_is_told(jaeger: Jaeger) -> None:
    problems: list[RecordError] = []
    talk(jaeger, "x" * 300)
    assert read(JaegerSource(jaeger.url, on_problem=problems.append), Window(END - 30 * SECOND, END + 1))
    assert "cannot be searched" in str(problems[0])


def test_broken_spans_of_the_older_json_are_told_and_the_others_read() -> None:
    problems: list[RecordError] = []
    good = {
        "traceID": "1",
        "spanID": "2",
        "operationName": "a",
        "startTime": 1_790_000_000_000_000,
        "duration": 5,
        "processID": "p1",
        "references": [{"refType": "CHILD_OF", "traceID": "1", "spanID": "3"}],
        "tags": [
            {"key": "error", "type": "bool", "value": True},
            {"key": "n", "type": "int64", "value": "9007199254740993"},
            {"key": "raw", "type": "binary", "value": "AAE="},
            {"key": "span.kind", "type": "string", "value": "client"},
        ],
    }
    trace = {
        "spans": [
            good,
            {"traceID": "zz", "spanID": "2"},
            "x",
            {**good, "spanID": "4", "tags": None, "startTime": "soon"},
        ],
        "processes": {"p1": {"serviceName": "s", "tags": []}},
    }

    found = spans_of(trace, on_problem=problems.append)

    assert [span.span_id for span in found] == ["2".rjust(16, "0"), "4".rjust(16, "0")]
    first = found[0]
    assert (first.trace_id, first.parent_id, first.kind, first.status) == (
        "1".rjust(32, "0"),
        "3".rjust(16, "0"),
        3,
        "error",
    )
    assert first.attributes == {"n": 9007199254740993, "raw": b"\x00\x01"}
    assert first.resource == {"service.name": "s"}
    assert first.end - first.start == 5000
    assert problems
    assert spans_of({"spans": None}, on_problem=problems.append) == []


def test_an_audit_again_after_our_spans_were_written_says_the_same(jaeger: Jaeger, tmp_path: Path) -> None:
    talk(jaeger, "s")
    window = Window(END - 30 * SECOND, END + 1)
    with http_receiver() as receiver, Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        target = f"{jaeger.url}?otlp={receiver.url}"
        first = _audited(target, window, ledger)
        written = len(receiver.spans)
        jaeger.store.add_exported(receiver.arrived)
        again = _audited(target, window, ledger)

    assert written
    assert again == first
    assert first[0][0] == "findings"
    assert len(receiver.spans) == written
    tagged = {"otel_drift.severity": "MAJOR", "gen_ai.evaluation.name": "drift_severity"}
    assert jaeger._matching("otel-drift", 0, 2 * END, tagged)


def _audited(target: str, window: Window, ledger: Ledger) -> list[Any]:
    source, sink = JaegerSource(target), JaegerSink(target)
    line = pipeline.Line(
        [FactualDrift()], RulesJudge(), AuditSettings(embedded_judge=True), ledger, sinks=[sink.name],
        selection=Selection(window=window),
    )  # fmt: skip
    units = list(pipeline.audit(source, line))
    assert delivery.deliver(ledger, {sink.name: sink}).problems == []
    sink.close()
    return [
        (unit.outcome, unit.severity, unit.session.key, unit.session.project, [f.event_id for f in unit.findings])
        for unit in units
    ]


def test_without_an_otlp_endpoint_one_line_says_so_and_nothing_is_written() -> None:
    sink = JaegerSink("http://localhost:16686?service=x")
    assert "nothing is written back" in sink.check()
    with pytest.raises(SinkError, match=r"otlp = .*--sink none"):
        sink.write([annotation(1)])


def test_a_server_that_is_gone_is_one_clear_line() -> None:
    with retry.testing(), pytest.raises(PlatformError, match="cannot be reached"):
        JaegerSource("http://127.0.0.1:1").check()
