"""The audit ``factual_drift`` by lexical rules: a session in, claims and possible drift events out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from otel_drift.judges.rules_contradiction import Said, contradiction
from otel_drift.judges.rules_gate import is_claim, is_commonplace, is_correction
from otel_drift.judges.rules_grounding import Evidence, Grounding, ground, read_evidence
from otel_drift.judges.rules_qualification import LostQualifier, lost_qualifier
from otel_drift.judges.rules_statements import Reading, read
from otel_drift.model import Session, Turn
from otel_drift.text import (
    clauses,
    content_words,
    is_english,
    names,
    number_values,
    qualifiers,
    quantities,
    statements,
    stem,
)
from otel_drift.text.dates import MONTHS
from otel_drift.text.quantities import Quantity, is_unit

Status = Literal["GROUNDED", "PARTIALLY_GROUNDED", "UNSUPPORTED", "NOT_GROUNDABLE"]

UNGROUNDABLE = frozenset({"not_captured", "ids_only", "partial"})
"""Retrieval states after which nothing can be said about grounding."""
SURE = 0.75
"""Probability from which a claim is raised."""
SURE_WITHOUT_DETAIL = 0.9
"""Probability from which a claim is raised although no number or name of it is missing."""
KNOWN_BEFORE = 0.5
"""Up to this probability a claim counts as said, given or stated before."""


@dataclass(frozen=True, slots=True)
class _Claim:
    id: str
    turn: Turn
    reading: Reading
    previous: str
    following: str
    status: Status
    grounding: Grounding
    evidence: tuple[tuple[str, str], ...]
    missing_qualifier: str | None
    said: Said

    @property
    def is_grounded(self) -> bool:
        return self.status in ("GROUNDED", "PARTIALLY_GROUNDED")


class UnreadableError(ValueError):
    """Most of a session is in a language that the rules cannot read: no verdict at all, rather than a clean one."""


def audit_session(session: Session) -> dict[str, Any]:
    """Answer ``factual_drift`` for a session, in the audit's answer schema.

    Raises:
        UnreadableError: most of its answers, or of the passages under them, are not in English.
    """
    claims: list[_Claim] = []
    events: list[dict[str, Any]] = []
    unreadable = total = 0
    for turn in session.turns:
        if not turn.answered:
            continue
        own = list(_claims(turn, len(claims)))
        said = statements(turn.answer or "")
        foreign_passages = turn.retrieval == "captured" and any(not is_english(p.text or "") for p in turn.passages)
        total += len(said)
        unreadable += len(said) if foreign_passages else sum(not is_english(s.text) for s in said)
        known: Evidence | None = None
        for claim in own:
            if claim.status == "UNSUPPORTED" and known is None:
                known = _known_before(session, turn)
            events.extend(_events(claim, claims, known))
        claims.extend(own)
    if 2 * unreadable > total:
        raise UnreadableError(f"{unreadable} of {total} sentences, or their passages, are not in English")
    return {
        "claims": [_claim_json(claim) for claim in claims],
        "drift_events": events,
        "overall_assessment": _assessment(claims, events, unreadable),
    }


def _claims(turn: Turn, offset: int) -> Iterator[_Claim]:
    texts = tuple(p.text or "" for p in turn.passages) if turn.retrieval == "captured" else ()
    evidence = read_evidence(texts)
    found = statements(turn.answer or "")
    number = offset
    for index, sentence in enumerate(found):
        if not is_claim(sentence.text) or not is_english(sentence.text):
            continue
        judged = ground(sentence.text, evidence, turn.user)
        reading = read(sentence.text)
        status, quotes, missing = _status(turn, texts, evidence, judged, reading)
        if status is None:
            continue
        number += 1
        yield _Claim(
            id=f"c{number}",
            turn=turn,
            reading=reading,
            previous=found[index - 1].text if index else "",
            following=found[index + 1].text if index + 1 < len(found) else "",
            status=status,
            grounding=judged,
            evidence=quotes,
            missing_qualifier=missing,
            said=Said(
                reading,
                turn.answer or "",
                tuple(t for t in texts if t),
                tuple(q for _, q in quotes),
                _topic([s.text for s in found[: index + 1]], turn.user or ""),
            ),
        )


def _topic(said: list[str], asked: str) -> frozenset[str]:
    """The names a sentence is about: its own, else those of the nearest sentence before it, else the question's."""
    for text in (*reversed(said), asked):
        found = frozenset(stem(n) for n in names(text) if n.casefold() not in MONTHS and not is_unit(n))
        if found:
            return found
    return frozenset()


