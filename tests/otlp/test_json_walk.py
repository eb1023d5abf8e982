"""The walk gives the same records wherever reading happens to be cut into pieces, and stays linear."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from otel_drift.model import Record
from otel_drift.otlp import ProblemLog, ReadLimits, json_values, window
from otel_drift.otlp.json_walk import JsonWalk
from otel_drift.otlp.values import Decoding
from otel_drift.otlp.window import ByteWindow
from otlp.samples import attribute, capture, dumped, log, log_request, request, span, span_id, with_reversed_keys


def walked(data: bytes) -> tuple[list[Record], ProblemLog]:
    problems = ProblemLog(ReadLimits())
    walk = JsonWalk(ByteWindow(io.BytesIO(data).readinto), Decoding(ReadLimits(), problems))
    return [record for page in walk.records() for record in page], problems


@pytest.mark.parametrize("chunk", [1, 2, 3, 17, 300, 4096])
@pytest.mark.parametrize("line", [64, 700, json_values.LINE])
def test_where_reads_end_changes_nothing(monkeypatch: pytest.MonkeyPatch, chunk: int, line: int) -> None:
    items = [span(n, attributes=[attribute("input.value", 'ä\\"{}[]' * n)]) for n in range(6)]
    documents = [request(*items[:3]), log_request(log(1), log(2)), request(items[3]), request(*items[4:])]
    spellings = [
        b"\n".join(map(dumped, documents)),
        b"".join(map(dumped, documents)),
        dumped(documents),
        dumped(documents, indent=1),
        b" \r\n".join(dumped(with_reversed_keys(document), indent=0) for document in documents),
    ]
    expected = [walked(spelling)[0] for spelling in spellings]
    assert [len(records) for records in expected] == [8] * len(spellings)
    monkeypatch.setattr(window, "CHUNK", chunk)
    monkeypatch.setattr(json_values, "LINE", line)
    for spelling, records in zip(spellings, expected, strict=True):
        found, problems = walked(spelling)
        assert not problems.count
        assert found == records


def test_problems_say_where_by_line_byte_and_record(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = span(2, traceId="x")
    first, second = dumped(request(span(1))), dumped(request(span(1), broken))
    for data, place in (
        (first + b"\n\n" + second, f"line 3, byte {len(first) + 2}, record 2"),
        (first + b"\n!\n" + second, "line 2, byte"),
        (b"\n" * 5_000 + b"?" + second, "line 5001, byte 5000"),
    ):
        _, problems = walked(data)
        assert problems.kept[0].record.startswith(place)
    monkeypatch.setattr(json_values, "LINE", 64)
    _, problems = walked(first + second)
    assert problems.kept[0].record == f"line 1, byte {(first + second).index(dumped(broken))}, record 3"


def _seconds(data: bytes) -> float:
    began = time.process_time()
    walked(data)
    return time.process_time() - began


HOSTILE: dict[str, Any] = {
    "a text without end": lambda size: b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"' + b"a" * size,
    "brackets": lambda size: b"[" * size,
    "braces": lambda size: b"{" * size,
    "lists in lines": lambda size: b"[\n" * (size // 2),
    "white space": lambda size: b'{"resourceSpans":[' + b" " * size,
    "commas": lambda size: b"{" + b"," * size + b"}",
    "beginnings": lambda size: b'{"resourceSpans":[{' * (size // 19),
    "empty documents": lambda size: b"{}" * (size // 2),
    "keys": lambda size: b'{"' + b"a" * size,
    "quotes": lambda size: b'"' * size,
    "backslashes": lambda size: b'{"a":"' + b"\\" * size,
    "broken records": lambda size: b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b'{"traceId":"a"x},' * (size // 17),
    "links": lambda size: dumped(
        request(*[span(n, links=[{"traceId": "a", "spanId": "b"}] * 30) for n in range(size // 1500)])
    ),
    "one huge record": lambda size: dumped(request(span(1, attributes=[attribute("a", "x" * size)])), indent=1),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_input_takes_more_than_linear_time(kind: str) -> None:
    small, large = HOSTILE[kind](100_000), HOSTILE[kind](800_000)
    least = min(_seconds(small) for _ in range(2))
    assert _seconds(large) <= 24 * max(least, 0.01)


def test_a_captured_session_survives_any_resynchronisation(shared: Path) -> None:
    """After each possible fault in the outer structure all complete records that follow are still found."""
    document = capture(shared / "traces" / "openinference-openai" / "telecom-rewrite.json")
    data = dumped(document)
    complete = [record.span_id for record in walked(data)[0]]
    for key in (b'"resourceSpans"', b'"resource"', b'"scopeSpans"', b'"scope"', b'"spans"'):
        at = data.index(key)
        found, problems = walked(data[:at] + b"#" + data[at:])
        assert [record.span_id for record in found] == complete, key
        assert problems.count


def test_unknown_fields_of_a_later_otlp_version_are_ignored() -> None:
    document = request(span(1, later={"a": [1]}))
    document["later"] = {"deep": [[1, 2], {}]}
    document["resourceSpans"][0]["entityRefs"] = [{}]
    document["resourceSpans"][0]["scopeSpans"][0]["later"] = "x"
    for data in (dumped(document), dumped(document, indent=2), json.dumps(document).encode() * 2):
        records, problems = walked(data)
        assert {record.span_id for record in records} == {span_id(1)}
        assert not problems.count
