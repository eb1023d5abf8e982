"""Broken and hostile input: each case is counted and named, and the rest goes on (DESIGN: untrusted input)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from otel_drift.otlp import ReadLimits, json_values
from otel_drift.otlp.values import TRUNCATED
from otlp.samples import (
    START,
    TRACE,
    attribute,
    dumped,
    log,
    log_request,
    logs_of,
    protobuf,
    read_bytes,
    request,
    span,
    span_id,
    spans_of,
)

REST = span(99)


@pytest.fixture(params=["whole", "walked"], autouse=True)
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything must hold for documents parsed whole and for those walked level by level."""
    if request.param == "walked":
        monkeypatch.setattr(json_values, "LINE", 64)


def ids(records: list[Any]) -> list[str]:
    return [record.span_id for record in spans_of(records)]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (span(1, traceId=""), "no trace id"),
        (span(1, traceId=None), "no trace id"),
        (span(1, traceId="0" * 32), "trace id is all zeros"),
        (span(1, traceId="AAAAAAAAAAAAAAAAAAAAAA=="), "trace id is all zeros"),
        (span(1, traceId="abc"), "trace id is no 16-byte id"),
        (span(1, traceId="g" * 32), "trace id is no 16-byte id"),
        (span(1, traceId=17), "trace id is no 16-byte id"),
        (span(1, traceId=["a"]), "trace id is no 16-byte id"),
        (span(1, spanId="0" * 16), "span id is all zeros"),
        (span(1, spanId=TRACE), "span id is no 8-byte id"),
        ({"traceId": TRACE, "spanId": span_id(1)}, "no span"),
        ("a text", "no object"),
        (17, "no object"),
        ([], "no object"),
    ],
)
def test_a_broken_span_is_named_and_its_neighbours_are_read(tmp_path: Path, broken: Any, reason: str) -> None:
    records, problems = read_bytes(tmp_path, dumped(request(span(0), broken, REST)))
    assert ids(records) == [span_id(0), span_id(99)]
    [problem] = problems
    assert reason in problem.reason
    assert problem.file == str(tmp_path / "input")
    assert "line 1" in problem.record


@pytest.mark.parametrize(
    ("fields", "start", "end", "reason"),
    [
        ({"endTimeUnixNano": str(START - 5)}, START + 1, START + 1, "ends before it starts"),
        ({"endTimeUnixNano": "0"}, START + 1, START + 1, None),
        ({"endTimeUnixNano": None}, START + 1, START + 1, None),
        ({"startTimeUnixNano": None}, START + 1001, START + 1001, "without a start time"),
        ({"startTimeUnixNano": "0", "endTimeUnixNano": "0"}, 0, 0, "without start and end"),
        ({"startTimeUnixNano": -4, "endTimeUnixNano": "x"}, 0, 0, "without start and end"),
        ({"startTimeUnixNano": 10**40, "endTimeUnixNano": [1]}, 0, 0, "without start and end"),
    ],
)
def test_absurd_times_do_not_lose_the_span(
    tmp_path: Path, fields: dict[str, Any], start: int, end: int, reason: str | None
) -> None:
    records, problems = read_bytes(tmp_path, dumped(request(span(1, **fields), REST)))
    first, last = spans_of(records)
    assert (first.start, first.end, last.span_id) == (start, end, span_id(99))
    assert [True for problem in problems if reason in problem.reason] == ([True] if reason else [])
    assert len(problems) == (1 if reason else 0)


def test_a_span_that_is_its_own_parent_becomes_a_root(tmp_path: Path) -> None:
    for data in (dumped(request(span(1, parent=1))), protobuf(request(span(1, parent=1)))):
        records, problems = read_bytes(tmp_path, data)
        assert spans_of(records)[0].parent_id is None
        assert "its own parent" in problems[0].reason


def test_a_malformed_parent_makes_a_root_and_is_counted(tmp_path: Path) -> None:
    records, problems = read_bytes(tmp_path, dumped(request(span(1, parentSpanId="nonsense"))))
    assert spans_of(records)[0].parent_id is None
    assert "parent span id is malformed" in problems[0].reason


