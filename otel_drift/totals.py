"""What a run came to: results, findings by severity and type, calls, tokens, money."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_drift.model import Unit


@dataclass(slots=True)
class Totals:
    """What a run came to."""

    units: int = 0
    """Results: one an audit of a session, or of one of its turns."""
    sessions: set[int] = field(default_factory=set)
    """Hashes of the session keys seen."""
    outcomes: Counter[str] = field(default_factory=Counter)
    severities: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    stored_failures: int = 0
    """Inconclusive units that rest on answers of earlier runs, which no further run would ask for again."""
    passed_over: int = 0
    """Broken records and files of the input: what they held was not audited."""
    sign_offs: int = 0
    """Units whose text may not go out before a person has signed it off."""
    held: int | None = None
    """When the first session began that could not be judged for a reason that passes (nanoseconds)."""

    def add(self, unit: Unit) -> None:
        """Count one unit; findings a person rejected or muted don't count."""
        from otel_drift.findings import standing
        from otel_drift.reasons import PASSING

        self.units += 1
        self.sessions.add(hash(unit.session.key))
        self.outcomes[unit.outcome] += 1
        counted = standing(unit)
        self.severities.update(finding.severity for finding in counted)
        self.types.update(finding.type for finding in counted)
        review = (unit.report or {}).get("review")
        self.sign_offs += isinstance(review, dict) and review.get("awaiting_sign_off") is True
        self.stored_failures += unit.outcome == "inconclusive" and not unit.calls and "answer_" in (unit.reason or "")
        if unit.outcome == "inconclusive" and (unit.reason or "").split(":")[0] in PASSING and unit.session.turns:
            started = unit.session.turns[0].started
            self.held = started if self.held is None else min(self.held, started)
        self.calls += unit.calls
        if unit.calls:
            self.input_tokens += unit.input_tokens
            self.output_tokens += unit.output_tokens
            if unit.cost is not None:
                self.cost = (self.cost or 0.0) + unit.cost

    def record(self) -> dict[str, object]:
        """The totals as the ledger keeps them and the last lines show them."""
        return {
            "units": self.units,
            "sessions": len(self.sessions),
            "passed_over": self.passed_over,
            "outcomes": dict(self.outcomes),
            "severities": dict(self.severities),
            "types": dict(self.types),
            "calls": self.calls,
            "tokens": {"input": self.input_tokens, "output": self.output_tokens},
            "cost": self.cost,
        }

    def status(self, fail_on: str) -> int:
        """The exit status these results call for."""
        from otel_drift.model import SEVERITY_SCORES

        if fail_on and any(
            SEVERITY_SCORES[severity] >= SEVERITY_SCORES[fail_on.upper()] for severity in self.severities
        ):
            return 1
        if self.sign_offs:
            return 4
        if self.outcomes["inconclusive"]:
            return 5
        return 3 if self.passed_over else 0
