"""Over the given captures, through the whole line: the labelled drift is found where it starts, clean stays clean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from captures import names_in
from otel_drift import pipeline, plugins
from otel_drift.audits.longform_drift import LongformDrift
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask, Unit
from otel_drift.protocols import AuditSettings, Judge
from otel_drift.text import statements

CAPTURES = [
    "langfuse-observe/labreport-retriever", "openinference-langchain/labreport-turns",
    "openinference-openai/labreport-turns", "otel-genai-langchain/labreport-spans", "vercel-ai/labreport-tool",
]  # fmt: skip


class LabelJudge:
    """Gives every sentence the status its label has, and an excerpt of the source."""

    name = "labels"
    note = ""
    embedded = False
    endpoint = "this process"

    def __init__(self, shared: Path) -> None:
        label = json.loads((shared / "traces" / "labels" / "labreport.json").read_text())
        self.statuses = {s["text"]: s["status"] for one in label["long_form"] for s in one["sentences"]}

    def parameters(self) -> Mapping[str, Any]:
        return {}

    def limits(self) -> JudgeLimits:
        return JudgeLimits()

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        if task.step == "conflicts":
            answer: dict[str, Any] = {"conflicts": [], "conflict_notes": ""}
        else:
            excerpt = max((s.text for s in statements(task.material.source[0])), key=len)
            said = [(s.index, self.statuses.get(s.text, "fully_grounded")) for s in task.material.sentences]
            verdicts = [
                {
                    "index": index,
                    "status": status,
                    "excerpt": None if status == "ungrounded" else excerpt,
                    "explanation": None if status == "fully_grounded" else "As labelled.",
                }
                for index, status in said
            ]
            answer = {"sentences": verdicts, "confidence": 0.9, "summary": ""}
        return JudgeAnswer(json.dumps(answer), self.name, cost=0.0, finish_reason="stop")


def audited(shared: Path, capture: str, judge: Judge) -> list[Unit]:
    paths = [str(path) for path in (shared / "traces").glob(f"{capture}.*")]
    with Ledger.open(":memory:") as ledger:
        line = pipeline.Line([LongformDrift()], judge, AuditSettings(embedded_judge=judge.embedded), ledger)
        return list(pipeline.audit(plugins.load("sources", "otlp-file")(paths), line))


def labels(shared: Path) -> dict[int, dict[str, Any]]:
    label = json.loads((shared / "traces" / "labels" / "labreport.json").read_text())
    return {one["turn"]: one for one in label["long_form"]}


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_labelled_start_is_found_and_the_clean_answer_stays_clean(shared: Path, capture: str) -> None:
    units = audited(shared, capture, LabelJudge(shared))
    by_turn = {unit.session.turns[0].number: unit for unit in units}
    assert sorted(by_turn) == [2, 3], "the short answers are no units"
    for number, label in labels(shared).items():
        report = by_turn[number].report
        assert report is not None, by_turn[number].reason
        assert report["drift_start_sentence_index"] == label["drift_start_index"]
        assert report["drift_start_sentence_text"] == label["drift_start_sentence"]
        assert report["drift_start_char"] == label["drift_start_char"]
        assert report["drift_severity"] == label["severity"]
        statuses = [one["grounding_status"] for one in report["sentence_by_sentence_analysis"]]
        assert statuses == [sentence["status"] for sentence in label["sentences"]]
        assert [one["title"] for one in report["sections"] if one["title"]] == label["headings"]
    assert by_turn[3].outcome == "clean"
    (finding,) = by_turn[2].findings
    assert (by_turn[2].severity, finding.turn_number) == ("CRITICAL", 2)
    assert finding.span_ref == by_turn[2].session.turns[0].answer_ref
    assert by_turn[2].report is not None
    assert by_turn[2].report["review"]["needed"]


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_embedded_judge_finds_the_start_and_lets_the_clean_answer_pass(shared: Path, capture: str) -> None:
    """What words can show: the first weak sentence, six of nine, none of 40 good ones; never more than severe."""
    units = {unit.session.turns[0].number: unit for unit in audited(shared, capture, RulesJudge())}
    assert units[3].outcome == "clean"
    report = units[2].report
    assert report is not None
    label = labels(shared)[2]
    assert report["drift_start_sentence_index"] == label["drift_start_index"]
    flagged = {
        one["sentence_index"]
        for one in report["sentence_by_sentence_analysis"]
        if one["grounding_status"] != "fully_grounded"
    }
    weak = {one["index"] for one in label["sentences"] if one["status"] != "fully_grounded"}
    assert flagged <= weak
    assert len(flagged) >= 6
    assert (units[2].severity, report["drift_severity"]) == ("MAJOR", "severe")
    assert all("Possible" in finding.explanation for finding in units[2].findings)


def test_every_capture_ends_in_an_outcome(shared: Path) -> None:
    """All captures at once are one input: each unit has a report or a reason, and long answers are few."""
    seen = 0
    for capture in names_in(shared):
        for unit in audited(shared, capture, RulesJudge()):
            seen += 1
            assert unit.outcome in ("findings", "clean", "not_applicable", "inconclusive")
            assert (unit.report is None) == (unit.reason is not None), (capture, unit.reason)
            assert not (unit.reason or "").startswith("internal_error"), capture
    assert seen >= 60
