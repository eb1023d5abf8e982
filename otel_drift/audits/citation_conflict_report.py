"""From checked claims to the report of ``citation_conflict``: ids, places and verdicts, made by code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_drift.audits.citation_conflict_answer import ClaimAnswer, ConflictAnswer, ContradictionAnswer, SupportAnswer
from otel_drift.audits.citation_conflict_layout import CitedTurn
from otel_drift.audits.citation_conflict_marks import JudgedMark, judge_marks
from otel_drift.audits.factual_drift_quotes import find_quote

AUDIT = "citation_conflict"


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
        "source_id": case.turn.passages[mark.target.passages[0]].id if mark.target.passages else None,
        "source_ids": [case.turn.passages[index].id for index in mark.target.passages],
        "verdict": mark.verdict,
        "claims": list(mark.claims),
        "quote": case.answer[start:end],
        "confidence": mark.confidence,
    }
