"""Against a real Phoenix: what is ingested by OTLP is read back as it was, audited, written back and found there."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from captures import spans_of
from drift_cases import drifting
from model_server import ModelServer, Reply, Request
from otel_drift.errors import RetryablePlatformError
from otel_drift.model import Annotation, Session, Span
from otel_drift.passage_mark import PassageMark, text_sha256
from otel_drift.platform import Answer, Platform
from otel_drift.protocols import Window
from otel_drift.sessions import reconstruct, session_json
from otel_drift.testing import SinkCase, SourceCase, check_sink, check_source, conversation, sample_annotations
from otel_drift.testing.samples import DRIFTING, SECOND
from otel_drift.testing.sinks import Place
from otel_drift_connectors.phoenix import PhoenixSink, PhoenixSource
from otlp_json import moved
from servers.phoenix_server import PROGRAM, Phoenix, running

pytestmark = pytest.mark.server("phoenix")

Cli = Callable[..., subprocess.CompletedProcess[str]]

ALWAYS = Window(0, 4_000_000_000 * SECOND)
CAPTURES = (
    "google-adk/hrleave-native",
    "langfuse-observe/guideline-retriever",
    "litellm-otel/medleaflet-parent-error",
    "mlflow-langchain/telecom-otlp",
    "openinference-langchain/labreport-turns",
    "openinference-llamaindex/medleaflet-query-engine-rerank",
    "openinference-openai/cloudlimits-onetrace",
    "openinference-openai-agents/hrleave-chat-group",
    "openlit-openai/telecom-chroma",
    "otel-genai-langchain/pension-spans",
    "otel-genai-openai/hrleave-doctext",
    "pydantic-ai/telecom-agent",
    "traceloop-langchain/pension-turns",
    "vercel-ai-v7/telecom-tool",
)
"""Several hold one session id: Phoenix gives the session to the project that had it first."""
KNOWN_BY_SCOPE = {"openlit-openai/telecom-chroma"}
"""Phoenix keeps no scope, so a hint names the convention instead of the library."""


@pytest.fixture(scope="module")
def phoenix(require: Callable[..., Any]) -> Iterator[Phoenix]:
    require(PROGRAM.exists(), "Phoenix is not installed (python -m venv .servers/phoenix; pip install arize-phoenix)")
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def opened() -> Iterator[list[PhoenixSource | PhoenixSink]]:
    """What a test opened, closed after it."""
    OPENED.clear()
    yield OPENED
    for one in OPENED:
        one.close()


OPENED: list[PhoenixSource | PhoenixSink] = []


def source(target: str, **options: Any) -> PhoenixSource:
    OPENED.append(one := PhoenixSource(target, **options))
    return one


def sink(target: str, **options: Any) -> PhoenixSink:
    OPENED.append(one := PhoenixSink(target, **options))
    return one


def test_captures_are_rebuilt_through_phoenix_as_from_the_otlp_file(phoenix: Phoenix, shared: Path) -> None:
    for name in CAPTURES:
        sent = [replace(span, logs=()) for span in spans_of(shared, name)]  # Phoenix takes no log records
        sent = moved(sent, conversation("now")[-1].end)
        project = name.replace("/", ".")
        phoenix.ingest(project, sent)
        read = read_all(phoenix, project, Window(min(one.start for one in sent), max(one.end for one in sent)))
        assert {span.ref for span in read} == {span.ref for span in sent}, name
        kept = [replace(span, scope="") for span in sent] if name in KNOWN_BY_SCOPE else sent
        assert told(reconstruct(read)) == told(reconstruct(kept)), name


def test_span_events_status_times_and_parents_come_back(phoenix: Phoenix, shared: Path) -> None:
    sent = {span.ref: span for span in spans_of(shared, "traceloop-openai/cloudlimits-chroma-events")}
    phoenix.ingest("events", list(sent.values()))
    for span in read_all(phoenix, "events"):
        original = sent[span.ref]
        for name in ("name", "parent_id", "status", "status_message", "attributes"):
            assert getattr(span, name) == getattr(original, name)
        assert abs(span.start - original.start) <= 1_000
        assert [(one.name, one.attributes) for one in span.events] == [
            (one.name, one.attributes) for one in original.events
        ]


def test_the_source_conforms(phoenix: Phoenix) -> None:
    """Also: a project whose name holds a slash, a session of which only the last trace lies in the window."""
    project = "team a/shop ü"
    end = conversation("x")[-1].end
    old, new = conversation("conform-old", ends=end - 7200 * SECOND), conversation("conform-new", ends=end)
    phoenix.ingest(project, [*old, *new])
    target = f"{phoenix.url}?project={quote(project, safe='')}"
    check_source(
        SourceCase(
            lambda: source(target, api_key="s3cret-key"),
            Window(new[-2].start, end + SECOND),
            {"conform-new": [span.ref for span in new]},
            elsewhere=["conform-old"],
            broken={
                "an unknown project": lambda: source(f"{phoenix.url}?project=nope"),
                "a wrong URL": lambda: source(f"{phoenix.url}/nowhere"),
                "an unknown option": lambda: source(f"{phoenix.url}?projekt=x"),
            },
            secrets=["s3cret-key"],
        )
    )


def test_an_unknown_project_is_told_which_there_are(phoenix: Phoenix) -> None:
    phoenix.ingest("known", conversation("known-1"))
    with pytest.raises(
        Exception, match=r"there is no project 'unknown'.*known.*; check the name, or let .* send its first span"
    ):
        source(f"{phoenix.url}?project=unknown").check()


def test_few_requests_read_many_sessions(phoenix: Phoenix) -> None:
    """Measured: 60 sessions of 3 traces are version, project, sessions, their comments, two of spans, and traces."""
    end = conversation("x")[-1].end
    spans = [one for n in range(60) for one in conversation(f"bulk-{n}", ends=end - n * SECOND)]
    phoenix.ingest("bulk", spans)
    read_from = source(f"{phoenix.url}?project=bulk")
    found = [span for page, _ in read_from.read(None, ALWAYS) for span in page]
    assert {span.ref for span in found} == {span.ref for span in spans}  # type: ignore[union-attr]
    assert len(found) == len(spans)
    assert read_from.requests <= 9


def test_two_projects_with_one_session_id_get_nothing_of_each_other(phoenix: Phoenix) -> None:
    """Phoenix gives the id to the first; what is found in the other's stands on its own trace."""
    first, second = (
        conversation("shared-id", service="a"),
        conversation("shared-id", ends=conversation("x")[-1].end - 1),
    )
    second = [
        replace(
            one, trace_id=one.trace_id[::-1], span_id=one.span_id[::-1], parent_id=one.parent_id and one.parent_id[::-1]
        )
        for one in second
    ]
    phoenix.ingest("customer-a", first)
    phoenix.ingest("customer-b", second)
    of_session = [one for one in sample_annotations(second) if one.target == "session"]

    report = sink(f"{phoenix.url}?project=customer-b").write(of_session)

    assert not report.rejected
    assert phoenix.annotations("customer-a", "session", session_ids="shared-id") == []
    assert len(phoenix.annotations("customer-b", "trace", trace_ids=second[0].trace_id)) == len(of_session)


