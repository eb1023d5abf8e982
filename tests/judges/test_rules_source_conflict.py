"""The embedded judge on passages: only figures and dates, only where nothing tells the passages apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drift_cases import session, turn
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.judges.rules import RulesJudge
from otel_drift.judges.rules_source_conflict import disclosure
from otel_drift.model import Passage, Session, Turn, Unit
from otel_drift.validation import audit_session

NOTICE = "The notice period for the rental contract is 30 days. It starts on the first of a month."


def judged(*passages: str, answer: str | None = "The notice period is 30 days.", **fields: Any) -> Unit:
    return audit_session(
        SourceConflict(), session(turn(1, "What is the period?", answer, *passages, **fields)), RulesJudge()
    )


CONFLICTS = [
    (NOTICE, "The notice period for the rental contract is 90 days. Notice is given in writing."),
    (
        "Up to 10 unused vacation days may be carried over and must be taken by 30 June of that year.",
        "Unused vacation days can be carried over up to a maximum of 5 days and expire on 31 March of that year.",
    ),
    (
        "The deposit for a studio flat is 800 euros and is paid back when the keys are returned.",
        "The deposit for a studio flat is 1,200 euros and is paid back when the keys are returned.",
    ),
]


@pytest.mark.parametrize("passages", CONFLICTS)
def test_a_figure_that_differs_is_possible_and_at_most_major(passages: tuple[str, str]) -> None:
    unit = judged(*passages)

    (finding,) = unit.findings
    assert (finding.type, finding.severity) == ("UNDISCLOSED_CONFLICT", "MAJOR")
    assert finding.confidence >= 0.7
    assert finding.explanation.startswith("Possible conflict: ")
    assert " against " in finding.explanation
    assert unit.report is not None
    assert unit.report["conflicts"][0]["severity"] == "MATERIAL"


@pytest.mark.parametrize("passages", CONFLICTS)
def test_the_order_of_passages_does_not_matter(passages: tuple[str, str]) -> None:
    there, back = judged(*passages), judged(*reversed(passages))

    assert [f.confidence for f in there.findings] == [f.confidence for f in back.findings]


SILENT = [
    (
        "the same in other words",
        NOTICE,
        "The rental contract has a notice period of thirty days, starting on the first.",
    ),
    ("another thing", NOTICE, "The notice period for the parking contract is 90 days. Notice is given in writing."),
    (
        "another year",
        "In 2023 the deposit for a studio flat was 800 euros, paid back on return of the keys.",
        "In 2025 the deposit for a studio flat is 900 euros, paid back on return of the keys.",
    ),
    (
        "another population",
        "For adults the dose of the tablet is 500 mg twice a day, taken with water.",
        "For children the dose of the tablet is 250 mg twice a day, taken with water.",
    ),
    (
        "another name",
        "Amberg is a town in Bavaria. As of the census there were 3,292 people residing in the town.",
        "Weiden is a town in Saxony. As of the census there were 533 people residing in the town.",
    ),
    (
        "a replaced edition",
        "The notice period for the rental contract is 30 days. This edition was replaced in 2025.",
        "The notice period for the rental contract is 90 days.",
    ),
    ("a negation alone", "Pets are allowed in the rental flats.", "Pets are not allowed in the rental flats."),
    ("another unit", NOTICE, "The fee for the rental contract is 90 euros. Notice is given in writing."),
]


@pytest.mark.parametrize(("why", "one", "other"), SILENT, ids=[why for why, _, _ in SILENT])
def test_it_is_silent_where_two_passages_may_both_be_right(why: str, one: str, other: str) -> None:
    assert judged(one, other).outcome == "clean"


def test_editions_named_by_their_titles_are_no_conflict() -> None:
    base = session(turn(1, "?", "30 days.", *CONFLICTS[0])).turns[0]
    titled = tuple(
        Passage(one.id, one.text, one.rank, title=f"Terms, {year} edition")
        for one, year in zip(base.passages, (2019, 2025), strict=True)
    )
    unit = audit_session(
        SourceConflict(), session(turn(1, "?", "30 days.", passages=titled, retrieval="captured")), RulesJudge()
    )

    assert unit.outcome == "clean"


def test_an_answer_that_says_so_discloses() -> None:
    said = "My sources differ on this point: one says 30 days, the other 90 days."
    unit = judged(*CONFLICTS[0], answer=said)

    assert (unit.outcome, unit.findings) == ("clean", ())
    assert unit.report is not None
    assert unit.report["conflicts"][0]["disclosure_quote"] == said
    assert disclosure("The period is 30 days. It differs from month to month.") is None


def test_other_languages_are_no_verdict() -> None:
    german = "Die Kündigungsfrist für den Mietvertrag beträgt 30 Tage und beginnt am Ersten eines Monats."
    unit = judged(german, german.replace("30", "90"))

    assert (unit.outcome, unit.reason) == ("inconclusive", "language_not_supported")


def test_writing_answers_is_no_task_for_it() -> None:
    audit = SourceConflict(write_answer=True, gate=True)
    unit = audit_session(audit, session(turn(1, "?", None, NOTICE, "Cats are welcome in the house.")), RulesJudge())

    assert (unit.outcome, unit.reason) == ("inconclusive", "unsupported_task")


def _fires(item: dict[str, Any]) -> bool:
    passages = tuple(Passage(p["id"], p["text"], n, title=p.get("title")) for n, p in enumerate(item["passages"], 1))
    one = Turn("t", 1, 0, 0, item["text"], None, "not_captured", "captured", passages)
    unit = audit_session(SourceConflict(), Session("k", None, (one,), ()), RulesJudge())
    return bool(unit.report and unit.report["conflicts"])


@pytest.mark.parametrize(
    ("suite", "most_alarms", "least_found"),
    [("ramdocs", 0.05, 0.1), ("conflictqa", 0.02, 0.0), ("mtrag_human", 0.01, 0.0)],
)
def test_false_alarms_on_the_dev_sets_stay_rare(
    suite: str, most_alarms: float, least_found: float, shared: Path
) -> None:
    """Sets without a conflict, most of them traps (same names), and ordinary turns; recall is known to be low."""
    lines = (shared / "benchmarks" / suite / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    items = [item for item in map(json.loads, lines) if len(item["passages"]) >= 2]
    real = [item for item in items if item["label"] == "conflict"]
    others = [item for item in items if item["label"] != "conflict"]

    assert sum(map(_fires, others)) <= most_alarms * len(others)
    assert sum(map(_fires, real)) >= least_found * len(real)
