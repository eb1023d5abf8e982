"""The MLflow connector against a real tracking server: from OTLP and MLflow's own SDK to a search by severity."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import captures
from otel_drift import platform, retry
from otel_drift.errors import RecordError, RetryablePlatformError
from otel_drift.model import Annotation, Session, Span
from otel_drift.protocols import Window
from otel_drift.sessions import reconstruct
from otel_drift.testing import (
    SinkCase,
    SourceCase,
    check_sink,
    check_source,
    conversation,
    sample_annotations,
)
from otel_drift.testing.samples import DRIFTING
from otel_drift_connectors.mlflow import MlflowSink, MlflowSource
from otlp_json import moved
from servers.mlflow_server import PROGRAM, Mlflow, running

pytestmark = pytest.mark.server("mlflow")

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
CAPTURED = (
    "openinference-langchain/telecom-per-turn",
    "openinference-llamaindex/medleaflet-query-engine-rerank",
    "openinference-openai-agents/hrleave-chat-group",
    "otel-genai-openai/telecom-responses",
    "traceloop-langchain/guideline-turns",
    "langfuse-observe/pension-retriever",
    "vercel-ai/medleaflet-truncated-tool",
    "pydantic-ai/hrleave-stream",
    "openlit-openai/telecom-chroma",
    "mlflow-langchain/hrleave-agent",
    "mlflow-openai/medleaflet-semconv-tool",
    "litellm-otel/medleaflet-parent-error",
)
"""One of each instrumentation whose content is in spans: MLflow takes no log records."""


@pytest.fixture(scope="session")
def mlflow(require: Callable[..., Path]) -> Iterator[Mlflow]:
    """One server for all tests; each has an experiment of its own."""
    require(PROGRAM if PROGRAM.exists() else None, "MLflow is not installed in .servers/mlflow")
    with running() as server:
        yield server


@dataclasses.dataclass(frozen=True)
class Demo:
    """An experiment with three sessions an hour ago and one of last week."""

    server: Mlflow
    id: str
    target: str
    spans: list[Span]
    old: list[Span]
    now: int
    source: Callable[..., MlflowSource]
    sink: Callable[..., MlflowSink]

    def standing(self, annotations: Sequence[Annotation]) -> list[tuple[tuple[str, str, str], str]]:
        """What stands of ours on the traces of these annotations, one entry an assessment."""
        found = []
        for trace_id in sorted({str(one.trace_id) for one in annotations}):
            for one in self.server.info(trace_id).get("assessments", ()):
                if one["source"]["source_id"] != "otel-drift":
                    continue
                session = one.get("metadata", {}).get("mlflow.trace.session")
                if one.get("span_id"):
                    at = ("span", f"{trace_id}:{one['span_id']}")
                else:
                    at = ("session", session) if session else ("trace", trace_id)
                found.append(((*at, one["assessment_name"]), one["feedback"]["value"]))
        return found


@pytest.fixture
def source() -> Iterator[Callable[..., MlflowSource]]:
    """Makes sources and closes them in the end."""
    with ExitStack() as stack:

        def make(target: str, **options: Any) -> MlflowSource:
            return stack.enter_context(closing(MlflowSource(target, **options)))

        yield make


@pytest.fixture
def sink() -> Iterator[Callable[..., MlflowSink]]:
    """Makes sinks and closes them in the end."""
    with ExitStack() as stack:

        def make(target: str, **options: Any) -> MlflowSink:
            return stack.enter_context(closing(MlflowSink(target, **options)))

        yield make


@pytest.fixture
def demo(mlflow: Mlflow, source: Callable[..., MlflowSource], sink: Callable[..., MlflowSink]) -> Demo:
    now, name = time.time_ns(), f"demo-{time.time_ns()}"
    id_ = mlflow.experiment(name)
    # A session id that needs quoting everywhere.
    spans = [s for n in range(3) for s in conversation(f"s'{n}\"\n {name}", ends=now - HOUR - n * 600 * SECOND)]
    old = conversation(f"old {name}", ends=now - 7 * 24 * HOUR)
    mlflow.ingest(id_, spans + old)
    return Demo(mlflow, id_, f"{mlflow.url}?experiment={name}", spans, old, now, source, sink)


def test_an_answer_too_large_is_asked_for_in_parts(demo: Demo) -> None:
    """Traces too large together are asked for in fewer at a time; one that is too large alone is told, and no more."""
    turns = [(f"And {n}?", f"Passage {n}. " + "x" * (400_000 if n == 3 else 40_000), f"Answer {n}.") for n in range(6)]
    spans = conversation("large", turns=turns, ends=demo.now - HOUR)
    name = f"large-{demo.now}"
    demo.server.ingest(demo.server.experiment(name), spans)
    problems: list[RecordError] = []
    reader = demo.source(f"{demo.server.url}?experiment={name}", on_problem=problems.append)
    reader._server.http._max_bytes = 200_000

    found = {one.trace_id for page, _ in reader.read(None, Window(0, demo.now)) for one in page}

    assert found == {span.trace_id for span in spans} - {spans[9].trace_id}
    assert [problem.record for problem in problems] == [f"tr-{spans[9].trace_id}"]
    assert "larger than" in problems[0].reason


def test_it_is_a_source(demo: Demo) -> None:
    """Whole sessions of a window that begins inside one, by name, at a cursor; clear errors."""
    sessions: dict[str, set[str]] = {}
    for span in demo.spans:
        sessions.setdefault(span.attributes["gen_ai.conversation.id"], set()).add(span.ref)
    with retry.testing():
        check_source(
            SourceCase(
                open=lambda: demo.source(demo.target, token="s3cret"),
                window=Window(demo.now - HOUR - 1210 * SECOND, demo.now),
                sessions=sessions,
                elsewhere=[demo.old[0].attributes["gen_ai.conversation.id"]],
                broken={
                    "experiment": lambda: demo.source(f"{demo.server.url}?experiment=nope", token="s3cret"),
                    "no experiment": lambda: demo.source(demo.server.url, token="s3cret"),
                    "address": lambda: demo.source("http://127.0.0.1:9?experiment=x", token="s3cret"),
                    "base path": lambda: demo.source(f"{demo.server.url}/base?experiment=x", token="s3cret"),
                },
                secrets=["s3cret"],
            )
        )


def test_sessions_take_three_requests_in_all(demo: Demo) -> None:
    """Traces of the window, traces of their sessions, spans: fifty traces a request."""
    source = demo.source(demo.target)
    said = source.check()
    assert "MLflow 3." in said
    assert f"(id {demo.id})" in said
    before = source.requests

    pages = [page for page, _ in source.read(None, Window(demo.now - 2 * HOUR, demo.now))]

    assert sum(map(len, pages)) == len(demo.spans)
    assert source.requests - before == 3
    assert source.trace_url.format(trace_id="ab") == (
        f"{demo.server.url}/#/experiments/{demo.id}/traces?selectedEvaluationId=tr-ab"
    )
    assert source.session_url.format(session_id="s1") == (f"{demo.server.url}/#/experiments/{demo.id}/chat-sessions/s1")


def test_pages_lose_nothing_where_traces_begin_together_or_arrive_meanwhile(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller pages than traces in one millisecond, and a trace that arrives early in the window while it is read."""
    monkeypatch.setattr("otel_drift_connectors.mlflow.server.TRACES_A_PAGE", 2)
    together = [
        dataclasses.replace(span, trace_id=f"{n:032x}", attributes={"gen_ai.operation.name": "chat"}, parent_id=None)
        for n, span in ((int(demo.id) * 1000 + n, demo.spans[0]) for n in range(7))
    ]
    demo.server.ingest(demo.id, together)
    source, read = demo.source(demo.target), []
    for number, (page, _cursor) in enumerate(source.read(None, Window(demo.now - 2 * HOUR, demo.now))):
        read += [record.ref for record in page if isinstance(record, Span)]
        if not number:
            demo.server.ingest(demo.id, conversation("late", ends=demo.now - HOUR - 3000 * SECOND))

    assert len(read) == len(set(read))
    assert {span.ref for span in (*demo.spans, *together)} <= set(read)


