"""Messages that a session resends with every call are read once, and as if each call were read alone."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from otel_drift.model import Span
from otel_drift.normalise import Step, messages, read
from otel_drift.normalise.messages import messages_in, read_messages
from otel_drift.normalise.remembered import forget
from otel_drift.normalise.step import ChatMessage

KEY = "gen_ai.input.messages"
ASKED = [{"role": "user", "content": "one?"}, {"role": "assistant", "content": "One."}]


def _step(text: str) -> Step:
    return read(Span("t", "s", None, "chat", 0, 1, {KEY: text}))


def _read(text: str) -> tuple[ChatMessage, ...]:
    return messages_in(_step(text), KEY, "user")


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_what_was_given_before_is_not_parsed_again(
    separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def loads(text: str) -> Any:
        parsed.append(text)
        return json.loads(text)

    monkeypatch.setattr(messages, "orjson", SimpleNamespace(loads=loads, JSONDecodeError=ValueError))
    forget()
    further = {"role": "user", "content": "two?"}
    first, second = json.dumps(ASKED, separators=separators), json.dumps([*ASKED, further], separators=separators)
    assert _read(second[: len(first) - 1] + "]") == read_messages(ASKED)
    assert _read(second) == read_messages([*ASKED, further])
    assert [json.loads(text) for text in parsed] == [ASKED, [further]]


@pytest.mark.parametrize(
    "more",
    [
        ',"said as text"]',
        ',["a list", "of texts"]]',
        ',{"type": "tool_call", "id": "c", "name": "look", "arguments": {"at": 1}}]',
        ",{}]",
        ',{"messages": [{"role": "user", "content": "inside"}]}]',
        ',{"role": "user", "content": "not a num", "score": NaN}]',
        ",]",
        "]]",
        "]",
        '"]',
        ',{"role": "user", "content": "cut',
    ],
)
def test_a_longer_list_reads_as_it_does_alone(more: str) -> None:
    text = json.dumps(ASKED)[:-1] + more
    forget()
    alone = read_messages(_step(text).json(KEY), "user")
    forget()
    assert _read(json.dumps(ASKED)) == read_messages(ASKED)
    assert _read(text) == alone


def test_a_list_that_is_cut_just_before_the_end_of_an_earlier_one_reads_as_it_does_alone() -> None:
    whole = json.dumps([*ASKED, ["a list"]])
    forget()
    alone = read_messages(_step(whole[:-1]).json(KEY), "user")
    forget()
    assert _read(whole) == read_messages([*ASKED, ["a list"]])
    assert _read(whole[:-1]) == alone


def test_nothing_is_kept_for_the_next_session() -> None:
    _read(orjson.dumps(ASKED).decode())
    forget()
    assert not messages._begun
