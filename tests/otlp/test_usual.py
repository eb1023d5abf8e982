"""Requests of the usual shape are read as by way of dicts; what is not of that shape is left to them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import orjson
import pytest

from otel_drift.model import Record
from otel_drift.otlp.limits import ProblemLog, ReadLimits
from otel_drift.otlp.records import request_from_json
from otel_drift.otlp.usual import UsualRequests
from otel_drift.otlp.values import Decoding
from otlp.samples import START, TRACE, attribute, capture, dumped, log_request, request, span, with_numbers

KEPT_VALUES: tuple[Any, ...] = (
    {},
    {"stringValue": ""},
    {"intValue": "-9223372036854775808"},
    {"intValue": 7},
    {"intValue": "1e3"},
    {"intValue": "20.0"},
    {"intValue": 30.0},
    {"doubleValue": 1},
    {"boolValue": False},
    {"arrayValue": {}},
    {"arrayValue": {"values": [{"doubleValue": 0.5}, {"doubleValue": -1e300}]}},
    {"arrayValue": {"values": [{"doubleValue": 0.5}, {"stringValue": "x"}, {}, {"intValue": "3"}]}},
    {"kvlistValue": {"values": [attribute("b", "c"), {"key": "d", "value": {"kvlistValue": {}}}]}},
)
LEFT_VALUES: tuple[Any, ...] = (
    None,
    {"stringValue": "a\0b"},
    {"stringValue": 5},
    {"string_value": "b"},
    {"intValue": "x"},
    {"intValue": str(2**63)},
    {"intValue": str(2**64)},
    {"intValue": "1.5"},
    {"intValue": "null"},
    {"doubleValue": "NaN"},
    {"doubleValue": "1.5"},
    {"boolValue": "true"},
    {"boolValue": 1},
    {"arrayValue": "null"},
    {"arrayValue": {"values": [{"doubleValue": 0.5}, {"doubleValue": "inf"}]}},
    {"kvlistValue": "null"},
    {"bytesValue": "AAAA"},
    {"arrayValue": {"values": [{"stringValue": "a\0b"}]}},
    {"arrayValue": {"values": [None]}},
    {"kvlistValue": {"values": [attribute("a\0b", "c")]}},
)
ONE_OF_EACH: dict[str, Any] = {
    "stringValue": "x",
    "intValue": "3",
    "doubleValue": 2.5,
    "boolValue": True,
    "arrayValue": {"values": [{"stringValue": "y"}]},
    "kvlistValue": {"values": [attribute("b", "c")]},
    "bytesValue": "AAAA",
}
KEPT: tuple[dict[str, Any], ...] = (
    {},
    {"attributes": []},
    {"parentSpanId": ""},
    {"kind": "SPAN_KIND_CLIENT", "status": {"code": "STATUS_CODE_ERROR", "message": "no"}},
    {"kind": 77, "status": {"code": 9}, "flags": 257, "links": [{"traceId": TRACE}], "traceState": "a=b"},
    {"startTimeUnixNano": START, "endTimeUnixNano": START},
    {"startTimeUnixNano": "1e3", "endTimeUnixNano": "20e2"},
    {"kind": 1.0, "status": {"code": 2.0}},
    {"status": {"code": "1"}},
    {"events": [{"name": "said", "timeUnixNano": "12", "attributes": [attribute("a", "b")]}, {}]},
    *({"attributes": [{"key": "a", "value": value}]} for value in KEPT_VALUES),
)
LEFT: tuple[dict[str, Any], ...] = (
    {"trace_id": TRACE},
    {"traceId": "W47/95gDgQPSabYzgT/GDA=="},
    {"traceId": TRACE.upper()},
    {"traceId": "0" * 32},
    {"spanId": "0" * 16},
    {"parentSpanId": "0" * 16},
    {"parentSpanId": "none"},
    {"startTimeUnixNano": "0"},
    {"startTimeUnixNano": "soon"},
    {"endTimeUnixNano": "0"},
    {"endTimeUnixNano": str(2**64)},
    {"name": "a\0b"},
    {"name": None},
    {"status": {"message": "a\0b"}},
    {"attributes": {"a": "b"}},
    {"events": {}},
    {"somethingNew": 1},
    *({"attributes": [{"key": "a", "value": value}]} for value in LEFT_VALUES),
    {"attributes": [attribute("a\0b", "c")]},
    {"attributes": [{"key": 1, "value": {"stringValue": "x"}}]},
)


def usual(document: Any, **limits: int) -> list[Any] | None:
    return UsualRequests(_decoding(**limits)).spans(dumped(document))


def by_dicts(document: Any) -> tuple[list[Record], int]:
    decoding = _decoding()
    return list(request_from_json(orjson.loads(dumped(document)), decoding)), decoding.log.count


def _decoding(**limits: int) -> Decoding:
    return Decoding(ReadLimits(**limits), ProblemLog(ReadLimits()))


@pytest.mark.parametrize("fields", KEPT)
def test_a_usual_span_is_the_one_that_dicts_give(fields: dict[str, Any]) -> None:
    document = request(span(1), span(2, 1, **fields))

    found = usual(document)

    assert found is not None
    assert (found, 0) == by_dicts(document)
    assert [list(map(type, one.attributes.values())) for one in found] == [
        list(map(type, other.attributes.values())) for other in by_dicts(document)[0] if hasattr(other, "parent_id")
    ]


@pytest.mark.parametrize(("first", "second"), [*permutations(ONE_OF_EACH, 2)])
def test_a_value_of_several_kinds_is_the_same_however_it_is_read(first: str, second: str) -> None:
    several = {first: ONE_OF_EACH[first], second: ONE_OF_EACH[second]}
    number = {"doubleValue": 0.5}
    values: tuple[dict[str, Any], ...] = (
        several,
        {"arrayValue": {"values": [several]}},
        {"arrayValue": {"values": [number, several, number]}},
        {"kvlistValue": {"values": [{"key": "b", "value": several}]}},
    )
    document = request(span(attributes=[{"key": f"a{place}", "value": value} for place, value in enumerate(values)]))
    quick = _decoding()
    quick.careful = False

    expected, problems = by_dicts(document)
    assert list(request_from_json(orjson.loads(dumped(document)), quick)) == expected
    assert problems == 0
    if "bytesValue" not in several:
        assert usual(document) == expected


@pytest.mark.parametrize("fields", LEFT)
def test_what_must_be_put_right_or_reported_is_left(fields: dict[str, Any]) -> None:
    item = span(1, **fields)
    if "trace_id" in fields:
        del item["traceId"]

    assert usual(request(item)) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: {**r, **log_request()},
        lambda r: {"resource_spans": r["resourceSpans"]},
        lambda r: {"resourceSpans": [*r["resourceSpans"], None]},
        lambda r: {"resourceSpans": [{**r["resourceSpans"][0], "instrumentationLibrarySpans": []}]},
        lambda r: {"resourceSpans": [{"resource": {}}]},
    ],
)
def test_a_request_of_another_shape_is_left(spoil: Callable[[Any], Any]) -> None:
    assert usual(spoil(request(span()))) is None


def test_what_is_over_a_limit_is_left() -> None:
    nested: dict[str, Any] = {"stringValue": "x"}
    for _ in range(6):
        nested = {"arrayValue": {"values": [nested]}}
    many = [attribute(f"key {number}", "x") for number in range(6)]

    assert usual(request(span(attributes=[{"key": "a", "value": nested}])), max_depth=5) is None
    assert usual(request(span(attributes=[{"key": "a", "value": nested}])), max_depth=6) is not None
    assert usual(request(span(attributes=many)), max_attributes=5) is None
    assert usual(request(span(events=[{"name": "e"}] * 6)), max_events=5) is None
    assert usual(request(span()), max_text=100) is None


def test_after_a_few_unusual_requests_no_more_are_tried() -> None:
    reader = UsualRequests(_decoding())
    good, bad = dumped(request(span())), dumped(request(span(name=None)))

    assert [reader.spans(bad) for _ in range(5)] == [None] * 5
    assert reader.spans(good)
    assert [reader.spans(bad) for _ in range(20)] == [None] * 20
    assert reader.spans(good) is None


def test_the_given_captures_are_read_the_same_either_way(shared: Path) -> None:
    tried = read = 0
    for path in sorted((shared / "traces").glob("*/*.json*")):
        document = capture(path)
        if not isinstance(document, dict) or "resourceSpans" not in document:
            continue
        for form in (document, with_numbers(document)):
            tried += 1
            found = usual(form, max_text=1 << 30)
            if found is not None:
                read += 1
                assert found == by_dicts(form)[0], path

    assert read >= 0.95 * tried
