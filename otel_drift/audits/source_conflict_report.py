"""From checked answers to the report of ``source_conflict``: pairs, counts and the abstain verdict, made by code."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from otel_drift import text
from otel_drift.audits.factual_drift_quotes import covering_sentences, find_quote
from otel_drift.audits.source_conflict_answer import ConflictAnswer, ConflictSeverity
from otel_drift.audits.source_conflict_sources import Sources, sources_of
from otel_drift.model import Session, Severity, Turn
from otel_drift.passage_mark import text_sha256
from otel_drift.redaction import opaque

RANKS: Mapping[str, int] = {"MINOR": 0, "MATERIAL": 1, "CRITICAL": 2}
CANONICAL: Mapping[str, Severity] = {"CRITICAL": "CRITICAL", "MATERIAL": "MAJOR", "MINOR": "MINOR"}
"""Conflict severity → canonical severity (DESIGN: severity, names, what is written)."""


def settled(conflicts: Sequence[ConflictAnswer], known: Sources, *, at_most_material: bool) -> list[ConflictAnswer]:
    """Each conflict once, the worst first: the same matter told twice, or told by a copy too, is one conflict."""
    capped = [
        conflict.model_copy(update={"severity": "MATERIAL"})
        if at_most_material and conflict.severity == "CRITICAL"
        else conflict
        for conflict in conflicts
    ]
    kept: list[ConflictAnswer] = []
    for conflict in sorted(capped, key=lambda one: (-RANKS[one.severity], -one.confidence)):
        if not any(_same_matter(conflict, other, known) for other in kept):
            kept.append(conflict)
    return kept


def build_report(
    session: Session,
    conflicts: Sequence[ConflictAnswer],
    *,
    notes: str,
    severity_threshold: ConflictSeverity,
    pair_threshold: int,
    min_confidence: float = 0.0,
    answer: str | None = None,
) -> dict[str, Any]:
    """The JSON-ready report of one turn or one gate call.

    Args:
        session: holds exactly the audited turn.
        conflicts: from `settled`.
        notes: the judge's words on the whole.
        severity_threshold: conflicts from this severity on are counted.
        pair_threshold: so many pairs of sources, and answering is unsafe.
        min_confidence: conflicts of less confidence are not counted.
        answer: the answer given (on traces) or written (by the gate).
    """
    turn = session.turns[0]
    known = sources_of(turn)
    used: Counter[str] = Counter()
    listed = [_conflict(conflict, known, turn, session, used) for conflict in conflicts]
    sure = counted_confidences(listed, turn, severity_threshold)
    pairs = sorted(pair for pair, confidence in sure.items() if confidence >= min_confidence)
    return {
        **empty_report(session, severity_threshold=severity_threshold, pair_threshold=pair_threshold),
        "min_confidence": min_confidence,
        "abstain": len(pairs) >= pair_threshold,
        "conflict_detected": bool(listed),
        "conflict_count": len(pairs),
        "conflict_pairs_found": len(pairs),
        "conflict_pairs": [[known.passages[a].id, known.passages[b].id] for a, b in pairs],
        "conflicts": listed,
        "conflicting_sources": _conflicting_sources(listed),
        "conflict_notes": notes.strip() if listed else "",
        "answer": answer,
        "passages": len(known.passages),
        "distinct_passages": known.distinct,
        "copies": [
            {"source_id": known.passages[ref].id, "copy_of": known.passages[first].id}
            for ref, first in known.copy_of.items()
            if ref != first
        ],
    }


def counted_confidences(
    conflicts: Sequence[Mapping[str, Any]], turn: Turn, severity_threshold: ConflictSeverity
) -> dict[tuple[str, str], float]:
    """The pairs of sources in conflict at or above a severity, each with the confidence of its surest conflict.

    Args:
        conflicts: a report's ``conflicts``.
        turn: the turn they are about.
        severity_threshold: milder conflicts count for nothing.
    """
    known = sources_of(turn)
    found: dict[tuple[str, str], float] = {}
    for conflict in conflicts:
        if RANKS[conflict["severity"]] >= RANKS[severity_threshold]:
            pair = known.pair(conflict["ref_a"], conflict["ref_b"])
            found[pair] = max(found.get(pair, 0.0), conflict["confidence"])
    return found


def empty_report(session: Session, *, severity_threshold: ConflictSeverity, pair_threshold: int) -> dict[str, Any]:
    """The report of a turn in which nothing was found, or nothing looked for; passages are not compared for it."""
    turn = session.turns[0]
    return {
        "session_id": session.session_id,
        "trace_ids": list(session.trace_ids),
        "turn": turn.number,
        "trace_event_ref": turn.answer_ref or turn.root_ref,
        "abstain": False,
        "conflict_detected": False,
        "conflict_count": 0,
        "conflict_pairs_found": 0,
        "conflict_pairs": [],
        "conflicts": [],
        "conflicting_sources": [],
        "conflict_notes": "",
        "answer": None,
        "severity_threshold": severity_threshold,
        "pair_threshold": pair_threshold,
        "min_confidence": 0.0,
        "passages": len(turn.passages),
        "distinct_passages": None,
        "copies": [],
    }


def verbatim(source: str, quote: str) -> tuple[str, list[int]]:
    """The quote as the source has it, and its span in characters."""
    span = find_quote(source, quote)
    assert span is not None, "quotes are checked before a report is built"
    return source[span[0] : span[1]], list(span)


def _conflict(
    conflict: ConflictAnswer, known: Sources, turn: Turn, session: Session, used: Counter[str]
) -> dict[str, Any]:
    laid_out: dict[str, Any] = {}
    sides = (
        ("a", conflict.source_a, conflict.claim_a, conflict.quote_a),
        ("b", conflict.source_b, conflict.claim_b, conflict.quote_b),
    )
    for side, ref, claim, quote in sides:
        passage = known.passages[ref]
        words, span = verbatim(passage.text or "", quote)
        laid_out |= {
            f"claim_{side}": claim,
            f"source_{side}": passage.id,
            f"ref_{side}": ref,
            f"title_{side}": passage.title,
            f"quote_{side}": words,
            f"span_{side}": span,
            f"span_ref_{side}": passage.span_ref,
            f"text_sha256_{side}": text_sha256(passage.text or ""),
        }
    disclosed = conflict.disclosed if turn.answered else None
    voiced = verbatim(turn.answer or "", conflict.disclosure_quote)[0] if conflict.disclosure_quote else None
    return {
        "event_id": _event_id(conflict, known, turn, session, used),
        **laid_out,
        "severity": conflict.severity,
        "explanation": conflict.explanation,
        "confidence": conflict.confidence,
        "disclosed": disclosed,
        "disclosure_quote": voiced,
    }


def _conflicting_sources(conflicts: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    named = {
        (conflict[f"source_{side}"], conflict[f"claim_{side}"]): None for conflict in conflicts for side in ("a", "b")
    }
    return [{"source_id": source_id, "claim": claim} for source_id, claim in named]


def _event_id(conflict: ConflictAnswer, known: Sources, turn: Turn, session: Session, used: Counter[str]) -> str:
    """Stable over runs, prompts and the order of the two sides: whole sentences, copies under their first.

    `used` counts ids, so that two matters in one pair of sentences stay apart.
    """
    sides = sorted(
        f"{known.passages[known.copy_of[ref]].id}:{_sentence(known, ref, quote)}"
        for ref, quote in ((conflict.source_a, conflict.quote_a), (conflict.source_b, conflict.quote_b))
    )
    identity = "\0".join(["source_conflict", opaque(session.key), turn.turn_id, *sides])
    used[identity] += 1
    if used[identity] > 1:
        identity += f"\0{used[identity]}"
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _sentence(known: Sources, ref: str, quote: str) -> str:
    return text.fold(covering_sentences(known.passages[ref].text or "", quote)).casefold()


def _same_matter(one: ConflictAnswer, other: ConflictAnswer, known: Sources) -> bool:
    """Whether two conflicts are between the same texts about the same words; what a copy words otherwise may differ."""
    sides = [(one.source_a, one.quote_a), (one.source_b, one.quote_b)]
    for others in (
        [(other.source_a, other.quote_a), (other.source_b, other.quote_b)],
        [(other.source_b, other.quote_b), (other.source_a, other.quote_a)],
    ):
        matches = [_side_matches(mine, theirs, known) for mine, theirs in zip(sides, others, strict=True)]
        if all(matches) and "words" in matches:
            return True
    return False


def _side_matches(mine: tuple[str, str], theirs: tuple[str, str], known: Sources) -> str:
    """``words`` where both quote the same place of one text, ``copy`` where copies word it otherwise, else nothing."""
    if known.copy_of[mine[0]] != known.copy_of[theirs[0]]:
        return ""
    a, b = (find_quote(known.passages[theirs[0]].text or "", quote) for quote in (mine[1], theirs[1]))
    if a is None or b is None:
        return "copy"
    return "words" if a[0] < b[1] and b[0] < a[1] else ""
