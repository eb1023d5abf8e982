"""Sessions: which turns count where answers were regenerated, messages edited, or branches left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_drift.normalise.values import fold
from otel_drift.sessions.history import Pair
from otel_drift.sessions.unit import Unit
from otel_drift.sessions.user_text import more_than_a_word


@dataclass(slots=True)
class Draft:
    """A turn to be: the unit that counts, and other answers to the same message."""

    unit: Unit
    alternatives: list[Unit] = field(default_factory=list)


def alternatives(units: Sequence[Unit]) -> list[Draft]:
    """Regenerated, edited and branched answers to one message become alternatives of one turn."""
    drafts: list[Draft] = []
    resent = any(u.history for u in units)
    places: tuple[dict[Pair, int], dict[Pair, int]] | None = None
    by_place: dict[object, list[Draft]] = {}
    for index, unit in enumerate(units):
        place = tuple(unit.history) or fold(unit.user or "")
        draft = None
        if resent and unit.answered and place in by_place and not unit.question_cut:
            draft = next((d for d in reversed(by_place[place]) if _branches(d.unit, unit)), None)
        if draft is not None and not draft.unit.answered and draft.unit.user:
            asked = fold(draft.unit.user)
            before = unit.asked_before
            if asked in before or (more_than_a_word(asked) and any(asked in text for text in before)):
                draft = None  # a question that was left without an answer, and another one after it
        if draft is None:
            drafts.append(Draft(unit))
            if (unit.history or unit.user) and not unit.question_cut:
                by_place.setdefault(place, []).append(drafts[-1])
            continue
        first, last = places = places or _resent(units)
        old_counts = any(last.get(pair, index) > index for pair in draft.unit.pairs_after)
        new_counts = any(last.get(pair, index) > index for pair in unit.pairs_after)
        same_message = fold(draft.unit.user or "") == fold(unit.user or "")
        stored = any(first.get(pair, index) < index for pair in draft.unit.pairs_after)
        if not same_message and not old_counts and not new_counts and not stored:
            drafts.append(Draft(unit))
        elif old_counts and not new_counts:
            draft.alternatives.append(unit)
        elif old_counts and new_counts and fold(draft.unit.answer or "") != fold(unit.answer or ""):
            # a later history holds both: two turns; the same answer again is the same call sent twice
            drafts.append(Draft(unit))
        else:
            draft.alternatives.append(draft.unit)
            draft.unit = unit
    return drafts


def _resent(units: Sequence[Unit]) -> tuple[dict[Pair, int], dict[Pair, int]]:
    """The places of the first and the last unit that resend a pair."""
    first: dict[Pair, int] = {}
    last: dict[Pair, int] = {}
    for index, unit in enumerate(units):
        for pair in unit.history:
            first.setdefault(pair, index)
            last[pair] = index
    return first, last


def without_branches(drafts: list[Draft]) -> list[Draft]:
    """Turns that went on from a given-up answer become alternatives of the turns that stand in their place."""
    given_up: dict[tuple[str, str], tuple[Draft, int]] = {
        pair: (draft, 0) for draft in drafts for unit in draft.alternatives for pair in unit.pairs_after
    }
    if not given_up:
        return drafts
    kept: list[Draft] = []
    counts: set[tuple[str, str]] = set()
    moved: dict[int, tuple[Draft, int]] = {}
    for draft in drafts:
        last = draft.unit.history[-1] if draft.unit.history else None
        home, steps = draft, 0
        if last is not None and last in given_up and last not in counts:
            home, steps = _settled(*given_up[last], moved)
        if home is not draft:
            moved[id(draft)] = home, steps + 1
            given_up.update((pair, (home, steps + 1)) for pair in draft.unit.pairs_after)
        else:
            kept.append(draft)
            counts.update(draft.unit.pairs_after)
    places = {id(draft): place for place, draft in enumerate(kept)}
    for draft in drafts:
        if id(draft) in moved:
            home, steps = _settled(draft, 0, moved)
            place = min(places[id(home)] + steps, len(kept) - 1)
            kept[place].alternatives.extend((draft.unit, *draft.alternatives))
    return kept


def _settled(home: Draft, steps: int, moved: Mapping[int, tuple[Draft, int]]) -> tuple[Draft, int]:
    """The turn that stays, where `home` itself went on from a given-up answer, and how many turns on from it."""
    while id(home) in moved:
        home, further = moved[id(home)]
        steps += further
    return home, steps


def _branches(one: Unit, other: Unit) -> bool:
    """Whether two units of equal history answer at the same place of the conversation."""
    if fold(one.user or "") == fold(other.user or ""):
        return bool(one.user)
    return bool(one.history)


def pairs_in(unit: Unit, pairs: set[tuple[str, str]]) -> bool:
    """Whether a history holds the unit's question and answer."""
    return not unit.pairs_after.isdisjoint(pairs)