def _status(
    turn: Turn, texts: tuple[str, ...], evidence: Evidence, judged: Grounding, reading: Reading
) -> tuple[Status | None, tuple[tuple[str, str], ...], str | None]:
    """The grounding status, the evidence (passage ref, quote) and a qualifier the passage has and the answer lacks.

    None: the rules cannot tell and have nothing to show.
    """
    if turn.retrieval in UNGROUNDABLE:
        return "NOT_GROUNDABLE", (), None
    if not any(texts):
        return "UNSUPPORTED", (), None
    if judged.verdict == "unsupported":
        return "UNSUPPORTED", (), None
    if judged.best_sentence is None or judged.passage_index is None or judged.cover < 0.15:
        return None, (), None
    quotes = [(turn.passage_ref(judged.passage_index), judged.best_sentence)]
    second = _second_sentence(reading, evidence, judged.best_sentence)
    if second is not None:
        quotes.append((turn.passage_ref(second[0]), second[1]))
    lost = next(
        (found for _, quote in quotes if (found := lost_qualifier(read(quote), reading, asked=turn.user or ""))), None
    )
    status: Status = "GROUNDED" if judged.verdict == "supported" and lost is None else "PARTIALLY_GROUNDED"
    return status, tuple(quotes), lost.qualifier.text if lost else None


