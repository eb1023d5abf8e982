"""`inspect`: what a new user sees first, and what it tells them to change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from otel_drift.model import Session
from otel_drift.report.inspection import print_inspection_totals, print_session
from report import samples
from report.terminal import HIDDEN, printed, uncoloured


def show(session: Session, **console: object) -> str:
    return printed(lambda on: print_session(on, session), **console)  # type: ignore[arg-type]


def test_a_session_shows_its_turns_states_passages_and_where_they_were_read() -> None:
    text = show(samples.session(), terminal=False)
    assert "chat-7f31  5 turns, 4 answered, 2 passages" in text
    assert "hut-bookings · production · user ada · 1 trace" in text
    assert "model gpt-4o-mini · read as openinference" in text
    assert "1 passage retrieved, read from retriever spans" in text
    assert "doc-1  Guide 1 (guide/1.md)  70 chars" in text
    assert "no answer: the call failed (HTTP 500)" in text
    assert "the retriever returned nothing" in text


def test_what_is_missing_comes_with_turns_and_the_setting_that_captures_it() -> None:
    lines = show(samples.session(), terminal=False).splitlines()
    start = next(i for i, line in enumerate(lines) if "missing in this session" in line)
    assert "passages have no ids  (OpenInference, turns 1 to 3, 5)" in lines[start + 1]
    assert "→ set `include_ids=True`" in lines[start + 2]


def test_gaps_are_named_with_their_turns_where_no_remedy_is_known() -> None:
    blind = samples.turn(1, None, None, retrieval="not_captured")
    turns = (blind, replace(blind, number=2), samples.turn(3, "q", "a", retrieval="ids_only"))
    text = show(replace(samples.session(), turns=turns, hints=()), terminal=False)
    assert "◆ the user's messages  (turns 1, 2)" in text
    assert "◆ the answers  (turns 1, 2)" in text
    assert "◆ the texts of the retrieved passages  (turn 3)" in text
    assert "missing" not in show(replace(samples.session(), hints=()), terminal=False)


def test_passages_of_mixed_origin_say_each_where_they_were_read() -> None:
    mixed = (
        samples.passage(1, "text", 1, read_from="tool"),
        samples.passage(2, None, 1, read_from="prompt", own_id=False),
    )
    turns = (samples.turn(1, "q", "a", *mixed),)
    text = show(replace(samples.session(), turns=turns), terminal=False)
    assert "4 chars, from tool results" in text
    assert "text not captured, from the prompt, numbered here: the trace has no id" in text


def test_different_models_are_named_at_their_turn() -> None:
    one, two, *_ = samples.session().turns
    text = show(replace(samples.session(), turns=(one, replace(two, model="other-model"))), terminal=False)
    assert "by gpt-4o-mini" in text
    assert "by other-model" in text


def test_regenerated_answers_and_a_missing_session_id_are_said() -> None:
    one = samples.session(None).turns[0]
    session = replace(samples.session(None), turns=(replace(one, alternatives=(one,)),))
    text = show(session, terminal=False)
    assert f"{samples.TRACE}  (no session id)" in text
    assert "1 other answer to this message" in text


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("session", [samples.session(), samples.hostile().session])
def test_no_line_is_wider_than_the_terminal(session: Session, width: int) -> None:
    assert max(map(cell_len, uncoloured(show(session, width=width)).splitlines())) <= width


@pytest.mark.parametrize("terminal", [True, False])
def test_hostile_text_steers_no_terminal(terminal: bool) -> None:
    text = uncoloured(show(samples.hostile().session, terminal=terminal))
    assert not HIDDEN.search(text)
    assert "␛" in text


def test_totals_name_broken_records() -> None:
    text = printed(
        lambda on: print_inspection_totals(on, spans=12_345, sessions=3, turns=14, problems=2, files=4), terminal=False
    )
    assert "12,345 spans in 4 files · 3 sessions · 14 turns" in text
    assert "2 broken records passed over" in text


def test_an_empty_result_says_what_was_expected() -> None:
    nothing = printed(lambda on: print_inspection_totals(on, spans=0, sessions=0, turns=0), terminal=False)
    no_chat = printed(lambda on: print_inspection_totals(on, spans=7, sessions=0, turns=0), terminal=False)
    assert "Expected OTLP JSON" in nothing
    assert "No chat found in these spans" in no_chat
