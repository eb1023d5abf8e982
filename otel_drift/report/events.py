"""Reads the events of a unit for showing: from the audit's report where it has them, else from its findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_drift.model import SEVERITY_SCORES, Finding, Severity, Unit


@dataclass(frozen=True, slots=True)
class Evidence:
    """A verbatim quote of a passage; `ref` (``t3.p2``) and `span` (in its text) where the report has them."""

    passage_id: str
    quote: str
    ref: str = ""
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ShownClaim:
    """What the answer of `turn` says at `span` (characters of the answer), and what it rests on."""

    turn: int
    quote: str
    text: str = ""
    grounding_status: str = ""
    ref: str = ""
    claim_id: str = ""
    evidence: tuple[Evidence, ...] = ()
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A suspected event, ready to be shown."""

    event_id: str
    turn: int
    type: str
    severity: Severity
    later: ShownClaim
    earlier: ShownClaim | None = None
    description: str = ""
    confidence: float | None = None
    cause: str = ""
    status: str = "suspected"


def events_of(unit: Unit) -> tuple[Event, ...]:
    """The events of a unit in the order of turns; within a turn the worst first."""
    report = unit.report or {}
    if isinstance(report.get("drift_events"), Sequence):
        claims = {str(c.get("claim_id")): c for c in report.get("claims") or ()}
        events = [_from_report(event, claims) for event in report["drift_events"]]
    else:
        events = [_from_finding(unit, index) for index in range(len(unit.findings))]
    return tuple(sorted(events, key=lambda event: (event.turn, -SEVERITY_SCORES[event.severity])))


def notes_of(unit: Unit) -> tuple[tuple[int, str], ...]:
    """What is worth a remark and is no event, by turn: qualifiers left out, open corrections, conflicts disclosed."""
    report = unit.report or {}
    notes: list[tuple[int, str]] = []
    for claim in report.get("claims") or ():
        if claim.get("missing_qualifier"):
            missing, quote = str(claim["missing_qualifier"]), str(claim.get("quote") or "")
            notes.append((int(claim.get("turn") or 0), f"the passage says “{missing}”, the answer does not: “{quote}”"))
    notes.extend(_correction(correction) for correction in report.get("corrections") or ())
    for conflict in report.get("conflicts") or ():
        if conflict.get("disclosed"):
            why = str(conflict.get("explanation") or "")
            notes.append((int(report.get("turn") or 0), f"its sources disagree, and the answer says so: {why}"))
    return tuple(notes)


def claim_of(claim: Mapping[str, Any]) -> ShownClaim:
    """A claim of a report, as far as the report tells of it."""
    return ShownClaim(
        turn=int(claim.get("turn") or 0),
        quote=str(claim.get("quote") or claim.get("claim_text") or ""),
        text=str(claim.get("claim_text") or ""),
        grounding_status=str(claim.get("grounding_status") or ""),
        ref=str(claim.get("trace_event_ref") or ""),
        claim_id=str(claim.get("claim_id") or ""),
        evidence=tuple(_evidence(evidence) for evidence in claim.get("evidence") or ()),
        span=_span(claim.get("span")),
    )


def _correction(correction: Mapping[str, Any]) -> tuple[int, str]:
    later, earlier = correction.get("later_claim") or {}, correction.get("earlier_claim") or {}
    turn = int(correction.get("turn_number") or later.get("turn") or 0)
    quote = str(later.get("quote") or correction.get("description") or "")
    return turn, f"corrects turn {earlier.get('turn', '?')} openly: “{quote}”"


def _from_report(event: Mapping[str, Any], claims: Mapping[str, Mapping[str, Any]]) -> Event:
    later, earlier = event.get("later_claim") or {}, event.get("earlier_claim")
    confidence = event.get("detection_confidence")
    turn = int(event.get("turn_number") or later.get("turn") or 0)
    return Event(
        event_id=str(event.get("event_id") or ""),
        turn=turn,
        type=str(event.get("drift_type") or ""),
        severity=_severity(event.get("severity")),
        later=_claim(later, claims, turn),
        earlier=_claim(earlier, claims, 0) if earlier else None,
        description=str(event.get("description") or ""),
        confidence=float(confidence) if isinstance(confidence, int | float) else None,
        cause=str(event.get("likely_cause") or ""),
        status="muted" if event.get("muted") else str(event.get("status") or "suspected"),
    )


