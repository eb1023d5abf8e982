"""Over the given captures, through the whole line: planted conflicts are found, traps never become findings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drift_cases import ScriptedJudge
from otel_drift import pipeline, plugins
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.model import JudgeTask, Session, Unit
from otel_drift.protocols import AuditSettings, Judge
from otel_drift.validation import audit_session
from scripted_labels import LabelledTurn, LabelsJudge, conflicts_between_passages, labelled_turns, planted_conflict

CAPTURES = [
    "traceloop-langchain/guideline-turns", "langfuse-observe/guideline-retriever", "vercel-ai/guideline-tool",
    "traceloop-openai/hrleave-chroma", "langfuse-observe/hrleave-retriever", "openinference-haystack/hrleave-pipeline",
    "traceloop-openai/telecom-chroma-bare-error", "openinference-haystack/cloudlimits-onetrace",
]  # fmt: skip
EXPECTED = {"guideline": [(4, "MAJOR")], "hrleave": [(2, "MAJOR")], "telecom": [], "cloudlimits": []}


def audited(shared: Path, capture: str, judge: Judge) -> list[Unit]:
    source = plugins.load("sources", "otlp-file")([str(path) for path in (shared / "traces").glob(f"{capture}.*json*")])
    with Ledger.open(":memory:") as ledger:
        line = pipeline.Line([SourceConflict()], judge, AuditSettings(embedded_judge=judge.embedded), ledger)
        return list(pipeline.audit(source, line))


@pytest.mark.parametrize("capture", CAPTURES)
def test_planted_conflicts_are_found_through_the_whole_line(shared: Path, capture: str) -> None:
    units = audited(shared, capture, LabelsJudge(shared / "traces" / "labels"))
    conversation = capture.split("/")[1].split("-")[0]

    assert {unit.outcome for unit in units} <= {"findings", "clean", "not_applicable"}
    found = [(f.turn_number, f.severity) for unit in units for f in unit.findings]
    assert found == EXPECTED[conversation]
    assert all(f.type == "UNDISCLOSED_CONFLICT" and f.span_ref for unit in units for f in unit.findings)
    if conversation == "guideline":
        disclosed = next(unit for unit in units if unit.session.turns[0].number == 2)
        assert disclosed.outcome == "clean"
        assert disclosed.report is not None
        assert disclosed.report["conflict_count"] == 1
        (recorded,) = disclosed.report["conflicts"]
        assert (recorded["severity"], recorded["disclosed"]) == ("CRITICAL", True)


def label_session(shared: Path, conversation: str) -> tuple[Session, dict[int, LabelledTurn]]:
    from drift_cases import session, turn

    label = json.loads((shared / "traces" / "labels" / f"{conversation}.json").read_text())
    turns = [turn(t["turn"], t["user"], t["answer"], *[p["text"] for p in t["passages"]]) for t in label["turns"]]
    whole = session(*turns)
    return whole, labelled_turns(whole, shared / "traces" / "labels")


def test_a_judge_that_falls_for_near_copies_is_refused(shared: Path) -> None:
    """The trap of two copies in other words: code knows them for copies, whatever the judge says."""
    whole, labelled = label_session(shared, "guideline")
    (trap,) = labelled[1].events("near_duplicate_passages", event=False)
    quotes = {
        "quote_a": "Venarel is started at 2 mg once daily in adults with confirmed deep vein thrombosis",
        "quote_b": "The first dose is given on the day of diagnosis; an overlap with heparin is not needed.",
    }
    fallen = planted_conflict(labelled[1], {**trap, **quotes})
    judge = ScriptedJudge([{"conflicts": [fallen], "conflict_notes": "They differ."}])

    unit = audit_session(SourceConflict(), Session("k", "s", whole.turns[:1], ()), judge)

    assert (unit.outcome, unit.findings) == ("inconclusive", ())
    assert "copies of one text" in unit.attempts[0].errors[0]


def test_what_apparent_conflicts_rest_on_reaches_the_judge(shared: Path) -> None:
    """Years, populations and scopes are told apart by words, so the judge sees titles, dates and whole texts."""
    judge = LabelsJudge(shared / "traces" / "labels")
    units = audited(shared, "langfuse-observe/guideline-retriever", judge)
    third = next(unit for unit in units if unit.session.turns[0].number == 3)

    assert (third.outcome, third.report and third.report["conflict_count"]) == ("clean", 0)
    asked = next(task for task in judge.tasks if "Pregnant women have limits" in task.messages[1].content)
    for told in ("2019 edition", "until it was replaced in 2025", "In pregnant women and up to six weeks after birth"):
        assert told in asked.messages[1].content


def test_the_embedded_judge_raises_nothing_on_the_traps(shared: Path) -> None:
    """Every labelled turn without a planted conflict: false alarms on ordinary turns are worse than misses."""
    judge = RulesJudge()
    raised: dict[str, list[Any]] = {}
    for file in sorted((shared / "traces" / "labels").glob("*.json")):
        whole, labelled = label_session(shared, file.stem)
        for one in whole.turns:
            part = Session(whole.key, whole.session_id, (one,), one.trace_ids)
            unit = audit_session(SourceConflict(), part, judge)
            assert unit.outcome in ("findings", "clean", "not_applicable"), (file.stem, one.number, unit.reason)
            planted = labelled[one.number].events("conflicting_passages", event=True) if one.number in labelled else []
            if not planted and unit.report:
                raised[f"{file.stem} {one.number}"] = unit.report["conflicts"]

    assert {where: found for where, found in raised.items() if found} == {}


def test_labels_answer_the_task_they_are_asked(shared: Path) -> None:
    """The scripted judge itself: no labels, no answer."""
    whole, labelled = label_session(shared, "guideline")
    task: Mapping[int, LabelledTurn] = {4: labelled[4]}
    answer = conflicts_between_passages(_task(whole), task)

    assert [one["source_a"] for one in answer["conflicts"]] == ["t4.p1"]


def _task(material: Session) -> JudgeTask:
    from otel_drift.model import Message, PromptRef

    ref = PromptRef("source_conflict/conflicts", "v1", "0" * 64)
    return JudgeTask("source_conflict", "conflicts", ref, (Message("user", ""),), "s", {}, "f", material)


def test_with_the_embedded_judge_every_library_ends_in_an_outcome_and_in_no_false_alarm(shared: Path) -> None:
    """One capture of each library: what is found is the planted conflict of hrleave and nothing else."""
    folders = sorted({file.parent for file in (shared / "traces").glob("*/*-*.json*")})
    found = 0
    for folder in folders:
        names = sorted({file.name.split(".")[0] for file in folder.glob("*.json*")})
        chosen = next((name for name in names if name.startswith("hrleave")), names[0])
        for unit in audited(shared, f"{folder.name}/{chosen}", RulesJudge()):
            assert unit.outcome in ("findings", "clean", "not_applicable"), (folder.name, chosen, unit.reason)
            for finding in unit.findings:
                found += 1
                assert "10 unused vacation days" in finding.quotes[0] + finding.quotes[1], (folder.name, chosen)
    assert len(folders) >= 15
    assert found >= 10
