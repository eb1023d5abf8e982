"""What a dry run says would be written."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.console import Console

from ledger_samples import conflicting, ref, session
from otel_drift.judges.rules import RulesJudge
from otel_drift.planning import Plan
from otel_drift.report.planning import PlanTotals, plan_record, print_plan, print_plan_totals
from report.terminal import printed, uncoloured

PLAN = Plan(eligible=True, reason="judged already", unit=conflicting(("desk", "lab")))


def test_documents_that_would_be_annotated_are_named() -> None:
    console = Console(file=StringIO(), width=300)
    print_plan(console, "source_conflict", session(), PLAN)
    shown = [line.strip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    at = shown.index(f"would write source_conflict = MAJOR (0.7) on span {ref(3)}")
    assert shown[at + 1 : at + 3] == [
        f"would write source_conflict = MAJOR on document {name} of span {ref(2)} (Phoenix alone)"
        for name in ("desk", "lab")
    ]


def test_the_json_line_names_them_with_their_value() -> None:
    first, *others = plan_record("source_conflict", session(), PLAN)["annotations"]
    assert [(one["span_ref"], one["passage_id"], one["label"]) for one in first["passages"]] == [
        (ref(2), "desk", "MAJOR"),
        (ref(2), "lab", "MAJOR"),
    ]
    assert not any("passages" in one for one in others)


def totals_of(*plans: Plan, sinks: Sequence[str] = ("jsonl:f.jsonl",)) -> str:
    totals = PlanTotals()
    for one in plans:
        totals.add(one)
    return printed(lambda on: print_plan_totals(on, totals, RulesJudge(), {}, sinks), terminal=False)


def test_what_is_judged_already_is_not_counted_as_to_judge() -> None:
    text = totals_of(PLAN, Plan(eligible=True, calls=1), Plan(eligible=False, reason="single_turn"))
    assert "3 checks, 1 to judge, 1 judged already" in text
    assert "what stands there already is not written again" in text
    assert "1 check, 1 to judge\n" in totals_of(Plan(eligible=True, calls=1))


def test_without_a_sink_nothing_would_be_written() -> None:
    assert "would write nothing: no sink is named" in totals_of(PLAN, sinks=())
    shown = printed(lambda on: print_plan(on, "source_conflict", session(), PLAN, write=False), terminal=False)
    assert "would write" not in shown


def test_a_plan_fits_the_terminal() -> None:
    lines = uncoloured(printed(lambda on: print_plan(on, "source_conflict", session(), PLAN), width=60)).splitlines()
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("   ") for line in lines[1:])