def _second_sentence(reading: Reading, evidence: Evidence, best: str) -> tuple[int, str] | None:
    """The sentence that bears out most of what the best one leaves, where that is at least two words and a third."""
    left = reading.content - read(best).content
    if len(left) < 2:
        return None
    found: tuple[int, str] | None = None
    most = max(1, (len(left) - 1) // 3)
    for index, passage in enumerate(evidence.passages):
        for sentence in passage.sentences:
            shared = len(left & sentence.content)
            if shared > most and sentence.text != best:
                found, most = (index, sentence.text), shared
    return found


def _known_before(session: Session, turn: Turn) -> Evidence:
    """What was said, retrieved or told before this answer: repeating it is nothing new."""
    earlier = [t for t in session.turns if t.number < turn.number]
    texts = [p.text for t in earlier for p in t.passages if p.text]
    texts += [t.answer for t in earlier if t.answer]
    told = [t.user for t in session.turns if t.number <= turn.number and t.user]
    texts += [s.text for message in told for s in statements(message) if _tells(s.text)]
    return read_evidence(list(dict.fromkeys(texts)))


_OWN_STORY = re.compile(
    r"\W*(?:(?:and|but|so|ok|okay|well|yes|no|hi|hello)\W+)*(?:i|i['\u2019]\w+|my|we|our)\b", re.IGNORECASE
)


def _tells(sentence: str) -> bool:
    """Whether a sentence of the user states something: no question, or one that begins with the user's own story."""
    return not sentence.endswith(("?", "\uff1f")) or bool(_OWN_STORY.match(sentence))


def _events(claim: _Claim, earlier: list[_Claim], known: Evidence | None) -> Iterator[dict[str, Any]]:
    against = _contradicted(claim, earlier)
    if against is not None:
        yield against
    yield from _dropped(claim, earlier, None if against is None else against["earlier_claim"])
    if against is None and known is not None and claim.status == "UNSUPPORTED":
        unsupported = _unsupported(claim, known)
        if unsupported is not None:
            yield unsupported


def _contradicted(claim: _Claim, earlier: list[_Claim]) -> dict[str, Any] | None:
    best: tuple[float, str, _Claim] | None = None
    for other in earlier:
        if not other.is_grounded or other.turn.number >= claim.turn.number:
            continue
        if not other.reading.content & claim.reading.content:
            continue
        found = contradiction(other.said, claim.said)
        if found and (best is None or found.probability > best[0]):
            best = (found.probability, found.reason, other)
    if best is None:
        return None
    probability, reason, other = best
    return _event(
        claim,
        "CONTRADICTION",
        other,
        f"Possible contradiction of {other.turn.ref}: {reason}.",
        "MAJOR",
        probability,
        acknowledged=any(is_correction(s.text) for s in statements(claim.turn.answer or "")),
    )


def _dropped(claim: _Claim, earlier: list[_Claim], contradicted: str | None) -> Iterator[dict[str, Any]]:
    """At most one event for each turn that said it with a qualifier: the closest wording."""
    around = f"{claim.previous} {claim.following}"
    best: dict[str, tuple[LostQualifier, _Claim]] = {}
    for other in earlier:
        if not other.is_grounded or other.turn.number >= claim.turn.number or other.id == contradicted:
            continue
        lost = lost_qualifier(
            other.reading, claim.reading, after=other.following, around=around, asked=claim.turn.user or ""
        )
        if lost is None:
            continue
        if any(read(q).text and not qualifiers(q) and lost_like(other.reading, read(q)) for _, q in claim.evidence):
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


def lost_like(earlier: Reading, source: Reading) -> bool:
    """Whether a source sentence states what `earlier` states (so that it may stand without the qualifier)."""
    return len(earlier.content & source.content) >= 3


def _unsupported(claim: _Claim, known: Evidence) -> dict[str, Any] | None:
    """An event for a claim that neither its passages nor anything before it bears out.

    Without a missing number or name it takes near certainty, and no clause that stands in the passages; a figure that
    stands nowhere is enough by itself.
    """
    if claim.turn.retrieval == "no_retrieval" or is_commonplace(claim.reading.text):
        return None
    judged, before = claim.grounding, ground(claim.reading.text, known)
    asked = number_values(claim.turn.user or "")
    missing_names = tuple(n for n in judged.missing_names if n in before.missing_names)
    missing_numbers = tuple(
        n for n in judged.missing_numbers if n in before.missing_numbers and not number_values(n) <= asked
    )
    if _is_arithmetic(claim, missing_numbers, known):
        return None
    probability = min(judged.probability, before.probability)
    if missing_numbers and judged.probability >= SURE:
        probability = max(probability, SURE)
    if probability <= KNOWN_BEFORE:
        return None
    if claim.turn.retrieval != "none":
        detailed = bool(missing_names or missing_numbers)
        if probability < SURE or (not detailed and judged.probability < SURE_WITHOUT_DETAIL):
            return None
        if not detailed and (judged.missing_numbers or _partly_borne_out(claim)):
            return None
    absent = ", ".join(dict.fromkeys((*missing_numbers, *missing_names)))
    where = (
        "the retriever returned nothing" if claim.turn.retrieval == "none" else "no passage of the turn bears it out"
    )
    detail = f"; found nowhere before: {absent}" if absent else ""
    weighty = any(q.unit and not q.label for q in quantities(claim.reading.text)) and bool(missing_numbers)
    return _event(
        claim,
        "UNSUPPORTED_NEW_CLAIM",
        None,
        f"Possible unsupported claim: {where}{detail}.",
        "MAJOR" if weighty else "MINOR",
        min(0.95, probability),
    )


def _partly_borne_out(claim: _Claim) -> bool:
    """Whether any clause of the sentence, held against the passages alone, is not unsupported."""
    pieces = [c for c in clauses(claim.reading.text) if len(content_words(c)) >= 3]
    if len(pieces) < 2:
        return False
    evidence = read_evidence(claim.said.passages)
    return any(ground(piece, evidence).probability < 0.5 for piece in pieces)


def _is_arithmetic(claim: _Claim, missing_numbers: tuple[str, ...], known: Evidence) -> bool:
    """Whether every missing figure, of which there are some, can be reckoned from known figures near at hand, units matching.

    Near at hand: in the sentence, the answer or the question; anything could be made of all figures of a session.
    """
    missing = [q for q in quantities(claim.reading.text) if q.text in missing_numbers]
    if not missing:
        return False
    source_numbers = number_values(" ".join((*claim.said.passages, claim.turn.user or ""))) | known.numbers
    near = [
        q
        for text in (claim.turn.answer or "", claim.turn.user or "")
        for q in quantities(text)
        if number_values(q.text) & source_numbers
    ]
    results = list(_reckoned(near, claim.reading.text))
    return all(
        any(unit == q.unit and abs(value - q.value) <= 0.005 * max(1.0, abs(q.value)) for value, unit in results)
        for q in missing
    )


_PERIODS = (
    ("year", 12.0),
    ("year", 52.0),
    ("year", 365.0),
    ("week", 7.0),
    ("day", 24.0),
    ("hour", 60.0),
    ("quarter", 3.0),
)


def _reckoned(near: list[Quantity], sentence: str) -> Iterator[tuple[float, str]]:
    for quantity in near:
        for period, factor in _PERIODS:
            if period in sentence:
                yield quantity.value * factor, quantity.unit
            elif quantity.per == period:
                yield quantity.value / factor, quantity.unit
    for a, b in combinations(near[:24], 2):
        if a.unit == b.unit:
            yield a.value + b.value, a.unit
            yield abs(a.value - b.value), a.unit
            if a.value and b.value:
                yield max(a.value, b.value) / min(a.value, b.value), ""
                yield 100 * min(a.value, b.value) / max(a.value, b.value), "%"
        for one, other in ((a, b), (b, a)):
            yield one.value * other.value, one.unit
            if other.unit == "%":
                yield one.value * other.value / 100, one.unit
            if other.value:
                yield one.value / other.value, one.unit


def _event(
    claim: _Claim,
    drift_type: str,
    earlier: _Claim | None,
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


def _claim_json(claim: _Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "turn": claim.turn.ref,
        "claim_text": claim.reading.text,
        "quote": claim.reading.text,
        "grounding_status": claim.status,
        "evidence": [{"passage": ref, "quote": quote} for ref, quote in claim.evidence],
        "qualifiers": list(dict.fromkeys(q.text for q in qualifiers(claim.reading.text))),
        "missing_qualifier": claim.missing_qualifier,
    }


def _assessment(claims: list[_Claim], events: list[dict[str, Any]], unreadable: int) -> str:
    counts = {kind: sum(e["drift_type"] == kind for e in events if not e["acknowledged_correction"]) for kind in
              ("CONTRADICTION", "UNSUPPORTED_NEW_CLAIM", "DROPPED_QUALIFICATION")}  # fmt: skip
    found = ", ".join(
        f"{n} possible {kind.lower().replace('_', ' ')}" + ("s" if n > 1 else "") for kind, n in counts.items() if n
    )
    text = f"Lexical heuristics over {len(claims)} statements: {found or 'nothing that can be shown by words alone'}."
    if unreadable:
        text += f" {unreadable} sentences, or the passages under them, are not in English and were not judged."
    return text
