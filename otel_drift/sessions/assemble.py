"""Sessions: units of one session put in order and merged into turns."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence

from otel_drift.normalise import Step
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.step import ends_silent
from otel_drift.normalise.values import fold
from otel_drift.sessions.answers import comments, variants
from otel_drift.sessions.branches import Draft, alternatives, pairs_in, without_branches
from otel_drift.sessions.duplicates import without_duplicates
from otel_drift.sessions.succession import SKEW, Latest, by_history
from otel_drift.sessions.tree import Node, order
from otel_drift.sessions.unit import Unit


def assemble(units: Sequence[Unit], retry_seconds: float) -> list[Draft]:
    """Turns of one session in order."""
    ordered = sorted(units, key=_order)
    _lose_questions(ordered)
    ordered = _without_afterwork(without_duplicates(ordered))
    ordered = _joined(_without_echoes(ordered))
    ordered = _without_failures(ordered, int(retry_seconds * 1e9))
    ordered = _without_standing_orders(by_history(ordered))
    _choose_answers(ordered)
    return without_branches(alternatives(ordered))


def _lose_questions(units: Sequence[Unit]) -> None:
    """A question after the same conversation as an earlier turn's is that turn's, where the messages were cut."""
    if not any(unit.cut for unit in units):
        return
    asked: set[tuple[object, ...]] = set()
    for unit in units:
        place = unit.last_message, *unit.history
        if unit.last_message and unit.cut and place in asked:
            unit.lose_question()
        asked.add(place)


def is_part(unit: Unit) -> bool:
    """Whether the unit is no turn by itself: no model call, or only calls that asked for tools."""
    if unit.answered or unit.failed:
        return False
    if not unit.calls:
        return not (unit.wrapped and unit.user) or _returns_documents(unit)
    return all(any(m.uses and not ends_silent(m.uses) for m in c.output_messages or ()) for c in unit.calls)


def _returns_documents(unit: Unit) -> bool:
    """Whether the outermost wrapper is a search of the application's own: what it returns is documents and no words."""
    output = unit.path[0].output if unit.path else None
    if isinstance(output, dict):
        said = [value for value in output.values() if isinstance(value, str) and " " in value.strip()]
        if any(fold(text) != fold(unit.user or "") for text in said):
            return False  # beside its sources it answers
    return isinstance(output, list | dict) and bool(read_documents(output, strings=isinstance(output, list)))


def relevant(nodes: Sequence[Node]) -> bool:
    """Whether nodes say anything about a conversation (index building, health checks and the like do not)."""
    for node in nodes:
        if node.call or node.step.kind in {"retriever", "reranker", "tool", "agent"}:
            return True
    embeddings = [n.step for n in nodes if n.step.kind == "embedding"]
    if embeddings:
        return any(step.query for step in embeddings)
    return any(n.step.kind == "chain" and n.step.input is not None and n.step.output is not None for n in nodes)


def _order(unit: Unit) -> tuple[object, ...]:
    return (
        order(unit.root.span)
        if unit.root.span.start == unit.start
        else (unit.start, -unit.end, unit.traces[0], unit.root.span.span_id)
    )


def _without_afterwork(units: list[Unit]) -> list[Unit]:
    """Calls that were given an answer of the session to work on (titles, suggestions, checks) are no turns."""
    kept: list[Unit] = []
    answers: set[str] = set()
    known = {answer for unit in units for _, answer in unit.history}
    for unit in units:
        if unit.answered and not unit.told:
            if unit.works_on is not None and unit.works_on in answers:
                continue
            if kept and _reworks(unit, kept[-1]) and fold(unit.answer or "") not in known:
                continue
        kept.append(unit)
        answers.update(fold(call.answer_text or "") for call in unit.finals)
    return kept


