"""From checked answers to the report of ``factual_drift``: ids, order, counts, causes, all made by code."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from otel_drift import text
from otel_drift.audits.factual_drift_answer import (
    CONTRADICTION,
    DROPPED_QUALIFICATION,
    UNSUPPORTED_NEW_CLAIM,
    ClaimAnswer,
    EventAnswer,
)
from otel_drift.audits.factual_drift_checks import SUPPORTED, Refs, refs, restated_from
from otel_drift.audits.factual_drift_quotes import covering_sentences, find_quote, stem_set
from otel_drift.model import SEVERITY_SCORES, Session, Turn
from otel_drift.redaction import opaque

_SHARE_SAID_ELSEWHERE = 0.8

_Said: TypeAlias = tuple[str, str, str]
"""What makes two claims one: turn, folded quote, folded text."""


def number_claims(claims: Sequence[ClaimAnswer], session: Session) -> dict[str, ClaimAnswer]:
    """Give checked claims their final ids, c1 … in order of turn and place in the answer; keyed by the judge's ids."""
    turns = {turn.ref: turn for turn in session.turns}

    def place(claim: ClaimAnswer) -> tuple[int, int]:
        turn = turns[claim.turn]
        span = find_quote(turn.answer or "", claim.quote) or (0, 0)
        return turn.number, span[0]

    ordered = sorted(claims, key=place)
    return {claim.id: claim.model_copy(update={"id": f"c{n}"}) for n, claim in enumerate(ordered, 1)}


def build_report(
    session: Session,
    claims: Mapping[str, ClaimAnswer],
    events: Sequence[EventAnswer],
    *,
    assessment: str,
    types: Sequence[str],
    flags: Sequence[str] = (),
    at_most_major: bool = False,
) -> dict[str, Any]:
    """The JSON-ready report.

    Args:
        session: the audited session.
        claims: the judge's claim id → the claim with its final id (see `number_claims`).
        events: checked events, in the judge's ids.
        assessment: the judge's words on the whole.
        types: every type of the taxonomy; `by_type` counts them all.
        flags: such as ``sparse``.
        at_most_major: cap severities, for a judge without understanding.
    """
    known = refs(session)
    final = list(claims.values())
    renamed = [_renamed(event, claims) for event in events]
    said = {claim.id: (claim.turn, text.fold(claim.quote), text.fold(claim.claim_text)) for claim in final}
    drifts = _merged(_settled([event for event in renamed if not event.acknowledged_correction], final, known), said)
    drifting = {_identity(event, said) for event in drifts}
    corrected = [event for event in renamed if event.acknowledged_correction and _identity(event, said) not in drifting]
    expand = _Expansion(session, known, {claim.id: claim for claim in final}, at_most_major, Counter())
    reported = [expand.event(event) for event in _ordered(drifts, known)]
    by_type = Counter(event["drift_type"] for event in reported)
    return {
        "session_id": session.session_id,
        "trace_ids": list(session.trace_ids),
        "total_turns": len(session.turns),
        "claims": [expand.claim(claim) for claim in final],
        "drift_events": reported,
        "corrections": [expand.event(event) for event in _ordered(_merged(corrected, said), known)],
        "flags": list(flags),
        "summary": {
            "total_drift_events": len(reported),
            "by_type": {name: by_type.get(name, 0) for name in types},
            "overall_assessment": assessment,
        },
    }


def _renamed(event: EventAnswer, claims: Mapping[str, ClaimAnswer]) -> EventAnswer:
    earlier = claims[event.earlier_claim].id if event.earlier_claim is not None else None
    return event.model_copy(update={"earlier_claim": earlier, "later_claim": claims[event.later_claim].id})


