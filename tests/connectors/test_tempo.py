"""The Tempo connector against a strict server over HTTP: what is read is what the OTLP file says; nothing is lost."""

from __future__ import annotations

import base64
import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from captures import names_in, records_of
from ledger_samples import annotation
from otel_drift import delivery, pipeline, retry
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.errors import ConfigError, PlatformError, RecordError, SinkError
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.model import Session, Span
from otel_drift.normalise.names import MAX_ID
from otel_drift.protocols import AuditSettings, Window
from otel_drift.selection import Selection
from otel_drift.sessions import reconstruct
from otel_drift.testing import SourceCase, check_source, conversation
from otel_drift_connectors.tempo import TempoSink, TempoSource, traceql
from otel_drift_connectors.tempo.answers import is_cut
from otlp_receiver import http_receiver, values
from tempo_server import Tempo, clients_closed, serving
from traceql_subset import parse

SECOND = 10**9
HOUR = 3600 * SECOND
END = 1_790_000_000 * SECOND
READ_AS_OTLP = (
    "google-adk/hrleave-native",
    "langfuse-langchain/telecom-rewrite",
    "openinference-langchain/hrleave-agent",
    "openlit-openai/telecom-chroma",
    "otel-genai-openai/hrleave-doctext",
    "pydantic-ai/telecom-agent",
    "traceloop-openai/telecom-chroma-bare-error",
    "vercel-ai/guideline-tool",
    "vercel-ai-v7/telecom-tool",
    "openinference-haystack/hrleave-pipeline",
    "mlflow-langchain/telecom-otlp",
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(("TEMPO_", "OTEL_EXPORTER")):
            monkeypatch.delenv(name)
    with clients_closed(monkeypatch):
        yield


@pytest.fixture
def tempo() -> Iterator[Tempo]:
    with serving(Tempo()) as server, retry.testing():
        yield server


def around(spans: Sequence[Span]) -> Window:
    return Window(min(span.start for span in spans), max(span.end for span in spans) + 1)


def read(source: TempoSource, window: Window | None) -> list[Span]:
    found = [record for page, _ in source.read(None, window) for record in page]
    assert all(isinstance(record, Span) for record in found)
    return found  # type: ignore[return-value]


def sessions_of(spans: Sequence[Span]) -> list[Session]:
    return sorted(reconstruct(list(spans)), key=lambda session: session.key)


def talk(tempo: Tempo, *names: str, ends: int = END, **options: Any) -> list[Span]:
    spans = [span for name in names for span in conversation(name, ends=ends, **options)]
    tempo.store.add_spans(spans)
    return spans


# --- what is read is what the file says ---


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, "v2") for name in READ_AS_OTLP),
        *((name, form) for name in READ_AS_OTLP[:3] for form in ("v1", "v2 protobuf", "v1 protobuf")),
    ],
)
def test_a_capture_is_rebuilt_as_from_its_file(shared: Path, tempo: Tempo, name: str, form: str) -> None:
    tempo.store.add_capture(shared, name)
    tempo.has_v2 = form.startswith("v2")
    spans = [record for record in records_of(shared, name) if isinstance(record, Span)]

    found = read(TempoSource(tempo.url, protobuf="protobuf" in form), around(spans))

    assert sessions_of(found) == sessions_of(spans)
    assert len({span.ref for span in found}) == len(found)


def test_the_default_condition_finds_every_capture(shared: Path, tempo: Tempo) -> None:
    """Every trace that a session is made of is found, whatever the instrumentation."""
    for name in names_in(shared):
        spans = [record for record in records_of(shared, name) if isinstance(record, Span)]
        if "native" in name and name.startswith("mlflow"):
            continue  # MLflow's own format: never in a Tempo
        wanted = {trace for session in reconstruct(spans) for trace in session.trace_ids}
        query = parse(traceql.search([TempoSource(tempo.url)._condition], []))
        store = dataclasses.replace(tempo.store, traces={})
        store.add_capture(shared, name)
        assert wanted <= {trace for trace, stored in store.traces.items() if query.matches(stored)}, name