def _reworks(unit: Unit, before: Unit) -> bool:
    """Whether a lone model call was given the question and answer of the turn before as one text."""
    return (
        len(unit.calls) == 1
        and bool(before.calls)
        and before.answered
        and (not unit.history or unit.history[-1] in before.pairs_after)
        and (before.answer or "") in (unit.last_message or "")
        and _instructions(unit) != _instructions(before)
        and comments(unit.last_message or "", before.user or "", before.answer or "", unit.answer or "")
    )


def _without_echoes(units: list[Unit]) -> list[Unit]:
    """Chains without a model call that only repeat what a turn with one says (their parent link was lost) are none."""
    talking = [u for u in units if u.calls]
    if not talking or len(talking) == len(units):
        return units
    asked = {fold(t) for u in talking for t in (u.user, u.last_message) if t}
    said = {fold(t) for u in talking for t in (u.answer, *(c.answer_text for c in u.finals)) if t}

    def repeats(unit: Unit) -> bool:
        if unit.calls or unit.has_sources or any(n.step.kind == "embedding" for n in unit.nodes):
            return False
        if unit.user and fold(unit.user) not in asked and fold(unit.answer or "") not in said:
            return False
        return not _returns_documents(unit)

    return [unit for unit in units if not repeats(unit)]


def _joined(units: list[Unit]) -> list[Unit]:
    """Parts of a turn that are traces of their own (retrieval, rewriting, tool calls) go to the turn they serve."""
    turns = _Turns()
    waiting: list[Unit] = []
    starts = [unit.start for unit in units]
    for index, unit in enumerate(units):
        home = turns.home(unit)
        if home is not None:
            home.absorb(unit)
        elif is_part(unit) or _is_rewrite(unit, units, bisect_left(starts, unit.end, index + 1)):
            waiting.append(unit)
        else:
            for part in waiting:
                last = turns.every.units[-1] if turns.every.units else None
                (last if last is not None and _is_late(part, last, unit) else unit).absorb(part)
            waiting = []
            turns.add(unit)
    if turns.every.units:
        last = turns.every.units[-1]
        for part in waiting:
            if _is_late(part, last, None):
                last.absorb(part)
        return turns.every.units  # what else no answer followed is no turn
    return [u for u in waiting if any(n.step.kind in {"retriever", "tool", "llm", "agent"} for n in u.nodes)]


def _is_late(part: Unit, turn: Unit, following: Unit | None) -> bool:
    """Whether a part that comes after `turn` served it: that turn alone was given what was found.

    Another service's clock may be late, so that its search seems to follow the call that was given its passages.
    """
    found = part.retrieved_texts()
    return bool(found) and _given(turn, found) and (following is None or not _given(following, found))


def _given(unit: Unit, found: Sequence[str]) -> bool:
    """Whether a text stands in what the unit's answering call was told anew: instructions and last messages."""
    new = unit.given[max(unit.last_index, 0) :]
    return any(text in m.text for m in (*(m for m in unit.given if m.role == "system"), *new) for text in found)


class _Turns:
    """The turns so far, and of which of them a unit is a part."""

    def __init__(self) -> None:
        self.every = Latest()
        self._asked: dict[str, Latest] = {}

    def add(self, turn: Unit) -> None:
        """Take the next turn."""
        self.every.add(turn)
        self._asked.setdefault(fold(turn.user or ""), Latest()).add(turn)

    def home(self, unit: Unit) -> Unit | None:
        """The last turn in whose time a unit lies as a part: a search, a tool call, a rewriting of its question."""
        if is_part(unit) or not (unit.calls or unit.answered):
            likely: Latest | None = self.every
        elif not unit.wrapped and len(unit.calls) == 1:
            likely = self._asked.get(fold(unit.user or ""))
        else:
            return None
        if likely is None:
            return None
        around = (turn for turn in likely.until(unit.end) if turn.start <= unit.start)
        return next((turn for turn in around if turn.traces[0] != unit.traces[0]), None)


