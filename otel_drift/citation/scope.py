"""What a citation mark speaks for, and the answer as it reads without its marks.

A mark speaks for the words before it in its sentence, back to the mark before; the last one of a sentence may stand
for all of it, and for the sentences before it in its paragraph that have no mark of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from otel_drift.citation.markers import Mark, Marks
from otel_drift.text import sentences


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the answer that a mark speaks for, in characters of the answer.

    `near` is what stands right before it, `wide` the most it can stand for (equal where another mark follows in the
    same sentence), `sentence` the sentence it stands in. Marks that touch share their scope and their `group`.
    """

    mark: Mark
    near: tuple[int, int]
    wide: tuple[int, int]
    sentence: tuple[int, int]
    group: int


@dataclass(frozen=True, slots=True)
class Unmarked:
    """The answer without its marks, its list of sources and its footnotes, and where each character stood."""

    text: str
    places: Sequence[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span in the answer as the trace has it of ``text[start:end]``."""
        return self.places[start], self.places[end - 1] + 1


def unmarked(answer: str, marks: Marks) -> Unmarked:
    """Take the marks out of an answer, so that who judges a claim does not see what it cites.

    Marks that their sentence needs ("as [2] says") stay.
    """
    out = [(mark.start, mark.end) for mark in marks.marks if mark.kind != "listed" and not mark.reads_as_word]
    out += [span for span in marks.notes if span[0] < marks.body_end]
    kept: list[int] = []
    position = 0
    for start, end in sorted(out):
        kept.extend(range(position, max(position, start)))
        while kept and answer[kept[-1]] in " \t":
            kept.pop()
        position = max(position, end)
    kept.extend(range(position, marks.body_end))
    while kept and answer[kept[-1]].isspace():
        kept.pop()
    return Unmarked("".join(answer[place] for place in kept), kept)


def scopes(answer: str, marks: Marks) -> list[Scope]:
    """What each mark of the text speaks for; entries of a closing list speak for nothing and are left out."""
    body = answer[: marks.body_end]
    spans = [
        (sentence.start, sentence.end)
        for sentence in sentences(body)
        if sentence.kind not in ("code", "heading")
        and not any(start < sentence.end and sentence.start < end for start, end in marks.notes)
    ]
    cited = [mark for mark in marks.marks if mark.kind != "listed"]
    homes = {mark.start: home for mark in cited if (home := _home(body, spans, mark, cited)) is not None}
    marked = set(homes.values())
    found: list[Scope] = []
    for index in sorted(marked):
        own = [mark for mark in cited if homes.get(mark.start) == index]
        found += _in_sentence(body, spans, index, own, marked)
    return found


def _home(body: str, spans: Sequence[tuple[int, int]], mark: Mark, marks: Sequence[Mark]) -> int | None:
    """The sentence a mark belongs to: its own, or the one before where it only opens its own."""
    index = bisect_left(spans, (mark.start + 1, 0)) - 1
    if index < 0:
        return None
    start, end = spans[index]
    if mark.start >= end:
        return index if not body[end : mark.start].strip() else None
    if mark.reads_as_word or _words(body, start, mark.start, marks):
        return index
    alone = not _words(body, mark.end, end, marks)
    if index and (alone or "\n" not in body[spans[index - 1][1] : mark.start]):
        return index - 1
    return None if alone else index


def _words(body: str, start: int, end: int, marks: Sequence[Mark]) -> bool:
    """Whether there are words in body[start:end] besides marks."""
    text = list(body[start:end])
    for mark in marks:
        for place in range(max(start, mark.start), min(end, mark.end)):
            text[place - start] = " "
    return any(char.isalnum() for char in text)


def _in_sentence(
    body: str, spans: Sequence[tuple[int, int]], index: int, marks: Sequence[Mark], marked: set[int]
) -> list[Scope]:
    groups: list[list[Mark]] = []
    for mark in marks:
        if groups and not any(char.isalnum() for char in body[groups[-1][-1].end : mark.start]):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    found = []
    sentence = spans[index]
    start = sentence[0]
    for number, group in enumerate(groups):
        last = number == len(groups) - 1
        near = (start, group[0].start if not group[0].reads_as_word else sentence[1])
        wide = (_paragraph_start(body, spans, index, marked), sentence[1]) if last else near
        found += [Scope(mark, near, wide, sentence, group[0].start) for mark in group]
        start = group[-1].end
    return found


def _paragraph_start(body: str, spans: Sequence[tuple[int, int]], index: int, marked: set[int]) -> int:
    first = index
    while first and first - 1 not in marked and "\n" not in body[spans[first - 1][1] : spans[first][0]]:
        first -= 1
    return spans[first][0]