@pytest.mark.parametrize("name", CAPTURED)
def test_what_came_by_otlp_is_reconstructed_as_from_the_file(
    mlflow: Mlflow, source: Callable[..., MlflowSource], shared: Path, name: str
) -> None:
    """MLflow parses attributes, adds its own and drops scopes; read back, the turns are the same."""
    now = time.time_ns()
    spans = moved(
        [_renamed(span, name) for span in captures.spans_of(shared, name) if isinstance(span, Span)], now - HOUR
    )
    experiment = mlflow.experiment(name)
    mlflow.ingest(experiment, spans)
    problems: list[object] = []
    reading = source(f"{mlflow.url}?experiment={experiment}", on_problem=problems.append)

    found = [span for page, _ in reading.read(None, Window(now - 2 * HOUR, now)) for span in page]

    assert problems == []
    assert [_told(session) for session in reconstruct(found)] == [_told(session) for session in reconstruct(spans)]


NATIVE = """
import mlflow
from mlflow.entities import AssessmentSource, Document

mlflow.set_experiment("native")

@mlflow.trace(span_type="RETRIEVER")
def retrieve(question):
    return [Document(page_content="Tide 40 includes 40 GB a month.", id="d1", metadata={"source": "plans/tide.md"})]

@mlflow.trace(span_type="CHAT_MODEL")
def chat(messages):
    return {"choices": [{"message": {"role": "assistant", "content": '["40 GB", "a month"]'}}]}

@mlflow.trace(span_type="CHAIN")
def turn(question):
    mlflow.update_current_trace(
        metadata={"mlflow.trace.session": "s1", "mlflow.trace.user": "ada"}, tags={"customer": "acme"}
    )
    found = retrieve(question)
    answer = chat([{"role": "system", "content": found[0].page_content}, {"role": "user", "content": question}])
    return answer["choices"][0]["message"]["content"]

for number in (1, 2):
    turn(f"How many GB, and why? {number}")
mlflow.flush_trace_async_logging()
last = mlflow.get_last_active_trace_id()
person = AssessmentSource("HUMAN", "bob")
mlflow.log_feedback(trace_id=last, name="thumbs", value=False, rationale="it asked\\nwhy", source=person)
mlflow.log_feedback(trace_id=last, name="judge", value=False, source=AssessmentSource("LLM_JUDGE", "m"))
"""


