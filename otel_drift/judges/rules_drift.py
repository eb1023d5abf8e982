"""The audit ``factual_drift`` by lexical rules: a session in, claims and possible drift events out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from otel_drift.judges.rules_claims import StatedClaim, claims_of
from otel_drift.judges.rules_contradiction import Contradiction, contradiction
from otel_drift.judges.rules_gate import is_correction
from otel_drift.judges.rules_novelty import KnownBefore, Unsupported, unsupported_claim
from otel_drift.judges.rules_qualification import LostQualifier, lost_qualifier
from otel_drift.judges.rules_statements import Reading, read, similarity
from otel_drift.model import Session, Turn
from otel_drift.text import is_english, qualifiers, statements

ALIKE = 0.6
"""Similarity from which two statements with the same figures count as one said twice."""
MOST_RELATED = 100
"""A statement is held against so many earlier ones at most: those that share most with it."""
MOST_RECENT = 300
"""Of the earlier statements with one stem the latest so many are looked at: more have a stem only where it says little,
and rarer stems find the older ones."""
LEAST_SHARED = 2
"""Statements that share fewer content stems are not held against each other."""


MOST_CLAIMS = 5_000
"""The most claims that the audit's answer schema takes."""


class UnreadableError(ValueError):
    """The rules cannot read a session: no verdict at all, rather than a clean one. `reason` is a short code."""

    def __init__(self, message: str, reason: str = "language_not_supported") -> None:
        self.reason = reason
        super().__init__(message)


def audit_session(session: Session) -> dict[str, Any]:
    """Answer ``factual_drift`` for a session, in the audit's answer schema.

    Raises:
        UnreadableError: most of its answers, or of the passages under them, are not in English; or it is too long.
    """
    claims: list[StatedClaim] = []
    events: list[dict[str, Any]] = []
    memory, told = Memory(), KnownBefore(session)
    number = unreadable = total = 0
    for turn in session.turns:
        if not turn.answered:
            continue
        foreign, sentences = _unreadable(turn)
        unreadable, total = unreadable + foreign, total + sentences
        known = None
        own: list[StatedClaim] = []
        for stated in claims_of(turn, number, memory.stems):
            number += 1
            related = memory.related(stated)
            claim, against = _contradicted(stated, related)
            raised = [] if against is None else [against]
            raised += _dropped(claim, related, None if against is None else against["earlier_claim"])
            if against is None and claim.status == "UNSUPPORTED":
                known = known or told.before(turn)
                unsupported = unsupported_claim(claim, known)
                if unsupported is not None:
                    raised.append(_unsupported_event(claim, unsupported))
            events.extend(raised)
            own.append(claim)
        memory.keep(own)
        claims.extend(own)
        if len(claims) > MOST_CLAIMS:
            raise UnreadableError(f"more than {MOST_CLAIMS} claims", "session_too_long")
    if 2 * unreadable > total:
        raise UnreadableError(f"{unreadable} of {total} sentences, or their passages, are not in English")
    needed = {event[side] for event in events for side in ("earlier_claim", "later_claim")}
    claims = [claim for claim in claims if not claim.weak or claim.id in needed]
    return {
        "claims": [claim.as_json() for claim in claims],
        "drift_events": events,
        "overall_assessment": _assessment(claims, events, unreadable),
    }


class Memory:
    """The grounded claims of earlier turns by the stems they hold, so that a long session stays affordable."""

    def __init__(self) -> None:
        self._claims: list[StatedClaim] = []
        self._by_stem: dict[str, list[int]] = defaultdict(list)

    @property
    def stems(self) -> Collection[str]:
        """Every stem that a kept claim holds."""
        return self._by_stem.keys()

    def keep(self, claims: list[StatedClaim]) -> None:
        """Remember the grounded ones of a turn's claims."""
        for claim in claims:
            if claim.is_grounded:
                for word in claim.reading.content:
                    self._by_stem[word].append(len(self._claims))
                self._claims.append(claim)

    def related(self, claim: StatedClaim) -> list[StatedClaim]:
        """The earlier claims that share most with `claim`, in their order."""
        shared: Counter[int] = Counter()
        for word in claim.reading.content:
            shared.update(self._by_stem.get(word, ())[-MOST_RECENT:])
        closest = sorted((-count, index) for index, count in shared.items() if count >= LEAST_SHARED)[:MOST_RELATED]
        return [self._claims[index] for index in sorted(index for _, index in closest)]


def _unreadable(turn: Turn) -> tuple[int, int]:
    """How many sentences of an answer the rules cannot read (their passages included), and how many there are."""
    said = statements(turn.answer or "")
    if turn.retrieval == "captured" and any(not is_english(p.text or "") for p in turn.passages):
        return len(said), len(said)
    return sum(not is_english(s.text) for s in said), len(said)