def _settled(events: Sequence[EventAnswer], claims: Sequence[ClaimAnswer], known: Refs) -> list[EventAnswer]:
    """Two unsupported claims that contradict each other are two unsupported claims; a contradiction speaks for its own.

    The rules are DESIGN's for contradictions: grounded earlier claim, one event where the later one is unsupported.
    """
    by_id = {claim.id: claim for claim in claims}
    found: list[EventAnswer] = []
    for event in events:
        earlier = by_id[event.earlier_claim] if event.earlier_claim else None
        if event.drift_type == CONTRADICTION and earlier and earlier.grounding_status not in SUPPORTED:
            for claim in (earlier, by_id[event.later_claim]):
                if not restated_from(claim, known.turns[claim.turn], by_id, known):
                    alone = {"earlier_claim": None, "later_claim": claim.id, "turn": claim.turn}
                    found.append(event.model_copy(update={"drift_type": UNSUPPORTED_NEW_CLAIM, **alone}))
        else:
            found.append(event)
    contradicting = {event.later_claim for event in found if event.drift_type == CONTRADICTION}
    return [
        event
        for event in found
        if not (event.drift_type == UNSUPPORTED_NEW_CLAIM and event.later_claim in contradicting)
    ]


def _merged(events: Sequence[EventAnswer], said: Mapping[str, _Said]) -> list[EventAnswer]:
    """One event for each type and pair of things said: the most severe, then the surest."""
    best: dict[tuple[str, _Said | None, _Said], EventAnswer] = {}
    for event in events:
        key = _identity(event, said)
        if key not in best or _weight(event) > _weight(best[key]):
            best[key] = event
    return list(best.values())


def _identity(event: EventAnswer, said: Mapping[str, _Said]) -> tuple[str, _Said | None, _Said]:
    earlier = said[event.earlier_claim] if event.earlier_claim else None
    return event.drift_type, earlier, said[event.later_claim]


def _weight(event: EventAnswer) -> tuple[float, float]:
    return SEVERITY_SCORES[event.severity], event.detection_confidence


def _ordered(events: Sequence[EventAnswer], known: Refs) -> list[EventAnswer]:
    def place(event: EventAnswer) -> tuple[int, int, int, str]:
        return (
            known.turns[event.turn].number,
            _number(event.later_claim),
            _number(event.earlier_claim),
            event.drift_type,
        )

    return sorted(events, key=place)


def _number(claim_id: str | None) -> int:
    return int(claim_id[1:]) if claim_id else 0


@dataclass(slots=True)
class _Expansion:
    """Writes claims and events out in full. `used` counts event ids, so that twins stay apart."""

    session: Session
    known: Refs
    claims: Mapping[str, ClaimAnswer]
    at_most_major: bool
    used: Counter[str]

    def claim(self, claim: ClaimAnswer) -> dict[str, Any]:
        turn = self.known.turns[claim.turn]
        quote, span = _verbatim(turn.answer or "", claim.quote)
        evidence = []
        for piece in claim.evidence:
            _, passage = self.known.passages[piece.passage]
            words, place = _verbatim(passage.text or "", piece.quote)
            evidence.append({"passage_id": passage.id, "ref": piece.passage, "quote": words, "span": place})
        return {
            "claim_id": claim.id,
            "turn": turn.number,
            "claim_text": claim.claim_text,
            "quote": quote,
            "span": span,
            "grounding_status": claim.grounding_status,
            "evidence": evidence,
            "qualifiers": list(claim.qualifiers),
            "missing_qualifier": claim.missing_qualifier,
        }

    def event(self, event: EventAnswer) -> dict[str, Any]:
        earlier = self.claims[event.earlier_claim] if event.earlier_claim else None
        later = self.claims[event.later_claim]
        severity = "MAJOR" if self.at_most_major and event.severity == "CRITICAL" else event.severity
        return {
            "event_id": self.event_id(event.drift_type, earlier, later),
            "turn_number": self.known.turns[later.turn].number,
            "drift_type": event.drift_type,
            "earlier_claim": self.side(earlier) if earlier else None,
            "later_claim": self.side(later),
            "description": event.description,
            "severity": severity,
            "detection_confidence": event.detection_confidence,
            "likely_cause": likely_cause(event.drift_type, earlier, later, self.known),
            "status": "suspected",
        }

    def side(self, claim: ClaimAnswer) -> dict[str, Any]:
        turn = self.known.turns[claim.turn]
        return {
            "claim_id": claim.id,
            "turn": turn.number,
            "claim_text": claim.claim_text,
            "quote": _verbatim(turn.answer or "", claim.quote)[0],
            "trace_event_ref": turn.answer_ref or turn.root_ref,
            "grounding_status": claim.grounding_status,
        }

    def event_id(self, drift_type: str, earlier: ClaimAnswer | None, later: ClaimAnswer) -> str:
        """Stable over runs and prompts: whole sentences, so that a quote a word longer makes no other event."""
        sides = [
            f"{turn.number}:{text.fold(covering_sentences(turn.answer or '', claim.quote)).casefold()}"
            for claim in (earlier, later)
            if claim is not None
            for turn in (self.known.turns[claim.turn],)
        ]
        identity = "\0".join(["factual_drift", opaque(self.session.key), drift_type, *sides])
        self.used[identity] += 1
        if self.used[identity] > 1:
            identity += f"\0{self.used[identity]}"
        return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def likely_cause(drift_type: str, earlier: ClaimAnswer | None, later: ClaimAnswer, known: Refs) -> str | None:
    """Where the drift probably comes from; None where the later turn's passages are unknown.

    ``source_conflict``: both claims are borne out, by sources that differ. ``retrieval_gap``: the retriever returned
    nothing, or another turn's passages say it. ``generation_error``: the answer goes against or beyond its passages.
    """
    if later.grounding_status == "NOT_GROUNDABLE":
        return None
    turn = known.turns[later.turn]
    if later.grounding_status in SUPPORTED:
        kept_out = drift_type == DROPPED_QUALIFICATION and later.grounding_status == "PARTIALLY_GROUNDED"
        if earlier is not None and not kept_out and _borne_out_apart(earlier, later, known):
            return "source_conflict"
        return "generation_error"
    if turn.retrieval == "none" or _said_elsewhere(later.quote, turn, known):
        return "retrieval_gap"
    return "generation_error"


