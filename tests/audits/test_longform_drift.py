"""The audit ``longform_drift``: what is asked, what is refused, what is made of the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_cases import session, turn
from otel_drift.audits.longform_drift import LongformDrift, LongformMaterial
from otel_drift.audits.longform_drift_answer import STATUSES, WEAKNESS, SentenceAnswer, SentencesAnswer
from otel_drift.audits.longform_drift_checks import check_sentences
from otel_drift.audits.longform_drift_options import DEFAULT_ACTIONS, RISK_LEVELS, SEVERITIES, read_options
from otel_drift.audits.longform_drift_report import merge
from otel_drift.audits.longform_drift_score import BANDS, drift_score, severity_of, trajectory
from otel_drift.errors import ConfigError
from otel_drift.findings import annotations
from otel_drift.longform.chunking import chunks
from otel_drift.longform.layout import read_layout
from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask, Session, Unit
from otel_drift.protocols import AuditSettings
from otel_drift.validation import audit_session, plan, unit_fingerprint

FACTS = [f"Pump number {n} was checked on day {n} and found to be in good working order." for n in range(1, 31)]
SOURCE = "\n".join(FACTS)
ANSWER = "# Pumps\n\nHere is the list.\n\n" + " ".join(FACTS[:15]) + "\n\n## More\n\n" + " ".join(FACTS[15:])

Said = Callable[[int, str], dict[str, Any]]


def verdict(index: int, text: str, status: str = "fully_grounded") -> dict[str, Any]:
    """A correct verdict of the wanted status."""
    claims = "Pump" in text
    excerpt = text if claims and status != "ungrounded" and text in SOURCE else None
    if claims and excerpt is None and status != "ungrounded":
        excerpt = FACTS[0]
    why = None if status == "fully_grounded" else f"The source differs on sentence {index}."
    return {"index": index, "makes_claim": claims, "status": status, "excerpt": excerpt, "explanation": why}


def drifting(**at: str) -> Said:
    """Verdicts that are weaker at some sentences: ``drifting(s12="ungrounded")``."""
    statuses = {int(name[1:]): status for name, status in at.items()}
    return lambda index, text: verdict(index, text, statuses.get(index, "fully_grounded"))


class SentenceJudge:
    """Answers each sentence it is asked about with `said`; the second reading with `second`, else the same."""

    name = "scripted"
    note = ""
    embedded = False
    endpoint = "this process"

    def __init__(
        self,
        said: Said = drifting(),
        *,
        second: Said | None = None,
        limits: JudgeLimits | None = None,
        spoil: Callable[[dict[str, Any], int], None] = lambda answer, attempt: None,
        conflicts: list[dict[str, Any]] | None = None,
    ) -> None:
        self.said, self.second, self._limits = said, second or said, limits or JudgeLimits()
        self.spoil, self.conflicts = spoil, conflicts or []
        self.tasks: list[JudgeTask] = []

    def parameters(self) -> Mapping[str, Any]:
        return {}

    def limits(self) -> JudgeLimits:
        return self._limits

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        self.tasks.append(task)
        if task.step == "conflicts":
            answer: dict[str, Any] = {
                "conflicts": self.conflicts,
                "conflict_notes": "They differ." if self.conflicts else "",
            }
        else:
            said = self.second if task.step.startswith("second") else self.said
            asked = [json.loads(line) for line in block(task, "sentences").splitlines()]
            verdicts = [said(one["index"], one["text"]) for one in asked if "index" in one]
            answer = {"sentences": verdicts, "confidence": 0.8, "summary": "As said."}
            self.spoil(answer, len(self.tasks))
        return JudgeAnswer(json.dumps(answer), "scripted-1", cost=0.0, finish_reason="stop")


def block(task: JudgeTask, name: str) -> str:
    """One delimited block of the first ask."""
    found = re.search(rf"<<<{name} (\w+)>>>\n(.*?)\n<<<end of {name} \1>>>", task.messages[-1].content, re.S)
    assert found is not None
    return found[2]


def pumps(answer: str = ANSWER, *sources: str) -> Session:
    return session(turn(1, "List the pumps.", answer, *(sources or (SOURCE,))))


def audited(judge: SentenceJudge, about: Session | None = None, **options: Any) -> Unit:
    told = AuditSettings(options={"longform_drift": options}) if options else None
    return audit_session(LongformDrift(), about or pumps(), judge, settings=told)


def report_of(judge: SentenceJudge, about: Session | None = None, **options: Any) -> Mapping[str, Any]:
    unit = audited(judge, about, **options)
    assert unit.report is not None, unit.reason
    return unit.report


# --- what is asked ------------------------------------------------------------------------------------------------


def test_sentences_are_sent_numbered_and_headings_as_titles() -> None:
    judge = SentenceJudge()
    audited(judge)
    (task,) = judge.tasks
    lines = [json.loads(line) for line in block(task, "sentences").splitlines()]
    assert lines[:3] == [
        {"heading": "Pumps"},
        {"index": 0, "text": "Here is the list."},
        {"index": 1, "text": FACTS[0]},
    ]
    assert [line["index"] for line in lines if "index" in line] == list(range(31))
    assert json.loads(block(task, "source")) == {"passage": "p1", "text": SOURCE}
    assert isinstance(task.material, LongformMaterial)


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        (pumps("Pump one is fine. " * 40), "short_form"),
        (pumps("```\n" + "pump = 1\n" * 200 + "```"), "short_form"),
        (session(turn(1, "?", ANSWER)), "no_passages_captured"),
        (session(replace(turn(1, "?", ANSWER, SOURCE), retrieval="partial")), "no_passages_captured"),
        (session(turn(1, "?", None, SOURCE)), "no_answers"),
        (session(replace(turn(1, "?", None, SOURCE), answer_state="not_captured")), "content_not_captured"),
    ],
)
def test_what_is_no_long_answer_with_a_source_is_not_applicable(about: Session, reason: str) -> None:
    judge = SentenceJudge()
    unit = audited(judge, about)
    assert (unit.outcome, unit.reason, judge.tasks) == ("not_applicable", reason, [])


def test_two_hundred_words_are_long() -> None:
    words = "Pump is fine. " * 66
    assert audited(SentenceJudge(), pumps(words + "Yes.")).reason == "short_form"
    assert audited(SentenceJudge(), pumps(words + "Pump two.")).outcome == "clean"


# --- start, score, severity ---------------------------------------------------------------------------------------


def test_the_start_is_the_first_sentence_weaker_than_fully_grounded() -> None:
    report = report_of(SentenceJudge(drifting(s12="partially_grounded", s20="contradicted")))
    assert report["drift_detected"]
    assert report["drift_start_sentence_index"] == 12
    assert report["drift_start_sentence_text"] == FACTS[11]
    assert ANSWER[report["drift_start_char"] :].startswith(FACTS[11])
    statuses = [one["grounding_status"] for one in report["sentence_by_sentence_analysis"]]
    assert statuses[12] == "partially_grounded"
    assert statuses[13:20] == ["fully_grounded"] * 7, "grounded sentences may follow"


def test_a_sentence_without_a_claim_counts_as_grounded() -> None:
    unit = audited(SentenceJudge())
    assert unit.report is not None
    assert unit.report["sentence_by_sentence_analysis"][0]["makes_claim"] is False
    assert (unit.outcome, unit.report["drift_severity"], unit.report["drift_start_char"]) == ("clean", "none", None)
    assert unit.report["recommended_action"] == "pass"


def test_the_report_has_the_agreed_fields() -> None:
    report = report_of(SentenceJudge(drifting(s20="contradicted")))
    assert set(report) >= {
        "drift_detected", "drift_start_sentence_index", "drift_start_sentence_text", "drift_start_char",
        "drift_severity", "drift_severity_score", "sentence_by_sentence_analysis", "sections", "trajectory",
        "cumulative_drift_summary", "recommended_action",
    }  # fmt: skip
    assert set(report["sentence_by_sentence_analysis"][3]) >= {
        "sentence_index", "sentence_text", "grounding_status", "supporting_source_excerpt", "drift_explanation",
    }  # fmt: skip
    sections = [(one["title"], one["first"], one["last"]) for one in report["sections"]]
    assert sections == [("Pumps", 0, 15), ("More", 16, 30)]
    assert report["sections"][0]["score"] == 0
    assert report["sections"][1]["score"] > report["drift_severity_score"], "taken alone it drifts further"
    assert report["trajectory"][19] == 0
    assert report["trajectory"][-1] == report["drift_severity_score"]


def test_text_and_index_never_come_from_the_judge() -> None:
    def spoil(answer: dict[str, Any], attempt: int) -> None:
        for one in answer["sentences"]:
            one["sentence_text"], one["text"], one["start"] = "Invented.", "Invented.", 0

    report = report_of(SentenceJudge(spoil=spoil))
    for one in report["sentence_by_sentence_analysis"]:
        assert ANSWER[one["start"] : one["end"]] == one["sentence_text"]


@given(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=60), st.data())
def test_the_score_never_falls_when_a_sentence_gets_weaker(statuses: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(statuses) - 1))
    weaker = data.draw(st.sampled_from(STATUSES[WEAKNESS[statuses[at]] :]))
    before = drift_score(statuses, len(statuses))
    after = drift_score([*statuses[:at], weaker, *statuses[at + 1 :]], len(statuses))
    assert 0 <= before <= after <= 1
    assert (before == 0) == (set(statuses) == {"fully_grounded"})
    path = trajectory(statuses)
    assert path == sorted(path)
    assert path[-1] == before


@given(st.lists(st.sampled_from(STATUSES), min_size=2, max_size=60), st.data())
def test_no_part_scores_higher_than_the_whole(statuses: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(statuses) - 1))
    end = data.draw(st.integers(start, len(statuses)))
    assert drift_score(statuses[start:end], len(statuses)) <= drift_score(statuses, len(statuses))


def test_the_bands_of_severity() -> None:
    assert [severity_of(score) for score in (0, 0.01, 0.2999, 0.3, 0.5, 0.7, 1)] == [
        "none", "minor", "minor", "moderate", "severe", "critical", "critical",
    ]  # fmt: skip
    assert [least for least, _ in BANDS] == sorted((least for least, _ in BANDS), reverse=True)


def test_contradicted_counts_most() -> None:
    one = {status: drift_score([status, *["fully_grounded"] * 31], 32) for status in STATUSES}
    assert sorted(one, key=lambda status: one[status]) == list(STATUSES)
    assert [round(value, 2) for value in one.values()] == [0.0, 0.19, 0.4, 0.59]


@pytest.mark.parametrize(
    ("at", "severity", "kind"),
    [
        ({"s5": "partially_grounded"}, "MINOR", "PARTIALLY_GROUNDED"),
        ({"s5": "ungrounded"}, "MAJOR", "UNGROUNDED"),
        ({"s5": "partially_grounded", "s6": "contradicted"}, "MAJOR", "CONTRADICTED"),
        ({f"s{n}": "contradicted" for n in range(5, 12)}, "CRITICAL", "CONTRADICTED"),
    ],
)
def test_severities_map_to_the_canonical_ones(at: dict[str, str], severity: str, kind: str) -> None:
    unit = audited(SentenceJudge(drifting(**at)))
    (finding,) = unit.findings
    assert (unit.outcome, unit.severity, finding.severity, finding.type) == ("findings", severity, severity, kind)
    assert finding.quotes[-1] == FACTS[4]
    assert finding.span_ref == pumps().turns[0].answer_ref
    assert finding.explanation.startswith("Possible drift: grounding first weakens at sentence 6 of 31")


def test_the_raw_score_is_written_beside_the_canonical_severity() -> None:
    unit = audited(SentenceJudge(drifting(s5="ungrounded")))
    assert unit.report is not None
    written = {one.name: one for one in annotations(unit) if one.target == "span"}
    score = written["longform_drift.score"]
    assert (score.score, score.label) == (unit.report["drift_severity_score"], "moderate")
    assert (written["longform_drift"].label, written["longform_drift"].score) == ("MAJOR", 0.7)
    assert written["contradiction_type"].label == "UNGROUNDED"
    assert all(len(name) <= 35 for name in written)
    assert not [one for one in annotations(audited(SentenceJudge())) if one.name == "longform_drift.score"]


def test_event_ids_are_stable_over_runs_and_statuses() -> None:
    ids = {
        audited(SentenceJudge(drifting(s5=status))).findings[0].event_id for status in ("ungrounded", "contradicted")
    }
    assert len(ids) == 1


# --- each rule, broken by a judge ---------------------------------------------------------------------------------


def at_five(**fields: Any) -> Callable[[dict[str, Any], int], None]:
    def spoil(answer: dict[str, Any], attempt: int) -> None:
        answer["sentences"][5].update(fields)

    return spoil


def dropped(answer: dict[str, Any], attempt: int) -> None:
    del answer["sentences"][5]


def doubled(answer: dict[str, Any], attempt: int) -> None:
    answer["sentences"].append(dict(answer["sentences"][5]))


def invented(answer: dict[str, Any], attempt: int) -> None:
    answer["sentences"].append({**answer["sentences"][5], "index": 31})


def silent(answer: dict[str, Any], attempt: int) -> None:
    for one in answer["sentences"]:
        one.update(makes_claim=False, excerpt=None)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (dropped, "No verdict on sentence 5"),
        (doubled, "More than one verdict on sentence 5"),
        (invented, "There is no sentence 31"),
        (at_five(excerpt="Pump number 5 was never checked at all."), "does not stand verbatim in the source"),
        (at_five(excerpt="Pump"), "is too short"),
        (at_five(excerpt=None), "fully_grounded needs an excerpt"),
        (at_five(status="contradicted", excerpt=None, explanation="So."), "contradicted needs an excerpt"),
        (at_five(status="ungrounded", explanation="So."), "excerpt must be null"),
        (at_five(status="partially_grounded"), "partially_grounded needs an explanation"),
        (at_five(status="ungrounded", excerpt=None, explanation="  "), "ungrounded needs an explanation"),
        (at_five(status="ungrounded", excerpt=None, explanation="So.", makes_claim=False), "makes_claim must be true"),
        (silent, "states facts of the source"),
    ],
)
def test_a_judge_that_breaks_a_rule_is_told_so_and_believed_when_it_mends_it(
    spoil: Callable[[dict[str, Any], int], None], message: str
) -> None:
    once = SentenceJudge(spoil=lambda answer, attempt: spoil(answer, attempt) if attempt == 1 else None)
    unit = audited(once)
    assert unit.outcome == "clean"
    assert len(once.tasks) == 2
    assert any(message in error for error in unit.attempts[0].errors)
    assert message in once.tasks[1].messages[-1].content

    always = SentenceJudge(spoil=spoil)
    unit = audited(always)
    assert (unit.outcome, unit.reason, unit.report) == ("inconclusive", "answer_checks", None)
    assert len(always.tasks) == 3, "two repair asks"


@pytest.mark.parametrize(
    "fields",
    [{"status": "grounded"}, {"index": "5"}, {"index": 5.5}, {"excerpt": 7}, {"makes_claim": "yes"}],
)
def test_an_answer_of_the_wrong_form_is_refused(fields: dict[str, Any]) -> None:
    assert audited(SentenceJudge(spoil=at_five(**fields))).reason == "answer_schema"


def test_an_excerpt_is_shown_as_the_source_has_it() -> None:
    source = "“Pump  number 1”\nwas checked and  found good. " + SOURCE
    folded = '"Pump number 1" was checked and found good.'
    report = report_of(SentenceJudge(spoil=at_five(excerpt=folded)), pumps(ANSWER, source))
    shown = report["sentence_by_sentence_analysis"][5]
    assert shown["supporting_source_excerpt"] == "“Pump  number 1”\nwas checked and  found good."
    assert shown["supporting_source_excerpt"] in source
    assert shown["source_id"] == "doc-1-1"


# --- too long for one ask -----------------------------------------------------------------------------------------

LONG = "\n\n".join(
    f"## Part {p}\n\n" + " ".join(f"Pump {p * 40 + n} was found to be in good order." for n in range(40))
    for p in range(12)
)


def long_judge(limits: JudgeLimits | None, weaker: Mapping[int, str]) -> SentenceJudge:
    def said(index: int, text: str) -> dict[str, Any]:
        one = verdict(index, text, weaker.get(index, "fully_grounded"))
        return {**one, "excerpt": None if one["status"] == "ungrounded" else FACTS[0]}

    return SentenceJudge(said, limits=limits)


def test_a_long_answer_is_cut_into_overlapping_chunks_each_beside_the_whole_source() -> None:
    judge = long_judge(None, {})
    unit = audited(judge, pumps(LONG))
    assert unit.report is not None
    parts = unit.report["chunks"]
    assert len(parts) == len(judge.tasks) > 1
    tokens = [judge.count_tokens(s.text) for s in read_layout(LONG).sentences]
    for one in parts:
        assert 2_000 <= sum(tokens[one["first"] : one["last"] + 1]) <= 4_000
    for one, following in pairwise(parts):
        shared = tokens[following["first"] : one["last"] + 1]
        assert 150 <= sum(shared) <= 250
    assert all(SOURCE in json.loads(block(task, "source"))["text"] for task in judge.tasks)
    assert [task.step for task in judge.tasks] == [f"sentences_{n}" for n in range(1, len(parts) + 1)]
    for task, one in zip(judge.tasks, parts, strict=True):
        heading = json.loads(block(task, "sentences").splitlines()[0])
        assert heading == {"heading": f"Part {one['first'] // 40}"}, "a chunk begins with the title it stands under"


def test_a_drift_across_a_chunk_boundary_is_found() -> None:
    parts = report_of(long_judge(None, {}), pumps(LONG))["chunks"]
    boundary = parts[0]["last"]
    report = report_of(long_judge(None, {boundary: "ungrounded", boundary + 1: "contradicted"}), pumps(LONG))
    assert report["drift_start_sentence_index"] == boundary
    statuses = {one["sentence_index"]: one["grounding_status"] for one in report["sentence_by_sentence_analysis"]}
    assert (statuses[boundary], statuses[boundary + 1]) == ("ungrounded", "contradicted")
    assert all(one["score"] <= report["drift_severity_score"] for one in report["chunks"])


def test_the_weaker_status_wins_in_an_overlap() -> None:
    def answer(*statuses: tuple[int, str]) -> SentencesAnswer:
        said = [SentenceAnswer(index=index, status=status, explanation=status) for index, status in statuses]  # type: ignore[arg-type]
        return SentencesAnswer(sentences=said, confidence=0.9, summary="")

    first = answer((0, "fully_grounded"), (1, "ungrounded"), (2, "fully_grounded"))
    second = answer((1, "partially_grounded"), (2, "contradicted"), (3, "fully_grounded"))
    merged = merge([range(3), range(1, 4)], [first, second], embedded=False)
    assert merged.statuses == ["fully_grounded", "ungrounded", "contradicted", "fully_grounded"]
    assert [one.explanation for one in merged.merged][1:3] == ["ungrounded", "contradicted"]


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(st.integers(0, 479), st.sampled_from(STATUSES), max_size=12),
    st.integers(4_000, 60_000),
    st.integers(2_200, 60_000),
)
def test_a_consistent_judge_gives_the_same_result_for_every_chunking(
    weaker: dict[int, str], window: int, output: int
) -> None:
    whole = report_of(long_judge(None, weaker), pumps(LONG))
    unit = audited(long_judge(JudgeLimits(input_tokens=window, output_tokens=output), weaker), pumps(LONG))
    if unit.report is None:
        assert unit.reason == "source_exceeds_window"
        return
    left_out = {"chunks"}
    assert {k: v for k, v in unit.report.items() if k not in left_out} == {
        k: v for k, v in whole.items() if k not in left_out
    }


@given(st.lists(st.integers(1, 900), max_size=200), st.integers(50, 4_000), st.integers(0, 400))
def test_chunks_cover_every_sentence_in_order_and_keep_their_size(tokens: list[int], most: int, overlap: int) -> None:
    parts = chunks(tokens, most, overlap)
    assert sorted({index for part in parts for index in part}) == list(range(len(tokens)))
    for one, following in pairwise(parts):
        assert one.start < following.start <= one.stop < following.stop
    for part in parts:
        fresh = [tokens[i] for i in part if tokens[i] <= most]
        if len(fresh) == len(part) and max(fresh, default=0) <= most // 4:
            assert sum(fresh) <= most


def test_a_source_over_the_window_is_never_cut() -> None:
    judge = long_judge(JudgeLimits(input_tokens=6_000), {})
    unit = audited(judge, pumps(ANSWER, SOURCE * 20))
    assert (unit.outcome, unit.reason, judge.tasks) == ("inconclusive", "source_exceeds_window", [])
    assert plan(LongformDrift(), pumps(ANSWER, SOURCE * 20), judge).reason == "source_exceeds_window"


def test_the_forecast_counts_every_ask() -> None:
    judge = long_judge(None, {})
    told = AuditSettings(options={"longform_drift": {"risk_level": "high"}})
    about = pumps(LONG, SOURCE, "A second passage about something else entirely.")
    forecast = plan(LongformDrift(), about, judge, told)
    unit = audit_session(LongformDrift(), about, judge, settings=told)
    assert unit.calls == forecast.calls == len(judge.tasks)
    assert forecast.input_tokens == pytest.approx(
        sum(judge.count_tokens(m.content) for task in judge.tasks for m in task.messages), rel=0.1
    )


# --- risk, actions, second judge, review --------------------------------------------------------------------------


def test_the_default_actions_are_the_agreed_ones() -> None:
    table = {severity: [DEFAULT_ACTIONS[severity][risk] for risk in RISK_LEVELS] for severity in SEVERITIES}
    assert table == {
        "none": ["pass"] * 4,
        "minor": ["pass", "pass", "flag_for_review", "flag_for_review"],
        "moderate": ["flag_for_review"] * 3 + ["reject"],
        "severe": ["regenerate_from_drift_point"] * 2 + ["reject"] * 2,
        "critical": ["regenerate_from_drift_point"] * 2 + ["reject"] * 2,
    }


def test_an_action_can_be_replaced() -> None:
    told = {"actions": {"minor": {"low": "reject"}}}
    at = drifting(s5="partially_grounded")
    assert report_of(SentenceJudge(at), risk_level="low", **told)["recommended_action"] == "reject"
    assert report_of(SentenceJudge(at), risk_level="medium", **told)["recommended_action"] == "pass"


@pytest.mark.parametrize(
    "options",
    [{"risk_level": "huge"}, {"risks": 1}, {"actions": {"minor": {"low": "shrug"}}}, {"regulated": "perhaps"}],
)
def test_options_that_cannot_be_are_refused_before_anything_is_asked(options: dict[str, Any]) -> None:
    told = AuditSettings(options={"longform_drift": options})
    with pytest.raises(ConfigError, match="options of longform_drift"):
        read_options(told)
    with pytest.raises(ConfigError):
        LongformDrift().prompt_inputs(told)


@pytest.mark.parametrize(("risk", "asks"), [("low", 1), ("medium", 1), ("high", 2), ("critical", 2)])
def test_a_second_judge_is_asked_at_risk_high_and_above(risk: str, asks: int) -> None:
    judge = SentenceJudge(drifting(s5="ungrounded"))
    report = report_of(judge, risk_level=risk)
    assert [task.prompt.id for task in judge.tasks] == ["longform_drift/sentences", "longform_drift/second"][:asks]
    assert (report["second_judge"] is None) == (asks == 1)
    if asks == 2:
        assert report["second_judge"]["difference"] == 0
        assert report["second_judge"]["disagreements"] == []


def test_judges_that_differ_by_more_than_a_fifth_go_to_adjudication_and_never_look_clean() -> None:
    judge = SentenceJudge(drifting(), second=drifting(s5="contradicted"))
    unit = audited(judge, risk_level="high")
    assert unit.report is not None
    assert unit.outcome == "findings"
    assert unit.report["recommended_action"] == "adjudication"
    assert unit.report["review"] == {"needed": True, "reasons": ["judges_differ"], "awaiting_sign_off": False}
    assert unit.report["second_judge"]["disagreements"] == [
        {"sentence_index": 5, "first": "fully_grounded", "second": "contradicted"}
    ]
    assert unit.report["drift_start_sentence_index"] == 5, "the graver reading is shown"


def test_judges_that_differ_by_less_leave_the_first_verdict() -> None:
    judge = SentenceJudge(drifting(s5="ungrounded"), second=drifting(s7="ungrounded"))
    report = report_of(judge, risk_level="high")
    assert report["drift_start_sentence_index"] == 5
    assert report["second_judge"]["drift_start_sentence_index"] == 7
    assert report["recommended_action"] == "flag_for_review"


@pytest.mark.parametrize(
    ("drifted", "regulated", "reasons", "sign_off"),
    [
        (7, False, ["score_at_review_threshold"], False),
        (1, False, [], False),
        (1, True, ["score_at_review_threshold"], True),
        (0, True, [], False),
    ],
)
def test_review_from_a_score_of_seven_tenths_regulated_from_four(
    drifted: int, regulated: bool, reasons: list[str], sign_off: bool
) -> None:
    at = drifting(**{f"s{5 + n}": "contradicted" for n in range(drifted)})
    report = report_of(SentenceJudge(at), regulated=regulated)
    assert report["review"] == {"needed": bool(reasons), "reasons": reasons, "awaiting_sign_off": sign_off}


# --- one authoritative source -------------------------------------------------------------------------------------


def conflict(severity: str = "MATERIAL") -> dict[str, Any]:
    return {
        "source_a": "t1.p1", "claim_a": "Pump 1 was checked on day 1.", "quote_a": FACTS[0],
        "source_b": "t1.p2", "claim_b": "Pump 1 was checked on day 9.", "quote_b": OTHER,
        "severity": severity, "confidence": 0.9, "explanation": "Two days for one check.", "disclosed": False,
    }  # fmt: skip


OTHER = "Pump number 1 was checked on day 9 and found to be broken beyond repair."


def test_sources_that_contradict_each_other_are_no_yardstick() -> None:
    judge = SentenceJudge(conflicts=[conflict()])
    unit = audited(judge, pumps(ANSWER, SOURCE, OTHER))
    assert (unit.outcome, unit.reason) == ("not_applicable", "conflicting_sources"), unit.attempts
    assert [task.step for task in judge.tasks] == ["conflicts"]
    assert unit.calls == 1


@pytest.mark.parametrize("conflicts", [[], [conflict("MINOR")]])
def test_sources_that_agree_are_read_together(conflicts: list[dict[str, Any]]) -> None:
    judge = SentenceJudge(conflicts=conflicts)
    unit = audited(judge, pumps(ANSWER, SOURCE, OTHER))
    assert unit.outcome == "clean", unit.attempts
    assert [task.step for task in judge.tasks] == ["conflicts", "sentences"]
    assert [json.loads(line)["passage"] for line in block(judge.tasks[1], "source").splitlines()] == ["p1", "p2"]


def test_the_thresholds_are_those_of_source_conflict_and_part_of_the_fingerprint() -> None:
    two = AuditSettings(options={"source_conflict": {"pair_threshold": 2}})
    judge = SentenceJudge(conflicts=[conflict()])
    about = pumps(ANSWER, SOURCE, OTHER)
    assert audit_session(LongformDrift(), about, judge, settings=two).outcome == "clean"
    prints = {unit_fingerprint(LongformDrift(), about, judge, told) for told in (two, AuditSettings())}
    assert len(prints) == 2


def test_copies_of_one_passage_are_one_source_and_ask_nothing() -> None:
    judge = SentenceJudge()
    audited(judge, pumps(ANSWER, SOURCE, SOURCE + "\n", SOURCE))
    assert [task.step for task in judge.tasks] == ["sentences"]
    assert len(block(judge.tasks[0], "source").splitlines()) == 1


def test_passages_are_held_against_each_other_even_where_the_long_answer_does_not_fit_beside_them() -> None:
    judge = long_judge(JudgeLimits(input_tokens=8_000), {})
    unit = audited(judge, pumps(LONG, SOURCE, OTHER))
    assert unit.outcome == "clean"
    assert judge.tasks[0].step == "conflicts"
    assert LONG[:200] not in judge.tasks[0].messages[-1].content


# --- the prompts' own examples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sentences", "second"])
def test_the_examples_in_the_prompts_pass_the_checks(name: str) -> None:
    from otel_drift.prompting import load

    text = load(f"longform_drift/{name}").text
    found = re.findall(r"```source\n(.*?)\n```\n.*?```sentences\n(.*?)\n```\n```answer\n(.*?)\n```", text, re.S)
    assert len(found) == 3
    drifts = 0
    for source, sentences, answer in found:
        lines = [json.loads(line) for line in sentences.splitlines()]
        asked = [
            replace(read_layout("x y.").sentences[0], index=one["index"], text=one["text"])
            for one in lines
            if "index" in one
        ]
        parsed = SentencesAnswer.model_validate_json(answer)
        texts = [json.loads(line)["text"] for line in source.splitlines()]
        assert check_sentences(parsed, asked, texts) == []
        drifts += any(one.status != "fully_grounded" for one in parsed.sentences)
    assert drifts == 2