def _contradicted(claim: StatedClaim, earlier: list[StatedClaim]) -> tuple[StatedClaim, dict[str, Any] | None]:
    """The event of a claim that contradicts an earlier one, and the claim: without a source of its own, unsupported."""
    best: tuple[Contradiction, StatedClaim] | None = None
    for other in earlier:
        found = contradiction(other.said, claim.said)
        if found and (best is None or found.probability > best[0].probability):
            best = (found, other)
    if best is None or any(_says_so_too(claim, other) for other in earlier):
        return claim, None
    found, other = best
    if not found.sourced and claim.is_grounded:
        claim = replace(claim, status="UNSUPPORTED", evidence=(), missing_qualifier=None)
    return claim, _event(
        claim,
        "CONTRADICTION",
        other,
        f"Possible contradiction of {other.turn.ref}: {found.reason}.",
        "MAJOR",
        found.probability,
        acknowledged=any(is_correction(s.text) for s in statements(claim.turn.answer or "")),
    )


def _says_so_too(claim: StatedClaim, earlier: StatedClaim) -> bool:
    """Whether an earlier grounded claim gives all figures of `claim` in like words: then `claim` only repeats it."""
    figures = claim.reading.figures
    if not figures or not {f.text for f in figures} <= {f.text for f in earlier.reading.figures}:
        return False
    return similarity(claim.reading.content, earlier.reading.content)[0] >= ALIKE


def _dropped(claim: StatedClaim, earlier: list[StatedClaim], contradicted: str | None) -> Iterator[dict[str, Any]]:
    """One event for each qualifier lost, against the closest wording that had it."""
    around = f"{claim.previous} {claim.following}"
    best: dict[str, tuple[LostQualifier, StatedClaim]] = {}
    for other in earlier:
        if other.id == contradicted:
            continue
        lost = lost_qualifier(
            other.reading, claim.reading, after=other.following, around=around, asked=claim.turn.user or ""
        )
        if lost is None:
            continue
        if any(not qualifiers(quote) and _states(read(quote), other.reading) for _, quote in claim.evidence):
            continue  # this turn's own passage says it without the qualifier
        key = lost.qualifier.text.casefold() + "|" + " ".join(sorted(other.reading.content & claim.reading.content))
        if key not in best or lost.alike >= best[key][0].alike:
            best[key] = (lost, other)
    for lost, other in best.values():
        weighty = lost.with_figure and lost.qualifier.kind not in ("time_scope", "approximation")
        yield _event(
            claim,
            "DROPPED_QUALIFICATION",
            other,
            f"Possible dropped qualification ({lost.what}): {other.turn.ref} said “{lost.qualifier.text}”, "
            f"{claim.turn.ref} repeats the statement without it.",
            "MAJOR" if weighty else "MINOR",
            min(0.9, 0.6 + 0.3 * lost.alike),
        )


def _states(source: Reading, claim: Reading) -> bool:
    """Whether a source sentence states what `claim` states, as far as shared words tell."""
    alike, shared = similarity(claim.content, source.content)
    return shared >= 3 or (shared >= 2 and alike >= 0.5)


def _unsupported_event(claim: StatedClaim, found: Unsupported) -> dict[str, Any]:
    empty = claim.turn.retrieval == "none"
    where = "the retriever returned nothing" if empty else "no passage of the turn bears it out"
    detail = f"; found nowhere before: {', '.join(found.absent)}" if found.absent else ""
    severity = "MAJOR" if found.with_figure else "MINOR"
    description = f"Possible unsupported claim: {where}{detail}."
    return _event(claim, "UNSUPPORTED_NEW_CLAIM", None, description, severity, found.probability)


def _event(
    claim: StatedClaim,
    drift_type: str,
    earlier: StatedClaim | None,
    description: str,
    severity: str,
    probability: float,
    *,
    acknowledged: bool = False,
) -> dict[str, Any]:
    return {
        "turn": claim.turn.ref,
        "drift_type": drift_type,
        "earlier_claim": earlier.id if earlier else None,
        "later_claim": claim.id,
        "description": description,
        "severity": severity,
        "detection_confidence": round(probability, 2),
        "acknowledged_correction": acknowledged,
    }


def _assessment(claims: list[StatedClaim], events: list[dict[str, Any]], unreadable: int) -> str:
    counts = {kind: sum(e["drift_type"] == kind for e in events if not e["acknowledged_correction"]) for kind in
              ("CONTRADICTION", "UNSUPPORTED_NEW_CLAIM", "DROPPED_QUALIFICATION")}  # fmt: skip
    found = ", ".join(
        f"{n} possible {kind.lower().replace('_', ' ')}" + ("s" if n > 1 else "") for kind, n in counts.items() if n
    )
    text = f"Lexical heuristics over {len(claims)} statements: {found or 'nothing that can be shown by words alone'}."
    if unreadable:
        text += f" {unreadable} sentences, or the passages under them, are not in English and were not judged."
    return text
