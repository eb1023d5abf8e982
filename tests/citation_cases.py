"""A turn over a library's rules, right answers of a judge about it, and how to audit it with a scripted judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from drift_cases import ScriptedJudge, session, turn
from otel_drift.audits.citation_conflict import CitationConflict
from otel_drift.model import Session, Unit
from otel_drift.validation import audit_session

AUDIT = CitationConflict()
RULES = "Tools may be kept for ten days. A late day costs 2 euros for each tool. Power tools are checked on return."
SHEET = "The loan period for all tools is fourteen days, without renewal. Members sign for each tool they take."
OLD = "For every day that a tool is overdue the library charges 1 euro. Lost tools are charged in full."
COPY = "Power tools are checked on return. Tools may be kept for ten days. A late day costs 2 euros for each tool."


def loans(answer: str, *more: str) -> Session:
    """One turn over three passages (dated 2025, 2025, 2021) and further undated ones."""
    dates = ["2025-03-01", "2025-03-01", "2021-01-15"]
    one = turn(1, "How long may I keep tools, and what does a late day cost?", answer, RULES, SHEET, OLD, *more)
    dated = [replace(p, date=date) for p, date in zip(one.passages, [*dates, *[None] * len(more)], strict=True)]
    return session(replace(one, passages=tuple(dated)))


ANSWER = "You may keep tools for ten days [1]. Each late day costs 2 euros per tool [1]."


def support(ref: str, quote: str, rationale: str = "It says so.") -> dict[str, Any]:
    return {"source_id": ref, "quote": quote, "rationale": rationale}


def against(ref: str, quote: str, kind: str = "direct_factual", rationale: str = "It differs.") -> dict[str, Any]:
    return {**support(ref, quote, rationale), "conflict_type": kind}


def claim(number: int, quote: str, *supporting: Any, contradicting: Any = (), **fields: Any) -> dict[str, Any]:
    return {
        "claim_id": f"c{number}",
        "claim_text": quote,
        "quote": quote,
        "supporting_sources": list(supporting),
        "contradicting_sources": list(contradicting),
        "unresolved": False,
        "resolved_by": None,
        "confidence": 0.9,
        **fields,
    }


def right(*, voiced: str | None = None) -> dict[str, Any]:
    """A right answer to `loans(ANSWER)`: an open conflict, and one that recency settles."""
    return {
        "claims": [
            claim(1, "You may keep tools for ten days.", support("p1", "Tools may be kept for ten days."),
                  contradicting=[against("p2", "The loan period for all tools is fourteen days, without renewal.")],
                  unresolved=True),
            claim(2, "Each late day costs 2 euros per tool.", support("p1", "A late day costs 2 euros for each tool."),
                  contradicting=[against("p3", "For every day that a tool is overdue the library charges 1 euro.",
                                         "temporal_change", "The list of 2021 is older.")],
                  resolved_by="recency"),
        ],
        "conflict_summary": "Ten days against fourteen; an older charge.",
        "voiced_in": voiced,
        "abstention_notes": None,
    }  # fmt: skip


def plain(*claims: dict[str, Any]) -> dict[str, Any]:
    return {"claims": list(claims), "conflict_summary": None, "voiced_in": None, "abstention_notes": None}


def run(audited: Session, *script: Any, **fields: Any) -> Unit:
    return audit_session(AUDIT, audited, ScriptedJudge(script, **fields))


def kinds(unit: Unit) -> list[tuple[str, str]]:
    return [(one.type, one.severity) for one in unit.findings]
