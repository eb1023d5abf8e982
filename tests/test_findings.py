"""What a unit says on platforms and in JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_samples import SECOND, START, conflicting, finding, ref, session, span, trace, unit
from otel_drift.findings import LONGEST_EXPLANATION, annotation_id, annotations, slug, type_name, unit_record
from otel_drift.model import Annotation, Finding, Unit
from otel_drift.passage_mark import PassageMark


def said(one: Unit) -> list[tuple[str, str, str, float | None]]:
    return [(made.target, made.name, made.label, made.score) for made in annotations(one)]


def named(one: Unit, target: str, name: str) -> Annotation:
    (found,) = [made for made in annotations(one) if (made.target, made.name) == (target, name)]
    return found


def test_a_finding_is_said_on_its_answer_on_the_session_and_on_its_first_trace() -> None:
    assert said(unit(finding(3))) == [
        ("span", "factual_drift", "MAJOR", 0.7),
        ("span", "factual_drift.contradiction", "MAJOR", 0.7),
        ("span", "drift_severity", "MAJOR", 0.7),
        ("span", "contradiction_type", "CONTRADICTION", None),
        ("trace", "factual_drift", "MAJOR", 0.7),
        ("trace", "drift_severity", "MAJOR", 0.7),
        ("session", "factual_drift", "MAJOR", 0.7),
        ("session", "drift_severity", "MAJOR", 0.7),
    ]


def test_targets_carry_the_ids_and_times_of_what_was_audited() -> None:
    one = unit(finding(3))
    on_span, on_trace, on_session = (
        named(one, "span", "factual_drift"),
        named(one, "trace", "factual_drift"),
        named(one, "session", "factual_drift"),
    )

    assert f"{on_span.trace_id}:{on_span.span_id}" == ref(3)
    assert (on_trace.trace_id, on_trace.span_id) == (trace(1), span(16))
    assert {made.session_id for made in (on_span, on_trace, on_session)} == {"s1"}
    assert (on_span.start, on_span.end) == (START + 180 * SECOND, START + 190 * SECOND)
    assert (on_trace.start, on_trace.end) == (START + 60 * SECOND, START + 70 * SECOND)
    assert (on_session.start, on_session.end) == (START + 60 * SECOND, START + 250 * SECOND)
    assert on_span.links == (ref(1),)
    assert on_session.links == (ref(3),)


def test_a_conflict_names_its_passages_without_their_texts() -> None:
    one = conflicting(("desk", "lab"), ("desk", "prompt"))
    words = "Possible undisclosed conflict with {}, MAJOR, confidence 0.90."

    assert named(one, "span", "source_conflict").passages == (
        PassageMark(ref(2), "desk", "hash of desk", "MAJOR", "\n".join(map(words.format, ("lab", "prompt")))),
        PassageMark(ref(2), "lab", "hash of lab", "MAJOR", words.format("desk")),
    )
    assert not any(made.passages for made in annotations(one) if made != named(one, "span", "source_conflict"))


def test_the_worst_conflict_of_a_passage_counts_and_what_people_refused_does_not() -> None:
    one = conflicting(("desk", "lab"), ("desk", "desk 2"))
    mild, grave = one.findings

    def marks(*findings: Finding) -> list[tuple[str, str]]:
        made = named(replace(one, findings=findings), "span", "source_conflict").passages
        return [(mark.passage_id, mark.label) for mark in made]

    grave = replace(grave, severity="CRITICAL")
    assert marks(mild, grave) == [("desk", "CRITICAL"), ("desk 2", "CRITICAL"), ("lab", "MAJOR")]
    assert marks(mild, grave) == marks(grave, mild)
    assert marks(replace(mild, status="rejected"), grave) == [("desk", "CRITICAL"), ("desk 2", "CRITICAL")]
    assert marks(mild, replace(grave, muted="known")) == [("desk", "MAJOR"), ("lab", "MAJOR")]


def test_ids_of_passages_are_made_safe_and_cut() -> None:
    one = conflicting(("desk", "\x1b[31mlab" + "x" * 2_000))
    said = named(one, "span", "source_conflict").passages[1].explanation
    assert "\x1b" not in said
    assert len(said) <= LONGEST_EXPLANATION


def test_a_report_of_an_older_version_names_no_passages() -> None:
    one = conflicting(("desk", "lab"))
    old = [{"event_id": "conflict-0", "source_a": "desk", "source_b": "lab"}]
    assert named(replace(one, report={"conflicts": old}), "span", "source_conflict").passages == ()


def test_several_findings_of_one_answer_make_one_value_a_name_and_the_worst_is_the_label() -> None:
    one = unit(
        finding(3, severity="MINOR"),
        finding(3, event_id="other", severity="CRITICAL"),
        finding(3, event_id="third", type="UNSUPPORTED_NEW_CLAIM", earlier_ref=None, earlier_turn=None),
    )

    assert said(one)[:5] == [
        ("span", "factual_drift", "CRITICAL", 1.0),
        ("span", "factual_drift.contradiction", "CRITICAL", 1.0),
        ("span", "factual_drift.unsupported_new_claim", "MAJOR", 0.7),
        ("span", "drift_severity", "CRITICAL", 1.0),
        ("span", "contradiction_type", "CONTRADICTION", None),
    ]
    metadata = named(one, "span", "factual_drift").metadata
    assert metadata["event_ids"] == ["other", "third", "event-3"]
    assert metadata["types"] == ["CONTRADICTION", "UNSUPPORTED_NEW_CLAIM"]


@pytest.mark.parametrize(
    ("session_id", "target"), [("s1", "session"), (None, "trace")], ids=["with session id", "without"]
)
@pytest.mark.parametrize(
    ("changes", "label", "score", "error_type"),
    [
        ({}, "NONE", 0.0, None),
        ({"outcome": "inconclusive", "reason": "answer_schema: 3 errors"}, "inconclusive", None, "answer_schema"),
        ({"outcome": "not_applicable", "reason": "single_turn"}, "not_applicable", None, "single_turn"),
        ({"outcome": "inconclusive", "reason": None}, "inconclusive", None, "inconclusive"),
    ],
    ids=["clean", "inconclusive", "not applicable", "no reason"],
)
def test_without_findings_one_target_says_clean_or_not_audited(
    session_id: str | None, target: str, changes: dict[str, str], label: str, score: float, error_type: str
) -> None:
    one = unit(session=session(session_id=session_id), **changes)

    assert said(one) == [(target, "factual_drift", label, score), (target, "drift_severity", label, score)]
    assert {made.error_type for made in annotations(one)} == {error_type}
    assert unit_record(one)["severity"] == (None if changes else "NONE")


def test_a_finding_a_person_rejected_counts_as_none() -> None:
    one = unit(finding(3, status="rejected"), finding(4, severity="MINOR"))

    assert {made.label for made in annotations(one)} == {"MINOR", "CONTRADICTION"}
    assert said(unit(finding(3, status="rejected"), outcome="findings")) == [
        ("session", "factual_drift", "NONE", 0.0),
        ("session", "drift_severity", "NONE", 0.0),
    ]


def test_ids_follow_from_target_and_name_alone() -> None:
    before, after = unit(finding(3)), unit(finding(3, severity="MINOR", explanation="x"), content_sha256="other")
    ids = [made.id for made in annotations(before)]

    assert ids == [made.id for made in annotations(after)]
    assert len(set(ids)) == len(ids)
    assert {made.revision for made in annotations(before)} == {0}
    assert annotation_id("span", ("a", "b"), "c") != annotation_id("span", ("a", "bc"), "")


def test_two_customers_with_one_session_id_have_different_values() -> None:
    mine, theirs = (unit(session=session(key=key)) for key in ("a|s1", "b|s1"))

    assert not {made.id for made in annotations(mine)} & {made.id for made in annotations(theirs)}


def test_the_explanation_tells_what_where_why_and_quotes() -> None:
    text = named(unit(finding(3)), "span", "factual_drift").explanation

    assert text == (
        "Possible contradiction, MAJOR, confidence 0.90, turn 1 → turn 3: The refund period was 30 days and is now 60. "
        "Quotes: “within 30 days” / “within 60 days” Likely cause: generation error."
    )


def test_a_finding_is_a_suspicion_until_confirmed_and_says_possible_once() -> None:
    def text(**changes: str) -> str:
        return (named(unit(finding(3, **changes)), "span", "factual_drift").explanation or "")[:60]

    assert text(status="confirmed").startswith("Contradiction, MAJOR, confidence 0.90")
    assert text(explanation="Possible contradiction of t1: 30 is now 60.").startswith(
        "MAJOR, confidence 0.90, turn 1 →"
    )
    assert text(type="UNSUPPORTED_NEW_CLAIM").startswith("Possible unsupported new claim, MAJOR")


def test_a_judges_note_on_its_limits_survives_the_length_limit() -> None:
    note = "compares words and numbers; misses paraphrases"

    for one in (unit(finding(3, explanation="y" * 5_000), judge_note=note), unit(judge_note=note)):
        for made in annotations(one):
            assert (made.explanation or "").endswith(f"\nJudge: {note}")


@given(st.text(max_size=3_000), st.text(max_size=3_000), st.text(max_size=300))
def test_nothing_in_an_explanation_steers_a_terminal_and_none_is_too_long(text: str, quote: str, note: str) -> None:
    one = unit(finding(3, explanation=text, quotes=(quote, "\x1b[2J\u202e\ud800")), judge_note=note)

    for made in annotations(one):
        shown = made.explanation or ""
        assert len(shown) <= LONGEST_EXPLANATION
        assert not set(shown) & {"\x1b", "\x00", "\r", "\u202e", "\u200b", "\ud800", "\x9b"}
        shown.encode()


def test_names_fit_the_strictest_platform_and_stay_apart() -> None:
    assert type_name("factual_drift", "DROPPED_QUALIFICATION") == "factual_drift.dropped_qualification"
    assert type_name("factual_drift", "UNSUPPORTED_NEW_CLAIM") == "factual_drift.unsupported_new_claim"
    long = [type_name("factual_drift", f"a taxonomy with a very long name, part {n}") for n in "ab"]
    assert len(set(long)) == 2
    assert all(len(name) <= 35 for name in long)
    assert [slug("Entity shift"), slug("tense-shift!"), slug("🙂")] == ["entity_shift", "tense_shift", "other"]


def test_a_finding_without_a_span_is_said_on_session_and_trace_only() -> None:
    assert {made.target for made in annotations(unit(finding(3, span_ref="")))} == {"trace", "session"}


def test_the_record_of_a_unit_is_json_with_everything_a_script_needs() -> None:
    record = json.loads(json.dumps(unit_record(unit(finding(3)))))

    assert record["tokens"] == {"input": 900, "output": 80, "total": 980}
    assert {key: record[key] for key in ("session_id", "audit", "outcome", "reason", "severity", "judge", "calls")} == {
        "session_id": "s1",
        "audit": "factual_drift",
        "outcome": "findings",
        "reason": None,
        "severity": "MAJOR",
        "judge": "litellm:model",
        "calls": 1,
    }
    assert record["report"]["total_turns"] == 4
    assert record["cost"] == 0.0123
    assert record["findings"][0]["span_ref"] == ref(3)
    assert record["prompts"][0]["id"] == "factual_drift/session"


def test_a_session_without_turns_is_no_error() -> None:
    empty = replace(session(), turns=(), trace_ids=())

    assert said(unit(session=empty)) == [
        ("session", "factual_drift", "NONE", 0.0),
        ("session", "drift_severity", "NONE", 0.0),
    ]
    assert said(unit(session=replace(empty, session_id=None))) == []
