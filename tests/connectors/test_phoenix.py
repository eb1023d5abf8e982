"""The Phoenix connector on bodies recorded from a real server, and what it does without one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_drift import retry
from otel_drift.cli import app
from otel_drift.errors import ConfigError, PlatformError, RecordError
from otel_drift.model import Span
from otel_drift.platform import Answer, Platform
from otel_drift_connectors.phoenix import PhoenixSink, PhoenixSource
from otel_drift_connectors.phoenix.filters import LATEST, chunks, moment
from otel_drift_connectors.phoenix.sink import BATCH
from otel_drift_connectors.phoenix.spans import written_attributes
from phoenix_recorded import URL, annotations, replaying, sent_spans

TARGET = f"{URL}?project=recorded"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "COLLECTOR_ENDPOINT", "BASE_URL", "PROJECT", "PROJECT_NAME", "API_KEY", "CLIENT_HEADERS"):
        monkeypatch.delenv(f"PHOENIX_{name}", raising=False)


def test_spans_come_back_as_they_were_sent_with_what_people_said() -> None:
    """Also: what Phoenix adds to GenAI spans is gone, JSON that it parsed is JSON again."""
    source = PhoenixSource(TARGET)
    with replaying("read"):
        read = {one.ref: one for page, _ in source.read() for one in page if isinstance(one, Span)}
    sent = {one.ref: one for one in sent_spans()}
    assert read.keys() == sent.keys()
    said = {ref: one.attributes["user.feedback"] for ref, one in read.items() if "user.feedback" in one.attributes}
    root = next(one for one in sent.values() if one.parent_id is None and one.trace_id == sent_spans()[5].trace_id)
    assert said == {root.ref: "thumbs: thumbs-down\nthumbs: 0.0"}
    for ref, one in read.items():
        assert {k: v for k, v in one.attributes.items() if k != "user.feedback"} == dict(sent[ref].attributes)
        assert (one.name, one.parent_id, one.resource) == (
            sent[ref].name, sent[ref].parent_id, {"openinference.project.name": "recorded"},
        )  # fmt: skip
    assert source.problem_count == 0


def test_unknown_spans_wait_and_values_of_unknown_sessions_stand_on_the_trace() -> None:
    with replaying("write"):
        report = PhoenixSink(TARGET).write(annotations())
    assert {one.annotation_id: one.retryable for one in report.rejected} == {"a" * 32: True}
    assert set(report.written) == {one.id for one in annotations()} - {"a" * 32}


def test_what_is_withdrawn_is_made_none_and_deleted() -> None:
    """What stands nowhere is withdrawn already."""
    from dataclasses import replace

    gone = [replace(one, withdrawn=True, metadata={}) for one in annotations()]
    with replaying("withdraw"):
        report = PhoenixSink(TARGET).write(gone)
    assert set(report.written) == {one.id for one in gone}
    assert not report.rejected


def answering(monkeypatch: pytest.MonkeyPatch, *answers: tuple[int, bytes], version: str = "20.26.1") -> list[Any]:
    """Each request gets the next answer, the last one again and again; returns the requests."""
    asked: list[Any] = []

    def send(self: Platform, method: str, path: str, params: Any, body: bytes | None, *_: Any) -> Answer:
        status, content = answers[min(len(asked), len(answers) - 1)]
        asked.append((method, path, params, body))
        return Answer(status, {"x-phoenix-server-version": version} if version else {}, content, "phoenix")

    monkeypatch.setattr(Platform, "_send", send)
    return asked


@pytest.mark.parametrize(
    ("status", "version", "told"),
    [
        (200, "13.15.0", "is Phoenix 13.15.0; otel-drift needs 20.11.0 or later"),
        (200, "", "is no Phoenix server"),
        (404, "", "is no Phoenix server"),
        (401, "20.26.1", "refused the credentials.*PHOENIX_API_KEY"),
    ],
)
def test_what_is_wrong_with_a_server_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, status: int, version: str, told: str
) -> None:
    answering(monkeypatch, (status, b'{"data": [], "next_cursor": null}'), version=version)
    for one in (PhoenixSource(TARGET), PhoenixSink(TARGET)):
        with pytest.raises(ConfigError, match=told):
            one.check()


def test_an_unknown_project_names_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, (200, b'{"data": [{"name": "shop", "id": "x"}], "next_cursor": null}'))
    with pytest.raises(ConfigError, match=r"no project 'recorded' .* it has: shop"):
        PhoenixSource(TARGET).check()


@pytest.mark.parametrize("status", [400, 422])
def test_one_annotation_that_is_refused_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    bad = annotations()[1]

    def send(self: Platform, method: str, path: str, params: Any, body: bytes | None, *_: Any) -> Answer:
        import json

        rows = json.loads(body or b"{}")["data"]
        if any(row["name"] == bad.name for row in rows):
            return Answer(status, {}, b"no", "phoenix")
        return Answer(200, {}, json.dumps({"data": [{"id": "x"} for _ in rows]}).encode(), "phoenix")

    monkeypatch.setattr(Platform, "_send", send)
    spans = [one for one in annotations() if one.target == "span"]
    report = PhoenixSink(TARGET).write(spans)
    assert [(one.annotation_id, one.retryable) for one in report.rejected] == [
        (one.id, False) for one in spans if one.name == bad.name
    ]
    assert set(report.written) == {one.id for one in spans if one.name != bad.name}


def test_batches_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large synchronous batch holds the server's database (measured: others waited over 30 s)."""
    import json
    from dataclasses import replace

    asked = answering(monkeypatch, (200, json.dumps({"data": [{"id": "x"}] * BATCH}).encode()))
    one = annotations()[0]
    PhoenixSink(TARGET).write([replace(one, id=f"{n:032x}", span_id=f"{n:016x}") for n in range(1, 251)])
    assert [len(json.loads(body)["data"]) for *_, body in asked] == [50, 100, 100]