def test_long_text_is_cut_marked_and_counted(tmp_path: Path) -> None:
    item = span(1, attributes=[attribute("long", "x" * 5000), attribute("short", "y")])
    for data in (dumped(request(item)), protobuf(request(item)), dumped(request(item), indent=1)):
        records, problems = read_bytes(tmp_path, data, ReadLimits(max_text=1000))
        assert spans_of(records)[0].attributes == {"long": "x" * 1000, "short": "y", TRUNCATED: ["long"]}
        assert "text of 'long' cut at 1000" in problems[0].reason
    records, problems = read_bytes(
        tmp_path, dumped(log_request(log(1, body={"stringValue": "z" * 5000}))), ReadLimits(max_text=10)
    )
    assert logs_of(records)[0].body == "z" * 10
    assert "body" in logs_of(records)[0].attributes[TRUNCATED]


def test_too_many_attributes_and_events_are_cut_and_counted(tmp_path: Path) -> None:
    many = [attribute(f"key {number}", "v") for number in range(30)]
    item = span(1, attributes=many, events=[{"name": f"e{number}"} for number in range(30)])
    for data in (dumped(request(item)), protobuf(request(item))):
        records, problems = read_bytes(tmp_path, data, ReadLimits(max_attributes=10, max_events=5))
        [read_span] = spans_of(records)
        assert (len(read_span.attributes), len(read_span.events)) == (10, 5)
        assert {problem.reason for problem in problems} == {
            "30 attributes, only 10 kept",
            "30 events, only 5 kept",
        }


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    return value


def test_values_nested_too_deeply_are_left_out(tmp_path: Path) -> None:
    item = span(1, attributes=[{"key": "deep", "value": _nested(40)}, attribute("flat", "y")])
    for data in (dumped(request(item, REST)), protobuf(request(item, REST))):
        records, problems = read_bytes(tmp_path, data, ReadLimits(max_depth=16))
        assert ids(records) == [span_id(1), span_id(99)]
        assert "nested deeper than 16" in problems[0].reason
        assert spans_of(records)[0].attributes["flat"] == "y"
        assert "bottom" not in str(spans_of(records)[0].attributes["deep"])


