"""What people see of a long answer: the page's data, and the lines of ``otel-drift longform``."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from otel_drift.audits.longform_drift import LongformDrift
from otel_drift.judges.rules import RulesJudge
from otel_drift.longform.files import Document, session_of
from otel_drift.model import Unit
from otel_drift.report.html import HtmlReport
from otel_drift.report.longform import print_longform
from otel_drift.report.page_data import detail
from otel_drift.report.timeline import print_unit
from otel_drift.validation import audit_session
from report import samples

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "longform"
SOURCE_TEXT = (EXAMPLES / "inspection.md").read_text(encoding="utf-8")


def example(change: str = "") -> Unit:
    text, source = ((EXAMPLES / name).read_text(encoding="utf-8") for name in ("summary.md", "inspection.md"))
    return audit_session(
        LongformDrift(), session_of(Document("a.md", text + change), [Document("b.md", source)]), RulesJudge()
    )


def test_the_page_marks_each_sentence_where_it_stands_and_draws_the_curve() -> None:
    unit = example()
    assert unit.report is not None
    shown = detail(unit)
    view = shown["longform"]
    assert len(shown["claims"]) == len(view["trajectory"]) == len(view["statuses"]) == 20
    [turn] = shown["turns"]
    for start, end, number in turn["marks"]:
        marked = turn["answer"].encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")
        assert marked == shown["claims"][number]["quote"]
    assert len(turn["marks"]) == 20
    weaker = shown["claims"][view["start"]]
    assert weaker["explanation"].startswith("Possible drift")
    [evidence] = weaker["evidence"]
    start, end = evidence["at"]
    assert shown["texts"][0][start:end] == evidence["quote"]
    assert view["trajectory"][-1] == view["score"] == unit.report["drift_severity_score"]


def test_units_of_other_audits_have_no_curve() -> None:
    assert detail(samples.unit())["longform"] is None
    assert detail(samples.quiet("inconclusive", "timeout"))["longform"] is None


def test_hostile_texts_stay_data(tmp_path: Path) -> None:
    unit = example(f"\n\n## {samples.MARKUP}\n\nThe mayor said: {samples.HOSTILE}")
    with HtmlReport(tmp_path / "r.html", title="t", run={}) as report:
        report.add(unit)
    page = (tmp_path / "r.html").read_text()
    assert "<script>window.hacked" not in page
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", page)

    out = io.StringIO()
    print_longform(Console(file=out, width=100, force_terminal=False), unit)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", out.getvalue())


@pytest.mark.parametrize("terminal", [True, False])
def test_the_list_says_where_the_drift_starts(terminal: bool) -> None:
    out = io.StringIO()
    print_longform(Console(file=out, width=90, force_terminal=terminal, color_system=None), example())
    said = out.getvalue()
    before, _, after = said.partition("drift starts here")
    assert "Vibration under a group of twelve walkers" in before
    assert after.lstrip("─ \n").startswith("16 ◆ Surface rust was found")
    assert "partially grounded: Possible drift" in " ".join(after.split())
    assert "recommended: regenerate from drift point (risk medium)" in before


def test_the_timeline_of_an_audit_says_so_too() -> None:
    out = io.StringIO()
    print_unit(Console(file=out, width=300, force_terminal=False), example())
    assert "5 of 20 sentences weaker than fully grounded; drift starts at sentence 10" in out.getvalue()
    clean = audit_session(
        LongformDrift(), session_of(Document("b.md", SOURCE_TEXT), [Document("b.md", SOURCE_TEXT)]), RulesJudge()
    )
    out = io.StringIO()
    print_unit(Console(file=out, width=300, force_terminal=False), clean)
    assert re.search(r"\d+ sentences checked: \d+ fully grounded", out.getvalue())


def test_what_was_not_audited_says_why() -> None:
    unit = example()
    out = io.StringIO()
    told = replace(unit, outcome="inconclusive", reason="source_exceeds_window", report=None, findings=())
    print_longform(Console(file=out, width=100), told)
    assert "source_exceeds_window: the source alone is larger" in " ".join(out.getvalue().split())
