"""What `otel-drift longform` prints for people: the verdict, then every sentence, the weaker ones in full."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from otel_drift.model import Unit
from otel_drift.report.paper import Paper, shorten
from otel_drift.report.wording import outcome_words, reason_words

MARKS: Mapping[str, tuple[str, str]] = {
    "fully_grounded": ("✓", "green"),
    "partially_grounded": ("◆", "yellow"),
    "ungrounded": ("▲", "red"),
    "contradicted": ("✖", "bold red"),
}
_STYLES: Mapping[str, str] = {"none": "green", "minor": "yellow", "moderate": "red"}
_REVIEW_WORDS: Mapping[str, str] = {
    "judges_differ": "two judges differ",
    "no_second_judge": "a second judge is due and none was asked",
    "score_at_review_threshold": "the score reaches the threshold for review",
    "action_asks_for_review": "the recommended action is a review",
}
_NEWLINE = re.compile(r"\r\n|\r|\n")


def print_longform(console: Console, unit: Unit) -> None:
    """Print one audited answer: verdict and action first, then section by section the sentences with line numbers."""
    paper = Paper(console)
    turn = unit.session.turns[0]
    report = unit.report
    if report is None:
        paper.rule([(shorten(unit.session.name, 64), "bold")], outcome_words(unit.outcome))
        paper.line((unit.reason or "", "bold"), f": {reason_words(unit.reason or '')}", gutter="   ")
        return
    severity = report["drift_severity"]
    verdict = "no drift" if severity == "none" else f"{severity} drift, score {report['drift_severity_score']:.2f}"
    paper.rule([(shorten(unit.session.name, 64), "bold")], (verdict, _STYLES.get(severity, "bold red")))
    for line in verdict_lines(report):
        paper.line(line, gutter="   ")
    paper.line((f"judge {unit.judge}" + (f" · {unit.judge_note}" if unit.judge_note else ""), "dim"), gutter="   ")
    titles = {section["first"]: section for section in report["sections"]}
    for one in report["sentence_by_sentence_analysis"]:
        if one["sentence_index"] in titles:
            _section(paper, titles[one["sentence_index"]])
        _sentence(paper, one, turn.answer or "", starts=one["sentence_index"] == report["drift_start_sentence_index"])
    paper.blank()


def verdict_lines(report: Mapping[str, Any]) -> list[str]:
    """The verdict in words: where it starts, what to do, who has to look."""
    analysis = report["sentence_by_sentence_analysis"]
    weaker = sum(one["grounding_status"] != "fully_grounded" for one in analysis)
    lines = [f"{weaker} of {len(analysis)} sentences weaker than fully grounded"]
    if report["drift_detected"]:
        lines[0] += f"; drift starts at sentence {report['drift_start_sentence_index'] + 1}"
    lines.append(f"recommended: {report['recommended_action'].replace('_', ' ')} (risk {report['risk_level']})")
    review = report["review"]
    if review["needed"]:
        lines.append("review: " + "; ".join(_REVIEW_WORDS.get(one, one) for one in review["reasons"]))
    if review["awaiting_sign_off"]:
        lines.append("awaiting sign-off: regulated text may not go out before a person has signed it off")
    second = report["second_judge"]
    if second is not None:
        lines.append(
            f"second judge: score {second['score']:.2f} against {second['first_score']:.2f}"
            if second["asked"]
            else f"second judge: not asked, {second['why']}"
        )
    if report["cumulative_drift_summary"]:
        lines.append(report["cumulative_drift_summary"])
    return lines


def _section(paper: Paper, section: Mapping[str, Any]) -> None:
    paper.blank()
    score = f"  {section['score']:.2f}" if section["score"] else ""
    paper.line(
        (section["title"] or "(no heading)", "bold" if section["title"] else "dim"), (score, "dim"), gutter="   "
    )


def _sentence(paper: Paper, one: Mapping[str, Any], answer: str, *, starts: bool) -> None:
    mark, style = MARKS[one["grounding_status"]]
    line = len(_NEWLINE.findall(answer, 0, one["start"])) + 1
    gutter = paper.text((f"{line:>5} ", "dim"), (mark, style), " ")
    weaker = one["grounding_status"] != "fully_grounded"
    if starts:
        paper.line(("─── drift starts here ───", "bold red"), gutter="        ")
    paper.line((shorten(one["sentence_text"], 2_000), "bold" if weaker else ""), gutter=gutter)
    if not weaker:
        return
    paper.line(
        (one["grounding_status"].replace("_", " "), style), f": {one['drift_explanation'] or ''}", gutter="        "
    )
    if one["supporting_source_excerpt"]:
        excerpt = f"“{shorten(one['supporting_source_excerpt'], 600)}”"
        paper.line((one["source_id"], "cyan"), "  ", excerpt, gutter="        ")
