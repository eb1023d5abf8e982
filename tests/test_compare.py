"""Comparison of runs: right intervals, honest decisions, and the commands."""

from __future__ import annotations

import json
import math
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_drift.comparison import Rate, compare, newcombe, sessions_needed, wilson
from otel_drift.grouping import NO_PASSAGE, grouped

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def member(number: int, drifts: bool, **changes: Any) -> dict[str, Any]:
    found = [{"type": "CONTRADICTION", "severity": "MAJOR"}] if drifts else []
    turn = {"app_version": "1", "prompt_name": "answer", "prompt_version": "3", "model": "gpt-x"}
    made = {
        "unit_id": f"u{number}",
        "audit": "factual_drift",
        "session_key": f"s{number}",
        "outcome": "findings" if drifts else "clean",
        "judge": "rules",
        "prompts": ["factual_drift/session v1 ae109de7"],
        "turns": [turn],
        "findings": found,
    }
    return {**made, **changes}


def run_of(found: int, sessions: int, start: int = 0, **changes: Any) -> list[dict[str, Any]]:
    return [member(start + n, n < found, **changes) for n in range(sessions)]


def row(compared: dict[str, Any], dimension: str, value: str) -> dict[str, Any]:
    (found,) = [one for one in compared["rows"] if (one["dimension"], one["value"]) == (dimension, value)]
    return found


@pytest.mark.parametrize(
    ("found", "sessions", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3 (the score method).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilsons_interval_is_that_of_the_literature(found: int, sessions: int, low: float, high: float) -> None:
    assert wilson(found, sessions) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 873-890, table II, method 10.
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
    ],
)
def test_newcombes_interval_is_that_of_the_literature(
    first: tuple[int, int], second: tuple[int, int], low: float, high: float
) -> None:
    """The paper takes the first minus the second; a run's difference is the later minus the earlier."""
    assert newcombe(Rate(*second), Rate(*first)) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 500), st.integers(1, 500), st.integers(0, 500), st.integers(1, 500))
def test_intervals_hold_what_was_seen(found_a: int, more_a: int, found_b: int, more_b: int) -> None:
    a, b = Rate(found_a, found_a + more_a), Rate(found_b, found_b + more_b)
    assert a.value is not None
    assert b.value is not None
    low, high = newcombe(a, b)

    assert 0 <= a.interval[0] <= a.value <= a.interval[1] <= 1
    assert -1 <= low <= b.value - a.value <= high <= 1
    assert newcombe(b, a) == pytest.approx((-high, -low))


def test_the_interval_of_a_difference_covers_the_truth_about_as_often_as_it_says() -> None:
    chance = random.Random(11)
    hits = 0
    for _ in range(600):
        a = Rate(sum(chance.random() < 0.12 for _ in range(60)), 60)
        b = Rate(sum(chance.random() < 0.2 for _ in range(45)), 45)
        low, high = newcombe(a, b)
        hits += low <= 0.08 <= high

    assert 0.93 <= hits / 600 <= 0.985


@pytest.mark.parametrize(
    ("a", "b", "decision"),
    [
        ((10, 400), (60, 400), "worse"),
        ((60, 400), (10, 400), "better"),
        ((40, 2000), (42, 2000), "no_difference"),
        ((1, 10), (3, 10), "undecided"),
        ((0, 3), (0, 3), "undecided"),
    ],
)
def test_a_decision_is_made_only_where_the_samples_can_tell(
    a: tuple[int, int], b: tuple[int, int], decision: str
) -> None:
    overall = row(compare(run_of(*a), run_of(*b, start=5000)), "overall", "any finding")

    assert overall["decision"] == decision
    assert (overall["sessions_needed"] is not None) == (decision == "undecided")


def test_as_many_sessions_as_are_said_to_be_needed_see_the_difference() -> None:
    """The number is for 80 % power: of many pairs of runs of that size about so many are decided."""
    chance, needed = random.Random(5), sessions_needed(0.1, 0.25)
    decided = 0
    for _ in range(300):
        a = Rate(sum(chance.random() < 0.1 for _ in range(needed)), needed)
        b = Rate(sum(chance.random() < 0.25 for _ in range(needed)), needed)
        decided += newcombe(a, b)[0] > 0

    assert 0.7 <= decided / 300 <= 0.9
    assert math.isclose(needed, 97, abs_tol=5)


def test_a_session_counts_once_and_only_with_a_verdict() -> None:
    twice = [member(1, True), member(1, True, audit="source_conflict", unit_id="u1b")]
    others = [member(2, False), member(3, False, outcome="inconclusive"), member(4, False, outcome="not_applicable")]

    compared = compare([*twice, *others], run_of(0, 5, start=10))

    assert (row(compared, "overall", "any finding")["a"]["found"], compared["a"]["inconclusive"]) == (1, 1)
    assert row(compared, "overall", "any finding")["a"]["sessions"] == 2
    assert row(compared, "audit", "source_conflict")["a"] == Rate(1, 1).record()
    assert any("Inconclusive" in note for note in compared["notes"])


