"""What attribute names say is worked out once for each set of names, and remembered within bounds."""

from __future__ import annotations

import tracemalloc

import pytest

from otel_drift import normalise
from otel_drift.model import Span
from otel_drift.normalise import identify, read


def span(**attributes: object) -> Span:
    return Span("t", "s", None, "call", 0, 1, {"openinference.span.kind": "LLM", **attributes})


def test_spans_of_the_same_names_share_a_shape_and_keep_their_values() -> None:
    names = ("llm.input_messages.10.message.content", "llm.input_messages.9.message.content")
    one, other = (read(span(**dict.fromkeys(names, text))) for text in ("one", "other"))
    assert one.shape is other.shape
    assert [m.text for m in one.input_messages or ()] == ["one", "one"]
    assert [m.text for m in other.input_messages or ()] == ["other", "other"]


def test_messages_come_in_the_order_of_their_numbers() -> None:
    texts = {f"llm.input_messages.{n}.message.content": str(n) for n in (10, 9, 1, 0)}
    assert [m.text for m in read(span(**texts)).input_messages or ()] == ["0", "1", "9", "10"]


def test_names_that_never_come_again_take_no_more_memory_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalise, "MAX_NAMES", 60)
    for number in range(100):
        read(span(**{f"custom.{number}": number}))
        assert sum(map(len, normalise._shapes)) <= 60
    read(span(**{f"custom.{number}": number for number in range(100)}))  # one that is larger still is read
    assert len(normalise._shapes) == 1


def test_names_as_long_as_a_request_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalise, "_shapes", {})
    monkeypatch.setattr(normalise, "_names", 0)

    def read_many(numbers: range) -> int:
        for number in numbers:
            longs = {f"user.{number}.{place}.{'x' * 200_000}": "u" for place in range(3)}
            spans = [Span("t", "s", None, "call", 0, 1, longs, {"service.name": "a"}, "scope")]
            spans.append(Span("t", "s", None, "call", 0, 1, {}, longs, f"{number}{'y' * 200_000}"))
            for one in spans:
                identify(one)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = read_many(range(20))
        assert read_many(range(20, 100)) - before < 16_000_000  # of 64 MB sent
    finally:
        tracemalloc.stop()