def test_an_answer_too_large_is_asked_for_in_parts(phoenix: Phoenix) -> None:
    """Spans too large together are asked for in fewer at a time, down to one."""
    turns = [(f"And {n}?", f"Passage {n}. " + "x" * 40_000, f"Answer {n}.") for n in range(6)]
    spans = conversation("large", turns=turns)
    phoenix.ingest("large", spans)
    read_from = source(f"{phoenix.url}?project=large")
    read_from._server.http._max_bytes = 150_000
    found = [span for page, _ in read_from.read(None, ALWAYS) for span in page]
    assert {span.ref for span in found} == {span.ref for span in spans}  # type: ignore[union-attr]


def test_sessions_named_by_another_attribute_are_whole_too(phoenix: Phoenix) -> None:
    """Phoenix makes no session of ``langfuse.session.id``; the trace before the window is found by the attribute."""
    spans = [
        replace(one, attributes=renamed(one, "langfuse.session.id")) for one in conversation('it\'s a "session" ü')
    ]
    phoenix.ingest("elsewhere", spans)
    window = Window(spans[-1].start - 1_000, spans[-1].end + SECOND)
    assert {one.ref for one in read_all(phoenix, "elsewhere", window)} == {one.ref for one in spans}
    named = replace(ALWAYS, sessions=('it\'s a "session" ü',))
    assert {one.ref for one in read_all(phoenix, "elsewhere", named)} == {one.ref for one in spans}


