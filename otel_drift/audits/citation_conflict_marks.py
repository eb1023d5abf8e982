"""Does each citation mark of an answer point at a passage that supports its sentence? Decided by code.

From checked claims only: a mark is supported where its passage, or a copy of it, supports a claim within the mark's
scope. Against it speaks only a claim in that scope which the passage does not support; where the words of the passage
plainly bear the sentence out, nothing is reported, whatever a judge left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from otel_drift.audits.citation_conflict_answer import ClaimAnswer
from otel_drift.audits.citation_conflict_layout import CitedTurn
from otel_drift.citation.scope import Scope, scopes
from otel_drift.citation.sources import Target

Verdict = Literal["supported", "contrast", "unsupported", "contradicted", "dangling", "unchecked", "listed"]
"""``contrast``: it names the other side of a conflict that the answer tells of. ``unchecked``: nothing to judge by."""

_GUARDED = 0.9
_UNGUARDED = 0.75
_OTHER_COUNT = 0.5
"""Where no mark of an answer points anywhere, it may count something else than the passages of its turn."""


@dataclass(frozen=True, slots=True)
class JudgedMark:
    """A mark's one target and what came of it. `claims` are the ids within its scope; `near` is what it speaks for."""

    text: str
    start: int
    end: int
    target: Target
    verdict: Verdict
    near: tuple[int, int]
    sentence: tuple[int, int]
    claims: tuple[str, ...] = ()
    confidence: float = 1.0


def judge_marks(
    case: CitedTurn,
    claims: Sequence[ClaimAnswer],
    places: Mapping[str, tuple[int, int]],
    *,
    voiced: bool,
    embedded: bool,
) -> list[JudgedMark]:
    """Judge every mark of the answer, in order, each of its targets for itself.

    Args:
        case: the turn.
        claims: the checked claims.
        places: claim id → its quote's span in the answer as the trace has it.
        voiced: whether the answer tells its reader of a conflict.
        embedded: whether the claims come from lexical rules: then more must be shown.
    """
    judged: list[JudgedMark] = []
    in_text = scopes(case.answer, case.marks)
    groups: dict[int, list[Scope]] = {}
    for scope in in_text:
        groups.setdefault(scope.group, []).append(scope)
    for scope in in_text:
        group = groups[scope.group]
        judged += [
            _judge(case, scope, target, group, claims, places, voiced, embedded) for target in scope.mark.targets
        ]
    if all(one.verdict == "dangling" for one in judged):
        judged = [replace(one, confidence=_OTHER_COUNT) for one in judged]
    placed = {scope.mark.start for scope in in_text}
    for mark in case.marks.marks:
        if mark.start not in placed:
            for target in mark.targets:
                verdict: Verdict = "dangling" if target.dangling else "listed"
                span = (mark.start, mark.end)
                judged.append(JudgedMark(mark.text, *span, target, verdict, span, span))
    return sorted(judged, key=lambda one: one.start)


def _judge(
    case: CitedTurn,
    scope: Scope,
    target: Target,
    group: Sequence[Scope],
    claims: Sequence[ClaimAnswer],
    places: Mapping[str, tuple[int, int]],
    voiced: bool,
    embedded: bool,
) -> JudgedMark:
    near, wide = _claims_in(scope.near, claims, places), _claims_in(scope.wide, claims, places)

    def verdict(name: Verdict, confidence: float = 1.0) -> JudgedMark:
        ids = tuple(claim.claim_id for claim in near or wide)
        mark = scope.mark
        return JudgedMark(mark.text, mark.start, mark.end, target, name, scope.near, scope.sentence, ids, confidence)

    refs = [ref for index in target.passages if (ref := case.ref_of(index))]
    if target.dangling:
        return verdict("dangling")
    if not refs or len(refs) < len(target.passages) or not wide:
        return verdict("unchecked")
    cited = {case.origin[ref] for ref in refs}
    if any(_is_for(claim, cited, case) for claim in (*near, *wide)):
        return verdict("supported")
    held = near or wide
    if any(_is_against(claim, cited, case) for claim in held):
        return verdict("contrast") if voiced else verdict("contradicted", _confidence(held))
    words = _by_words(case, scope, refs)
    if words == "supported":
        return verdict("unchecked")
    beside = {case.origin[ref] for one in group for other in one.mark.targets for index in other.passages
              if (ref := case.ref_of(index))}  # fmt: skip
    shared = any(_is_for(claim, beside - cited, case) for claim in held)
    supported_elsewhere = any(claim.supporting_sources for claim in held)
    if words != "unsupported" and (shared or embedded):
        return verdict("unchecked")
    if embedded and not supported_elsewhere:
        return verdict("unchecked")
    certainty = _GUARDED if words == "unsupported" else _UNGUARDED
    return verdict("unsupported", min(certainty, _confidence(held)))


def _confidence(claims: Sequence[ClaimAnswer]) -> float:
    return min(_GUARDED, max(claim.confidence for claim in claims))


def _claims_in(
    span: tuple[int, int], claims: Sequence[ClaimAnswer], places: Mapping[str, tuple[int, int]]
) -> list[ClaimAnswer]:
    """The claims whose quote lies in the span with at least half of the shorter of the two, so no mere touch counts."""
    found = []
    for claim in claims:
        start, end = places[claim.claim_id]
        shared = min(end, span[1]) - max(start, span[0])
        if shared > 0 and 2 * shared >= min(end - start, span[1] - span[0]):
            found.append(claim)
    return found


def _is_for(claim: ClaimAnswer, cited: set[str], case: CitedTurn) -> bool:
    return any(case.origin[piece.source_id] in cited for piece in claim.supporting_sources)


def _is_against(claim: ClaimAnswer, cited: set[str], case: CitedTurn) -> bool:
    return any(case.origin[piece.source_id] in cited for piece in claim.contradicting_sources)


def _by_words(case: CitedTurn, scope: Scope, refs: Sequence[str]) -> str:
    """What the lexical rules say of the words before the mark, held against the passages it points at."""
    from otel_drift.judges.rules_grounding import grounding

    start, end = scope.near
    place = case.shown.places
    said = "".join(case.answer[p] for p in place if start <= p < end).strip()
    if not said:
        return "unsure"
    return grounding(said, [case.sources[ref].text or "" for ref in refs], case.turn.user).verdict
