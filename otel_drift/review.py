"""What people decided about a result: taken into the unit, and said on platforms beside what the machine said.

A human verdict is an annotation of its own, ``<audit>.review``. A rejection sets the machine's annotations to NONE
(DESIGN: severity, names, what is written).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from otel_drift import findings
from otel_drift.model import SEVERITY_SCORES, Annotation, Finding, Target, Turn, Unit, worst
from otel_drift.policy import finding_item_id, unit_item_id
from otel_drift.report.escape import terminal_safe

Decision = Literal["confirmed", "rejected"]
LONGEST_WHY = 600


@dataclass(frozen=True, slots=True)
class Verdict:
    """A person's decision about a finding, or about a whole unit (`event_id` None). `at`: nanoseconds since 1970."""

    item_id: str
    event_id: str | None
    decision: Decision
    by: str
    why: str
    at: int


def settled(unit: Unit, verdicts: Mapping[str, Verdict], muted: Mapping[str, str]) -> Unit:
    """The unit with what people said of it: status and mute of each finding, and the severity that is left.

    A finding's own verdict goes before that on its unit.

    Args:
        unit: As it was judged.
        verdicts: By item id.
        muted: Event id → why.
    """
    whole = verdicts.get(unit_item_id(unit.unit_id))
    changed = tuple(_settled_finding(one, verdicts.get(finding_item_id(one)), whole, muted) for one in unit.findings)
    if changed == unit.findings:
        return unit
    report = _marked(unit.report, {one.event_id: (one.status, one.muted) for one in changed})
    found = replace(unit, findings=changed, report=report)
    return replace(found, severity=worst([one.severity for one in findings.standing(found)]))


def as_judged(unit: Unit, verdicts: Mapping[str, Verdict]) -> Unit:
    """The inverse of `settled`: what the judge said, without what people said of it."""
    whole = unit_item_id(unit.unit_id) in verdicts
    changed = tuple(
        replace(one, muted=None, status="suspected" if whole or finding_item_id(one) in verdicts else one.status)
        for one in unit.findings
    )
    if changed == unit.findings:
        return unit
    report = _marked(unit.report, {one.event_id: (one.status, None) for one in changed})
    return replace(unit, findings=changed, report=report, severity=worst([one.severity for one in changed]))


def verdict_annotations(
    unit: Unit, verdicts: Mapping[str, Verdict], said: Collection[str] = ()
) -> tuple[Annotation, ...]:
    """What people's verdicts add to a unit's annotations.

    On each answer span with a decided finding ``<audit>.review`` (label ``confirmed`` or ``rejected``, score the share
    confirmed), and NONE for each of the machine's names there that no standing finding uses any more. A verdict on the
    unit: ``<audit>.review`` on the session, or else its first trace.

    Args:
        unit: Settled (see `settled`).
        verdicts: By item id.
        said: Ids of the annotations the machine makes; these are not set to NONE.
    """
    by_span: dict[str, list[Finding]] = {}
    for one in unit.findings:
        by_span.setdefault(one.span_ref, []).append(one)
    made: list[Annotation] = []
    for ref, found in by_span.items():
        trace_id, _, span_id = ref.partition(":")
        if not trace_id or not span_id:
            continue
        place = _Place(unit, "span", trace_id, span_id, found)
        given = [verdicts[key] for one in found if (key := finding_item_id(one)) in verdicts]
        if given:
            made.append(place.verdict(given))
        made += [one for one in place.nones() if one.id not in said]
    whole = verdicts.get(unit_item_id(unit.unit_id))
    if whole is not None:
        made += _of_unit(unit, whole)
    return tuple(made)


def _settled_finding(one: Finding, own: Verdict | None, whole: Verdict | None, muted: Mapping[str, str]) -> Finding:
    verdict = own or whole
    status = one.status if verdict is None else verdict.decision
    return replace(one, status=status, muted=muted.get(one.event_id))