def test_releases_are_told_apart_and_a_value_of_one_run_only_is_not_compared() -> None:
    old = run_of(1, 20)
    new = run_of(9, 20, start=100, turns=[{"app_version": "2", "model": "gpt-x"}])

    compared = compare(old, new)

    assert row(compared, "app_version", "1")["difference"] is None
    assert row(compared, "app_version", "2")["b"]["found"] == 9
    assert row(compared, "model", "gpt-x")["decision"] == "worse"
    assert row(compared, "prompt", "answer 3")["a"]["sessions"] == 20
    assert row(compared, "type", "factual_drift: CONTRADICTION")["b"]["found"] == 9
    assert row(compared, "severity", "MAJOR")["a"]["found"] == 1


def test_what_else_differs_is_said() -> None:
    compared = compare(run_of(1, 4), run_of(1, 4, judge="gpt-5", prompts=["factual_drift/session v2 00000000"]))

    said = " ".join(compared["notes"])
    assert "different judges (rules against gpt-5)" in said
    assert "different prompts" in said
    assert "4 sessions are in both runs" in said
    assert "nothing can be compared" in " ".join(compare(run_of(1, 4), [])["notes"])


def test_one_wrong_document_is_one_line() -> None:
    found = [
        {
            "event_id": f"e{number}", "audit": "factual_drift", "type": "CONTRADICTION", "severity": "MAJOR",
            "status": "suspected", "muted": None, "session_key": f"s{number}", "session_id": None, "committed": number,
            "passages": [{"key": "id:doc-7", "passage_id": "doc-7", "title": "Tariff"}], "quotes": ["a"],
        }
        for number in range(300)
    ]  # fmt: skip
    found.append({**found[0], "event_id": "x", "passages": [], "severity": "CRITICAL"})
    found.append({**found[0], "event_id": "y", "status": "rejected", "severity": "CRITICAL"})

    groups = grouped(found, "passage")

    assert [(one["passage"], one["sessions"], one["severity"]) for one in groups] == [
        ("doc-7", 300, "MAJOR"),
        (NO_PASSAGE, 1, "CRITICAL"),
    ]
    assert groups[0]["statuses"] == {"suspected": 300, "rejected": 1}
    assert len(grouped(found, "session")) == 300


def test_two_runs_over_the_command_line(otel_drift: Run, examples: Path) -> None:
    """The second run finds the units again and counts them; five sessions decide nothing, and it says so."""
    for _ in range(2):
        assert otel_drift("audit", examples, "--ledger", "l.db").returncode == 0

    runs = [json.loads(line) for line in otel_drift("runs", "--ledger", "l.db", "--format", "json").stdout.splitlines()]
    compared = json.loads(otel_drift("compare", "1", "2", "--ledger", "l.db", "--format", "json").stdout)
    text = otel_drift("compare", "1", "2", "--ledger", "l.db")

    assert [(one["run_id"], one["units"]) for one in runs] == [(1, 5), (2, 5)]
    overall = row(compared, "overall", "any finding")
    assert (overall["a"], overall["decision"]) == (overall["b"], "undecided")
    assert overall["a"]["found"] == 4
    assert "too few to decide" in text.stdout
    assert otel_drift("compare", "1", "7", "--ledger", "l.db").returncode == 2
    assert otel_drift("compare", "1", "1", "--ledger", "l.db").returncode == 2


def test_findings_over_the_command_line(otel_drift: Run, examples: Path) -> None:
    otel_drift("audit", examples, "--ledger", "l.db")

    by = {
        name: [json.loads(line) for line in run.stdout.splitlines()]
        for name in ("passage", "type", "session")
        if (run := otel_drift("findings", "--by", name, "--ledger", "l.db", "--format", "json"))
    }

    assert "pen-avc-01" in {group["passage"] for group in by["passage"]}
    assert sum(group["findings"] for group in by["type"]) == sum(group["findings"] for group in by["session"])
    assert otel_drift("findings", "--since", "2200-01-01", "--ledger", "l.db", "--format", "json").stdout == ""
    assert otel_drift("findings", "--since", "yesterday", "--ledger", "l.db").returncode == 2


@pytest.mark.parametrize("found", [0, 10])
def test_a_small_sample_of_only_one_kind_promises_no_quick_decision(found: int) -> None:
    """Ten of ten alike do not say that the rate is 0 or 1: more sessions are asked for than those rates would need."""
    overall = row(compare(run_of(found, 10), run_of(found, 10, start=5000)), "overall", "any finding")

    assert overall["decision"] == "undecided"
    assert overall["sessions_needed"] > 2 * sessions_needed(found / 10, found / 10)