def test_a_server_that_fails_leaves_everything_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, (503, b""))
    with retry.testing(), pytest.raises(PlatformError, match="failed \\(503\\)"):
        PhoenixSink(TARGET).write(annotations())


def test_a_server_that_is_down_is_told_of_once(tmp_path: Path) -> None:
    """Not also as the sink that the findings would go back to."""
    words = ["audit", "phoenix:http://127.0.0.1:1?project=x", "--since", "24h", "--ledger", str(tmp_path / "l.db")]
    importlib.import_module("otel_drift.cli.audit")  # where `main` finds the command
    with retry.testing():
        done = CliRunner().invoke(app, words)

    assert done.exit_code == 3
    assert done.output.count("cannot be reached") == 1


def test_broken_spans_are_told_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[RecordError] = []
    source = PhoenixSource(TARGET, on_problem=problems.append)
    good = {
        "context": {"trace_id": "ab" * 16, "span_id": "cd" * 8}, "name": "ok", "span_kind": "UNKNOWN",
        "start_time": "2026-11-30T06:02:48.715024+00:00", "end_time": "2026-11-30T06:02:48.792706+00:00",
        "status_code": "ERROR", "attributes": {}, "events": [],
    }  # fmt: skip
    source._server.__dict__["project"] = _project()
    broken = [{**good, "context": {"trace_id": "x"}}, {**good, "start_time": None}, "text"]
    spans = [one for item in (*broken, good) if (one := source._restored(item)) is not None]
    assert [(one.name, one.status, one.start) for one in spans] == [("ok", "error", 1_796_018_568_715_024_000)]
    assert [one.reason for one in problems] == [
        "trace id is no 16-byte id in hex or base64: 'x'", "a time that is none", "a span that is no object",
    ]  # fmt: skip
    assert source.problem_count == 3


def _project() -> Any:
    from otel_drift_connectors.phoenix.server import Project

    return Project("recorded", "x")


def test_environment_variables_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", "https://phoenix.example/base/v1/traces")
    monkeypatch.setenv("PHOENIX_PROJECT_NAME", "shop")
    monkeypatch.setenv("PHOENIX_API_KEY", "s3cret")
    source = PhoenixSource("")
    assert source.name == "phoenix:https://phoenix.example/base?project=shop"
    assert source.trace_url == "https://phoenix.example/base/redirects/spans/{span_id}"
    assert PhoenixSink("?project=other").name == "phoenix:https://phoenix.example/base?project=other"
    with pytest.raises(ConfigError, match="plain http"):
        PhoenixSink("http://phoenix.example")
    for wrong in ({"timeout": "long"}, {"headers": "a=b"}, {"api_key": "a\nb"}):
        with pytest.raises(ConfigError):
            PhoenixSource("http://localhost:6006", **wrong)
    with pytest.raises(ConfigError, match="no option 'projekt'"):
        PhoenixSource("http://localhost:6006?projekt=x")


def test_what_an_instrumentation_wrote_beside_genai_attributes_stays() -> None:
    """Only what Phoenix could have made of GenAI attributes is taken away, and only where these are there."""
    own = {
        "openinference.span.kind": "LLM",
        "gen_ai.conversation.id": "s",
        "llm.input_messages.0.message.role": "user",
        "llm.model_name": "m",
        "output.value": '{"id": "x", "model": "y"}',
        "session.id": "another",
    }
    assert written_attributes(own) == own
    litellm = {"metadata.user_api_key_alias": "a", "metadata.tags": "b"}
    assert written_attributes(litellm) == litellm


def test_hostile_metadata_is_put_together_somehow() -> None:
    """Keys with dots, empty keys, clashes of value and map: Phoenix has flattened what cannot be told apart."""
    assert written_attributes({"metadata.a": 1, "metadata.a.b": 2, "metadata..c": 3, "metadata": "x"})["metadata"]
    assert written_attributes({"metadata.0": "x", "metadata.1": "y"}) == {"metadata": '{"0": "x", "1": "y"}'}


def test_times_and_ids_fit_into_requests() -> None:
    assert moment(10**30) == moment(LATEST)
    assert moment(1_796_018_568_715_024_001) == "2026-11-30T06:02:48.715025+00:00"
    ids = ["ü" * 200, *(f"{n:032x}" for n in range(300))]
    found = list(chunks(ids, overhead=10, most=120))
    assert [one for chunk in found for one in chunk] == ids
    assert max(sum(len(one) + 10 for one in chunk) for chunk in found) <= 6_000