def _borne_out_apart(earlier: ClaimAnswer, later: ClaimAnswer, known: Refs) -> bool:
    """Whether the evidence of two claims differs so that it, and not the answer, can be what disagrees.

    Grounded claims need evidence that is not the same words. A partially grounded one proves less: its evidence has to
    hold all its figures and come from passages that the other claim's does not come from.
    """
    if {earlier.grounding_status, later.grounding_status} - SUPPORTED:
        return False
    first, second = _evidence(earlier), _evidence(later)
    if all(any(mine in theirs or theirs in mine for theirs in first) for mine in second):
        return False
    partial = [claim for claim in (earlier, later) if claim.grounding_status != "GROUNDED"]
    if not partial:
        return True
    sources = [{text.fold(known.passages[p.passage][1].text or "") for p in c.evidence} for c in (earlier, later)]
    return sources[0].isdisjoint(sources[1]) and all(_figures_in_evidence(claim) for claim in partial)


def _evidence(claim: ClaimAnswer) -> frozenset[str]:
    return frozenset(text.fold(piece.quote).strip(" .").casefold() for piece in claim.evidence)


def _figures_in_evidence(claim: ClaimAnswer) -> bool:
    return text.number_values(claim.quote) <= text.number_values("\n".join(piece.quote for piece in claim.evidence))


def _said_elsewhere(quote: str, turn: Turn, known: Refs) -> bool:
    """Whether a passage of another turn holds nearly all content words of `quote` and all its numbers."""
    wanted = stem_set(quote)
    numbers = {stem for stem in wanted if stem[0].isdigit()}
    if len(wanted) < 3:
        return False
    for owner, passage in known.passages.values():
        if owner is not turn and passage.text:
            offered = stem_set(passage.text)
            if numbers <= offered and len(wanted & offered) >= _SHARE_SAID_ELSEWHERE * len(wanted):
                return True
    return False


def _verbatim(source: str, quote: str) -> tuple[str, list[int]]:
    """The quote as the trace has it, and its span in characters."""
    span = find_quote(source, quote)
    assert span is not None, "quotes are checked before a report is built"
    return source[span[0] : span[1]], list(span)