def _is_rewrite(unit: Unit, units: Sequence[Unit], following: int) -> bool:
    """Whether a lone model call only prepared the next: its answer was searched for, or the same question follows.

    `following` is the place of the first unit that begins after it has ended.
    """
    if unit.wrapped or len(unit.calls) != 1 or not unit.answer:
        return False
    said = fold(unit.answer)
    for place in range(following, len(units)):
        other = units[place]
        if other.start - unit.end > SKEW:
            return False
        for query in other.queries:
            if query == said or (len(query) > 8 and query in said):
                return True
        if other.answered:
            asked, then = (
                fold(unit.calls[0].last_user or ""),
                fold(other.calls[0].last_user or "" if other.calls else ""),
            )
            known = {answer for _, answer in other.history}
            if asked and then and said not in known and (asked == then or (then in asked and asked != then)):
                return _instructions(unit) != _instructions(other)
            return False
    return False


def _instructions(unit: Unit) -> str:
    return fold(next((m.text for m in unit.calls[0].input_messages or () if m.role == "system"), ""))[:60]


def _without_failures(units: list[Unit], retry: int) -> list[Unit]:
    """A failed try that was repeated with the same message is no turn; nor is a failure that shows nothing."""
    kept: list[Unit] = []
    starts: dict[str, int] = {}  # when messages come again: in the failures that follow, or the turn after them
    for unit in reversed(units):
        asked = fold(unit.user or "")
        if not unit.failed:
            starts = {}
            kept.append(unit)
        elif asked and not (asked in starts and starts[asked] - unit.end <= retry):
            kept.append(unit)
        starts[asked] = min(unit.start, starts.get(asked, unit.start))
    kept.reverse()
    return kept


def _without_standing_orders(units: list[Unit]) -> list[Unit]:
    """The same message after several turns, never resent with its answer, is the application's (suggestions)."""
    asked: dict[str, list[Unit]] = {}
    for unit in units:
        if unit.history and unit.answered and not unit.told:
            asked.setdefault(fold(unit.user or ""), []).append(unit)
    orders = {id(u) for text, own in asked.items() if text and len({tuple(u.history) for u in own}) > 1 for u in own}
    if not orders:
        return units
    held = {pair for unit in units for pair in unit.history}
    texts = {fold(u.user or "") for u in units if id(u) in orders and pairs_in(u, held)}
    return [u for u in units if id(u) not in orders or fold(u.user or "") in texts]


def _choose_answers(units: Sequence[Unit]) -> None:
    """Where a unit has several texts, the one that the next turn's history holds is the answer.

    Of the others (the last turn) the one that was asked for as the answers of the other turns were.
    """
    known: list[Step] = []
    unsure: list[Unit] = []
    for unit, following in itertools.zip_longest(units, units[1:]):
        held = False
        if following is not None and len(unit.finals) > 1:
            later = {a for _, a in following.history[-1:]} | following.resent
            held = fold(unit.answer or "") in later
            if not held:
                said = next(
                    (a for a in sorted(later) if any(a in variants(c.answer_text or "") for c in unit.finals)), ""
                )
                if said:
                    unit.choose(said)
                    held = True
        elif following is not None and following.history:
            held = following.history[-1][1] == fold(unit.answer or "")
        if held or unit.told:
            if unit.call is not None:
                known.append(unit.call)
        elif len(unit.finals) > 1:
            unsure.append(unit)
    if known:
        for unit in unsure:
            _choose_alike(unit, known[-3:])


def _choose_alike(unit: Unit, known: Sequence[Step]) -> None:
    """Of a unit's texts take the one whose call begins with the instructions of calls known to have answered."""

    def likeness(call: Step | None) -> int:
        begins = _begins(call) if call is not None else ""
        return max(_alike(begins, _begins(other)) for other in known)

    best = max(reversed(unit.finals), key=likeness)
    if likeness(best) > likeness(unit.call):
        unit.choose(fold(best.answer_text or ""))


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _begins(call: Step) -> str:
    first = next(iter(call.input_messages or ()), None)
    return f"{first.role} {first.text[:400]}" if first is not None and first.role == "system" else ""