def test_it_passes_the_conformance_checks(tempo: Tempo) -> None:
    spans = talk(tempo, "old", ends=END - 40 * HOUR) + talk(tempo, "new")
    of = {
        one: [span.ref for span in spans if span.attributes["gen_ai.conversation.id"] == one] for one in ("old", "new")
    }
    tempo.authorization = "Bearer s3cret"

    def failing() -> TempoSource:
        source = TempoSource(tempo.url, token="s3cret")
        tempo.faults_from = len(tempo.asked) + 2
        return source

    check_source(
        SourceCase(
            lambda: TempoSource(tempo.url, token="s3cret"),
            Window(END - 30 * SECOND, END + 1),
            {"new": of["new"]},
            elsewhere=["old"],
            broken={
                "key": lambda: TempoSource(tempo.url, token="wrong"),
                "url": lambda: TempoSource(tempo.url + "/nowhere", token="s3cret"),
                "condition": lambda: TempoSource(tempo.url, token="s3cret", condition="span.a == nothing"),
            },
            secrets=["s3cret"],
            failing=failing,
        )
    )


# --- searching ---


def test_a_session_is_read_whole_beyond_the_window_by_few_requests(tempo: Tempo) -> None:
    names = [f"session {number}" for number in range(60)]
    spans = talk(tempo, *names)
    source = TempoSource(tempo.url)

    found = read(source, Window(END - 30 * SECOND, END + 1))

    assert {span.ref for span in found} == {span.ref for span in spans}
    assert len(tempo.searches) <= 3  # the window, and 60 ids in two queries at the most
    assert source.requests == len(tempo.searches) + len(tempo.store.traces)


def test_slices_are_halved_until_none_is_full(tempo: Tempo) -> None:
    spans = [span for number in range(20) for span in talk(tempo, f"s{number}", ends=END - number * 200 * SECOND)]

    found = read(TempoSource(tempo.url, limit=12, reach_days=0), around(spans))

    assert {span.ref for span in found} == {span.ref for span in spans}
    assert all(int(params["limit"]) == 12 for params in tempo.searches)


def test_a_second_with_more_traces_than_the_limit_raises_the_limit(tempo: Tempo) -> None:
    spans = talk(tempo, *(f"s{number}" for number in range(12)))

    found = read(TempoSource(tempo.url, limit=8, reach_days=0), around(spans))

    assert {span.ref for span in found} == {span.ref for span in spans}


def test_a_range_over_the_servers_maximum_is_split(tempo: Tempo) -> None:
    tempo.max_seconds = 24 * 3600
    spans = talk(tempo, "long ago", ends=END - 120 * HOUR) + talk(tempo, "now")

    found = read(TempoSource(tempo.url), Window(END - 200 * HOUR, END + 1))

    assert {span.ref for span in found} == {span.ref for span in spans}


@pytest.mark.parametrize("status", [422, 500])
def test_an_answer_that_is_too_large_is_asked_for_in_parts(tempo: Tempo, status: int) -> None:
    spans = talk(tempo, "s")
    tempo.faults = [(status, "text/plain", b"response larger than the max (4194305 vs 4194304)")]

    assert len(read(TempoSource(tempo.url), around(spans))) == len(spans)


def test_an_overloaded_server_is_asked_again(tempo: Tempo) -> None:
    spans = talk(tempo, "s")
    tempo.faults = [(429, "text/plain", b"queue full"), (500, "text/plain", b"oops"), (503, "text/plain", b"")]

    assert len(read(TempoSource(tempo.url), around(spans))) == len(spans)


@pytest.mark.parametrize("hostile", ['a" || true } | {', "back\\slash", "new\nline", "nul\0", "ü🙂\u2028", "{", "$`'"])
def test_ids_are_text_and_never_query(tempo: Tempo, hostile: str) -> None:
    spans = talk(tempo, hostile) + talk(tempo, "other", ends=END - 9 * HOUR)

    found = read(TempoSource(tempo.url), Window(END - 30 * SECOND, END + 1))

    assert {span.ref for span in found} == {span.ref for span in spans[:9]}


def test_odd_attribute_names_are_quoted() -> None:
    query = parse(traceql.search([traceql.equals([("my session (id)", 7)])], ["my session (id)"]))
    assert query.selected == [("span", "my session (id)")]


def test_ids_as_numbers_are_searched_as_numbers(tempo: Tempo) -> None:
    spans = [
        dataclasses.replace(span, attributes={**span.attributes, "gen_ai.conversation.id": 42})
        for span in conversation("x", ends=END)
    ]
    tempo.store.add_spans(spans)

    assert len(read(TempoSource(tempo.url), Window(END - 30 * SECOND, END + 1))) == len(spans)


