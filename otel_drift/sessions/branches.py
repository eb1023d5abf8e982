"""Sessions: which turns count where answers were regenerated, messages edited, or branches left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from otel_drift.normalise.values import fold
from otel_drift.sessions.unit import Unit


@dataclass(slots=True)
class Draft:
    """A turn to be: the unit that counts, and other answers to the same message."""

    unit: Unit
    alternatives: list[Unit] = field(default_factory=list)


def alternatives(units: Sequence[Unit]) -> list[Draft]:
    """Regenerated, edited and branched answers to one message become alternatives of one turn."""
    drafts: list[Draft] = []
    resent = any(u.history for u in units)
    later_pairs = [set(u.history) for u in units]
    by_history: dict[tuple[object, ...], list[Draft]] = {}
    for index, unit in enumerate(units):
        place = tuple(unit.history)
        draft = None
        if resent and unit.answered:
            draft = next((d for d in reversed(by_history.get(place, [])) if _branches(d.unit, unit)), None)
        if draft is None:
            drafts.append(Draft(unit))
            by_history.setdefault(place, []).append(drafts[-1])
            continue
        after = later_pairs[index + 1 :]
        old_counts = any(pairs_in(draft.unit, pairs) for pairs in after)
        new_counts = any(pairs_in(unit, pairs) for pairs in after)
        same_message = fold(draft.unit.user or "") == fold(unit.user or "")
        stored = any(pairs_in(draft.unit, pairs) for pairs in later_pairs[:index])
        if not same_message and not old_counts and not new_counts and not stored:
            drafts.append(Draft(unit))
        elif old_counts and not new_counts:
            draft.alternatives.append(unit)
        elif old_counts and new_counts:  # a later history holds both: two turns
            drafts.append(Draft(unit))
        else:
            draft.alternatives.append(draft.unit)
            draft.unit = unit
    return drafts


def without_branches(drafts: list[Draft]) -> list[Draft]:
    """Turns that went on from a given-up answer become alternatives of the turns that stand in their place."""
    given_up: dict[tuple[str, str], tuple[Draft, int]] = {
        pair: (draft, 0) for draft in drafts for unit in draft.alternatives for pair in unit.pairs_after
    }
    if not given_up:
        return drafts
    kept: list[Draft] = []
    counts: set[tuple[str, str]] = set()
    moved: list[tuple[Draft, Draft, int]] = []
    for draft in drafts:
        last = draft.unit.history[-1] if draft.unit.history else None
        if last is not None and last in given_up and last not in counts:
            home, steps = given_up[last]
            moved.append((draft, home, steps + 1))
            given_up.update((pair, (home, steps + 1)) for pair in draft.unit.pairs_after)
        else:
            kept.append(draft)
            counts.update(draft.unit.pairs_after)
    for draft, home, steps in moved:
        place = min(kept.index(home) + steps, len(kept) - 1)
        kept[place].alternatives.extend((draft.unit, *draft.alternatives))
    return kept


def _branches(one: Unit, other: Unit) -> bool:
    """Whether two units of equal history answer at the same place of the conversation."""
    if fold(one.user or "") == fold(other.user or ""):
        return bool(one.user)
    return bool(one.history)


def pairs_in(unit: Unit, pairs: set[tuple[str, str]]) -> bool:
    """Whether a history holds the unit's question and answer."""
    return not unit.pairs_after.isdisjoint(pairs)