def test_what_mlflows_own_sdk_traced_is_reconstructed_with_its_feedback(
    mlflow: Mlflow, source: Callable[..., MlflowSource]
) -> None:
    mlflow.run(NATIVE)
    reading = source(f"{mlflow.url}?experiment=native")

    (session,) = reconstruct([span for page, _ in reading.read() for span in page])

    assert (session.session_id, session.user, session.project) == ("s1", "ada", "native")
    assert [turn.user for turn in session.turns] == ["How many GB, and why? 1", "How many GB, and why? 2"]
    for turn in session.turns:
        assert turn.answer == '["40 GB", "a month"]', "an answer that looks like JSON stays text"
        assert [(passage.id, passage.text) for passage in turn.passages] == [("d1", "Tide 40 includes 40 GB a month.")]
        assert turn.retrieval == "captured"
    assert session.turns[0].feedback is None
    assert session.turns[1].feedback == "thumbs: false\nthumbs (comment): it asked why"


def test_it_is_a_sink(demo: Demo) -> None:
    """One current value a place under repetition, revision, withdrawal, outages and lost answers."""
    annotations = sample_annotations(demo.spans)
    on_answer = str(annotations[0].trace_id)
    demo.server.assess(on_answer, "drift_severity", "MINOR")
    demo.server.assess(
        on_answer, "factual_drift", "MINOR", kind="CODE", source="other-tool", span_id=annotations[0].span_id
    )

    def foreign() -> list[Any]:
        return [one for one in demo.server.info(on_answer)["assessments"] if one["source"]["source_id"] != "otel-drift"]

    missing = dataclasses.replace(annotations[0], id="0" * 32, trace_id="0" * 31 + "1")
    check_sink(
        SinkCase(
            open=lambda: demo.sink(demo.target),
            annotations=annotations,
            standing=lambda: demo.standing(annotations),
            foreign=foreign,
            failing={"an outage": _down, "every other answer lost": _answers_lost},
            refused=missing,
            broken={"address": lambda: demo.sink("http://127.0.0.1:9")},
        )
    )
    assert [one["valid"] for one in foreign()] == [True, True]


