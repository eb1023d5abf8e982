"""MLflow's trace JSON becomes the same kind of spans as OTLP."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from otel_drift.otlp import decode_mlflow_json, json_values
from otel_drift.otlp.mlflow import ASSESSMENTS
from otlp.samples import capture, read, read_bytes, spans_of

NATIVE = "mlflow-openai/hrleave-native.mlflow.json"


@pytest.mark.parametrize("line", [json_values.LINE, 64], ids=["whole", "walked"])
@pytest.mark.parametrize("spelling", ["list", "pretty list", "lines", "concatenated", "one", "gzip"])
def test_a_trace_reads_the_same_however_it_is_filed(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str, line: int
) -> None:
    traces = capture(shared / "traces" / NATIVE)
    expected, source = read(shared / "traces" / NATIVE)
    assert source.problem_count == 0
    data = {
        "list": lambda: json.dumps(traces),
        "pretty list": lambda: json.dumps(traces, indent=2),
        "lines": lambda: "\n".join(map(json.dumps, traces)),
        "concatenated": lambda: "".join(map(json.dumps, traces)),
        "one": lambda: json.dumps(traces[0]),
        "gzip": lambda: json.dumps(traces, ensure_ascii=False),
    }[spelling]().encode()
    monkeypatch.setattr(json_values, "LINE", line)
    records, problems = read_bytes(tmp_path, gzip.compress(data) if spelling == "gzip" else data)
    assert not problems
    assert records == (expected[:4] if spelling == "one" else expected)


def test_ids_are_hex_and_session_and_user_reach_the_roots(shared: Path) -> None:
    traces = capture(shared / "traces" / NATIVE)
    records, _ = read(shared / "traces" / NATIVE)
    spans = spans_of(records)
    assert [span.trace_id for span in spans] == [
        trace["info"]["trace_id"].removeprefix("tr-") for trace in traces for _ in trace["data"]["spans"]
    ]
    by_id = {span.span_id: span for span in spans}
    roots = [span for span in spans if span.parent_id is None]
    assert len(roots) == len(traces)
    assert all(span.parent_id in by_id for span in spans if span not in roots)
    for root in roots:
        assert root.attributes["mlflow.trace.session"] == "sess-hr-55ce"
        assert root.attributes["mlflow.trace.user"] == "user-cleo"
        assert root.attributes["mlflow.traceName"] == "chat_turn"
        assert root.attributes["mlflow.spanType"] == '"CHAIN"', "attribute values stay MLflow's JSON texts"
        assert root.status == "ok"
    assert all("mlflow.trace.session" not in span.attributes for span in spans if span not in roots)


def test_assessments_reach_the_root() -> None:
    feedback = [{"assessment_name": "thumbs", "source": {"source_type": "HUMAN"}, "feedback": {"value": False}}]
    [root] = decode_mlflow_json(_trace(info={"assessments": feedback, "trace_metadata": {}}))
    assert root.attributes[ASSESSMENTS] == feedback


def test_spans_whose_parent_is_elsewhere_get_the_metadata_too() -> None:
    [span] = decode_mlflow_json(
        _trace(info={"trace_metadata": {"mlflow.trace.session": "s"}}, parent_span_id=_base64(b"12345678"))
    )
    assert span.attributes["mlflow.trace.session"] == "s"


def test_the_older_schema_is_read() -> None:
    [span] = decode_mlflow_json(
        {
            "info": {
                "request_id": "a" * 32,
                "request_metadata": {"mlflow.trace.session": "s-1"},
                "tags": [{"key": "mlflow.traceName", "value": "chat"}],
            },
            "data": {
                "spans": [
                    {
                        "name": "chat",
                        "context": {"span_id": "0x" + "1" * 16, "trace_id": "0x" + "2" * 32},
                        "parent_id": None,
                        "start_time": 5,
                        "end_time": 9,
                        "status_code": "ERROR",
                        "status_message": "no",
                        "attributes": {"mlflow.spanType": '"LLM"'},
                        "events": [{"name": "exception", "timestamp": 6, "attributes": {"exception.type": "X"}}],
                    }
                ]
            },
        }
    )
    assert span.ref == "2" * 32 + ":" + "1" * 16
    assert (span.start, span.end, span.status, span.status_message) == (5, 9, "error", "no")
    assert span.attributes == {
        "mlflow.spanType": '"LLM"',
        "mlflow.trace.session": "s-1",
        "mlflow.traceName": "chat",
    }
    assert span.events[0].attributes == {"exception.type": "X"}


def test_ids_whose_base64_begins_like_a_prefix_are_read() -> None:
    """One of 4,096 ids is written ``0x…``, as the older schema begins its hex ids."""
    trace_id, span_id, parent = (
        bytes.fromhex("d31d" + digit * 2 * size) for digit, size in (("a", 14), ("b", 6), ("c", 6))
    )
    assert all(_base64(one).startswith("0x") for one in (trace_id, span_id, parent))

    [span] = decode_mlflow_json(
        _trace(trace_id=_base64(trace_id), span_id=_base64(span_id), parent_span_id=_base64(parent))
    )

    assert (span.ref, span.parent_id) == (f"{trace_id.hex()}:{span_id.hex()}", parent.hex())


def test_a_broken_span_or_trace_costs_only_itself(tmp_path: Path) -> None:
    good, broken = _trace(), _trace()
    broken["data"]["spans"] += [{"trace_id": "?", "span_id": "?"}, 17]
    data = "\n".join(map(json.dumps, (good, broken, {"info": {}, "data": {"spans": "none"}}, {"info": 1}, good)))
    records, problems = read_bytes(tmp_path, data.encode())
    assert len(records) == 3
    assert len(problems) == 4
    assert "span 2" in problems[0].record


def _trace(info: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    span = {
        "trace_id": _base64(b"0123456789abcdef"),
        "span_id": _base64(b"01234567"),
        "parent_span_id": None,
        "name": "chat",
        "start_time_unix_nano": 5,
        "end_time_unix_nano": 9,
        "events": [],
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {},
        **fields,
    }
    return {"info": info or {}, "data": {"spans": [span]}}


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
