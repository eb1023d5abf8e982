"""The embedded judge on citations: what it shows of sources, and where it keeps silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drift_cases import session, turn
from otel_drift.audits.citation_conflict import CitationConflict
from otel_drift.judges.rules import RulesJudge
from otel_drift.model import Unit
from otel_drift.validation import audit_session

MEMBERSHIP = "The standard membership costs 40 euros per year. It includes two guest passes."
PARKING = "Members park free of charge behind the hall. The barrier opens at six in the morning."


def audited(answer: str, *passages: str, dates: tuple[str | None, ...] = ()) -> Unit:
    one = turn(1, "What does membership cost?", answer, *passages)
    given = [*dates, *[None] * (len(passages) - len(dates))]
    dated = tuple(replace(p, date=date) for p, date in zip(one.passages, given, strict=True))
    return audit_session(CitationConflict(), session(replace(one, passages=dated)), RulesJudge())


def kinds(unit: Unit) -> list[str]:
    return [one.type for one in unit.findings]


def test_a_mark_at_the_wrong_passage_is_possible_and_shows_the_right_one() -> None:
    unit = audited("The standard membership costs 40 euros per year [2].", MEMBERSHIP, PARKING)
    (found,) = unit.findings
    assert (found.type, found.severity) == ("WRONG_CITATION", "MAJOR")
    assert found.explanation == (
        "Possible wrong citation: [2] points at doc-1-2, which does not support the sentence; doc-1-1 would."
    )
    assert found.quotes == (
        "The standard membership costs 40 euros per year.",
        "The standard membership costs 40 euros per year [2].",
    )
    assert unit.judge_note


@pytest.mark.parametrize(
    "answer",
    [
        "The standard membership costs 40 euros per year [1].",
        "Membership is 40 euros a year and comes with two guest passes [1].",
        "Bring a towel and a lock when you visit for the first time [2].",
        "Nobody here has ever measured the depth of the pool in spring [1].",
        "Is there anything else [2]?",
        "I could not find the opening hours in the documents [1].",
    ],
)
def test_what_cannot_be_shown_is_no_finding(answer: str) -> None:
    """Right marks, and marks at claims that no passage bears out: the rules cannot tell, so they keep silent."""
    assert kinds(audited(answer, MEMBERSHIP, PARKING)) == []


def test_a_mark_that_points_nowhere_needs_no_judgement() -> None:
    assert kinds(audited("The standard membership costs 40 euros per year [5].", MEMBERSHIP)) == ["DANGLING_CITATION"]


def test_a_figure_that_another_passage_gives_differently_is_an_open_conflict() -> None:
    other = "The standard membership costs 55 euros per year."
    answer = "The standard membership costs 40 euros per year [1]."
    unit = audited(answer, MEMBERSHIP, other)
    (found,) = unit.findings
    assert (found.type, found.severity) == ("UNRESOLVED_CLAIM", "MAJOR")
    assert found.explanation.startswith("Possible ")
    assert unit.report is not None
    assert unit.report["claims"][0]["contradicting_sources"][0]["conflict_type"] == "direct_factual"

    told = audited(f"{answer} Another passage contradicts this.", MEMBERSHIP, other)
    assert kinds(told) == []


def test_the_newer_side_of_a_figure_is_taken_to_hold() -> None:
    other = "The standard membership costs 55 euros per year."
    answer = "The standard membership costs 40 euros per year [1]."
    newer = audited(answer, MEMBERSHIP, other, dates=("2025-01-01", "2021-01-01"))
    older = audited(answer, MEMBERSHIP, other, dates=("2021-01-01", "2025-01-01"))
    assert kinds(newer) == []
    assert newer.report is not None
    assert newer.report["claims"][0]["resolved_by"] == "recency"
    assert [(one.type, one.severity) for one in older.findings] == [("UNRESOLVED_CLAIM", "MINOR")]


@pytest.mark.parametrize(
    "other",
    [
        "The premium membership costs 55 euros per year.",
        "The standard membership costs 4 euros per month.",
        "In 2019 the standard membership cost 35 euros per year.",
        "A locker costs 12 euros per year.",
        "The standard membership does not include parking.",
    ],
)
def test_other_things_periods_and_years_are_no_conflict(other: str) -> None:
    assert kinds(audited("The standard membership costs 40 euros per year [1].", MEMBERSHIP, other)) == []


def test_other_languages_are_left_to_a_model() -> None:
    unit = audited(
        "Die Mitgliedschaft kostet 40 Euro im Jahr und ist nicht mit der Karte zu zahlen [1].",
        "Die Mitgliedschaft kostet 40 Euro im Jahr. Sie ist nicht auf andere Personen zu übertragen.",
    )
    assert (unit.outcome, unit.reason) == ("inconclusive", "language_not_supported")


def test_claims_and_quotes_are_verbatim() -> None:
    unit = audited("The standard membership costs 40 euros per year [1]. Members park free of charge [2].",
                   MEMBERSHIP, PARKING)  # fmt: skip
    assert unit.report is not None
    texts: dict[str, Any] = {"doc-1-1": MEMBERSHIP, "doc-1-2": PARKING}
    for claim in unit.report["claims"]:
        for source in claim["supporting_sources"]:
            assert source["quote"] in texts[source["source_id"]]
    assert all(place["quote"] in unit.report["answer"] for place in unit.report["places"])
