"""The work of rebuilding one session grows with its turns, not with their square.

An application that always sends the same session id has one session of thousands of turns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from otel_drift.model import Session, Span
from otel_drift.sessions import reconstruct

SECOND = 10**9
START = 1_700_000_000 * SECOND
TURNS = 300
STEPS_OF = ("assemble", "branches", "contained", "duplicates", "owners", "succession", "varying")


def one_after_another(count: int) -> list[Span]:
    return [_chat(i, i * SECOND, SECOND // 2, f"question {i}", f"answer {i}") for i in range(count)]


def at_one_time(count: int) -> list[Span]:
    return [_chat(i, i, SECOND, f"question {i}", f"answer {i}") for i in range(count)]


def all_answered_alike(count: int) -> list[Span]:
    return [_chat(i, i, SECOND, f"question {i:05}", "You have 30 days.") for i in range(count)]


def all_asked_alike(count: int) -> list[Span]:
    return [_chat(i, i * SECOND, SECOND // 2, "hi", "hello") for i in range(count)]


def an_outage(count: int) -> list[Span]:
    return [_chat(i, i * SECOND, SECOND // 2, f"question {i}", None) for i in range(count)]


def beside_a_long_one(count: int) -> list[Span]:
    long = _chat(count, 0, count * SECOND, "the first question", "the first answer")
    parts = [_search(count + 1 + i, i * SECOND + 1, SECOND // 2, f"words {i}") for i in range(count)]
    return [long, *one_after_another(count), *parts]


def conversations_at_one_time(count: int) -> list[Span]:
    begun = [_chat(i, i, SECOND, "hi", f"hello {i}") for i in range(count // 2)]
    went_on = [
        _chat(count + i, 2 * SECOND + i, SECOND, f"question {i}", f"answer {i}", [("hi", f"hello {i}")])
        for i in range(count // 2)
    ]
    return [*begun, *went_on]


def begun_alike(count: int) -> list[Span]:
    """Every second turn resends the same question and answer, which as many turns hold, some of them later."""
    begun = [_chat(i, 4 * i * SECOND // 2, SECOND // 2, "hi", "hello") for i in range(count // 2)]
    went_on = [
        _chat(count + i, 4 * i * SECOND // 2 - SECOND, SECOND // 2, f"question {i}", f"answer {i}", [("hi", "hello")])
        for i in range(count // 2)
    ]
    return [*begun, *went_on]


@pytest.mark.parametrize(
    "session_of",
    [
        one_after_another,
        at_one_time,
        all_answered_alike,
        all_asked_alike,
        an_outage,
        beside_a_long_one,
        conversations_at_one_time,
        begun_alike,
    ],
)
def test_twice_the_turns_take_about_twice_the_work(session_of: Callable[[int], list[Span]]) -> None:
    half, some = _lines(session_of(TURNS))
    whole, all_of_them = _lines(session_of(2 * TURNS))
    assert [len(s) for s in (some, all_of_them)] == [1, 1]
    assert len(all_of_them[0].turns) >= TURNS
    assert whole <= 3 * half


def test_twice_the_users_of_one_session_id_take_about_twice_the_work() -> None:
    def of_users(count: int) -> list[Span]:
        users = [{**span.attributes, "user.id": f"u{i}", "tenant.id": "acme"} for i, span in enumerate(spans)]
        return [replace(span, attributes=user) for span, user in zip(spans[:count], users[:count], strict=True)]

    spans = one_after_another(2 * TURNS)
    half, some = _lines(of_users(TURNS))
    whole, all_of_them = _lines(of_users(2 * TURNS))
    assert (len(some), len(all_of_them)) == (TURNS, 2 * TURNS)
    assert whole <= 3 * half


def _lines(spans: Sequence[Span]) -> tuple[int, list[Session]]:
    """How many lines of the modules that put turns in order run, and the sessions."""
    modules = {f"otel_drift.sessions.{name}" for name in STEPS_OF}
    lines = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        return count if frame.f_globals.get("__name__") in modules else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        sessions = reconstruct(spans)
    finally:
        sys.settrace(before)
    return lines, sessions


def _chat(
    number: int, start: int, length: int, asked: str, said: str | None, before: Sequence[tuple[str, str]] = ()
) -> Span:
    messages = [m for q, a in before for m in (_message("user", q), _message("assistant", a))]
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([*messages, _message("user", asked)]),
    }
    if said is not None:
        attributes["gen_ai.output.messages"] = json.dumps([_message("assistant", said)])
    return _span(number, start, length, attributes, status="error" if said is None else "unset")


def _search(number: int, start: int, length: int, query: str) -> Span:
    found = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": query,
        "retrieval.documents.0.document.content": "d",
    }
    return _span(number, start, length, found)


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _span(number: int, start: int, length: int, attributes: dict[str, Any], status: Any = "unset") -> Span:
    begin = START + start
    return Span(
        f"{number + 1:032x}",
        f"{number + 1:016x}",
        None,
        "op",
        begin,
        begin + length,
        {"session.id": "always the same", **attributes},
        {"service.name": "shop"},
        status=status,
    )
