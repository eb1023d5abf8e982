"""What a dry run shows: calls, tokens and price per session and in total, and where the text would go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from otel_drift.model import Session
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


def print_plan_totals(console: Console, totals: PlanTotals, judge: Judge, limits: Mapping[str, Any]) -> None:
    """The sum, where the text would go, and the limits that hold."""
    console.print(Text(f"{totals.sessions} session(s), {totals.eligible} to judge", style="bold"))
    console.print(
        f"calls {totals.calls} (with every repair {totals.most_calls}) · tokens {totals.input_tokens:,} in, about "
        f"{totals.output_tokens:,} out · {_money(totals.cost)} (with every repair {_money(totals.most_cost)})"
    )
    console.print(Text(f"judge {terminal_safe(judge.name)} · the text would go to {terminal_safe(judge.endpoint)}"))
    named = [f"{name} {value:g}" for name, value in limits.items() if value is not None]
    console.print(f"limits: {', '.join(named) or 'none set'} · nothing was sent, nothing was written")


def _money(cost: float | None) -> str:
    return "price unknown" if cost is None else f"${cost:.4f}"