def test_a_created_assessment_whose_answer_was_lost_is_not_created_again(demo: Demo) -> None:
    """POST is not idempotent there: the value is looked for before it is sent again."""
    annotations = sample_annotations(demo.spans)
    with _answers_lost() as lost, retry.testing():
        report = demo.sink(demo.target).write(annotations)

    assert lost
    assert set(report.written) | set(report.unchanged) == {one.id for one in annotations}
    assert sorted(place for place, _ in demo.standing(annotations)) == sorted(
        {place for place, _ in demo.standing(annotations)}
    )


def test_doubles_of_a_crash_are_cleared(demo: Demo) -> None:
    one = next(one for one in sample_annotations(demo.spans) if one.target == "span")
    for _ in range(2):
        demo.server.assess(str(one.trace_id), one.name, "MINOR", kind="CODE", source="otel-drift", span_id=one.span_id)

    assert demo.sink(demo.target).write([one]).written == (one.id,)

    assert demo.standing([one]) == [(("span", f"{one.trace_id}:{one.span_id}", one.name), "MAJOR")]


def test_what_a_person_overrode_stays_overridden(demo: Demo) -> None:
    """The UI's edit makes a person's assessment that replaces ours: theirs counts, and ours sets no tag."""
    one = next(one for one in sample_annotations(demo.spans) if (one.target, one.name) == ("span", "drift_severity"))
    trace = str(one.trace_id)
    demo.sink(demo.target).write([one])
    (ours,) = demo.server.info(trace)["assessments"]
    demo.server.assess(trace, one.name, "NONE", span_id=one.span_id, overrides=ours["assessment_id"])

    demo.sink(demo.target).write([dataclasses.replace(one, label="CRITICAL", revision=2)])

    standing = {each["source"]["source_id"]: each for each in demo.server.info(trace)["assessments"]}
    assert (standing["bob"]["feedback"]["value"], standing["bob"]["valid"]) == ("NONE", True)
    assert standing["otel-drift"]["valid"] is False
    assert demo.server.search(demo.id, "feedback.drift_severity = 'CRITICAL'") == set()
    assert "drift_severity" not in demo.server.info(trace)["tags"]


def test_what_stands_takes_one_request(demo: Demo) -> None:
    annotations = sample_annotations(demo.spans)
    demo.sink(demo.target).write(annotations)
    again = demo.sink(demo.target)

    assert set(again.write(annotations).unchanged) == {one.id for one in annotations}
    assert again.requests == 1


def test_a_session_whose_first_trace_is_another_now_has_one_value(demo: Demo) -> None:
    of_session = next(one for one in sample_annotations(demo.spans) if one.target == "session")
    later = next(span for span in demo.spans if span.trace_id not in (of_session.trace_id,))
    moved_on = dataclasses.replace(of_session, trace_id=later.trace_id, revision=2, label="MINOR")
    demo.sink(demo.target).write([of_session])

    demo.sink(demo.target).write([moved_on])

    assert demo.standing([of_session, moved_on]) == [(("session", of_session.session_id, of_session.name), "MINOR")]


