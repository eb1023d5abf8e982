"""What becomes of a result: which findings may alert, and what goes to a person; nothing is decided automatically.

Pure functions over a unit; the ledger applies them in the transaction that commits the unit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from otel_drift.model import SEVERITY_SCORES, Finding, Severity, Unit

ALERT_CONFIDENCE = 0.7
"""Below it a finding makes no alert, unless the settings say otherwise, and goes to triage."""
EMBEDDED_JUDGES = frozenset({"rules"})
"""Names of the judges that are no model: what they find is no alert, unless the settings say so."""
HIGH_STAKES = frozenset(
    {"clinical", "healthcare", "health", "medical", "medicine", "pharma", "legal", "law", "finance", "financial"}
)
"""Domains and gate presets in which every abstention is looked at by a person."""

ItemStatus = Literal["open", "triage", "confirmed", "rejected", "withdrawn"]
"""`withdrawn`: no longer found when audited again, or its texts were erased, and nobody had decided."""
ORDINARY = frozenset({"suspected", "low_confidence"})
"""Reasons of findings that may wait; for every other reason a person has to look."""


@dataclass(frozen=True, slots=True)
class ReviewDemand:
    """Something a person is to look at: a finding (`event_id`), or a whole unit (`event_id` None).

    `content_sha256` is what was demanded to be judged: another one means that it changed.
    """

    item_id: str
    event_id: str | None
    status: Literal["open", "triage"]
    reasons: tuple[str, ...]
    content_sha256: str


@dataclass(frozen=True, slots=True)
class AlertRule:
    """Which findings may leave as alerts: from a severity and confidence on; the embedded judge's if allowed."""

    severity: Severity = "CRITICAL"
    confidence: float = ALERT_CONFIDENCE
    embedded: bool = False

    @property
    def severities(self) -> tuple[str, ...]:
        """Those that alert."""
        return tuple(one for one, score in SEVERITY_SCORES.items() if score >= SEVERITY_SCORES[self.severity])

    def allows(self, finding: Finding, judge: str) -> bool:
        """Whether a finding of a judge may alert; not so once a person has rejected or muted it."""
        return (
            finding.severity in self.severities
            and finding.confidence >= self.confidence
            and finding.status != "rejected"
            and not finding.muted
            and self.allows_judge(judge)
        )

    def allows_judge(self, judge: str) -> bool:
        """Whether what this judge found may leave."""
        return self.embedded or judge not in EMBEDDED_JUDGES


def demands(unit: Unit, domain: str | None = None) -> tuple[ReviewDemand, ...]:
    """What of a unit goes to people, one demand a finding, and one for the unit where it needs one itself.

    A finding under `ALERT_CONFIDENCE` goes to triage, unless it is CRITICAL. The unit needs a person if it is
    inconclusive, abstains in a high-stakes domain, or its audit or gate asks (``report["review"] = {"needed": true,
    "reasons": […], "awaiting_sign_off": …}``). Where the unit has exactly one finding, that finding's demand carries
    these reasons, so that nobody is asked twice.

    Args:
        unit: The result.
        domain: The domain the run was told; a report's own ``preset`` or ``domain`` counts as well.
    """
    of_unit = _unit_reasons(unit, domain)
    shared = of_unit if len(unit.findings) == 1 else ()
    made = [_of_finding(one, shared) for one in unit.findings]
    if of_unit and not shared:
        content = [unit.outcome, unit.reason, list(of_unit), unit.content_sha256]
        made.append(ReviewDemand(unit_item_id(unit.unit_id), None, "open", of_unit, _sha256(content)))
    return tuple(made)


def finding_item_id(finding: Finding) -> str:
    """The id of the review item of a finding: as stable as its event id."""
    return _sha256(["finding", finding.audit, finding.event_id])[:16]


def unit_item_id(unit_id: str) -> str:
    """The id of the review item of a whole unit."""
    return _sha256(["unit", unit_id])[:16]


def abstains(report: Mapping[str, Any] | None) -> bool:
    """Whether a report is a decision not to answer."""
    return (report or {}).get("abstain") is True


def is_high_stakes(domain: object) -> bool:
    """Whether a domain or preset is one where a wrong answer harms people: one of its words is in `HIGH_STAKES`."""
    if not isinstance(domain, str):
        return False
    return not HIGH_STAKES.isdisjoint(domain.lower().replace("/", " ").replace("-", " ").replace("_", " ").split())


def _of_finding(finding: Finding, shared: tuple[str, ...]) -> ReviewDemand:
    reasons = []
    if finding.severity == "CRITICAL":
        reasons.append("critical")
    if finding.confidence < ALERT_CONFIDENCE:
        reasons.append("low_confidence")
    reasons += [reason for reason in shared if reason not in reasons]
    waits = "low_confidence" in reasons and ORDINARY.issuperset(reasons)
    content = [finding.type, finding.severity, list(finding.quotes), finding.span_ref, finding.earlier_ref]
    return ReviewDemand(
        finding_item_id(finding),
        finding.event_id,
        "triage" if waits else "open",
        tuple(reasons) or ("suspected",),
        _sha256(content),
    )


def _unit_reasons(unit: Unit, domain: str | None) -> tuple[str, ...]:
    report = unit.report or {}
    reasons = []
    if unit.outcome == "inconclusive":
        reasons.append(f"inconclusive: {(unit.reason or 'no reason').partition(':')[0].strip()}")
    gate = _part(report, "gate")
    domains = (domain, report.get("preset"), report.get("domain"), gate.get("preset"))
    if abstains(report) and (gate.get("high_stakes") is True or any(map(is_high_stakes, domains))):
        reasons.append("abstention")
    if gate.get("safety_override"):
        reasons.append(f"safety_override: {gate['safety_override']}")
    asked = _part(report, "review")
    if asked.get("needed") is True:
        reasons += [str(reason) for reason in asked.get("reasons") or ("audit_asks",)]
    if asked.get("awaiting_sign_off") is True:
        reasons.append("awaiting_sign_off")
    if gate.get("review") is True and not reasons:
        reasons.append("gate_asks")
    return tuple(dict.fromkeys(reasons))


def _part(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = report.get(name)
    return part if isinstance(part, Mapping) else {}


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()
