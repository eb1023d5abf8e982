"""Over the given captures, through the whole line: planted mismatches are found, traps never become findings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import citation_labels  # registers its answers
from captures import names_in, records_of
from otel_drift import pipeline, plugins, sessions
from otel_drift.audits.citation_conflict import CitationConflict
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.model import JudgeTask, Session, Unit
from otel_drift.protocols import AuditSettings, Judge
from otel_drift.spool import SpanSpool
from otel_drift.validation import audit_session
from scripted_labels import ANSWERS, LabelledTurn, LabelsJudge

CAPTURES = [
    "traceloop-langchain/guideline-turns", "langfuse-observe/guideline-retriever", "vercel-ai/guideline-tool",
    "openinference-openai/guideline-turns", "otel-genai-langchain/guideline-spans",
    "langfuse-observe/hrleave-retriever", "openinference-haystack/hrleave-pipeline",
    "openinference-haystack/cloudlimits-onetrace", "openinference-openai/pension-turns",
]  # fmt: skip


def audited(shared: Path, capture: str, judge: Judge) -> list[Unit]:
    source = plugins.load("sources", "otlp-file")([str(path) for path in (shared / "traces").glob(f"{capture}.json*")])
    with Ledger.open(":memory:") as ledger:
        line = pipeline.Line([CitationConflict()], judge, AuditSettings(embedded_judge=judge.embedded), ledger)
        return list(pipeline.audit(source, line))


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_planted_mismatch_and_the_hidden_conflict_are_found(shared: Path, capture: str) -> None:
    units = audited(shared, capture, LabelsJudge(shared / "traces" / "labels"))
    found = [(f.turn_number, f.type, f.severity) for unit in units for f in unit.findings]

    assert {unit.outcome for unit in units} <= {"findings", "clean", "not_applicable"}
    if "guideline" in capture:
        assert found == [(1, "WRONG_CITATION", "MAJOR"), (4, "UNRESOLVED_CLAIM", "MAJOR")]
        wrong = next(f for unit in units for f in unit.findings if f.type == "WRONG_CITATION")
        assert wrong.quotes[-1] == "After a provoked event treatment normally continues for three months [3]."
        assert wrong.span_ref
        assert "gl-start-01" in wrong.explanation
    else:
        assert not [one for one in found if one[1] in ("WRONG_CITATION", "DANGLING_CITATION")]


def test_a_disclosed_conflict_is_recorded_and_no_finding(shared: Path) -> None:
    units = audited(shared, "vercel-ai/guideline-tool", LabelsJudge(shared / "traces" / "labels"))
    second = next(unit for unit in units if unit.session.turns[0].number == 2)

    assert second.outcome == "clean"
    assert second.report is not None
    assert second.report["voiced_in"].startswith("Your sources disagree on this")
    assert second.report["conflict_summary"]
    unresolved = [claim for claim in second.report["claims"] if claim["unresolved"]]
    assert {source["source_id"] for claim in unresolved for source in claim["contradicting_sources"]} == {
        "gl-renal-01",
        "gl-renal-03",
    }


def test_citing_one_of_two_copies_is_right_whichever_the_judge_lists(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap ``near_duplicate_passages``: a judge that sees only the first copy makes no finding of the second."""

    def only_first(task: JudgeTask, turns: dict[int, LabelledTurn]) -> dict[str, object]:
        answer = citation_labels.sources_from_labels(task, turns)
        for claim in answer["claims"]:
            copies = [one for one in claim["supporting_sources"] if one["source_id"] in ("p1", "p2")]
            if copies and task.material.turn.number == 1:
                text = task.material.sources["p1"].text
                quote = citation_labels._closest_sentence(claim["quote"], text)
                claim["supporting_sources"] = [citation_labels.piece("p1", quote)]
        return answer

    monkeypatch.setitem(ANSWERS, "citation_conflict", only_first)
    units = audited(shared, "vercel-ai/guideline-tool", LabelsJudge(shared / "traces" / "labels"))
    first = next(unit for unit in units if unit.session.turns[0].number == 1)

    assert [f.quotes[-1] for f in first.findings] == [
        "After a provoked event treatment normally continues for three months [3]."
    ]


def test_the_embedded_judge_finds_the_mismatch_and_raises_no_false_alarm(shared: Path) -> None:
    """Every capture: the mismatch in all five of the guideline, the conflict planted in hrleave, nothing else."""
    audit, judge = CitationConflict(), RulesJudge()
    found: Counter[tuple[str, int, str]] = Counter()
    outcomes: Counter[str] = Counter()
    for name in names_in(shared):
        with SpanSpool() as spool:
            for session in sessions.stream(iter(records_of(shared, name)), spool, sessions.ReconstructOptions()):
                parts = [sessions_of_one(session, number) for number in range(len(session.turns))]
                eligible = [part for part in parts if audit.eligibility(part, AuditSettings()).eligible]
                for part in eligible or [session]:
                    unit = audit_session(audit, part, judge)
                    outcomes[unit.outcome] += 1
                    for one in unit.findings:
                        assert one.explanation.startswith("Possible ")
                        assert one.severity in ("MAJOR", "MINOR")
                        found[name.split("/")[1].split("-")[0], one.turn_number, one.type] += 1
    assert set(outcomes) <= {"findings", "clean", "not_applicable"}
    assert set(found) == {("guideline", 1, "WRONG_CITATION"), ("hrleave", 2, "UNRESOLVED_CLAIM")}
    assert found["guideline", 1, "WRONG_CITATION"] == 5


def sessions_of_one(session: Session, index: int) -> Session:
    from dataclasses import replace

    return replace(session, turns=session.turns[index : index + 1])