def test_what_people_said_is_feedback_of_its_turn(phoenix: Phoenix) -> None:
    spans = conversation("feedback-1")
    phoenix.ingest("feedback", spans)
    answer, root = spans[5], spans[6]
    phoenix.annotate("span", span_id=answer.span_id, name="thumbs", result={"label": "thumbs-down", "score": 0})
    phoenix.annotate("span", span_id=answer.span_id, name="llm", annotator_kind="LLM", result={"label": "wrong"})
    phoenix.annotate("trace", trace_id=root.trace_id, name="clear", result={"explanation": "hard\nto read"})
    phoenix.annotate("session", session_id="feedback-1", name="stars", result={"score": 2})
    turns = reconstruct(read_all(phoenix, "feedback"))[0].turns
    assert [turn.feedback for turn in turns] == [
        None, "thumbs: thumbs-down\nthumbs: 0.0", "clear: hard to read\nstars: 2.0",
    ]  # fmt: skip


def test_the_sink_conforms(phoenix: Phoenix) -> None:
    spans = conversation("sink-1")
    phoenix.ingest("sink", spans)
    written = sample_annotations(spans)
    target = f"{phoenix.url}?project=sink"
    for one in written:
        ids = {"span": {"span_id": one.span_id}, "trace": {"trace_id": one.trace_id}}
        at = ids.get(one.target, {"session_id": one.session_id})
        for identifier in ("", "someone-else"):
            phoenix.annotate(one.target, **at, name=one.name, identifier=identifier, result={"label": "mine"})

    def foreign() -> object:
        ids = {"span": {"span_ids": written[0].span_id}, "trace": {"trace_ids": written[2].trace_id}}
        ids["session"] = {"session_ids": "sink-1"}
        return [
            [one for one in phoenix.annotations("sink", kind, **at) if one["identifier"] != "otel-drift"]
            for kind, at in ids.items()
        ]

    check_sink(
        SinkCase(
            lambda: sink(target, api_key="s3cret-key"),
            written,
            lambda: standing(phoenix, "sink", {span.span_id: span.ref for span in spans}),
            foreign=foreign,
            failing={"down": lambda: faulty(lost=False), "answers lost": lambda: faulty(lost=True)},
            refused=replace(written[0], id="f" * 32, span_id="ab" * 8),
            broken={"an unknown project": lambda: sink(f"{phoenix.url}?project=nope")},
            secrets=["s3cret-key"],
        )
    )