def test_from_otlp_to_a_search_by_severity(
    demo: Demo, otel_drift: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """The commands of the guide; twice the same; withdrawn when the turn was corrected and another came."""
    source = f"mlflow:{demo.target}"
    assert "MLflow 3." in otel_drift("check", source).stdout

    first = otel_drift("audit", source, "--since", "24h")
    assert first.returncode == 0, first.stderr
    by_span = demo.server.search(demo.id, "feedback.`factual_drift.contradiction` = 'MAJOR'")
    assert by_span == {
        span.trace_id for span in demo.spans if "60 days" in str(span.attributes.get("gen_ai.output.messages"))
    }
    assert by_span == demo.server.search(demo.id, "tag.drift_severity = 'MAJOR'")
    assert by_span < demo.server.search(demo.id, "feedback.drift_severity = 'MAJOR'")
    assert demo.server.search(demo.id, "tag.drift_severity = 'CRITICAL'") == set()
    before = {trace: demo.server.info(trace) for trace in sorted({span.trace_id for span in demo.spans})}

    second = otel_drift("audit", source, "--since", "24h", "--format", "json")
    assert second.returncode == 0, second.stderr
    links = [str(json.loads(line)["url"]) for line in second.stdout.splitlines()]
    assert all(link.startswith(f"{demo.server.url}/#/experiments/{demo.id}/chat-sessions/s") for link in links), links
    assert {trace: demo.server.info(trace) for trace in before} == before

    session = demo.spans[0].attributes["gen_ai.conversation.id"]
    corrected = conversation(session, turns=(*DRIFTING[:2], (DRIFTING[2][0], *DRIFTING[0][1:])), ends=demo.now - HOUR)
    further = conversation(f"{session}+", turns=DRIFTING[1:2], ends=demo.now - HOUR + 60 * SECOND)
    for span in further:
        span.attributes["gen_ai.conversation.id"] = session
    demo.server.ingest(demo.id, corrected + further)
    third = otel_drift("audit", source, "--since", "24h")
    assert third.returncode == 0, third.stderr
    gone = {span.trace_id for span in corrected}
    for condition in ("feedback.`factual_drift.contradiction` IS NOT NULL", "tag.drift_severity IS NOT NULL"):
        left = demo.server.search(demo.id, condition)
        assert left, "the other sessions' findings stay"
        assert not left & gone
    assert demo.server.search(demo.id, "feedback.drift_severity = 'NONE'") == gone | {span.trace_id for span in further}


def test_a_critical_finding_is_found_by_severity_and_by_type(demo: Demo) -> None:
    """The filters of the guide, and that the tag goes with the finding."""
    critical = [
        dataclasses.replace(one, label="CRITICAL", score=1.0, name=name)
        for one in sample_annotations(demo.spans)
        for name in ((one.name, "factual_drift.contradiction") if one.name == "factual_drift" else (one.name,))
        if one.target == "span"
    ]
    critical = [dataclasses.replace(one, id=f"{number:032x}") for number, one in enumerate(critical)]
    trace = str(critical[0].trace_id)
    filters = (
        "feedback.drift_severity = 'CRITICAL'",
        "feedback.`factual_drift.contradiction` = 'CRITICAL'",
        "feedback.drift_severity RLIKE 'CRITICAL|MAJOR'",
        "tag.drift_severity = 'CRITICAL'",
    )
    demo.sink(demo.target).write(critical)
    assert [demo.server.search(demo.id, one) for one in filters] == [{trace}] * 4

    demo.sink(demo.target).write([dataclasses.replace(one, withdrawn=True) for one in critical])
    assert [demo.server.search(demo.id, one) for one in filters] == [set()] * 4
    assert "drift_severity" not in demo.server.info(trace)["tags"]


def _renamed(span: Span, salt: str) -> Span:
    """A trace belongs to the experiment that first saw it: each test has ids of its own."""
    return dataclasses.replace(span, trace_id=hashlib.md5(f"{salt}{span.trace_id}".encode()).hexdigest())


def _told(session: Session) -> tuple[Any, ...]:
    """What was said in a session; arguments of tools without their white space, which MLflow loses."""
    return (
        session.session_id,
        session.user,
        [
            dataclasses.replace(
                t,
                tool_calls=tuple(dataclasses.replace(call, arguments=_folded(call.arguments)) for call in t.tool_calls),
            )
            for t in session.turns
        ],
    )


def _folded(text: str | None) -> Any:
    try:
        return json.dumps(json.loads(text or ""))
    except ValueError:
        return text


@contextmanager
def _down() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:

        def send(*_: Any) -> Any:
            raise RetryablePlatformError("mlflow: did not answer in time")

        patch.setattr(platform.Platform, "_send", send)
        yield


@contextmanager
def _answers_lost() -> Iterator[list[str]]:
    """Every other write arrives and its answer does not."""
    lost: list[str] = []
    real = platform.Platform._send
    writes = iter(range(10_000))

    def send(self: platform.Platform, method: str, path: str, *rest: Any) -> Any:
        answer = real(self, method, path, *rest)
        if method != "GET" and "batchGetInfos" not in path and next(writes) % 2 == 0:
            lost.append(path)
            raise RetryablePlatformError("mlflow: did not answer in time")
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform.Platform, "_send", send)
        yield lost
