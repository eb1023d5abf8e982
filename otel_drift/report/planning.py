"""What a dry run shows: calls, tokens and price per session and in total, and where the text would go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from otel_drift import findings
from otel_drift.model import Annotation, Session
from otel_drift.planning import Plan
from otel_drift.protocols import Judge
from otel_drift.report.escape import terminal_safe


@dataclass(slots=True)
class PlanTotals:
    """The sum of the plans of a run; a cost of None says that a price is unknown."""

    sessions: int = 0
    eligible: int = 0
    calls: int = 0
    most_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    most_cost: float | None = 0.0
    annotations: int = 0
    unknown: int = 0
    """Results that a call decides, so that nobody knows yet what they will write."""

    def add(self, plan: Plan) -> None:
        """Add one session's plan."""
        self.sessions += 1
        self.eligible += plan.eligible
        self.calls += plan.calls
        self.most_calls += plan.most_calls
        self.input_tokens += plan.input_tokens
        self.output_tokens += plan.output_tokens
        self.cost = None if self.cost is None or plan.cost is None else self.cost + plan.cost
        self.most_cost = None if self.most_cost is None or plan.most_cost is None else self.most_cost + plan.most_cost
        self.annotations += len(_annotations(plan))
        self.unknown += plan.unit is None


def plan_record(audit: str, session: Session, plan: Plan) -> dict[str, Any]:
    """The JSON line of one session's plan."""
    return {
        "session_id": session.session_id,
        "audit": audit,
        "eligible": plan.eligible,
        "reason": plan.reason,
        "calls": plan.calls,
        "most_calls": plan.most_calls,
        "tokens": {"input": plan.input_tokens, "output": plan.output_tokens},
        "cost": plan.cost,
        "most_cost": plan.most_cost,
        "annotations": None if plan.unit is None else [_annotation_record(one) for one in _annotations(plan)],
    }


def print_plan(console: Console, audit: str, session: Session, plan: Plan) -> None:
    """One line for one session."""
    line = Text(terminal_safe(session.name), style="bold")
    line.append(f"  {audit}  ", style="none")
    if not plan.calls:
        line.append(f"no call: {plan.reason or 'nothing to ask'}", style="dim")
    else:
        line.append(
            f"{plan.calls} call(s)  {plan.input_tokens:,} + about {plan.output_tokens:,} tokens  {_money(plan.cost)}",
            style="none",
        )
    console.print(line)
    for one in _annotations(plan):
        console.print(Text(f"   would write {_written(one)}", style="dim"))
        for mark in one.passages:
            where = f"document {terminal_safe(mark.passage_id)} of span {terminal_safe(mark.span_ref)}"
            console.print(Text(f"   would write {one.name} = {mark.label} on {where} (Phoenix alone)", style="dim"))


def print_plan_totals(
    console: Console, totals: PlanTotals, judge: Judge, limits: Mapping[str, Any], sinks: Sequence[str]
) -> None:
    """The sum, where the text and the annotations would go, and the limits that hold."""
    console.print(Text(f"{totals.sessions} session(s), {totals.eligible} to judge", style="bold"))
    console.print(
        f"calls {totals.calls} (with every repair {totals.most_calls}) · tokens {totals.input_tokens:,} in, about "
        f"{totals.output_tokens:,} out · {_money(totals.cost)} (with every repair {_money(totals.most_cost)})"
    )
    console.print(Text(f"judge {terminal_safe(judge.name)} · the text would go to {terminal_safe(judge.endpoint)}"))
    later = f", and what {totals.unknown} result(s) not judged yet will say" if totals.unknown else ""
    where = ", ".join(terminal_safe(sink) for sink in sinks) or "nowhere (no sink is named)"
    console.print(Text(f"would write {totals.annotations} annotation(s){later} to {where}"))
    named = [f"{name} {value:g}" for name, value in limits.items() if value is not None]
    console.print(f"limits: {', '.join(named) or 'none set'} · nothing was sent, nothing was written")


def _annotations(plan: Plan) -> Sequence[Annotation]:
    return findings.annotations(plan.unit) if plan.unit is not None else ()


def _annotation_record(one: Annotation) -> dict[str, Any]:
    names = ("id", "name", "target", "trace_id", "span_id", "session_id", "label", "score")
    record: dict[str, Any] = {name: getattr(one, name) for name in names}
    if one.passages:
        record["passages"] = [asdict(mark) for mark in one.passages]
    return record


def _written(one: Annotation) -> str:
    where = {"span": f"{one.trace_id}:{one.span_id}", "trace": one.trace_id, "session": one.session_id}[one.target]
    score = "" if one.score is None else f" ({one.score:g})"
    return f"{one.name} = {terminal_safe(one.label)}{score} on {one.target} {terminal_safe(where or '')}"


def _money(cost: float | None) -> str:
    return "price unknown" if cost is None else f"${cost:.4f}"