def test_environment_user_tag_service_and_query_narrow_the_search(tempo: Tempo) -> None:
    mine = talk(tempo, "mine", attributes={"user.id": "u1", "tag.tags": ["beta", "eu"], "app": "x"})
    talk(tempo, "user", attributes={"user.id": "u2", "tag.tags": ["beta", "eu"], "app": "x"})
    talk(tempo, "tag", attributes={"user.id": "u1", "tag.tags": ["beta"], "app": "x"})
    talk(tempo, "service", attributes={"user.id": "u1", "tag.tags": ["beta", "eu"], "app": "x"}, service="other")
    talk(tempo, "app", attributes={"user.id": "u1", "tag.tags": ["beta", "eu"], "app": "y"})
    condition = quote('span.app = "x"')
    window = dataclasses.replace(around(mine), environments=("production",), users=("u1",), tags=("beta", "eu"))

    found = read(TempoSource(f"{tempo.url}?service=shop-bot&query={condition}"), window)

    assert {span.ref for span in found} == {span.ref for span in mine}
    assert read(TempoSource(tempo.url), dataclasses.replace(window, environments=("staging",))) == []


def test_a_session_id_of_any_length_does_not_stop_the_reading(tempo: Tempo) -> None:
    problems: list[RecordError] = []
    spans = talk(tempo, "x" * (MAX_ID + 1))

    found = read(TempoSource(tempo.url, on_problem=problems.append), Window(END - 30 * SECOND, END + 1))

    assert 0 < len(found) < len(spans)
    assert "longer than" in str(problems[0])


# --- traces that are not whole ---


def test_ids_without_leading_zeros_are_padded(tempo: Tempo) -> None:
    spans = [dataclasses.replace(span, trace_id="000" + span.trace_id[3:]) for span in conversation("s", ends=END)]
    tempo.store.add_spans(spans)

    assert {span.ref for span in read(TempoSource(tempo.url), around(spans))} == {span.ref for span in spans}


def test_a_partial_trace_is_told_and_its_turn_is_not_groundable(tempo: Tempo) -> None:
    spans = talk(tempo, "s")
    last = spans[-1].trace_id
    tempo.partial[last] = "trace exceeds max size; 12 spans dropped"
    tempo.store.traces[last] = [one for one in tempo.store.traces[last] if "retrieval" not in one.span["name"]]
    for protobuf in (False, True):
        problems: list[RecordError] = []

        (session,) = reconstruct(
            read(TempoSource(tempo.url, on_problem=problems.append, protobuf=protobuf), around(spans))
        )

        assert [turn.retrieval for turn in session.turns] == ["captured", "captured", "not_captured"]
        assert [(one.record, "trace exceeds max size" in one.reason) for one in problems] == [(last, True)]
        assert "max_bytes_per_trace" in " ".join(hint.remedy for hint in session.hints)


def test_traces_too_large_or_gone_are_told_and_the_others_read(tempo: Tempo) -> None:
    spans = talk(tempo, "s")
    first, second, third = dict.fromkeys(span.trace_id for span in spans)
    tempo.has_v2 = False
    tempo.too_large, tempo.vanished = {first}, {second}
    problems: list[RecordError] = []

    found = read(TempoSource(tempo.url, on_problem=problems.append), around(spans))

    assert {span.trace_id for span in found} == {third}
    told = {one.record: one.reason for one in problems}
    assert "max_bytes_per_trace" in told[first]
    assert "not by its id" in told[second]


