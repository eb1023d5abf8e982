"""Which sessions are audited: time, settling, turns, flags, filters, and flagged ones first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger_samples import session
from otel_drift.errors import ConfigError
from otel_drift.feedback import is_negative
from otel_drift.links import Links
from otel_drift.model import Session
from otel_drift.protocols import Window
from otel_drift.selection import Choice, Selection

MINUTE = 60 * 10**9
NOW = 10_000 * MINUTE


def at(name: str, ended: int, *, turns: int = 3, **last: object) -> Session:
    """A session of turns a minute long, the last of which ends so many minutes ago."""
    made = session(key=name, session_id=name, turns=turns)
    end = NOW - ended * MINUTE
    timed = [
        replace(turn, started=end - (turns - number) * MINUTE, ended=end - (turns - number - 1) * MINUTE)
        for number, turn in enumerate(made.turns)
    ]
    timed[-1] = replace(timed[-1], **last)  # type: ignore[arg-type]
    return replace(made, turns=tuple(timed))


def chosen(selection: Selection, *sessions: Session) -> list[str | None]:
    return [one.session_id for one in Choice(selection, NOW).of(sessions)]


def test_everything_is_chosen_where_nothing_is_asked_for() -> None:
    assert chosen(Selection(), at("a", 0), at("b", 900)) == ["a", "b"]


def test_a_session_that_reaches_into_the_window_is_chosen() -> None:
    window = Window(NOW - 100 * MINUTE, NOW - 10 * MINUTE)
    sessions = [at("before", 101), at("into", 99), at("across", 9), at("after", 5)]

    assert chosen(Selection(window), *sessions) == ["into", "across"]


def test_a_young_session_waits_and_is_remembered() -> None:
    choice = Choice(Selection(settle=15 * MINUTE), NOW)

    assert [one.session_id for one in choice.of([at("old", 16), at("young", 14), at("younger", 1)])] == ["old"]
    assert choice.left_out == {"waiting": 2}
    assert choice.oldest_waiting == NOW - 17 * MINUTE


def test_a_session_asked_for_by_name_is_chosen_whenever_it_was() -> None:
    window = Window(0, 1, sessions=("b",))

    assert chosen(Selection(window), at("a", 5), at("b", 500)) == ["b"]


def test_a_session_asked_for_that_does_not_come_is_missing() -> None:
    choice = Choice(Selection(Window(0, 1, sessions=("b", "nowhere"))), NOW)

    list(choice.of([at("b", 5)]))

    assert choice.missing == {"nowhere"}


def test_turns_or_flags() -> None:
    many, few = at("many", 5), at("few", 5, turns=2)
    failed = at("failed", 5, turns=2, error="boom")
    unhappy = at("unhappy", 5, turns=2, feedback="helpful: thumbs down")
    tagged = at("tagged", 5, turns=2, tags=("vip",))
    everyone = (many, few, failed, unhappy, tagged)

    assert chosen(Selection(min_turns=3), *everyone) == ["many"]
    assert chosen(Selection(min_turns=3, flags=("error", "feedback")), *everyone) == ["many", "failed", "unhappy"]
    assert chosen(Selection(flags=("tag:vip",)), *everyone) == ["tagged"]
    assert chosen(Selection(flagged_first=True), *everyone) == ["failed", "unhappy", "many", "few", "tagged"]


def test_filters_hold_whatever_the_source_let_through() -> None:
    hers = replace(at("hers", 5, tags=("a", "b")), user="ann", environment="production")
    his = replace(at("his", 5, tags=("a",)), user="bob", environment="staging")

    def window(**changes: tuple[str, ...]) -> Selection:
        return Selection(Window(0, NOW, **changes))  # type: ignore[arg-type]

    assert chosen(window(users=("ann",)), hers, his) == ["hers"]
    assert chosen(window(environments=("staging", "test")), hers, his) == ["his"]
    assert chosen(window(tags=("a",)), hers, his) == ["hers", "his"]
    assert chosen(window(tags=("a", "b")), hers, his) == ["hers"]


def test_an_unknown_flag_is_an_error() -> None:
    with pytest.raises(ConfigError, match="feedback, error or tag:NAME"):
        Selection(flags=("angry",))


@pytest.mark.parametrize(
    "text",
    ["thumbs: down", "score: 0", "-1", "stars: 2", "Rating: 1.0", "was it right: No", "👎", "ok: false (no: at all)"],
)
def test_complaints(text: str) -> None:
    assert is_negative(text)


@pytest.mark.parametrize("text", [None, "", "thumbs: up", "score: 1", "stars: 4", "comment: this is bad news for me"])
def test_no_complaints(text: str | None) -> None:
    assert not is_negative(text)


def test_one_complaint_among_several_lines_counts() -> None:
    assert is_negative("stars: 5\nhelpful: false")


def test_links_quote_what_comes_from_traces() -> None:
    links = Links("https://x.example/t/{trace_id}?s={span_id}", "https://x.example/s/{session_id}")

    assert links.span("ab:cd") == "https://x.example/t/ab?s=cd"
    assert links.session("a/../b?javascript:") == "https://x.example/s/a%2F..%2Fb%3Fjavascript%3A"
    assert Links().span("ab:cd") is None
    assert links.session(None) is None
