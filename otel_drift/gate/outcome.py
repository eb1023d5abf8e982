"""What a check came to, before it is put into words."""

from __future__ import annotations

from dataclasses import dataclass

from otel_drift.gate.decision import Verdict
from otel_drift.model import Unit


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict with its reason. `override` is the code of what failed; `unit` the audit's result where it ran."""

    decision: Verdict
    reason: str
    override: str | None = None
    answerability: float | None = None
    unit: Unit | None = None


def overridden(code: str, unit: Unit | None = None) -> Outcome:
    """Abstain because the check could not be completed."""
    return Outcome("abstain", "safety_override", override=code, unit=unit)


def outcome_of(unit: Unit | None) -> Outcome:
    """What the audit's result means for answering. Whatever is no clear result abstains."""
    if unit is None:
        return overridden("internal_error")
    if unit.outcome == "not_applicable":
        if unit.reason == "single_source":
            return Outcome("proceed", "single_source", unit=unit)
        return Outcome("abstain", "no_passages", unit=unit)
    if unit.report is None or unit.outcome == "inconclusive":
        return overridden(unit.reason or "internal_error", unit)
    if unit.report["abstain"]:
        return Outcome("abstain", "conflict", unit=unit)
    return Outcome("proceed", "below_threshold" if unit.report["conflicts"] else "no_conflict", unit=unit)
