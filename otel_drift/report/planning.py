"""What a dry run shows: calls, tokens and price per session and in total, and where the text would go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from otel_drift import findings
from otel_drift.model import Annotation, Session
from otel_drift.planning import Plan
from otel_drift.protocols import Judge
from otel_drift.report.paper import Paper
from otel_drift.report.wording import count

_INDENT = "   "


@dataclass(slots=True)
class PlanTotals:
    """The sum of the plans of a run; a cost of None says that a price is unknown."""

    checks: int = 0
    """Results: one an audit of a session, or of one of its turns."""
    to_judge: int = 0
    judged: int = 0
    """Results that are in the ledger."""
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
        self.checks += 1
        self.to_judge += plan.calls > 0
        self.judged += plan.eligible and not plan.calls
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


def print_plan(console: Console, audit: str, session: Session, plan: Plan, *, write: bool = True) -> None:
    """One line for one session, and one for each annotation known beforehand, if there is somewhere to `write` it."""
    paper = Paper(console)
    asked = (f"no call: {plan.reason or 'nothing to ask'}", "dim")
    if plan.calls:
        tokens = f"{plan.input_tokens:,} + about {plan.output_tokens:,} tokens"
        asked = (f"{count(plan.calls, 'call')}  {tokens}  {_money(plan.cost)}", "none")
    paper.line((session.name, "bold"), f"  {audit}  ", asked)
    for one in _annotations(plan) if write else ():
        paper.line((f"would write {_written(one)}", "dim"), gutter=_INDENT)
        for mark in one.passages:
            where = f"document {mark.passage_id} of span {mark.span_ref}"
            paper.line((f"would write {one.name} = {mark.label} on {where} (Phoenix alone)", "dim"), gutter=_INDENT)


def print_plan_totals(
    console: Console, totals: PlanTotals, judge: Judge, limits: Mapping[str, Any], sinks: Sequence[str]
) -> None:
    """The sum, where the text and the annotations would go, and the limits that hold."""
    paper = Paper(console)
    already = f", {totals.judged} judged already" if totals.judged else ""
    paper.line((f"{count(totals.checks, 'check')}, {totals.to_judge} to judge{already}", "bold"))
    paper.line(
        f"calls {totals.calls} (with every repair {totals.most_calls}) · tokens {totals.input_tokens:,} in, about "
        f"{totals.output_tokens:,} out · {_money(totals.cost)} (with every repair {_money(totals.most_cost)})"
    )
    paper.line(f"judge {judge.name} · the text would go to {judge.endpoint}")
    paper.line(f"would write {_would_write(totals, sinks)}")
    named = [f"{name} {value:g}" for name, value in limits.items() if value is not None]
    paper.line(f"limits: {', '.join(named) or 'none set'} · nothing was sent, nothing was written")


def _would_write(totals: PlanTotals, sinks: Sequence[str]) -> str:
    if not sinks:
        return "nothing: no sink is named"
    later = f", and what {count(totals.unknown, 'result')} not judged yet will say," if totals.unknown else ""
    again = "; what stands there already is not written again" if totals.judged else ""
    return f"{count(totals.annotations, 'annotation')}{later} to {', '.join(sinks)}{again}"


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
    return f"{one.name} = {one.label}{score} on {one.target} {where or ''}"


def _money(cost: float | None) -> str:
    return "price unknown" if cost is None else f"${cost:.4f}"
