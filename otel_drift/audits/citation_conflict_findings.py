"""From the report of ``citation_conflict`` to findings: which marks and claims, how severe, in which words."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_drift import text
from otel_drift.audits.citation_conflict_report import AUDIT
from otel_drift.audits.factual_drift_quotes import covering_sentences
from otel_drift.model import Finding, Session, Severity, Turn
from otel_drift.redaction import opaque

DANGLING_CITATION = "DANGLING_CITATION"
WRONG_CITATION = "WRONG_CITATION"
UNRESOLVED_CLAIM = "UNRESOLVED_CLAIM"
REFUTED_CLAIM = "REFUTED_CLAIM"
FINDING_TYPES = (DANGLING_CITATION, WRONG_CITATION, UNRESOLVED_CLAIM, REFUTED_CLAIM)
"""Types of findings; with the audit's name each stays within the 35 characters a platform allows for a score."""

_WRONG_MARKS = {"dangling": DANGLING_CITATION, "unsupported": WRONG_CITATION, "contradicted": WRONG_CITATION}


def findings_of(session: Session, turn: Turn, report: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of a report: the marks in the order of the answer, then the claims.

    Of the quotes of a finding the last is the answer's, those before it are its sources'.
    """
    return tuple(finding for finding, _ in _found(session, turn, report))


def with_event_ids(session: Session, turn: Turn, report: dict[str, Any]) -> dict[str, Any]:
    """The report with the event id of a finding at the mark or the claim's place that it is about."""
    for finding, part in list(_found(session, turn, report)):
        part["event_id"] = finding.event_id
    return report


def _found(session: Session, turn: Turn, report: Mapping[str, Any]) -> Iterator[tuple[Finding, dict[str, Any]]]:
    """Each finding with the part of the report that it is about."""
    claims = {claim["claim_id"]: claim for claim in report["claims"]}
    used: Counter[str] = Counter()
    hedge = "Possible " if report["judged_by_words"] else ""

    def finding(
        kind: str, severity: Severity, confidence: float, why: str, quotes: Sequence[str], about: str
    ) -> Finding:
        identity = "\0".join([AUDIT, opaque(session.key), str(turn.number), kind, about])
        used[identity] += 1
        if used[identity] > 1:
            identity += f"\0{used[identity]}"
        return Finding(
            event_id=hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:24],
            audit=AUDIT,
            type=kind,
            severity=severity,
            confidence=round(confidence, 2),
            turn_number=turn.number,
            span_ref=turn.answer_ref or turn.root_ref or "",
            explanation=hedge + why if hedge else why[:1].upper() + why[1:],
            quotes=tuple(quotes),
            likely_cause="source_conflict" if kind == UNRESOLVED_CLAIM else "generation_error",
        )

    for mark in report["citations"]:
        if mark["verdict"] in _WRONG_MARKS:
            about = f"{mark['marker']}:{mark['target']}:{text.fold(mark['quote']).casefold()}"
            own = [claims[claim_id] for claim_id in mark["claims"]]
            side = "contradicting_sources" if mark["verdict"] == "contradicted" else "supporting_sources"
            quotes = [*_evidence(own, side), mark["quote"]]
            kind = _WRONG_MARKS[mark["verdict"]]
            yield finding(kind, "MAJOR", mark["confidence"], _about_mark(mark, own), quotes, about), mark
    for place in report["places"]:
        claim = claims[place["claim_id"]]
        against = claim["contradicting_sources"]
        if not against or report["voiced_in"] or claim.get("resolved_by"):
            continue
        severity: Severity = "MAJOR" if any(one["conflict_type"] == "direct_factual" for one in against) else "MINOR"
        kind_of = UNRESOLVED_CLAIM if claim["supporting_sources"] else REFUTED_CLAIM
        sources = [*_evidence([claim], "supporting_sources"), *_evidence([claim], "contradicting_sources")]
        quotes = [*sources, place["quote"]]
        about = text.fold(covering_sentences(report["answer"], place["quote"])).casefold()
        yield finding(kind_of, severity, place["confidence"], _about_claim(claim), quotes, about), place


def _about_mark(mark: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> str:
    if mark["verdict"] == "dangling":
        doubt = "" if mark["confidence"] == 1 else " No mark of the answer does, so it may count something else."
        return f"dangling citation: {mark['marker']} points at none of the passages the answer was given.{doubt}"
    cited = ", ".join(mark["source_ids"])
    if mark["verdict"] == "contradicted":
        return f"wrong citation: {mark['marker']} points at {cited}, which says otherwise."
    support = dict.fromkeys(one["source_id"] for claim in claims for one in claim["supporting_sources"])
    instead = f"; {', '.join(support)} would" if support else ", and no other passage does"
    return f"wrong citation: {mark['marker']} points at {cited}, which does not support the sentence{instead}."


def _about_claim(claim: Mapping[str, Any]) -> str:
    against = ", ".join(dict.fromkeys(one["source_id"] for one in claim["contradicting_sources"]))
    kinds = ", ".join(dict.fromkeys(one["conflict_type"].replace("_", " ") for one in claim["contradicting_sources"]))
    if not claim["supporting_sources"]:
        return f"refuted claim ({kinds}): {against} says otherwise, and no passage supports it."
    support = ", ".join(dict.fromkeys(one["source_id"] for one in claim["supporting_sources"]))
    return (
        f"unresolved claim ({kinds}): {support} supports it, {against} says otherwise, and the answer does not say so."
    )


def _evidence(claims: Sequence[Mapping[str, Any]], side: str) -> list[str]:
    return [claim[side][0]["quote"] for claim in claims if claim[side]][:2]
