"""What a dry run says would be written."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from ledger_samples import conflicting, ref, session
from otel_drift.planning import Plan
from otel_drift.report.planning import plan_record, print_plan

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