def _claim(side: Mapping[str, Any], claims: Mapping[str, Mapping[str, Any]], turn: int) -> ShownClaim:
    """One side of an event: what it says of the claim, the rest from the listed claim of that id."""
    merged = {**claims.get(str(side.get("claim_id")), {}), **{key: value for key, value in side.items() if value}}
    return claim_of({"turn": turn, **merged})


def _evidence(evidence: Mapping[str, Any]) -> Evidence:
    return Evidence(
        passage_id=str(evidence.get("passage_id") or ""),
        quote=str(evidence.get("quote") or ""),
        ref=str(evidence.get("ref") or ""),
        span=_span(evidence.get("span")),
    )


def _span(value: object) -> tuple[int, int] | None:
    if isinstance(value, Sequence) and len(value) == 2 and all(isinstance(part, int) for part in value):
        return value[0], value[1]
    return None


def _from_finding(unit: Unit, index: int) -> Event:
    finding = unit.findings[index]
    quotes = finding.quotes or ("",)
    earlier = None
    if finding.earlier_turn is not None:
        earlier = ShownClaim(turn=finding.earlier_turn, quote=quotes[0], ref=finding.earlier_ref or "")
    return Event(
        event_id=finding.event_id,
        turn=finding.turn_number,
        type=finding.type,
        severity=finding.severity,
        later=_answer_beside_its_sources(unit, finding)
        or ShownClaim(
            turn=finding.turn_number, quote=quotes[-1], ref=finding.span_ref, evidence=_cited_evidence(unit, finding)
        ),
        earlier=earlier,
        description=finding.explanation,
        confidence=finding.confidence,
        cause=finding.likely_cause or "",
        status="muted" if finding.muted else finding.status,
    )


def _cited_evidence(unit: Unit, finding: Finding) -> tuple[Evidence, ...]:
    """What the passages say that a finding of ``citation_conflict`` quotes; nothing for one of another audit."""
    report = unit.report or {}
    parts = [*(report.get("places") or ()), *(report.get("citations") or ())]
    about: Mapping[str, Any] = next((part for part in parts if part.get("event_id") == finding.event_id), {})
    concerned = {about.get("claim_id"), *(about.get("claims") or ())}
    sources = [
        source
        for claim in report.get("claims") or ()
        if claim.get("claim_id") in concerned
        for source in (*(claim.get("supporting_sources") or ()), *(claim.get("contradicting_sources") or ()))
    ]
    return tuple(
        Evidence(str(source["source_id"]), str(source["quote"]))
        for source in sources
        if source["quote"] in finding.quotes[:-1]
    )


def _answer_beside_its_sources(unit: Unit, finding: Finding) -> ShownClaim | None:
    """For a conflict between passages: the turn's answer, with what each of the two passages says as its evidence."""
    conflicts = (unit.report or {}).get("conflicts") or ()
    conflict = next((one for one in conflicts if one.get("event_id") == finding.event_id), None)
    if conflict is None:
        return None
    turn = next((one for one in unit.session.turns if one.number == finding.turn_number), None)
    evidence = tuple(
        Evidence(
            passage_id=str(conflict.get(f"source_{side}") or ""),
            quote=str(conflict.get(f"quote_{side}") or ""),
            ref=str(conflict.get(f"ref_{side}") or ""),
            span=_span(conflict.get(f"span_{side}")),
        )
        for side in ("a", "b")
    )
    said = (turn.answer if turn else None) or "no answer"
    return ShownClaim(turn=finding.turn_number, quote=said, ref=finding.span_ref, evidence=evidence)


def _severity(value: object) -> Severity:
    known: tuple[Severity, ...] = ("CRITICAL", "MAJOR", "MINOR", "NONE")
    return next((name for name in known if name == value), "MINOR")
