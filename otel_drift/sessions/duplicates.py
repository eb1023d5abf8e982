"""Sessions: units that overlapping instrumentations recorded twice, in two traces, become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

from otel_drift.normalise import Step
from otel_drift.normalise.values import fold
from otel_drift.sessions.contained import related
from otel_drift.sessions.unit import Unit


def without_duplicates(units: Sequence[Unit]) -> list[Unit]:
    """The units, ordered by their start, with those that are one turn put together."""
    kept: list[Unit] = []
    for group in _overlapping(units):
        kept.extend(group if len(group) == 1 else _merged(group))
    return kept


def _overlapping(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Units in groups, so that none begins before all of the group before it has ended."""
    group: list[Unit] = []
    latest = 0
    for unit in units:
        if group and unit.start >= latest:
            yield group
            group = []
        latest = max(latest, unit.end) if group else unit.end
        group.append(unit)
    if group:
        yield group


def _merged(units: Sequence[Unit]) -> list[Unit]:
    kept: list[Unit] = []
    likely = _Likely(units)
    for unit in units:
        place = next((p for p in likely.places(unit, kept) if is_twin(kept[p], unit)), None)
        if place is None:
            place = len(kept)
            kept.append(unit)
        elif _richness(unit) > _richness(kept[place]) and unit.answered:
            unit.absorb(kept[place])
            kept[place] = unit
        else:
            kept[place].absorb(unit)
            continue
        likely.add(unit, place)
    return kept


class _Likely:
    """Where among the units kept a twin may be: every pair of twins has something in common that is looked up here.

    Each kind of twin that `is_twin` knows has keys of its own. What has ended is forgotten: no later unit meets it.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self._keys = {id(unit): [_keys(call) for call in unit.calls] for unit in units}
        self._frequency = Counter(key for calls in self._keys.values() for keys in calls for key in keys)
        questions: dict[str, set[str]] = {}
        for unit in units:
            if unit.answer:
                questions.setdefault(fold(unit.answer), set()).add(fold(unit.user or ""))
        self._questions = {answer: related(asked) for answer, asked in questions.items()}
        self._places: dict[Hashable, list[int]] = {}
        self._answers: dict[Hashable, set[str]] = {}
        """With which answers the units are that have a call in common."""

    def add(self, unit: Unit, place: int) -> None:
        """Have a unit found at its place."""
        answer, asked = fold(unit.answer or ""), fold(unit.user or "")
        keys: list[Hashable] = [("says nothing", asked)] if _is_silent(unit) else [("asked", asked), ("asked",)]
        if unit.answer:
            keys.append(("turn", answer, asked))
        for key in self._all(unit):
            self._answers.setdefault(("whole", key), set()).add(answer)
            keys.append(("whole", key, answer))
        for key in self._rarest(unit):
            self._answers.setdefault(("part", key), set()).add(answer)
            keys.append(("part", key, answer))
        for name in keys:
            self._places.setdefault(name, []).append(place)

    def places(self, unit: Unit, kept: Sequence[Unit]) -> list[int]:
        """The places, in order, of all units that may be a twin of `unit`, and of few others."""
        found: set[int] = set()
        for name in self._names(unit):
            places = self._places.get(name)
            if places:
                places[:] = [p for p in places if kept[p].end > unit.start]
                found.update(places)
        return sorted(found)

    def _names(self, unit: Unit) -> Iterator[Hashable]:
        answer, asked = fold(unit.answer or ""), fold(unit.user or "")
        if unit.answer:
            for other in self._questions[answer][asked]:
                yield "turn", answer, other
        if not _is_silent(unit):
            yield "says nothing", asked
            yield "says nothing", ""
        elif asked:
            yield "asked", asked
        else:
            yield ("asked",)
        for role, keys in (("part", self._all(unit)), ("whole", self._rarest(unit))):
            for key in keys:
                for said in self._answers.get((role, key), ()):
                    if not said or said != answer:  # of equal answers the question decides
                        yield role, key, said

    def _all(self, unit: Unit) -> set[Hashable]:
        return {key for keys in self._keys[id(unit)] for key in keys}

    def _rarest(self, unit: Unit) -> Iterable[Hashable]:
        """The keys of the call that the fewest units have, where the unit may be a part of another."""
        if unit.wrapped or not unit.calls:
            return ()
        return min(self._keys[id(unit)], key=lambda keys: sum(self._frequency[key] for key in keys))


def is_twin(one: Unit, other: Unit) -> bool:
    """Whether two units that overlap in time are one turn."""
    if one.traces[0] == other.traces[0]:
        return False
    if one.answer and other.answer and fold(one.answer) == fold(other.answer):
        first, second = fold(one.user or ""), fold(other.user or "")
        return not first or not second or first in second or second in first
    if _says_nothing(one, other) or _says_nothing(other, one):
        return True
    return _call_known(one, other) or _call_known(other, one)


def _is_silent(unit: Unit) -> bool:
    """Whether a unit is bare model calls of which nothing came out."""
    if unit.answered or unit.failed or unit.wrapped or not unit.calls or unit.has_sources:
        return False
    return not any(c.output_messages for c in unit.calls)


def _says_nothing(whole: Unit, part: Unit) -> bool:
    """Whether `part` is a bare model call without output, inside the time and with the question of `whole`."""
    if not _is_silent(part) or (not whole.answered and not any(c.output_messages for c in whole.calls)):
        return False
    asked, then = fold(part.user or ""), fold(whole.user or "")
    inside = (whole.start <= part.start and part.end <= whole.end) or (
        part.start <= whole.start and whole.end <= part.end
    )
    return inside and (not asked or asked == then)


def _call_known(whole: Unit, part: Unit) -> bool:
    """Whether every model call of `part` is one that `whole` recorded too, at the same time."""
    if not part.calls or part.wrapped or not whole.calls:
        return False
    for call in part.calls:
        said, uses = call.answer_text, _use_ids(call)
        if not any(
            c.span.start <= call.span.end
            and call.span.start <= c.span.end
            and (
                (said is not None and c.answer_text is not None and fold(said) == fold(c.answer_text or ""))
                or (uses and uses == _use_ids(c))
            )
            for c in whole.calls
        ):
            return False
    return True


def _keys(call: Step) -> list[Hashable]:
    """What two records of one model call have in common: at least one of these."""
    said, uses = call.answer_text, _use_ids(call)
    return [*([("said", fold(said))] if said is not None else ()), *([("uses", uses)] if uses else ())]


def _use_ids(step: object) -> frozenset[str]:
    messages = getattr(step, "output_messages", None) or ()
    return frozenset(u.id or f"{u.name}{u.arguments}" for m in messages for u in m.uses)


def _richness(unit: Unit) -> tuple[int, ...]:
    return (
        max((len(c.input_messages or ()) for c in unit.calls), default=-1) > 0,
        unit.root.session is not None and unit.root.session[0] <= 1,
        sum(1 for n in unit.nodes if n.step.documents and any(d.text and d.id for d in n.step.documents)),
        int(unit.wrapped),
        int(unit.has_sources),
        max((len(c.input_messages or ()) for c in unit.calls), default=0),
        len(unit.nodes),
    )