def test_traces_that_cannot_be_read_yet_fail_no_command(
    tempo: Tempo, otel_drift: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    spans = talk(tempo, "s", ends=time.time_ns() - HOUR)
    tempo.has_v2 = False
    tempo.vanished = {span.trace_id for span in spans}

    run = otel_drift("inspect", f"tempo:{tempo.url}", "--since", "24h")

    assert run.returncode == 0, run.stderr
    assert "not by its id" in run.stderr
    assert "passed over" not in run.stderr


def test_a_root_that_has_not_come_yet_and_late_spans(tempo: Tempo) -> None:
    """What came late is there at the next reading, and the session keeps its key."""
    spans = conversation("s", ends=END)
    late = [span for span in spans if span.parent_id is None and span.trace_id == spans[-1].trace_id]
    tempo.store.add_spans([span for span in spans if span not in late])
    source = TempoSource(tempo.url)
    before = read(source, around(spans))
    tempo.store.add_spans(late)

    after = read(source, around(spans))

    assert len(after) == len(before) + 1
    assert [session.key for session in reconstruct(before)] == [session.key for session in reconstruct(after)]
    assert sessions_of(after) == sessions_of(spans)


def test_texts_cut_at_2048_bytes_are_marked_and_the_setting_is_named(shared: Path, tempo: Tempo) -> None:
    name = "openinference-langchain/hrleave-agent"
    tempo.store.add_capture(shared, name)
    tempo.store.cut(2048)
    spans = [record for record in records_of(shared, name) if isinstance(record, Span)]
    problems: list[RecordError] = []

    found = read(TempoSource(tempo.url, on_problem=problems.append), around(spans))

    (session,) = reconstruct(found)
    cut = [span for span in found if "otel_drift.truncated" in span.attributes]
    assert cut
    assert {turn.retrieval for turn in session.turns} <= {"partial", "captured", "not_captured"}
    assert "max_attribute_bytes" in str(problems[-1])
    assert "max_attribute_bytes" in " ".join(hint.remedy for hint in session.hints)


def test_a_passage_cut_in_plain_text_makes_its_turn_partial(tempo: Tempo) -> None:
    spans = conversation("s", turns=[("Q?", "ä" * 1500, "A."), ("R?", "short", "B.")], ends=END)
    tempo.store.add_spans(spans)
    tempo.store.cut(2048)

    (session,) = reconstruct(read(TempoSource(tempo.url), around(spans)))

    assert session.turns[0].retrieval in ("partial", "not_captured")
    assert session.turns[1].retrieval == "captured"


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("x" * 2048, True),
        ("x" * 2047, False),
        ("x" * 2049, False),
        ("x" * 2047 + "\ufffd", True),
        ("[" + "1," * 1023 + "1", True),
        ("[" + "1," * 1022 + "1]", False),
        ('["' + "x" * 2043, True),
        ('["' + "x" * 1000, False),
        ("[" + "1" * 2046 + "]", False),
        ("ä" * 1024, True),
    ],
)
def test_what_counts_as_cut(text: str, cut: bool) -> None:
    assert is_cut(text, 2048) is cut


# --- connecting ---


def test_check_says_what_is_there(tempo: Tempo) -> None:
    assert TempoSource(tempo.url).check() == f"Tempo 3.0.3 at {tempo.url} has no chat trace of the last 24 hours"


@pytest.mark.parametrize(("hours", "seen"), [(168, "24"), (24, "12"), (6, "3")])
def test_a_server_that_searches_less_than_a_day_at_once_is_checked_by_as_much_as_it_does(
    tempo: Tempo, hours: int, seen: str
) -> None:
    """A day is a second too long for a maximum of 24 hours: it begins and ends within seconds."""
    tempo.max_seconds = hours * 3600
    assert TempoSource(tempo.url).check().endswith(f"has no chat trace of the last {seen} hours")


def test_a_server_without_traceql_is_told(tempo: Tempo) -> None:
    tempo.version = "1.5.0"
    with pytest.raises(ConfigError, match="upgrade"):
        TempoSource(tempo.url).check()


def test_tenant_and_basic_auth_are_sent(tempo: Tempo, monkeypatch: pytest.MonkeyPatch) -> None:
    tempo.tenant = "team-a"
    tempo.authorization = "Basic " + base64.b64encode(b"12345:glc_x").decode()
    monkeypatch.setenv("TEMPO_USER", "12345")
    monkeypatch.setenv("TEMPO_PASSWORD", "glc_x")

    source = TempoSource(f"{tempo.url}?tenant=team-a")

    assert "Tempo 3.0.3" in source.check()
    assert source.name == f"tempo:{tempo.url}?tenant=team-a"
    with pytest.raises(ConfigError, match="TEMPO_TOKEN"):
        TempoSource(tempo.url).check()


def test_a_tenant_alone_may_travel_in_the_clear_and_a_token_may_not() -> None:
    TempoSource("http://tempo.monitoring:3200?tenant=a")
    with pytest.raises(ConfigError, match="plain http"):
        TempoSource("http://tempo.monitoring:3200", token="t")


@pytest.mark.parametrize(
    "options", [{"colour": 1}, {"limit": "many"}, {"limit": 0}, {"headers": "x"}, {"timeout": True}]
)
def test_wrong_options_are_told(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="tempo"):
        TempoSource("http://localhost:3200", **options)


def test_links_go_to_grafana_where_one_is_named() -> None:
    assert TempoSource("http://localhost:3200").trace_url == ""
    assert TempoSource("http://localhost:3200?grafana=https://g.example/t/{trace_id}").trace_url.endswith("/{trace_id}")
    made = TempoSource("http://localhost:3200", grafana="https://g.example", datasource="uid1").trace_url
    assert made.startswith("https://g.example/explore?schemaVersion=1&panes=%7B%22a%22")
    assert made.count("{trace_id}") == 1


