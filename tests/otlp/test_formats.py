"""Every way OTLP is written to files gives the same records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from otel_drift.model import Record
from otel_drift.otlp import ReadLimits, json_values
from otlp.samples import (
    START,
    TRACE,
    capture,
    dumped,
    log,
    log_request,
    logs_of,
    protobuf,
    read,
    read_bytes,
    request,
    span,
    span_id,
    spans_of,
    with_base64_ids,
    with_numbers,
    with_reversed_keys,
    with_snake_case,
)

CAPTURES = (
    "openinference-openai/telecom-rewrite.json",
    "google-adk/hrleave-native.json",
    "google-adk/hrleave-native.logs.json",
    "otel-openai-v2/telecom-legacy-stream-error.json",
    "otel-openai-v2/telecom-legacy-stream-error.logs.json",
    "litellm-otel/medleaflet-parent-error.json",
    "vercel-ai/labreport-tool.json.gz",
)


def _one_request_each(document: Any) -> list[Any]:
    """A document split into one request a record."""
    requests = []
    top = next(iter(document))
    for entry in document[top]:
        scopes = "scopeSpans" if top == "resourceSpans" else "scopeLogs"
        records = "spans" if top == "resourceSpans" else "logRecords"
        for scoped in entry[scopes]:
            requests += [{top: [{**entry, scopes: [{**scoped, records: [item]}]}]} for item in scoped[records]]
    return requests


def _prefixed(document: Any) -> bytes:
    frames = [protobuf(part) for part in _one_request_each(document)]
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


SPELLINGS: dict[str, Callable[[Any], bytes]] = {
    "compact": dumped,
    "ascii": lambda document: dumped(document, ensure_ascii=True),
    "pretty": lambda document: dumped(document, indent=2, separators=(",", ": ")),
    "pretty without indent": lambda document: dumped(document, indent=0),
    "byte order mark": lambda document: b"\xef\xbb\xbf" + dumped(document),
    "base64 ids": lambda document: dumped(with_base64_ids(document)),
    "snake case": lambda document: dumped(with_snake_case(document)),
    "numbers and names": lambda document: dumped(with_numbers(document)),
    "resource and scope last": lambda document: dumped(with_reversed_keys(document)),
    "resource and scope last, pretty": lambda document: dumped(with_reversed_keys(document), indent=1),
    "lines": lambda document: b"\n".join(map(dumped, _one_request_each(document))),
    "lines with CRLF and blank lines": lambda document: b"\r\n\r\n".join(map(dumped, _one_request_each(document))),
    "concatenated": lambda document: b"".join(map(dumped, _one_request_each(document))),
    "concatenated pretty": lambda document: b"".join(dumped(part, indent=1) for part in _one_request_each(document)),
    "list": lambda document: dumped(_one_request_each(document)),
    "pretty list": lambda document: dumped(_one_request_each(document), indent=4),
    "protobuf": protobuf,
    "protobuf concatenated": lambda document: b"".join(map(protobuf, _one_request_each(document))),
    "protobuf length-prefixed": _prefixed,
}


@cache
def _spelled(path: Path, spelling: str) -> tuple[bytes, list[Record]]:
    return SPELLINGS[spelling](capture(path)), read(path)[0]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("small", [False, True], ids=["whole", "walked"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_capture_reads_the_same_however_it_is_spelled(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str, packed: bool, small: bool
) -> None:
    if small:  # nothing is parsed as a whole line: every document is walked level by level
        monkeypatch.setattr(json_values, "LINE", 64)
    for name in CAPTURES:
        data, expected = _spelled(shared / "traces" / name, spelling)
        records, problems = read_bytes(tmp_path, gzip.compress(data, 1) if packed else data)
        assert not problems, name
        assert records == expected, name
        assert records, name


def test_the_protobuf_captures_equal_their_json(shared: Path) -> None:
    for name in ("openinference-langchain/telecom-per-turn", "traceloop-langchain/hrleave-per-turn"):
        path = shared / "traces" / name
        from_json, _ = read(path.with_suffix(".json.gz"))
        binary = path.with_suffix(".pb") if path.with_suffix(".pb").exists() else path.with_suffix(".pb.gz")
        from_protobuf, source = read(binary)
        assert source.problem_count == 0
        assert from_protobuf == from_json


def test_every_capture_and_example_reads_without_a_problem(shared: Path, examples: Path) -> None:
    paths = [
        path
        for path in (*(shared / "traces").rglob("*"), *examples.rglob("*.json"))
        if path.is_file() and path.suffix != ".md" and path.parent.name != "labels"
    ]
    assert len(paths) > 100
    for path in paths:
        if "label" in path.name:
            continue
        records, source = read(path)
        assert source.problem_count == 0, source.problems
        assert records, path
        assert source.span_count + source.log_count == len(records)


def test_a_span_arrives_with_everything_the_model_has_room_for(tmp_path: Path) -> None:
    item = span(
        2,
        parent=1,
        kind=3,
        status={"code": 2, "message": "HTTP 500"},
        attributes=[
            {"key": "text", "value": {"stringValue": "ä"}},
            {"key": "int", "value": {"intValue": "-9007199254740993"}},
            {"key": "double", "value": {"doubleValue": 0.5}},
            {"key": "whole double", "value": {"doubleValue": 1}},
            {"key": "not a number", "value": {"doubleValue": "NaN"}},
            {"key": "bool", "value": {"boolValue": False}},
            {"key": "bytes", "value": {"bytesValue": "AAEC"}},
            {"key": "texts", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": "b"}]}}},
            {"key": "mixed", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": 1}, {}]}}},
            {"key": "no values", "value": {"arrayValue": {}}},
            {
                "key": "map",
                "value": {"kvlistValue": {"values": [{"key": "k", "value": {"arrayValue": {"values": [{}]}}}]}},
            },
            {"key": "empty", "value": {}},
            {"key": "no value"},
        ],
        events=[{"name": "exception", "timeUnixNano": "17", "attributes": [{"key": "a", "value": {"intValue": 1}}]}],
        links=[{"traceId": TRACE, "spanId": span_id(9)}],
        flags=256,
    )
    for data in (dumped(request(item)), protobuf(request(item))):
        records, problems = read_bytes(tmp_path, data)
        assert not problems
        [read_span] = spans_of(records)
        assert read_span.ref == f"{TRACE}:{span_id(2)}"
        assert read_span.parent_id == span_id(1)
        assert (read_span.name, read_span.kind, read_span.scope) == ("span 2", 3, "tests")
        assert (read_span.status, read_span.status_message) == ("error", "HTTP 500")
        assert (read_span.start, read_span.end) == (START + 2, START + 1002)
        assert read_span.resource == {"service.name": "policy-bot"}
        assert read_span.attributes == {
            "text": "ä",
            "int": -9007199254740993,
            "double": 0.5,
            "whole double": 1.0,
            "not a number": None,
            "bool": False,
            "bytes": b"\x00\x01\x02",
            "texts": ["a", "b"],
            "mixed": ["a", 1, None],
            "no values": [],
            "map": {"k": [None]},
            "empty": None,
            "no value": None,
        }
        [event] = read_span.events
        assert (event.name, event.time, event.attributes) == ("exception", 17, {"a": 1})


def test_a_log_record_arrives_whole_and_its_event_name_from_field_or_attribute(tmp_path: Path) -> None:
    older = log(2)
    del older["eventName"]
    older["attributes"].append({"key": "event.name", "value": {"stringValue": "gen_ai.choice"}})
    del older["timeUnixNano"]
    older["observedTimeUnixNano"] = "99"
    for data in (dumped(log_request(log(1), older)), protobuf(log_request(log(1), older))):
        records, problems = read_bytes(tmp_path, data)
        assert not problems
        first, second = logs_of(records)
        assert (first.event_name, first.time, first.scope) == ("gen_ai.user.message", START, "tests")
        assert first.body == {"content": "said 1"}
        assert first.attributes == {"gen_ai.system": "openai"}
        assert (second.event_name, second.time) == ("gen_ai.choice", 99)


def test_log_records_of_no_span_are_left_out_without_a_fuss(tmp_path: Path) -> None:
    unlinked = [log(1, traceId="", spanId=""), log(1, traceId="0" * 32), log(1, spanId="0" * 16), log(1, spanId=None)]
    records, problems = read_bytes(tmp_path, dumped(log_request(*unlinked, log(3))))
    assert [record.span_id for record in logs_of(records)] == [span_id(3)]
    assert not problems


def test_scope_arrays_of_older_exporters_are_read(tmp_path: Path) -> None:
    entry = {"instrumentationLibrarySpans": [{"instrumentationLibrary": {"name": "old"}, "spans": [span(1)]}]}
    for small in (False, True):
        data = dumped({"resourceSpans": [entry]}, indent=2 if small else None)
        [read_span] = spans_of(read_bytes(tmp_path, data)[0])
        assert read_span.scope == "old"


def test_a_root_may_say_so_in_any_way(tmp_path: Path) -> None:
    for parent in ("", "0" * 16, None, "AAAAAAAAAAA="):
        [read_span] = spans_of(read_bytes(tmp_path, dumped(request(span(1, parentSpanId=parent))))[0])
        assert read_span.parent_id is None


def test_ids_in_upper_case_become_lower_case(tmp_path: Path) -> None:
    item = span(1, traceId=TRACE.upper(), spanId=span_id(1).upper(), parentSpanId=span_id(2).upper())
    records, problems = read_bytes(tmp_path, dumped(request(item)))
    assert not problems
    assert [(r.trace_id, r.span_id, r.parent_id) for r in spans_of(records)] == [(TRACE, span_id(1), span_id(2))]


def test_a_request_may_hold_traces_and_logs_and_metrics_are_passed_over(tmp_path: Path) -> None:
    both = {**request(span(1)), **log_request(log(1)), "resourceMetrics": [{"scopeMetrics": [{"metrics": [1, 2]}]}]}
    for data in (dumped(both), dumped(both, indent=1), dumped(both)[:-1] + b"}" + dumped({"resourceMetrics": []})):
        records, problems = read_bytes(tmp_path, data)
        assert (len(spans_of(records)), len(logs_of(records)), problems) == (1, 1, [])


def test_a_resource_after_more_records_than_are_held_is_a_problem(tmp_path: Path) -> None:
    items = [span(number) for number in range(50)]
    data = dumped(with_reversed_keys(request(*items)), indent=1)
    records, problems = read_bytes(
        tmp_path, b" " * 10 + data + dumped(request(span(99))), ReadLimits(max_held_bytes=4000)
    )
    assert len(records) == 51
    assert any("the resource comes after" in problem.reason for problem in problems)
    assert spans_of(records)[-1].resource == {"service.name": "policy-bot"}


def test_a_trace_downloaded_from_tempo_is_read(tmp_path: Path) -> None:
    document = {"batches": with_base64_ids(request(span(1), span(2, parent=1)))["resourceSpans"]}
    for indent in (None, 2):
        records, problems = read_bytes(tmp_path, dumped(document, indent=indent))
        assert [(record.span_id, record.parent_id) for record in spans_of(records)] == [
            (span_id(1), None),
            (span_id(2), span_id(1)),
        ]
        assert not problems


def test_scopes_stay_apart_while_their_resource_is_awaited(tmp_path: Path) -> None:
    entry = {
        "scopeSpans": [
            {"spans": [span(1)]},
            {"spans": [span(2)], "scope": {"name": "second"}},
            {"scope": {"name": "third"}, "spans": [span(3)]},
            {"spans": [span(4)]},
        ],
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "late"}}]},
    }
    for indent in (None, 1):
        data = dumped({"resourceSpans": [entry]}, indent=indent) + dumped(request(span(5)))
        records, problems = read_bytes(tmp_path, data)
        assert [record.scope for record in spans_of(records)] == ["", "second", "third", "", "tests"]
        assert [record.resource["service.name"] for record in spans_of(records)] == ["late"] * 4 + ["policy-bot"]
        assert not problems


def test_ids_of_the_length_of_another_spelling_are_told_apart(tmp_path: Path) -> None:
    good, _ = read_bytes(tmp_path, dumped(with_base64_ids(request(span(1, parent=2)))))
    assert [(r.trace_id, r.span_id, r.parent_id) for r in spans_of(good)] == [(TRACE, span_id(1), span_id(2))]
    # 16 hex digits are no trace id, though they are base64 of something
    records, problems = read_bytes(tmp_path, dumped(request(span(1, traceId=TRACE[:16]))))
    assert not records
    assert "16-byte" in problems[0].reason


def test_json_numbers_too_large_for_64_bits_become_text(tmp_path: Path) -> None:
    item = span(1, attributes=[{"key": "big", "value": {"intValue": str(10**30)}}])
    [read_span] = spans_of(read_bytes(tmp_path, dumped(request(item)))[0])
    assert read_span.attributes == {"big": str(10**30)}


def test_plain_maps_as_attributes_are_understood(tmp_path: Path) -> None:
    item = span(1, attributes={"a": "b", "n": {"m": [1, None, 2.5]}})
    [read_span] = spans_of(read_bytes(tmp_path, json.dumps(request(item)).encode())[0])
    assert read_span.attributes == {"a": "b", "n": {"m": [1, None, 2.5]}}
