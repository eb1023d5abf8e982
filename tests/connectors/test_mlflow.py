"""The MLflow connector on bodies recorded from MLflow 3.17.2 (tests/servers/test_mlflow.py asks a real server)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from http_serving import served
from ledger_samples import annotation
from otel_drift.errors import ConfigError, RecordError
from otel_drift.model import Annotation, Span
from otel_drift.protocols import Window
from otel_drift.testing import conversation
from otel_drift_connectors.mlflow import MlflowSink, MlflowSource
from otel_drift_connectors.mlflow.traces import feedback_of, original_attributes

RECORDED = Path(__file__).parents[1] / "recorded" / "mlflow"
SAMPLES = conversation("s1", ends=1_796_000_000 * 10**9, attributes={"user.id": "ada"})
"""What was sent when the bodies were recorded."""
OPENINFERENCE = "ab" * 16


def recorded(name: str) -> Any:
    text = (RECORDED / name).read_text()
    return json.loads(text) if name.endswith(".json") else text


class Replay:
    """Answers each request with a recorded body, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {
            ("GET", "/version"): (200, recorded("version.txt")),
            ("GET", "/api/2.0/mlflow/experiments/get-by-name"): (200, recorded("experiment.json")),
            ("POST", "/api/3.0/mlflow/traces/search"): (200, recorded("search.json")),
            ("GET", "/api/3.0/mlflow/traces/batchGet"): (200, recorded("batchGet.json")),
            ("POST", "/api/3.0/mlflow/traces/batchGetInfos"): (200, recorded("infos.json")),
        }
        self.url = ""

    def bodies(self, method: str, ending: str) -> list[Any]:
        """What was sent to paths that end so."""
        return [body for how, path, body in self.asked if how == method and path.endswith(ending)]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append((method, path, body))
        if (method, path) in self.answers:
            return self.answers[method, path]
        return (200, recorded("assessment.json")) if method != "GET" else (404, recorded("trace-missing.json"))


