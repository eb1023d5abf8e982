"""Records come back from bytes as they went in, whatever they hold; what was packed long ago can still be read."""

from __future__ import annotations

import base64
import math
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inbox_contract import turn
from otel_drift.errors import LedgerError
from otel_drift.inbox.packing import pack, unlike, unpack
from otel_drift.model import LogRecord, Record, Span, SpanEvent

SOAK = bool(os.environ.get("OTEL_DRIFT_SOAK"))

texts = st.text(st.characters(), max_size=8) | st.sampled_from(["\ud800", "\0", "$", "🙂"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
attributes = st.dictionaries(texts, values, max_size=4)
logs = st.builds(LogRecord, st.just("trace"), texts, texts, st.integers(0, 2**64), values, attributes, texts)
spans = st.builds(
    Span,
    st.just("trace"), texts, st.none() | texts, texts, st.integers(0, 2**64), st.integers(0, 2**64), attributes,
    attributes, texts, st.integers(0, 5), st.sampled_from(["unset", "ok", "error"]), texts,
    st.lists(st.builds(SpanEvent, texts, st.integers(0, 2**64), attributes), max_size=2).map(tuple),
    st.lists(logs, max_size=2).map(tuple),
)  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types; NaN equals NaN."""
    return repr(one) == repr(other)


@settings(max_examples=500 if SOAK else 80)
@given(st.lists(spans | logs, max_size=4))
def test_records_come_back_as_they_went_in(records: list[Record]) -> None:
    expected = [r for r in records if isinstance(r, Span)] + [r for r in records if isinstance(r, LogRecord)]
    assert same(list(unpack("trace", pack(records))), expected)


@settings(max_examples=500 if SOAK else 50)
@given(st.lists(spans | logs, max_size=4))
def test_what_is_kept_already_is_recognised(records: list[Record]) -> None:
    assert unlike(records, unpack("trace", pack(records))) == []
    assert len(unlike(records, [])) == len({repr(record) for record in records})


def test_what_nests_without_end_is_cut() -> None:
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    (span,) = unpack("trace", pack([turn("trace", attributes={"deep": deep, "text": "kept"})]))
    assert span.attributes["text"] == "kept"
    assert "(nested too deeply)" in str(span.attributes["deep"])


def test_spans_of_one_process_share_their_resource() -> None:
    alone = len(pack([turn(1)]))
    assert len(pack([turn(1, span=number) for number in range(50)])) < 5 * alone


PLAIN_OF_OLD = (
    "UHgBNY5BDsIwDAT/smerIkVc8pUqhxAsQCpJ5bQIiPJ3bFR8nB3tukG4lk0SV/ipobI874mHHB8Mj3NZ0QOhLjGbMKE60IGQbnEFORqpIZoIQl"
    "ZByXCivM0zrbJx6CbXVBYGHQksUsTUAtIyhU4LXvCuh2DE6jEb1u3LG5q+4cdO+CDoaViu+yfjX/3Ntd3pX5IFPmY="
)
TAGGED_OF_OLD = (
    "VHgBPU9LDoIwEL3LC8sxtqF8NOEk2AVgURNsCaUxhnB3p4osZpJ538yCyXgXps54nOtl1QQ/NjYeNbwEYeTp7s0MkiRLpfJCKVGkhThlmcxlTg"
    "sSVuPZsJJNLf5I+545lXB8VRU0R9fod7IfXMzE4WH7jUx2csuSBGcNtP6Zo/wSrqUQX4gEAXEF603kuJ47WE0Y3C2+oNcPj5U+bw=="
)


def test_what_was_packed_long_ago_can_be_read() -> None:
    log = LogRecord("trace", "s1", "l", 1, "body", {"y": 2}, "z")
    event = SpanEvent("e", 1, {"x": 1})
    given, resource = {"a": "b", "n": [1, 2.5, None, True]}, {"service.name": "bot"}
    span = Span("trace", "s1", None, "chat", 1, 2, given, resource, "scope", 3, "error", "no", (event,), (log,))
    odd: Any = {"b": b"\xff", "f": -math.inf, "$": {1: "one"}, "t": "\ud800"}

    assert list(unpack("trace", base64.b64decode(PLAIN_OF_OLD))) == [
        span, LogRecord("trace", "s2", "l", 1, None, {}, "z"),
    ]  # fmt: skip
    assert list(unpack("trace", base64.b64decode(TAGGED_OF_OLD))) == [Span("trace", "s1", "p", "chat", 1, 2**64, odd)]


@pytest.mark.parametrize("payload", [b"", b"P", b"T", b"Pjunk", pack([turn(1)])[:-5]])
def test_a_damaged_one_is_told(payload: bytes) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        list(unpack("trace", payload))


def test_a_newer_form_is_told() -> None:
    with pytest.raises(LedgerError, match="newer otel-drift"):
        list(unpack("trace", b"Z" + pack([turn(1)])[1:]))


def test_infinity_and_its_likes_are_numbers() -> None:
    (span,) = unpack("trace", pack([turn("trace", attributes={"a": [math.inf, -math.inf], "b": {"c": math.nan}})]))
    assert isinstance(span, Span)
    assert span.attributes["a"] == [math.inf, -math.inf]
    assert math.isnan(span.attributes["b"]["c"])