# --- writing ---


def test_without_an_otlp_endpoint_one_line_says_so_and_nothing_is_written() -> None:
    sink = TempoSink("http://localhost:3200?service=x")
    assert "nothing is written back" in sink.check()
    with pytest.raises(SinkError, match=r"otlp = .*--sink none"):
        sink.write([annotation(1)])


def test_spans_and_events_go_to_their_endpoints_with_the_tenant() -> None:
    with http_receiver() as spans, http_receiver() as logs:
        sink = TempoSink(f"http://localhost:3200?tenant=t1&otlp={spans.url}&logs={logs.url}")
        report = sink.write([annotation(1)])
        sink.close()

    assert report.written == (annotation(1).id,)
    assert (len(spans.spans), len(spans.logs), len(logs.logs)) == (1, 0, 1)
    assert spans.headers[0]["x-scope-orgid"] == "t1"
    assert sink.name == "tempo:http://localhost:3200?tenant=t1"


def test_an_audit_again_after_our_spans_were_written_says_the_same(tempo: Tempo, tmp_path: Path) -> None:
    """Our own spans in the audited traces change neither key, project nor result, and lie inside the audited time."""
    spans = talk(tempo, "s")
    window = Window(END - 30 * SECOND, END + 1)
    with http_receiver() as receiver, Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        target = f"{tempo.url}?otlp={receiver.url}"
        first = _audited(target, window, ledger)
        assert receiver.spans
        tempo.store.add_exported(receiver.arrived)
        count = len(receiver.spans)
        again = _audited(target, window, ledger)

    assert again == first
    assert first[0][0] == "findings"
    assert len(receiver.spans) == count
    assert all(spans[0].start <= one.start_time_unix_nano <= one.end_time_unix_nano <= END for one in receiver.spans)
    for one in receiver.spans:  # no trace grows longer by what is written into it
        own = [span for span in spans if span.trace_id == one.trace_id.hex()]
        assert min(s.start for s in own) <= one.start_time_unix_nano
        assert one.end_time_unix_nano <= max(s.end for s in own)
    labels = {values(one.attributes)["gen_ai.evaluation.name"]: one for one in receiver.spans}
    assert "drift_severity" in labels


def test_audit_spans_of_another_ledger_do_not_disturb_the_session(tempo: Tempo, tmp_path: Path) -> None:
    spans = talk(tempo, "s")
    with http_receiver() as receiver, Ledger.open(str(tmp_path / "one.db")) as ledger:
        _audited(f"{tempo.url}?otlp={receiver.url}", around(spans), ledger)
        tempo.store.add_exported(receiver.arrived)

    with_ours = reconstruct(read(TempoSource(tempo.url), around(spans)))

    assert [dataclasses.replace(session, conventions=()) for session in with_ours] == [
        dataclasses.replace(session, conventions=()) for session in reconstruct(spans)
    ]


def test_severity_and_type_are_found_by_the_guides_queries(tempo: Tempo, tmp_path: Path) -> None:
    spans = talk(tempo, "s")
    with http_receiver() as receiver, Ledger.open(str(tmp_path / "one.db")) as ledger:
        _audited(f"{tempo.url}?otlp={receiver.url}", around(spans), ledger)
        tempo.store.add_exported(receiver.arrived)
    guide = (Path(__file__).parents[2] / "examples" / "guides" / "tempo.md").read_text()
    queries = [line for line in guide.splitlines() if line.startswith("{ resource.service.name")]

    assert len(queries) >= 3
    for line in queries:
        query = parse(line.replace("CRITICAL", "MAJOR"))
        assert any(query.matches(stored) for stored in tempo.store.traces.values()), line


def _audited(target: str, window: Window, ledger: Ledger) -> list[Any]:
    source, sink = TempoSource(target), TempoSink(target)
    line = pipeline.Line(
        [FactualDrift()], RulesJudge(), AuditSettings(embedded_judge=True), ledger, sinks=[sink.name],
        selection=Selection(window=window),
    )  # fmt: skip
    try:
        units = list(pipeline.audit(source, line))
        assert delivery.deliver(ledger, {sink.name: sink}).problems == []
    finally:
        source.close()
        sink.close()
    return [
        (unit.outcome, unit.severity, unit.session.key, unit.session.project, [f.event_id for f in unit.findings])
        for unit in units
    ]


def test_a_server_that_is_gone_is_one_clear_line() -> None:
    with retry.testing(), pytest.raises(PlatformError, match="cannot be reached"):
        TempoSource("http://127.0.0.1:1").check()
