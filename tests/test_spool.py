"""The spool gives whole traces back, in memory or from disk alike, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import os
import random
import stat
from pathlib import Path

import pytest

from otel_drift.errors import SourceError
from otel_drift.model import LogRecord, Record, Span, SpanEvent
from otel_drift.spool import SpanSpool

RESOURCE = {"service.name": "policy-bot", "nested": {"list": [1, None, b"x"]}}


def trace(number: int) -> str:
    return f"{number + 1:032x}"


def ident(number: int) -> str:
    return f"{number + 1:016x}"


def span(number: int, of: int = 0, **fields: object) -> Span:
    values = {
        "trace_id": trace(of),
        "span_id": ident(number),
        "parent_id": ident(number - 1) if number else None,
        "name": f"span {number}",
        "start": 1000 + number,
        "end": 2000,
        "attributes": {"text": "x" * 100, "number": number, "list": ["a", {"b": 2.5}]},
        "resource": RESOURCE,
        "scope": "tests",
        "kind": 3,
        "status": "error",
        "status_message": "why",
        "events": (SpanEvent("exception", 5, {"type": "E"}),),
    }
    return Span(**{**values, **fields})  # type: ignore[arg-type]


def log(number: int, of: int = 0, time: int = 5, name: str = "event") -> LogRecord:
    return LogRecord(trace(of), ident(number), name, time, {"content": ["hello"]}, {"a": 1}, "tests")


def spooled(records: list[Record], memory_bytes: int, folder: Path) -> dict[str, list[Span]]:
    with SpanSpool(memory_bytes, folder) as spool:
        for record in records:
            spool.add(record)
        return {trace_id: spool.load(trace_id) for trace_id in spool.trace_ids()}


@pytest.mark.parametrize("memory_bytes", [1 << 30, 20_000, 2_000, 0])
def test_traces_come_back_whole_and_in_the_order_first_seen(tmp_path: Path, memory_bytes: int) -> None:
    spans = [span(number, of) for of in range(30) for number in range(5)]
    shuffled = random.Random(1).sample(spans, len(spans))
    loaded = spooled(list(shuffled), memory_bytes, tmp_path)
    assert list(loaded) == list(dict.fromkeys(item.trace_id for item in shuffled))
    for of in range(30):
        assert loaded[trace(of)] == [item for item in spans if item.trace_id == trace(of)]


@pytest.mark.parametrize("memory_bytes", [1 << 30, 0])
def test_spans_are_ordered_by_start_then_longest_then_id(tmp_path: Path, memory_bytes: int) -> None:
    spans = [
        span(3, start=5, end=9, parent_id=None),
        span(2, start=5, end=9, parent_id=None),
        span(1, start=5, end=20, parent_id=None),
        span(0, start=4, end=4, parent_id=None),
    ]
    [loaded] = spooled(list(spans), memory_bytes, tmp_path).values()
    assert [item.span_id for item in loaded] == [ident(0), ident(1), ident(2), ident(3)]


@pytest.mark.parametrize("memory_bytes", [1 << 30, 0])
def test_log_records_join_their_spans_by_time_then_arrival_each_once(tmp_path: Path, memory_bytes: int) -> None:
    records: list[Record] = [
        log(0, time=7, name="third"),
        log(0, time=5, name="first"),
        log(0, time=5, name="second"),
        span(0),
        log(0, time=5, name="first"),
        log(9, name="of a span that never came"),
        log(0, of=1, name="of a trace that never came"),
        log(0, time=9, name="last"),
    ]
    with SpanSpool(memory_bytes, tmp_path) as spool:
        for record in records:
            spool.add(record)
        assert list(spool.trace_ids()) == [trace(0)]
        [loaded] = spool.load([trace(0), trace(1), trace(0)])
        assert [record.event_name for record in loaded.logs] == ["first", "second", "third", "last"]
        assert loaded.logs[0] == log(0, time=5, name="first")
        assert spool.orphan_logs == 2


@pytest.mark.parametrize("memory_bytes", [1 << 30, 0])
@pytest.mark.parametrize("backwards", [False, True])
def test_of_spans_with_one_id_the_more_complete_stays(tmp_path: Path, memory_bytes: int, backwards: bool) -> None:
    pairs = [
        (span(0, end=1000, attributes={"a": 1, "b": 2, "c": 3}), span(0, end=3000, attributes={"a": 1})),
        (span(1, attributes={"a": "x"}), span(1, attributes={"a": "x", "b": "y"})),
        (span(2, attributes={"a": "x"}), span(2, attributes={"a": "longer"})),
        (span(3, events=()), span(3)),
        (span(4), span(4)),
    ]
    records: list[Record] = [item for pair in pairs for item in (reversed(pair) if backwards else pair)]
    [loaded] = spooled(records, memory_bytes, tmp_path).values()
    assert {item.span_id: item for item in loaded} == {more.span_id: more for _, more in pairs}


def test_circles_of_parents_are_cut_at_the_first_span(tmp_path: Path) -> None:
    circle = [span(0, parent_id=ident(2)), span(1, parent_id=ident(0)), span(2, parent_id=ident(1))]
    tail = [span(3, parent_id=ident(1)), span(4, parent_id=ident(4))]
    [loaded] = spooled([*circle[::-1], *tail], 0, tmp_path).values()
    assert {item.span_id: item.parent_id for item in loaded} == {
        ident(0): None,
        ident(1): ident(0),
        ident(2): ident(1),
        ident(3): ident(1),
        ident(4): None,
    }


def test_a_long_chain_of_parents_is_no_recursion(tmp_path: Path) -> None:
    chain = [span(number) for number in range(5000)]
    [loaded] = spooled(list(chain), 1 << 30, tmp_path).values()
    assert loaded == chain


def test_trace_ids_of_other_platforms_need_not_be_hex(tmp_path: Path) -> None:
    ids = ["b" * 32, "a trace", "A" * 32, "0" * 16, "abc", "", "é" * 8, "a" * 32]
    for memory_bytes in (1 << 30, 0, 1500):
        loaded = spooled([span(0, trace_id=trace_id) for trace_id in ids], memory_bytes, tmp_path)
        assert {trace_id: spans[0].trace_id for trace_id, spans in loaded.items()} == {one: one for one in ids}
        assert list(loaded) == ids


def test_many_resources_are_kept_apart(tmp_path: Path) -> None:
    spans = [span(0, of, resource={"host": of, "pad": "x" * (9000 if of == 3 else 1)}) for of in range(400)]
    loaded = spooled(list(spans), 50_000, tmp_path)
    assert [item for items in loaded.values() for item in items] == spans


def test_equal_resources_come_back_as_one_object(tmp_path: Path) -> None:
    spans = [span(number, resource=dict(RESOURCE)) for number in range(3)]
    [loaded] = spooled(list(spans), 0, tmp_path).values()
    assert len({id(item.resource) for item in loaded}) == 1


def test_logs_already_on_a_span_stay_on_it(tmp_path: Path) -> None:
    joined = dataclasses.replace(span(0), logs=(log(0, time=1, name="own"),))
    [loaded] = spooled([joined, log(0, time=2, name="joined")], 0, tmp_path).values()
    assert [record.event_name for record in loaded[0].logs] == ["own", "joined"]


@pytest.mark.parametrize("memory_bytes", [1 << 30, 0])
def test_values_that_no_packed_format_knows_come_back_too(tmp_path: Path, memory_bytes: int) -> None:
    values = [
        -(2**63),
        2**64 - 1,
        2**64,
        -(10**40),
        "\ud800",
        "é\0",
        b"\xff",
        -0.0,
        1e300,
        True,
        None,
        {"": [{}], "\udfff": 1},
    ]
    spans = [span(number, attributes={"value": value}) for number, value in enumerate(values)]
    event = log(0, name="lone \udfff")
    [[first, *others]] = spooled([*spans, event], memory_bytes, tmp_path).values()
    assert first == dataclasses.replace(spans[0], logs=(event,))
    assert [str(item.attributes) for item in others] == [str(item.attributes) for item in spans[1:]]


def test_values_may_be_nested_deeper_than_calls_may_be(tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(1500):
        deep = [deep]
    [[loaded]] = spooled([span(0, attributes={"deep": deep})], 0, tmp_path).values()
    depth, found = 0, loaded.attributes["deep"]
    while found:
        depth, found = depth + 1, found[0]
    assert depth == 1500


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_what_is_no_data_or_nests_without_end_is_cut_and_stops_nothing(memory_bytes: int, tmp_path: Path) -> None:
    deep: object = "bottom"
    for _ in range(5000):
        deep = [deep]
    attributes = {"deep": deep, "a path": tmp_path, "text": "kept", "many": {(1, 2): {3}}}
    bad = dataclasses.replace(span(0, attributes=attributes), resource={"service.name": "bot", "deep": deep})
    [[loaded, other]] = spooled([bad, span(1, attributes={"text": "too"})], memory_bytes, tmp_path).values()

    assert "(nested too deeply)" in str(loaded.attributes["deep"])
    assert "(nested too deeply)" in str(loaded.resource["deep"])
    assert (loaded.attributes["text"], loaded.resource["service.name"]) == ("kept", "bot")
    assert (loaded.attributes["a path"], loaded.attributes["many"]) == (str(tmp_path), {"(1, 2)": [3]})
    assert other.attributes == {"text": "too"}


def test_adding_after_loading_goes_on(tmp_path: Path) -> None:
    with SpanSpool(500, tmp_path) as spool:
        spool.add(span(0))
        assert len(spool.load(trace(0))) == 1
        for number in range(1, 20):
            spool.add(span(number))
            assert len(spool.load(trace(0))) == number + 1
        assert spool.load("f" * 32) == []
        assert spool.load([]) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc to see open files")
def test_its_files_are_private_and_gone_afterwards(tmp_path: Path) -> None:
    with SpanSpool(0, tmp_path) as spool:
        spool.add(span(0))
        assert list(tmp_path.iterdir()) == [], "not even a kill leaves anything"
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        files = [link for link in links if os.path.lexists(link) and str(tmp_path) in os.readlink(link)]
        assert [stat.S_IMODE(os.stat(file).st_mode) for file in files] == [0o600]
        assert spool.load(trace(0)) == [span(0)]
    assert list(tmp_path.iterdir()) == []
    spool.close()


def test_small_input_touches_no_disk(tmp_path: Path) -> None:
    with SpanSpool(1 << 20, tmp_path) as spool:
        spool.add(span(0))
        assert spool.load(spool.trace_ids())
        assert list(tmp_path.iterdir()) == []


def test_its_files_are_gone_after_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(AttributeError), SpanSpool(0, tmp_path) as spool:
        [spool.add(item) for item in (span(0), None)]  # type: ignore[func-returns-value, list-item]
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_says_what_to_do(tmp_path: Path) -> None:
    with SpanSpool(0, tmp_path / "missing") as spool, pytest.raises(SourceError, match="TMPDIR"):
        spool.add(span(0))