@pytest.mark.parametrize("depth", [300, 3_000, 200_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_no_depth_of_json_raises(tmp_path: Path, depth: int, brackets: str) -> None:
    opening, closing = ("[", "]") if brackets == "[]" else ('{"values":', "}")
    deep = opening * depth + "1" + closing * depth
    text = dumped(request(span(1), span(2), REST)).decode()
    text = text.replace('"status":{}', f'"status":{deep}', 1) + "\n" + dumped(request(span(3))).decode()
    records, problems = read_bytes(tmp_path, text.encode())
    assert {span_id(2), span_id(99), span_id(3)} <= set(ids(records))
    assert problems or span_id(1) in ids(records)


def test_brackets_without_end_are_no_document(tmp_path: Path) -> None:
    records, problems = read_bytes(tmp_path, b"[" * 500_000 + b"\n" + dumped(request(REST)))
    assert ids(records) == [span_id(99)]
    records, problems = read_bytes(tmp_path, b'{"resourceSpans":' * 50_000)
    assert not records
    assert problems


def test_nul_and_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    raw = dumped(request(span(1, name="NAME", attributes=[attribute("KEY", "VALUE")]), REST)).decode()
    raw = raw.replace("NAME", "a\\u0000b").replace("KEY", "k\\ud800").replace("VALUE", "x\\udc00\\u0000\\ud83d\\ude00")
    records, _ = read_bytes(tmp_path, raw.encode())
    first, last = spans_of(records)
    assert first.name == "a\ufffdb"
    assert first.attributes == {"k\ufffd": "x\ufffd\ufffd😀"}
    assert last.span_id == span_id(99)
    json.dumps(first.attributes).encode()
    first.name.encode()


def test_numbers_that_are_none_become_none(tmp_path: Path) -> None:
    raw = dumped(request(span(1, attributes=[{"key": str(n), "value": {"doubleValue": 7777}} for n in range(3)]), REST))
    for word in (b"NaN", b"Infinity", b"-Infinity", b"1e999"):
        records, _ = read_bytes(tmp_path, raw.replace(b"7777", word))
        first, last = spans_of(records)
        assert first.attributes == {"0": None, "1": None, "2": None}
        assert last.span_id == span_id(99)


def test_an_integer_of_a_million_digits_costs_nothing(tmp_path: Path) -> None:
    raw = dumped(request(span(1, attributes=[{"key": "n", "value": {"intValue": 7777}}]), REST))
    began = time.process_time()
    records, _ = read_bytes(tmp_path, raw.replace(b"7777", b"9" * 1_000_000))
    assert ids(records) == [span_id(1), span_id(99)]
    assert time.process_time() - began < 2
    assert len(str(spans_of(records)[0].attributes["n"])) < 400


def test_invalid_utf8_is_replaced_and_counted(tmp_path: Path) -> None:
    raw = dumped(request(span(1, name="NAME"), REST)).replace(b"NAME", b"a\xff\xfeb")
    records, problems = read_bytes(tmp_path, raw)
    assert spans_of(records)[0].name == "a\ufffd\ufffdb"
    assert ids(records) == [span_id(1), span_id(99)]
    assert [problem.reason for problem in problems] == ["invalid UTF-8 replaced"]


def test_invalid_utf8_in_protobuf_costs_that_span_only(tmp_path: Path) -> None:
    raw = protobuf(request(span(1, name="NAME"), REST)).replace(b"NAME", b"a\xff\xfeb")
    records, problems = read_bytes(tmp_path, raw)
    assert ids(records) == [span_id(99)]
    assert "no protobuf Span" in problems[0].reason


@pytest.mark.parametrize("indent", [None, 1])
def test_what_comes_before_a_cut_counts_wherever_it_is_made(tmp_path: Path, indent: int | None) -> None:
    items = [span(number) for number in range(4)]
    data = dumped(request(*items), indent=indent)
    ends = [data.index(span_id(number).encode()) for number in range(1, 4)]
    for cut in range(1, len(data) - 1, 7):
        records, problems = read_bytes(tmp_path, data[:cut])
        assert len(problems) >= 1, cut
        whole = sum(end < cut - 400 for end in ends)
        assert ids(records)[:whole] == [span_id(number) for number in range(whole)], cut
        assert ids(records) == [span_id(number) for number in range(len(records))], cut


def test_a_cut_line_takes_no_neighbour_along(tmp_path: Path) -> None:
    """Wherever a line is cut, all others are read: JSON never continues on the next line of a Collector's file."""
    before, broken, after = (dumped(request(span(number))) for number in (1, 2, 3))
    for cut in range(1, len(broken) - 1, 5):
        records, problems = read_bytes(tmp_path, b"\n".join((before, broken[:cut], after)) + b"\n")
        assert [i for i in ids(records) if i != span_id(2)] == [span_id(1), span_id(3)], broken[:cut]
        assert problems, broken[:cut]


@pytest.mark.parametrize(
    "garbage",
    [b"garbage", b"\x00\x01\x02", b"}}}", b"]]", b"null", b'"text', b"{", b'{"a":', b"2026-11-30 INFO started", b"{]"],
)
@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_garbage_between_documents_is_stepped_over(tmp_path: Path, garbage: bytes, newline: bytes) -> None:
    first, second = dumped(request(span(1), span(2))), dumped(request(span(3), REST))
    records, problems = read_bytes(tmp_path, first + newline + garbage + newline + second)
    assert ids(records) == [span_id(1), span_id(2), span_id(3), span_id(99)]
    assert problems


def test_garbage_inside_a_document_costs_one_span(tmp_path: Path) -> None:
    items = [span(number) for number in range(6)]
    text = dumped(request(*items)).decode()
    broken = text.replace('"name":"span 3"', '"name":"span 3')
    records, problems = read_bytes(tmp_path, broken.encode())
    assert ids(records) == [span_id(number) for number in (0, 1, 2, 4, 5)]
    assert len(problems) == 1
    assert "byte" in problems[0].record
    assert {record.resource["service.name"] for record in spans_of(records)} == {"policy-bot"}


def test_after_garbage_records_keep_to_their_own_resource(tmp_path: Path) -> None:
    document = {
        "resourceSpans": [
            *request(span(1), span(2), resource="first")["resourceSpans"],
            *request(span(3), span(4), resource="second")["resourceSpans"],
        ]
    }
    text = dumped(document).decode().replace('"name":"span 2"', '"name":span 2')
    records, problems = read_bytes(tmp_path, text.encode())
    assert {record.span_id: record.resource["service.name"] for record in spans_of(records)} == {
        span_id(1): "first",
        span_id(3): "second",
        span_id(4): "second",
    }
    assert len(problems) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"conversation": "telecom", "turns": []},
        [],
        [1, 2],
        {},
        {"resourceSpans": 17},
        {"resourceSpans": [17, None, "x"]},
        {"resourceSpans": [{"scopeSpans": 4}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": "x"}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spbns": []}]}]},
        {"resourceSpbns": [{"scopeSpans": []}]},
        {"data": 17},
        {"data": [{"traceID": "1", "spans": []}]},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_json_that_is_not_otlp_is_counted_and_no_more(tmp_path: Path, other: Any, indent: int | None) -> None:
    records, problems = read_bytes(tmp_path, dumped(other, indent=indent) + b"\n" + dumped(request(REST)))
    assert ids(records) == [span_id(99)]
    if other not in ([], {}):
        assert problems


