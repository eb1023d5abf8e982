"""From checked claims to the report of ``citation_conflict`` and its findings: ids, places, verdicts, made by code."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from otel_drift import text
from otel_drift.audits.citation_conflict_answer import ClaimAnswer, ConflictAnswer, ContradictionAnswer, SupportAnswer
from otel_drift.audits.citation_conflict_layout import CitedTurn
from otel_drift.audits.citation_conflict_marks import JudgedMark, judge_marks
from otel_drift.audits.factual_drift_quotes import covering_sentences, find_quote
from otel_drift.model import Finding, Session, Severity, Turn
from otel_drift.redaction import opaque

AUDIT = "citation_conflict"
DANGLING_CITATION = "DANGLING_CITATION"
WRONG_CITATION = "WRONG_CITATION"
UNRESOLVED_CLAIM = "UNRESOLVED_CLAIM"
REFUTED_CLAIM = "REFUTED_CLAIM"
"""Types of findings; with the audit's name each stays within the 35 characters a platform allows for a score."""


def build_report(case: CitedTurn, answer: ConflictAnswer, *, embedded: bool) -> dict[str, Any]:
    """The JSON-ready report of one turn.

    Besides the fields of a cited answer it holds where each claim stands (`places`), what became of each mark
    (`citations`), whether the answer tells of its conflicts (`voiced_in`), and `notes`.
    """
    ordered = sorted(answer.claims, key=lambda claim: find_quote(case.shown.text, claim.quote) or (0, 0))
    claims = [claim.model_copy(update={"claim_id": f"c{n}"}) for n, claim in enumerate(ordered, 1)]
    places = {claim.claim_id: _place(case, claim.quote) for claim in claims}
    judged = judge_marks(case, claims, places, voiced=answer.voiced_in is not None, embedded=embedded)
    return {
        "answer": case.answer,
        "claims": [claim_record(claim, case.sources, {ref: one.id for ref, one in case.sources.items()})
                   for claim in claims],
        "conflict_summary": answer.conflict_summary,
        "abstention_notes": answer.abstention_notes,
        "voiced_in": _words(case, answer.voiced_in),
        "places": [
            {"claim_id": claim.claim_id, "quote": case.answer[slice(*places[claim.claim_id])],
             "span": list(places[claim.claim_id]), "confidence": claim.confidence}
            for claim in claims
        ],
        "citations": [_mark_record(one, case) for one in judged],
        "notes": origin_notes(claims, case.origin, {ref: one.id for ref, one in case.sources.items()}),
        "judged_by_words": embedded,
    }  # fmt: skip


def claim_record(claim: ClaimAnswer, sources: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """A claim as DESIGN names its fields; `resolved_by` besides where a conflict was resolved."""

    def side(piece: SupportAnswer) -> dict[str, Any]:
        source = sources[piece.source_id].text or ""
        span = find_quote(source, piece.quote)
        assert span is not None, "quotes are checked before a report is built"
        record = {"source_id": ids[piece.source_id], "quote": source[slice(*span)], "rationale": piece.rationale}
        return {**record, "conflict_type": piece.conflict_type} if isinstance(piece, ContradictionAnswer) else record

    record: dict[str, Any] = {
        "claim_id": claim.claim_id,
        "claim_text": claim.claim_text,
        "supporting_sources": [side(piece) for piece in claim.supporting_sources],
        "contradicting_sources": [side(piece) for piece in claim.contradicting_sources],
        "unresolved": claim.unresolved,
    }
    return {**record, "resolved_by": claim.resolved_by} if claim.resolved_by else record


def origin_notes(
    claims: Sequence[ClaimAnswer], origin: Mapping[str, str], ids: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One note for every claim that near-identical passages support: together they are one source."""
    notes = []
    for claim in claims:
        by_origin: dict[str, list[str]] = {}
        for piece in claim.supporting_sources:
            refs = by_origin.setdefault(origin[piece.source_id], [])
            if ids[piece.source_id] not in refs:
                refs.append(ids[piece.source_id])
        for copies in by_origin.values():
            if len(copies) > 1:
                note = "near-identical passages: one origin, no corroboration"
                notes.append({"claim_id": claim.claim_id, "source_ids": copies, "note": note})
    return notes


def findings_of(session: Session, turn: Turn, report: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of a report: the marks in the order of the answer, then the claims.

    Of the quotes of a finding the last is the answer's, those before it are its sources'.
    """
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

    found = []
    for mark in report["citations"]:
        kind = {"dangling": DANGLING_CITATION, "unsupported": WRONG_CITATION, "contradicted": WRONG_CITATION}
        if mark["verdict"] in kind:
            about = f"{mark['marker']}:{mark['target']}:{text.fold(mark['quote']).casefold()}"
            own = [claims[claim_id] for claim_id in mark["claims"]]
            side = "contradicting_sources" if mark["verdict"] == "contradicted" else "supporting_sources"
            quotes = [*_evidence(own, side), mark["quote"]]
            found.append(
                finding(kind[mark["verdict"]], "MAJOR", mark["confidence"], _about_mark(mark, own), quotes, about)
            )
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
        found.append(finding(kind_of, severity, place["confidence"], _about_claim(claim), quotes, about))
    return tuple(found)


def _about_mark(mark: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> str:
    if mark["verdict"] == "dangling":
        return f"dangling citation: {mark['marker']} points at none of the passages the answer was given."
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


def _place(case: CitedTurn, quote: str) -> tuple[int, int]:
    span = find_quote(case.shown.text, quote)
    assert span is not None, "quotes are checked before a report is built"
    return case.shown.original(*span)


def _words(case: CitedTurn, quote: str | None) -> str | None:
    return case.answer[slice(*_place(case, quote))] if quote else None


def _mark_record(mark: JudgedMark, case: CitedTurn) -> dict[str, Any]:
    start, end = mark.sentence
    return {
        "marker": mark.text,
        "span": [mark.start, mark.end],
        "target": mark.target.name,
        "source_ids": [case.turn.passages[index].id for index in mark.target.passages],
        "verdict": mark.verdict,
        "claims": list(mark.claims),
        "quote": case.answer[start:end],
        "confidence": mark.confidence,
    }
