"""What a citation mark speaks for, and the answer as it reads without its marks.

A mark speaks for the words before it in its sentence, back to the mark before; the last one of a sentence may stand
for all of it, and for the sentences before it in its paragraph that have no mark of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

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
    words = _Words(body, cited)
    by_sentence: dict[int, list[Mark]] = {}
    for mark in cited:
        home = _home(body, spans, mark, words)
        if home is not None:
            by_sentence.setdefault(home, []).append(mark)
    return [scope for index in sorted(by_sentence) for scope in _in_sentence(body, spans, index, by_sentence, words)]


class _Words:
    """Whether a part of a text has words besides its marks, counted once for all parts."""

    def __init__(self, body: str, marks: Sequence[Mark]) -> None:
        letters = bytearray(char.isalnum() for char in body)
        for mark in marks:
            end = min(mark.end, len(letters))
            letters[mark.start : end] = bytes(max(0, end - mark.start))
        self._before = [0, *accumulate(letters)]

    def between(self, start: int, end: int) -> bool:
        return start < end and self._before[end] > self._before[start]


def _home(body: str, spans: Sequence[tuple[int, int]], mark: Mark, words: _Words) -> int | None:
    """The sentence a mark belongs to: its own, or the one before where it only opens its own."""
    index = bisect_left(spans, (mark.start + 1, 0)) - 1
    if index < 0:
        return None
    start, end = spans[index]
    if mark.start >= end:
        return index if not body[end : mark.start].strip() else None
    if mark.reads_as_word or words.between(start, mark.start):
        return index
    alone = not words.between(mark.end, end)
    if index and (alone or "\n" not in body[spans[index - 1][1] : mark.start]):
        return index - 1
    return None if alone else index


def _in_sentence(
    body: str, spans: Sequence[tuple[int, int]], index: int, by_sentence: Mapping[int, list[Mark]], words: _Words
) -> list[Scope]:
    groups: list[list[Mark]] = []
    for mark in by_sentence[index]:
        if groups and not words.between(groups[-1][-1].end, mark.start):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    found = []
    sentence = spans[index]
    start = sentence[0]
    for number, group in enumerate(groups):
        last = number == len(groups) - 1
        near = (start, sentence[1] if group[0].reads_as_word else group[0].start)
        wide = (_paragraph_start(body, spans, index, by_sentence), sentence[1]) if last else near
        found += [Scope(mark, near, wide, sentence, group[0].start) for mark in group]
        start = group[-1].end
    return found


def _paragraph_start(body: str, spans: Sequence[tuple[int, int]], index: int, marked: Container[int]) -> int:
    first = index
    while first and first - 1 not in marked and "\n" not in body[spans[first - 1][1] : spans[first][0]]:
        first -= 1
    return spans[first][0]