def test_unknown_targets_wait_and_take_no_others_with_them(phoenix: Phoenix) -> None:
    """Of 150 annotations half are about spans that have not arrived; when they have, these are written."""
    spans = [one for n in range(25) for one in conversation(f"late-{n}", turns=DRIFTING[:2])]
    here, late = spans[: len(spans) // 2], spans[len(spans) // 2 :]
    phoenix.ingest("late", here)
    sample = sample_annotations(conversation("any"))[0]
    annotations = [replace(sample, id=span.span_id, trace_id=span.trace_id, span_id=span.span_id) for span in spans]
    to = sink(f"{phoenix.url}?project=late")
    report = to.write(annotations)
    assert set(report.written) == {span.span_id for span in here}
    assert {one.annotation_id for one in report.rejected if one.retryable} == {span.span_id for span in late}
    phoenix.ingest("late", late)
    assert not to.write(annotations).rejected
    assert len(phoenix.annotations("late", "span")) == len(spans)


def test_values_of_a_session_phoenix_does_not_know_stand_on_its_first_trace(phoenix: Phoenix) -> None:
    spans = [replace(one, attributes=renamed(one, "langfuse.session.id")) for one in conversation("unknown-to-it")]
    phoenix.ingest("homeless", spans)
    sample = replace(
        sample_annotations(conversation("any"))[-1], trace_id=spans[0].trace_id, session_id="unknown-to-it"
    )
    assert sink(f"{phoenix.url}?project=homeless").write([sample]).written == (sample.id,)
    assert [one["name"] for one in phoenix.annotations("homeless", "trace")] == [sample.name]


def test_a_large_delivery_goes_in_small_batches(phoenix: Phoenix) -> None:
    """One synchronous batch of thousands holds the server's database; a delivery of 250 is three requests."""
    spans = [one for n in range(28) for one in conversation(f"many-{n}")][:250]
    phoenix.ingest("many", spans)
    sample = sample_annotations(conversation("any"))[0]
    to = sink(f"{phoenix.url}?project=many")
    report = to.write([replace(sample, id=one.span_id, trace_id=one.trace_id, span_id=one.span_id) for one in spans])
    assert len(report.written) == 250
    assert to.requests == 3


def test_an_audit_is_written_back_found_and_withdrawn(phoenix: Phoenix, otel_drift: Cli) -> None:
    """By the command: twice the same with the same ids; after a new turn the vanished finding is gone."""
    critical(phoenix, otel_drift, "shop", "flow-1")
    first = {kind: phoenix.annotations("shop", kind) for kind in ("span", "trace", "session")}
    assert {one["name"] for one in first["span"]} == {
        "factual_drift", "factual_drift.contradiction", "drift_severity", "contradiction_type",
    }  # fmt: skip
    assert {one["annotator_kind"] for kind in first for one in first[kind]} == {"LLM"}
    assert {(one["name"], one["result"]["label"]) for one in first["session"] if one["session_id"] == "flow-1"} == {
        ("factual_drift", "CRITICAL"), ("drift_severity", "CRITICAL"),
    }  # fmt: skip

    for ledger in ("ledger.db", "another.db"):  # as after a crash: a second ledger owes everything again
        audited(phoenix, otel_drift, "shop", drifting(), ledger)
    assert {kind: ids_of(phoenix.annotations("shop", kind)) for kind in first} == {
        kind: ids_of(found) for kind, found in first.items()
    }

    spans = conversation("flow-1")
    wordy = (("Thanks. Does it need the tag?", DRIFTING[0][1], "Yes, jackets are returned unworn and with the tag."),)
    longer = conversation("flow-1", turns=[*DRIFTING, *wordy], ends=spans[-1].end + 20 * SECOND)
    phoenix.ingest("shop", longer[len(spans) :])
    audited(phoenix, otel_drift, "shop", {**drifting(), "drift_events": []}, "ledger.db")
    assert phoenix.annotations("shop", "span") == []
    assert phoenix.annotations("shop", "trace") == []
    left = [one for one in phoenix.annotations("shop", "session") if one["session_id"] == "flow-1"]
    assert [(one["result"]["label"], one["result"]["score"]) for one in left] == [("NONE", 0.0)] * 2


DESK = "Cameras are lent for seven days at a time. Lenses go back after three days."
LAB = "A borrowed camera has to be returned within 48 hours."
HOURS = "The desk opens at nine and is closed on Sundays."


def test_passages_that_conflict_are_annotated_where_they_were_retrieved(phoenix: Phoenix, otel_drift: Cli) -> None:
    """Label-only, beside what people said of the same document; twice the same; what is no longer found is gone."""
    retriever, answer = retrieved(phoenix, "lending", (HOURS, DESK, LAB))
    named = {"name": "source_conflict", "result": {"label": "fine", "score": 1}}
    phoenix.annotate("document", span_id=retriever, document_position=1, **named)
    (of_people,) = phoenix.documents(retriever)
    audit = partial(audited, phoenix, otel_drift, "lending", audits="source_conflict")

    audit(conflicting(("t1.p2", DESK), ("t1.p3", LAB)), "ledger.db")

    first = phoenix.documents(retriever)
    ours = [one for one in first if one["identifier"] == "otel-drift"]
    assert [one for one in first if one not in ours] == [of_people]
    assert [one["documentPosition"] for one in ours] == [1, 2]
    assert [(one["name"], one["label"], one["score"], one["annotatorKind"]) for one in ours] == [
        ("source_conflict", "CRITICAL", None, "LLM")
    ] * 2
    assert [one["explanation"] for one in ours] == [
        "Possible undisclosed conflict with paper-2, CRITICAL, confidence 0.90.",
        "Possible undisclosed conflict with paper-1, CRITICAL, confidence 0.90.",
    ]
    assert phoenix.retrieval_metrics(retriever) == []
    assert "source_conflict" in {one["name"] for one in phoenix.annotations("lending", "span", span_ids=answer)}

    for ledger in ("ledger.db", "another.db"):  # as after a crash: a second ledger owes everything again
        audit(conflicting(("t1.p2", DESK), ("t1.p3", LAB)), ledger)
    assert phoenix.documents(retriever) == first  # not even written again

    audit(conflicting(("t1.p2", DESK), ("t1.p1", HOURS)), "ledger.db", model_name="openai/second")
    ours = [one for one in phoenix.documents(retriever) if one["identifier"] == "otel-drift"]
    assert [(one["documentPosition"], one["label"]) for one in ours] == [(0, "CRITICAL"), (1, "CRITICAL")]

    audit(conflicting(), "ledger.db", model_name="openai/third")
    assert phoenix.documents(retriever) == [of_people]


def test_a_retriever_that_arrives_after_its_answer_is_annotated(phoenix: Phoenix) -> None:
    """And one that is there without documents is not waited for."""
    late, other, answer = "1" * 16, "2" * 16, "3" * 16
    spans = [
        Span("5" * 32, span_id, None, span_id, one.start, one.end, attributes, one.resource)
        for one in conversation("late", ends=time.time_ns())[-1:]
        for span_id, attributes in (
            (late, {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": DESK}),
            (other, {"openinference.span.kind": "TOOL", "output.value": LAB}),
            (answer, {"openinference.span.kind": "LLM", "session.id": "late"}),
        )
    ]
    phoenix.ingest("late", spans[1:])

    def says(on: str) -> Annotation:
        mark = PassageMark(f"{'5' * 32}:{on}", "p", text_sha256(DESK), "MAJOR", "Possible conflict.")
        [made] = [one for one in sample_annotations(conversation("late")) if one.target == "span"][:1]
        changes = {"id": on * 2, "name": "source_conflict", "trace_id": "5" * 32, "span_id": answer}
        return replace(made, **changes, end=spans[0].end, passages=(mark,))

    writing = sink(f"{phoenix.url}?project=late")
    report = writing.write([says(late), says(other)])
    assert (report.written, [one.retryable for one in report.rejected]) == ((other * 2,), [True])
    phoenix.ingest("late", spans[:1])
    assert writing.write([says(late)]).written == (late * 2,)
    assert [one["label"] for one in phoenix.documents(late)] == ["MAJOR"]


def test_a_muted_conflict_is_taken_off_its_documents_and_comes_back(phoenix: Phoenix, otel_drift: Cli) -> None:
    """Documents without ids are told by their text; what people decide is written by the next run."""
    retriever, _ = retrieved(phoenix, "muted", (DESK, HOURS, LAB), ids=False)
    answer = conflicting(("t1.p1", DESK), ("t1.p3", LAB))

    def standing() -> list[tuple[int, str]]:
        audited(phoenix, otel_drift, "muted", answer, "ledger.db", audits="source_conflict")
        return [(one["documentPosition"], one["explanation"]) for one in phoenix.documents(retriever)]

    def ledger(*arguments: str) -> str:
        done = otel_drift(*arguments, "--ledger", "ledger.db")
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = standing()
    assert [place for place, _ in first] == [0, 2]
    event = json.loads(ledger("findings", "--format", "json").splitlines()[0])["example"]["event_id"]
    mute = json.loads(ledger("mute", "add", event, "--why", "known", "--format", "json"))["mute_id"]
    assert standing() == []
    ledger("mute", "remove", str(mute))
    assert standing() == first


def retrieved(phoenix: Phoenix, project: str, passages: Sequence[str], *, ids: bool = True) -> tuple[str, str]:
    """Ingest a turn whose retriever returned these; returns the span ids of retriever and answer."""
    asked = ("How long may I keep a camera?", "", "You may keep a camera for seven days.")
    root, retriever, chat = conversation(f"{project}-1", turns=[asked])
    documents = [
        {"content": text, "score": 0.5, **({"id": f"paper-{place}"} if ids else {})}
        for place, text in enumerate(passages)
    ]
    found = {**retriever.attributes, "gen_ai.retrieval.documents": json.dumps(documents)}
    if not ids:  # which OpenInference allows
        found = {"openinference.span.kind": "RETRIEVER", "session.id": f"{project}-1", "input.value": asked[0]}
        found |= {f"retrieval.documents.{place}.document.content": text for place, text in enumerate(passages)}
    phoenix.ingest(project, [root, replace(retriever, attributes=found), chat])
    return retriever.span_id, chat.span_id


def conflicting(*sides: tuple[str, str]) -> dict[str, Any]:
    """A judge's answer: two passages, by reference and quote, contradict each other; none do without them."""
    conflicts = []
    if sides:
        (one, words), (other, other_words) = sides
        conflicts.append(
            {
                "source_a": one, "claim_a": "One limit.", "quote_a": words,
                "source_b": other, "claim_b": "Another limit.", "quote_b": other_words,
                "severity": "CRITICAL", "explanation": "Both cannot be the limit.", "confidence": 0.9,
                "disclosed": False, "disclosure_quote": None,
            }
        )  # fmt: skip
    return {"conflicts": conflicts, "conflict_notes": "They disagree." if sides else ""}


SPAN_FILTERS = (
    "annotations['drift_severity'].label == 'CRITICAL'",
    "annotations['factual_drift.contradiction'].label in ['CRITICAL', 'MAJOR']",
    "annotations['contradiction_type'].label == 'CONTRADICTION'",
)
ANY_SPAN = "any(a.name == 'drift_severity' and a.label == 'CRITICAL' for a in span_annotations)"
OF_TYPE = "any(a.name == 'factual_drift.contradiction' for a in span_annotations)"
TRACE_FILTERS = (ANY_SPAN, OF_TYPE, "trace_annotations['drift_severity'].label == 'CRITICAL'")
SESSION_FILTERS = (ANY_SPAN, OF_TYPE, "session_annotations['drift_severity'].label == 'CRITICAL'")


def test_phoenix_finds_findings_by_severity_and_type(phoenix: Phoenix, otel_drift: Cli, tmp_path: Path) -> None:
    """By the filters that the guide names: the client's SpanQuery, the REST lists of traces and sessions."""
    spans = critical(phoenix, otel_drift, "found", "found-1")
    answer = spans[-1].span_id
    script = (
        "import json, sys\n"
        "from phoenix.client import Client\n"
        "from phoenix.client.types.spans import SpanQuery\n"
        f"for condition in {SPAN_FILTERS!r}:\n"
        "    found = Client().spans.get_spans_dataframe(query=SpanQuery().where(condition),"
        " project_identifier='found', timeout=60)\n"
        "    print(json.dumps(list(found.index)))\n"
    )
    assert [json.loads(line) for line in phoenix.run(script).splitlines()] == [[answer]] * len(SPAN_FILTERS)
    for condition in TRACE_FILTERS:
        found = phoenix.listed("/v1/projects/found/traces", filter=condition)
        expected = spans[0] if condition.startswith("trace_annotations") else spans[-1]
        assert [one["trace_id"] for one in found] == [expected.trace_id], condition
    for condition in SESSION_FILTERS:
        found = phoenix.listed("/v1/projects/found/sessions", filter=condition)
        assert [one["session_id"] for one in found] == ["found-1"], condition
    guide = (Path(__file__).parents[2] / "examples" / "guides" / "phoenix.md").read_text("utf-8")
    assert all(condition in guide for condition in (*SPAN_FILTERS, *TRACE_FILTERS, *SESSION_FILTERS))


@pytest.mark.server("chromium")
def test_people_find_findings_in_the_browser(
    phoenix: Phoenix, otel_drift: Cli, require: Callable[..., Any], tmp_path: Path
) -> None:
    """The guide's link to a filtered list, for a severity and for a type; and the links of the reports."""
    chromium = require(shutil.which("chromium"), "Chromium is not installed (apt-get install chromium)")
    require(find_spec("playwright"), "playwright is not installed (pip install playwright)")
    spans = critical(phoenix, otel_drift, "found", "found-1")
    with browsed(chromium) as page:
        for number, condition in enumerate(SPAN_FILTERS[:2]):
            page.goto(f"{phoenix.url}{phoenix.path('found')[3:]}/spans?spanFilterCondition={quote(condition)}")
            row = page.locator("table tbody tr", has_text="chat sample-model")
            row.first.wait_for()
            assert row.count() == page.locator("table tbody tr").count() == 1, condition
            page.screenshot(path=tmp_path / f"spans-{number}.png")
        links = PhoenixSource(f"{phoenix.url}?project=found")
        OPENED.append(links)
        page.goto(links.trace_url.replace("{span_id}", spans[-1].span_id))
        page.get_by_text("factual_drift.contradiction").first.wait_for()
        page.screenshot(path=tmp_path / "span.png")
        page.goto(links.session_url.replace("{session_id}", "found-1"))
        page.get_by_text("drift_severity").first.wait_for()
        page.screenshot(path=tmp_path / "session.png")


@contextmanager
def browsed(chromium: str) -> Iterator[Any]:
    """A page without animations, whose skeletons starve a machine that draws in software."""
    from playwright.sync_api import sync_playwright

    still = "*{animation:none!important;transition:none!important}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport={"width": 1500, "height": 900}, reduced_motion="reduce").new_page()
        page.set_default_timeout(60_000)
        page.add_init_script(
            "addEventListener('DOMContentLoaded', () => {"
            f"const style = document.createElement('style'); style.textContent = '{still}';"
            "document.head.append(style)})"
        )
        yield page
        browser.close()


def critical(phoenix: Phoenix, otel_drift: Cli, project: str, session_id: str) -> list[Span]:
    """Ingest a drifting and a harmless conversation, and audit them with a judge that finds a CRITICAL event."""
    spans = conversation(session_id)
    if phoenix.annotations(phoenix.path(project)[len("/v1/projects/") :] or "none", "span"):
        return spans  # an earlier test has done so
    phoenix.ingest(project, [*spans, *conversation(f"{session_id}-calm", turns=DRIFTING[:1])])
    audited(phoenix, otel_drift, project, drifting(), "ledger.db")
    return spans


def audited(
    phoenix: Phoenix,
    otel_drift: Cli,
    project: str,
    answer: dict[str, Any],
    ledger: str,
    *,
    audits: str = "factual_drift",
    model_name: str = "openai/scripted",
) -> None:
    def judge(request: Request) -> Reply:
        return Reply(answer)

    with ModelServer(judge) as model:
        run = otel_drift(
            "audit", f"phoenix:{phoenix.url}?project={project}", "--since", "24h", "--ledger", ledger,
            "--audits", audits, "--model", model_name, "--api-base", model.url, env={"OPENAI_API_KEY": "sk-test"},
        )  # fmt: skip
    assert run.returncode == 0, run.stderr


def read_all(phoenix: Phoenix, project: str, window: Window = ALWAYS) -> list[Span]:
    read_from = source(f"{phoenix.url}?project={project}")
    return [span for page, _ in read_from.read(None, window) for span in page if isinstance(span, Span)]


def told(sessions: Sequence[Session]) -> list[Any]:
    """Sessions without what Phoenix does not keep: the resource, and the last digits of times."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            lost = ("key", "session_key", "started", "ended", "project", "environment", "app_version")
            return {name: kept(inner) for name, inner in value.items() if name not in lost}
        return [kept(inner) for inner in value] if isinstance(value, list) else value

    return [kept(session_json(one)) for one in sessions]


def renamed(span: Span, key: str) -> dict[str, Any]:
    attributes = dict(span.attributes)
    return {key: attributes.pop("gen_ai.conversation.id"), **attributes}


def standing(phoenix: Phoenix, project: str, refs: dict[str, str]) -> list[tuple[Place, str]]:
    return [
        ((kind, refs.get(one[f"{kind}_id"], one[f"{kind}_id"]), one["name"]), one["result"]["label"])  # type: ignore[misc]
        for kind in ("span", "trace", "session")
        for one in phoenix.annotations(project, kind)
    ]


def ids_of(annotations: Sequence[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(one["id"], one["name"], one["result"]["label"]) for one in annotations}


@contextmanager
def faulty(*, lost: bool) -> Iterator[None]:
    """The server is down; or it does what it is told, but its answers do not arrive."""
    whole = Platform._send

    def failing(self: Platform, *arguments: Any) -> Answer:
        if lost:
            whole(self, *arguments)
        raise RetryablePlatformError("phoenix: cannot be reached")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Platform, "_send", failing)
        yield