def _marked(value: Any, marks: Mapping[str, tuple[str, str | None]]) -> Any:
    """A report whose events say what people said of them: their `status`, and `muted` with the reason."""
    if isinstance(value, list):
        return [_marked(inner, marks) for inner in value]
    if not isinstance(value, Mapping):
        return value
    marked = {key: _marked(inner, marks) for key, inner in value.items() if key != "muted"}
    if "muted" in value and value.get("event_id") not in marks:
        marked["muted"] = value["muted"]
    if isinstance(event_id := value.get("event_id"), str) and event_id in marks:
        status, muted = marks[event_id]
        if "status" in value:
            marked["status"] = status
        if muted:
            marked["muted"] = muted
    return marked


def _of_unit(unit: Unit, verdict: Verdict) -> list[Annotation]:
    session = unit.session
    if session.session_id is None and not session.trace_ids:
        return []
    trace_id, span_id = findings.root_of(session)
    target: Target = "trace" if session.session_id is None else "session"
    return [_Place(unit, target, trace_id, span_id, unit.findings).verdict([verdict])]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where on a platform something is said, and about which findings."""

    unit: Unit
    target: Target
    trace_id: str | None
    span_id: str | None
    found: Sequence[Finding]

    def verdict(self, given: Sequence[Verdict]) -> Annotation:
        confirmed = sum(one.decision == "confirmed" for one in given)
        metadata = {
            "annotator": "human",
            "unit_id": self.unit.unit_id,
            "verdicts": [
                {
                    "event_id": one.event_id,
                    "decision": one.decision,
                    "by": terminal_safe(one.by),
                    "why": _reason(one),
                    "at": one.at,
                }
                for one in given
            ],
        }
        return self._annotation(
            f"{self.unit.audit}.review",
            "confirmed" if confirmed else "rejected",
            confirmed / len(given),
            "\n".join(_sentence(one) for one in given),
            metadata,
        )

    def nones(self) -> list[Annotation]:
        """NONE for every name the machine used here for a finding that was rejected."""
        rejected = [one for one in self.found if one.status == "rejected" and not one.muted]
        if not rejected:
            return []
        audit = self.unit.audit
        types = dict.fromkeys(findings.type_name(audit, one.type) for one in rejected)
        names = [audit, *types, findings.SEVERITY_NAME, findings.TYPE_NAME]
        metadata: dict[str, Any] = {
            "outcome": "findings",
            "severity": "NONE",
            "judge": self.unit.judge,
            "unit_id": self.unit.unit_id,
            "event_ids": [one.event_id for one in rejected],
        }
        said = "Rejected by a person; see " + f"{audit}.review."
        return [
            self._annotation(
                name, "NONE", None if name == findings.TYPE_NAME else SEVERITY_SCORES["NONE"], said, metadata
            )
            for name in names
        ]

    def _annotation(
        self, name: str, label: str, score: float | None, explanation: str, metadata: Mapping[str, Any]
    ) -> Annotation:
        session, turns = self.unit.session, self._turns()
        ids = {
            "span": (self.trace_id or "", self.span_id or ""),
            "trace": (self.trace_id or "",),
            "session": (session.key, session.session_id or ""),
        }[self.target]
        start, end = _window(turns)
        return Annotation(
            id=findings.annotation_id(self.target, ids, name),
            revision=0,
            name=name,
            target=self.target,
            trace_id=self.trace_id,
            span_id=self.span_id,
            session_id=session.session_id,
            label=label,
            score=score,
            explanation=explanation,
            audit=self.unit.audit,
            start=start,
            end=end,
            metadata=metadata,
            environment=next((turn.environment for turn in turns if turn.environment), None) or session.environment,
        )

    def _turns(self) -> Sequence[Turn]:
        numbers = {one.turn_number for one in self.found}
        turns = self.unit.session.turns
        return [turn for turn in turns if turn.number in numbers] or turns


def _sentence(verdict: Verdict) -> str:
    return f"{verdict.decision.capitalize()} by {terminal_safe(verdict.by)}: {_reason(verdict)}"


def _reason(verdict: Verdict) -> str:
    why = terminal_safe(verdict.why)
    return why if len(why) <= LONGEST_WHY else why[: LONGEST_WHY - 1].rstrip() + "…"


def _window(turns: Sequence[Turn]) -> tuple[int, int]:
    return min((turn.started for turn in turns), default=0), max((turn.ended for turn in turns), default=0)