@pytest.fixture
def replay() -> Iterator[Replay]:
    made = Replay()

    class Exchange(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            sent = self.rfile.read(int(self.headers.get("content-length") or 0))
            body = json.loads(sent) if sent else parse_qsl(parts.query)
            status, found = made.answer(self.command, parts.path, body)
            content = (found if isinstance(found, str) else json.dumps(found)).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer

        def log_message(self, *_: Any) -> None:
            pass

    with served(Exchange) as made.url:
        yield made


@pytest.fixture
def spans(replay: Replay) -> dict[str, Span]:
    """The recorded traces as the source reads them, by ref."""
    with closing(MlflowSource(f"{replay.url}?experiment=demo")) as source:
        return {span.ref: span for page, _ in source.read() for span in page if isinstance(span, Span)}


def test_attributes_are_as_the_instrumentation_wrote_them(spans: dict[str, Span]) -> None:
    """Without what MLflow added, and with the resource, which it keeps as tags, on every span."""
    for sent in SAMPLES:
        found = spans[sent.ref]
        assert {key: _parsed(value) for key, value in found.attributes.items()} == {
            key: _parsed(value) for key, value in sent.attributes.items()
        }
        assert all(isinstance(value, str) for value in found.attributes.values()), "JSON is text again"
        assert found.resource == {**sent.resource, "openinference.project.name": "demo"}
        assert (found.name, found.parent_id, found.start, found.end) == (
            sent.name,
            sent.parent_id,
            sent.start,
            sent.end,
        )


def test_a_known_convention_is_read_from_its_own_attributes(spans: dict[str, Span]) -> None:
    root, retriever, model = (spans[f"{OPENINFERENCE}:{one * 8}"] for one in ("11", "22", "33"))
    for span in (root, retriever, model):
        assert not any(key.startswith("mlflow.") for key in span.attributes)
    assert root.attributes["output.value"] == "[30 days] is the limit"
    assert root.attributes["session.id"] == "42"
    assert root.attributes["user.feedback"] == "stars: 1"
    assert json.loads(retriever.attributes["retrieval.documents.0.document.metadata"]) == {"source": "returns.md"}
    assert model.attributes["llm.token_count.prompt"] == 3


def test_a_trace_of_mlflows_own_sdk_keeps_its_form(spans: dict[str, Span]) -> None:
    """Values are JSON texts; session, user and tags of the trace stand on its root, with what a person said."""
    (root,) = [span for span in spans.values() if span.name == "turn"]
    assert root.attributes["mlflow.spanType"] == '"CHAIN"'
    assert json.loads(root.attributes["mlflow.spanInputs"]) == {"question": "What is it?"}
    assert json.loads(root.attributes["mlflow.spanOutputs"]) == {"answer": 42}, "MLflow parses a text that is JSON"
    assert json.loads(root.attributes["options"]) == {"a": [1, 2]}
    assert root.attributes["mlflow.trace.session"] == "native"
    assert root.attributes["mlflow.trace.user"] == "bob"
    assert root.attributes["customer"] == "acme"
    assert root.attributes["user.feedback"] == "thumbs: false\nthumbs (comment): wrong"


def test_only_what_people_say_of_an_answer_is_feedback() -> None:
    def said(name: str, value: Any, kind: str = "HUMAN", who: str = "bob", **more: Any) -> dict[str, Any]:
        source = {"source_type": kind, "source_id": who}
        return {"assessment_name": name, "source": source, "feedback": {"value": value}, **more}

    assert (
        feedback_of(
            [
                said("thumbs", True),
                said("note", "fine:\nreally"),
                said("judge", False, "LLM_JUDGE"),
                said("stale", 1, valid=False),
                said("drift_severity", "MAJOR", "CODE", "otel-drift"),
                said("drift_severity", "NONE"),
                {"assessment_name": "expected", "source": {"source_type": "HUMAN"}, "expectation": {"value": 1}},
            ]
        )
        == "thumbs: true\nnote: fine: really"
    )


def test_what_an_instrumentation_mlflow_alone_knows_wrote_is_left_as_mlflow_reads_it() -> None:
    attributes = {"lk.chat_ctx": "x", "mlflow.spanType": "LLM", "mlflow.spanInputs": "x"}
    assert original_attributes(attributes) == {
        "lk.chat_ctx": "x",
        "mlflow.spanType": '"LLM"',
        "mlflow.spanInputs": '"x"',
    }


def test_sessions_are_asked_for_together_and_quoted_right(replay: Replay) -> None:
    """What matches too much is left out; a trace without a session comes once."""
    with closing(MlflowSource(f"{replay.url}?experiment=demo")) as source:
        window = Window(0, 2**62, sessions=("s1", "n'1\"x|y", "no such", "two\nlines"))
        read = [span for page, _ in source.read(None, window) for span in page]

    (searched,) = replay.bodies("POST", "/search")
    assert searched["filter"] == (
        "trace.timestamp_ms >= 0 AND metadata.`mlflow.trace.session` RLIKE "
        "'^(s1|n[^0]1[^0]x[^0]y|no[^0]such|two[^0]lines)$'"
    )
    assert searched["order_by"] == ["timestamp_ms ASC"]
    (asked,) = replay.bodies("GET", "/batchGet")
    assert {trace_id for _, trace_id in asked} == {f"tr-{span.trace_id}" for span in SAMPLES}
    assert read


def test_a_window_takes_traces_that_ran_in_it_and_whole_sessions(replay: Replay) -> None:
    with closing(MlflowSource(f"{replay.url}?experiment=demo")) as source:
        cursors = [cursor for _, cursor in source.read(None, Window(10 * 10**9 + 1, 20 * 10**9 + 1))]

    by_time, by_session = replay.bodies("POST", "/search")
    assert by_time["filter"] == ("trace.timestamp_ms >= 0 AND trace.end_time_ms >= 9998 AND trace.timestamp_ms < 20001")
    assert "RLIKE '^(s1|42|native)$'" in by_session["filter"]
    assert cursors[0] is None
    assert int(str(cursors[-1])) > 1_795_000_000_000


def test_an_empty_search_is_no_error(replay: Replay) -> None:
    replay.answers["POST", "/api/3.0/mlflow/traces/search"] = (200, recorded("search-empty.json"))
    with closing(MlflowSource(f"{replay.url}?experiment=demo")) as source:
        assert list(source.read(None, Window(0, 1))) == []


def test_traces_the_batch_leaves_out_are_asked_for_and_missing_spans_are_told(replay: Replay) -> None:
    """The batch holds only traces that are there with all their spans; a deleted one is no problem."""
    whole = recorded("batchGet.json")["traces"]
    native = next(one for one in whole if "mlflow.trace_schema.version" in one["trace_info"]["trace_metadata"])
    other = next(one for one in whole if one is not native)
    replay.answers["GET", "/api/3.0/mlflow/traces/batchGet"] = (200, {"traces": [other]})
    replay.answers["GET", "/api/3.0/mlflow/traces/get"] = (200, {"trace": {"trace_info": native["trace_info"]}})
    told: list[RecordError] = []
    with closing(MlflowSource(f"{replay.url}?experiment=demo", on_problem=told.append)) as source:
        read = [span for page, _ in source.read() for span in page]

    assert len(read) == len(other["spans"])
    assert len(told) == len(whole) - 1 == source.problem_count
    assert "no spans" in told[0].reason


def written(replay: Replay, *annotations: Annotation) -> tuple[Any, list[str]]:
    """The report of one write, and its requests."""
    with closing(MlflowSink(replay.url)) as sink:
        report = sink.write(annotations)
    return report, [f"{method} {path.rpartition('/mlflow/traces/')[2]}" for method, path, _ in replay.asked]


def test_a_new_value_is_created_with_all_it_says(replay: Replay) -> None:
    one = annotation(trace_id=OPENINFERENCE, span_id="33" * 8, metadata={"types": ["CONTRADICTION"], "judge": "m"})

    report, requests = written(replay, one)

    assert report.written == (one.id,)
    assert requests == ["POST batchGetInfos", f"POST tr-{OPENINFERENCE}/assessments"]
    assert replay.bodies("POST", "/assessments")[0]["assessment"] == {
        "assessment_name": "factual_drift",
        "trace_id": f"tr-{OPENINFERENCE}",
        "span_id": "33" * 8,
        "source": {"source_type": "CODE", "source_id": "otel-drift"},
        "feedback": {"value": "MAJOR"},
        "rationale": one.explanation,
        "metadata": {"types": '["CONTRADICTION"]', "judge": "m", "result_id": one.id, "score": "0.7"},
    }


def test_a_value_that_stands_is_changed_only_where_it_differs(replay: Replay) -> None:
    """Metadata is merged by MLflow, so what no longer holds is emptied; a withdrawn value is deleted."""
    last = SAMPLES[-1]
    one = annotation(
        trace_id=last.trace_id, span_id=last.span_id, label="CRITICAL", score=None, explanation="why", metadata={}
    )
    id_ = recorded("assessment.json")["assessment"]["assessment_id"]

    report, requests = written(replay, one)

    assert report.written == (one.id,)
    assert requests == ["POST batchGetInfos", f"PATCH tr-{last.trace_id}/assessments/{id_}"]
    assert replay.bodies("PATCH", id_) == [
        {
            "assessment": {
                "assessment_id": id_,
                "trace_id": f"tr-{last.trace_id}",
                "feedback": {"value": "CRITICAL"},
                "metadata": {"score": "", "result_id": one.id},
            },
            "update_mask": "feedback,metadata",
        }
    ]
    replay.asked.clear()
    assert written(replay, replace(one, withdrawn=True)) == (
        type(report)(written=(one.id,)),
        ["POST batchGetInfos", f"DELETE tr-{last.trace_id}/assessments/{id_}"],
    )


def test_a_raw_score_is_a_number_and_the_worst_severity_a_tag(replay: Replay) -> None:
    last = SAMPLES[-1]
    score = annotation(1, trace_id=last.trace_id, span_id=last.span_id, name="longform_drift.score", score=0.42)
    severity = annotation(2, trace_id=last.trace_id, span_id=last.span_id, name="drift_severity", label="MINOR")

    written(replay, score, severity)

    created = [body["assessment"]["feedback"]["value"] for body in replay.bodies("POST", "/assessments")]
    assert created == [0.42, "MINOR"]
    assert replay.bodies("PATCH", "/tags") == [{"key": "drift_severity", "value": "MINOR"}]


def test_an_unknown_trace_is_owed_and_its_withdrawal_is_done(replay: Replay) -> None:
    missing, gone = annotation(1, trace_id="0" * 32), annotation(2, trace_id="0" * 32, withdrawn=True)
    nowhere = annotation(3, trace_id=None)

    report, requests = written(replay, missing, gone, nowhere)

    assert report.unchanged == (gone.id,)
    assert {one.annotation_id: one.retryable for one in report.rejected} == {missing.id: True, nowhere.id: False}
    assert requests == ["POST batchGetInfos"]


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        (("GET", "/version"), (200, "<html>"), "something else than an MLflow"),
        (("GET", "/version"), (404, ""), "something else than an MLflow"),
        (("GET", "/api/3.0/mlflow/traces/batchGet"), (404, {}), "upgrade it"),
        (("GET", "/api/2.0/mlflow/experiments/get-by-name"), (404, {}), "no experiment 'demo'.*; create it"),
        (("GET", "/version"), (401, ""), "MLFLOW_TRACKING_TOKEN"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_read(
    replay: Replay, path: tuple[str, str], answer: tuple[int, Any], words: str
) -> None:
    replay.answers[path] = answer
    with closing(MlflowSink(f"{replay.url}?experiment=demo")) as sink, pytest.raises(ConfigError, match=words):
        sink.check()


def test_another_server_is_told_from_an_mlflow_before_anything_else(replay: Replay) -> None:
    page = (200, "<html>")
    replay.answers = {("GET", "/version"): page, ("GET", "/api/2.0/mlflow/experiments/get-by-name"): page}
    for make in (MlflowSource, MlflowSink):
        with closing(make(f"{replay.url}?experiment=demo")) as one, pytest.raises(ConfigError, match="than an MLflow"):
            one.check()


def test_settings_come_from_mlflows_own_environment(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", replay.url)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "demo")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "s3cret")
    with closing(MlflowSource("")) as source:
        assert source.name == f"mlflow:{replay.url}?experiment=demo"
        assert "experiment demo (id 1)" in source.check()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MlflowSource("http://mlflow.example:5000?experiment=x", token="t"), "plain http"),
        (lambda: MlflowSource("http://localhost:1?project=x"), "experiment"),
        (lambda: MlflowSource(""), "no URL"),
    ],
)
def test_wrong_options_are_said_at_once(make: Callable[[], Any], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "databricks")
    with pytest.raises(ConfigError, match=words):
        make()


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value


@pytest.mark.parametrize("command", ["check", "inspect", "audit"])
@pytest.mark.parametrize("answer", [[], {"traces": [None]}])
def test_an_answer_in_an_unknown_form_is_one_clear_line(
    replay: Replay, otel_drift: Callable[..., subprocess.CompletedProcess[str]], command: str, answer: Any
) -> None:
    """Whatever a gateway or another version answers: no traceback, which would show private text."""
    replay.answers["POST", "/api/3.0/mlflow/traces/search"] = (200, answer)

    done = otel_drift(command, f"mlflow:{replay.url}?experiment=demo")

    assert done.returncode == 3
    assert "answered in an unknown form" in done.stderr
    assert "Traceback" not in done.stderr