def test_a_record_over_the_limit_is_skipped(tmp_path: Path) -> None:
    huge = span(1, attributes=[attribute("long", "x" * 300_000)])
    for data in (dumped(request(span(0), huge, REST), indent=1), protobuf(request(span(0), huge, REST))):
        records, problems = read_bytes(tmp_path, data, ReadLimits(max_record_bytes=100_000))
        assert ids(records) == [span_id(0), span_id(99)]
        assert "100000" in problems[0].reason


def test_problems_are_all_counted_but_not_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_bytes(dumped(request(*[span(number, traceId="x") for number in range(500)])))
    from otel_drift_connectors.otlp_file import OtlpFileSource

    told = []
    source = OtlpFileSource([path], on_problem=told.append)
    assert list(source.read()) == []
    assert (source.problem_count, len(source.problems), len(told)) == (500, 100, 500)


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_protobuf_cut_anywhere_gives_what_came_before(tmp_path: Path, signal: str) -> None:
    whole = request(*[span(n) for n in range(3)]) if signal == "traces" else log_request(*[log(n) for n in range(3)])
    data = protobuf(whole)
    complete, _ = read_bytes(tmp_path, data)
    for cut in range(1, len(data)):
        records, problems = read_bytes(tmp_path, data[:cut])
        assert problems, cut
        assert [r.span_id for r in records] == [r.span_id for r in complete[: len(records)]], cut
    assert len(records) >= 2


def test_a_quote_in_text_never_looks_like_structure(tmp_path: Path) -> None:
    """Text that holds whole spans as text changes nothing, walked or not, before or after garbage."""
    trap = json.dumps(request(span(7), span(8)))[1:] + '},{"traceId":"' + TRACE + '"},{"resource":{}}]}]}'
    items = [span(n, attributes=[attribute("input.value", trap)]) for n in range(3)]
    data = dumped(request(*items))
    records, problems = read_bytes(tmp_path, data + data)
    assert ids(records) == [span_id(n) for n in (0, 1, 2, 0, 1, 2)]
    assert not problems
    assert {record.attributes["input.value"] for record in spans_of(records)} == {trap}
    records, _ = read_bytes(tmp_path, data.replace(b'"name":"span 1"', b'"name":!', 1))
    assert ids(records) == [span_id(0), span_id(2)]


@pytest.mark.parametrize("nothing", [b"\x08\x00", b"\x0a\x00", b"\x0a\x02\x12\x00"])
def test_protobuf_that_holds_nothing_but_fields_is_given_up(tmp_path: Path, nothing: bytes) -> None:
    began = time.process_time()
    records, problems = read_bytes(tmp_path, protobuf(request(REST)) + nothing * 4_000_000)
    assert ids(records) == [span_id(99)]
    assert "no record between" in problems[-1].reason
    assert time.process_time() - began < 5
