"""What the page draws of ``citation_conflict``: claims at their places in the answer, with the passages behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_drift.model import Unit

_PLACES = "places"


def cited_claims(unit: Unit) -> list[dict[str, Any]]:
    """The claims in the form of a report's claims with places; none for a unit of another audit."""
    report = unit.report or {}
    if _PLACES not in report or "citations" not in report:
        return []
    turn = next((turn for turn in unit.session.turns if turn.answer == report["answer"]), None)
    if turn is None:
        return []
    places = {place["claim_id"]: place for place in report[_PLACES]}
    return [_claim(claim, places[claim["claim_id"]], turn.number) for claim in report["claims"]]


def _claim(claim: Mapping[str, Any], place: Mapping[str, Any], turn: int) -> dict[str, Any]:
    support, against = claim["supporting_sources"], claim["contradicting_sources"]
    sides = [f"{one['source_id']} contradicts it ({one['conflict_type'].replace('_', ' ')})" for one in against]
    settled = f"; resolved by {claim['resolved_by']}" if claim.get("resolved_by") else ""
    return {
        "claim_id": claim["claim_id"],
        "turn": turn,
        "claim_text": claim["claim_text"],
        "quote": place["quote"],
        "span": place["span"],
        "evidence": [{"passage_id": one["source_id"], "quote": one["quote"]} for one in (*support, *against)],
        "explanation": f"{', '.join(sides)}{settled}" if sides else "",
    }
