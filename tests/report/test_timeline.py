"""The timeline in the terminal: everything a person needs to check a finding, safe and legible everywhere."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from otel_drift.model import Unit
from otel_drift.report.timeline import print_totals, print_unit
from report import samples
from report.terminal import HIDDEN, printed, uncoloured

TOTALS = {
    "units": 1234,
    "outcomes": {"findings": 3, "clean": 1229, "inconclusive": 2},
    "severities": {"CRITICAL": 1, "MINOR": 4},
    "types": {"CONTRADICTION": 2, "ENTITY_SHIFT": 3},
    "calls": 1232,
    "tokens": {"input": 1_234_567, "output": 89},
    "cost": 1.5,
}


def show(unit: Unit, **console: object) -> str:
    return printed(lambda on: print_unit(on, unit), **console)  # type: ignore[arg-type]


def test_an_event_shows_both_claims_with_quotes_evidence_and_span_references() -> None:
    lines = show(samples.unit(), terminal=False).splitlines()
    start = next(i for i, line in enumerate(lines) if "CRITICAL  CONTRADICTION" in line)
    event = lines[start : start + 9]

    assert "suspected · confidence 0.81 · likely cause: retrieval gap" in event[1]
    assert "earlier  turn 1  “A night at the hut costs 24 EUR”  grounded" in event[2]
    assert "evidence doc-1  “A night at the hut costs 24 EUR.”" in event[3]
    assert f"{samples.TRACE}:{1:016x}" in event[4]
    assert "later    turn 3  “The night costs 30 EUR each”  unsupported" in event[5]
    assert f"{samples.TRACE}:{3:016x}" in event[6]
    assert "A possible contradiction." in event[7]
    assert "event-4" in event[8]


def test_turns_come_in_order_with_user_answer_retrieval_state_and_what_follows() -> None:
    text = show(samples.unit(), terminal=False)

    order = ["What does a night cost?", "1 passage retrieved", "↳ contradiction in turn 3", "Is breakfast included?"]
    order += ["And for two members?", "the retriever returned nothing", "Are dogs allowed?", "HTTP 500", "Thanks!"]
    positions = [text.index(words) for words in order]
    assert positions == sorted(positions)


def test_the_judge_and_what_it_is_are_named() -> None:
    assert "judge rules · Embedded judge: sees words, not meaning. · 1 call, 1,545 tokens, $0.0021" in show(
        samples.unit(), terminal=False
    )


def test_a_qualifier_left_out_is_a_note_and_no_event() -> None:
    assert "note    the passage says “usually”, the answer does not" in show(samples.unit(), terminal=False)


def test_arcs_link_the_turns_that_contradict_each_other() -> None:
    lines = uncoloured(show(samples.unit())).splitlines()
    markers = next(i for i, line in enumerate(lines) if "●───" in line)

    assert lines[markers].split() == ["●───────●───────✖───────×───────◆"]
    assert {line.strip() for line in lines[markers + 1 : markers + 3]} == {
        "╰───────────────╯ contradiction",
        "╰───────────────╯ dropped qualification",
    }
    assert all(lines[markers].index("●") == line.index("╰") for line in lines[markers + 1 : markers + 3])


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize(
    "unit", [samples.unit(), samples.hostile(), samples.clean(), samples.quiet("inconclusive", "answer_schema")]
)
def test_no_line_is_wider_than_the_terminal(unit: Unit, width: int) -> None:
    lines = uncoloured(show(unit, width=width)).splitlines()
    assert max(map(cell_len, lines)) <= width


def test_words_tell_what_colours_tell() -> None:
    plain = show(samples.unit(), colour=False)
    assert not re.search(r"\x1b\[[\d;]*[34]\dm", plain)  # weights may stay, colours not
    for word in ("CRITICAL", "MAJOR", "MINOR", "grounded", "unsupported", "CONTRADICTION"):
        assert word in plain


def test_piped_text_has_no_codes_no_boxes_and_no_wrapped_references() -> None:
    text = show(samples.unit(), terminal=False, width=60)
    assert "\x1b" not in text
    assert not set("│─╰╯█") & set(text)
    assert sum(f"{samples.TRACE}:" in line for line in text.splitlines()) == 5


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_hostile_text_steers_no_terminal(terminal: bool, width: int) -> None:
    text = uncoloured(show(samples.hostile(), terminal=terminal, width=width))
    assert not HIDDEN.search(text)
    assert "␛" in text
    assert "\\u202e" in text


def test_markup_of_rich_in_trace_text_is_shown_as_it_is() -> None:
    unit = samples.hostile("[bold red]markup[/] :smile: [link=http://evil.example]x[/link] [/nope]")
    text = "".join(show(unit, width=200, terminal=False).split())
    assert "[boldred]markup[/]:smile:[link=http://evil.example]x[/link][/nope]" in text
    assert "evil.example" not in "".join(code for code in show(unit).split("\x1b") if code.startswith("]8"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_an_output_that_cannot_hold_the_signs_still_gets_the_text(encoding: str) -> None:
    for terminal in (True, False):
        text = show(samples.unit(), terminal=terminal, encoding=encoding)
        assert "CONTRADICTION" in text
        assert "24 EUR" in text
        assert not re.search(r"\\u2[0-9a-f]{3}", text)


def test_long_sessions_fold_turns_without_findings() -> None:
    unit = samples.unit()
    extra = tuple(samples.turn(number, f"question {number}", "yes") for number in range(6, 40))
    unit = replace(unit, session=replace(unit.session, turns=unit.session.turns + extra))
    text = show(unit, terminal=False)
    assert "turns 6 to 39: nothing found" in text
    assert "question 20" not in text


@pytest.mark.parametrize(("turns", "rows"), [(20, 1), (100, 5), (5_000, 0)])
def test_long_sessions_are_drawn_in_rows_and_very_long_ones_not_at_all(turns: int, rows: int) -> None:
    unit = samples.unit()
    extra = tuple(samples.turn(number, "q", "a") for number in range(6, turns + 1))
    unit = replace(unit, session=replace(unit.session, turns=unit.session.turns + extra))
    lines = uncoloured(show(unit)).splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert sum("●──●" in line for line in lines) == rows
    assert ("5,000 turns, too many to draw" in "".join(lines)) == (rows == 0)


def test_a_clean_session_takes_a_few_lines() -> None:
    text = show(samples.clean(), terminal=False)
    assert "✓ clean" in text
    assert "6 claims checked: 2 grounded, 1 partially grounded, 3 unsupported" in text
    assert len(text.splitlines()) < 9


def test_an_outcome_without_a_verdict_gives_its_reason_in_words() -> None:
    text = show(samples.quiet("inconclusive", "answer_schema: claims.0"), terminal=False)
    assert "answer_schema: claims.0: the judge's answer did not have the asked-for form" in text
    assert "clean" not in text
    assert "not applicable" in show(samples.quiet("not_applicable", "single_turn"), terminal=False)


def test_findings_of_an_audit_without_events_of_its_own_are_shown_too() -> None:
    unit = samples.unit(report={"conflicts": []}, findings=(samples.finding(),), severity="MAJOR")
    text = show(unit, terminal=False)
    assert "MAJOR  CONTRADICTION" in text
    assert "earlier  turn 1  “24 EUR”" in text


def test_totals_count_by_severity_and_type_and_never_hide_the_inconclusive() -> None:
    text = printed(lambda on: print_totals(on, TOTALS), terminal=False)
    assert "1,234 sessions audited" in text
    assert "3 with findings, 1,229 clean, 2 inconclusive" in text
    assert "inconclusive is not clean: 2 sessions could not be judged" in text
    assert "1,232 judge calls, 1,234,567 tokens in, 89 out, $1.50" in text
    rows = {" ".join(line.split()) for line in text.splitlines()}
    assert {"✖ CRITICAL 1", "◆ MINOR 4", "entity shift 3", "contradiction 2"} <= rows


def test_sessions_are_counted_not_the_checks_of_them() -> None:
    totals = {**TOTALS, "units": 56, "sessions": 5}
    text = printed(lambda on: print_totals(on, totals), terminal=False)
    assert "5 sessions audited in 56 checks" in text
    assert "checks could not be judged" in text
    assert "sessions could not be judged" not in text


def test_totals_of_nothing_are_short_and_claim_nothing() -> None:
    text = printed(lambda on: print_totals(on, {"units": 0, "outcomes": {}, "calls": 0}), terminal=False)
    assert "0 sessions audited" in text
    assert "clean" not in text


@pytest.mark.parametrize("width", [60, 200])
def test_totals_fit_the_terminal(width: int) -> None:
    def show_totals(on: Console) -> None:
        print_totals(on, TOTALS)

    assert max(cell_len(line) for line in uncoloured(printed(show_totals, width=width)).splitlines()) <= width


def test_a_long_note_on_the_judge_stands_under_the_totals_and_its_beginning_under_a_session() -> None:
    note = "lexical heuristics, no language understanding; use an LLM judge for verdicts that matter"
    shown = show(samples.unit(judge_note=note), terminal=False)
    assert "judge rules · lexical heuristics" in shown
    assert "no language understanding" not in shown


def test_each_result_says_which_audit_it_is_and_which_turn_it_looked_at() -> None:
    whole, turns = samples.clean(), samples.clean().session.turns
    one = replace(whole, audit="source_conflict", session=replace(whole.session, turns=turns[2:3]))
    assert f"\n   factual_drift · {len(turns)} turns · " in show(whole, terminal=False)
    assert "\n   source_conflict · turn 3 · " in show(one, terminal=False)


def test_piped_lines_end_without_spaces() -> None:
    text = printed(lambda on: print_totals(on, TOTALS), terminal=False) + show(samples.unit(), terminal=False)
    assert not [line for line in text.splitlines() if line.endswith(" ")]


def test_one_turn_alone_is_not_drawn_as_a_strip() -> None:
    unit = samples.unit()
    alone = replace(unit, session=replace(unit.session, turns=unit.session.turns[2:3]))
    assert len(uncoloured(show(alone)).splitlines()) < len(uncoloured(show(unit)).splitlines())
    assert not [line for line in uncoloured(show(alone)).splitlines() if line.strip() == "✖"]
    assert "✖ CRITICAL" in uncoloured(show(alone))
