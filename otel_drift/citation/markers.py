"""Citation marks in an answer: ``[1]``, ``[2, 3]``, ``[id]``, ``(Source: x)``, ``¹``, ``[^1]``, ``Sources:`` lists.

Everything else in brackets is none: code, links, checkboxes, dates, intervals, ``[sic]``, and brackets that the answer
copied from a passage together with the words before them. In doubt a bracket is no mark: a mark that leads nowhere is
a finding, and what is no mark must never become one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from otel_drift.citation.notes import Note, definitions, source_list
from otel_drift.citation.sources import Target, named_target, numbered_target, same_shape
from otel_drift.model import Passage
from otel_drift.text import fold
from otel_drift.text.quantities import is_unit

MarkKind = Literal["number", "id", "named", "superscript", "footnote", "listed"]
LONGEST_ANSWER = 200_000
"""Characters of an answer that are looked at for marks."""
MOST_MARKS = 2_000


@dataclass(frozen=True, slots=True)
class Mark:
    """A citation mark as written (``answer[start:end] == text``), and what it points at, one target a name.

    `reads_as_word` says that the sentence needs it ("as [2] says"); `kind` ``listed`` is an entry of a list of sources
    at the end, which speaks for no sentence.
    """

    text: str
    start: int
    end: int
    kind: MarkKind
    targets: tuple[Target, ...]
    reads_as_word: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of an answer in order, and where its text ends and a list of sources or footnotes begins."""

    marks: tuple[Mark, ...]
    body_end: int
    notes: tuple[tuple[int, int], ...] = ()


_FENCE = re.compile(
    r"^(?P<fence>[ \t]*(?:```|~~~))[^\n]*\n.*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_NO_TEXT = re.compile(
    r"`[^`\n]{1,2000}`|!\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)|^\s*(?:[-*+]|\d{1,3}[.)])\s+\[[ xX]\]"
    r"|\\\[.{0,2000}?\\\]|\$[^$\n]{1,500}\$",
    re.MULTILINE,
)
_LINK = re.compile(r"\[([^\[\]\n]{0,300})\]\(\s*<?([^\[)\s>]{1,500})>?(?:\s[^)\n]{0,200})?\)")
_BRACKET = re.compile(r"\[(?P<square>[^\[\]\n]{1,200})\]|【(?P<wide>[^【】\n]{1,200})】|［(?P<full>[^［］\n]{1,200})］")
_SUP = re.compile(r"<sup>\s*\[?(?P<inside>\d{1,3}(?:\s*[,;–-]\s*\d{1,3}){0,20})\]?\s*</sup>", re.IGNORECASE)
_NUMBERS = re.compile(r"\d{1,3}(?:\s*[,;–—‑-]\s*\d{1,3}){0,30}")
_NAMED_PAREN = re.compile(
    r"\((?:Sources?|Refs?\.?|References?|Quellen?|cf\.|see)\s*(?::\s*|(?=\d))(?P<name>(?:[^()\n]|\([^()\n]{0,200}\)){1,300})\)",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    r"(?:the\s+)?(?:sources?|refs?\.?|references?|docs?|documents?|passages?|contexts?|chunks?)\s*[#:_-]?\s*"
    r"(?P<numbers>\d{1,3}(?:\s*(?:[,;–-]|and|&)\s*\d{1,3}){0,20})",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?:sources?|refs?\.?|references?|quellen?)\s*:\s*(?P<name>.+)", re.IGNORECASE)
_SUPERSCRIPT = re.compile(r"[⁰¹²³⁴-⁹]+(?:[,˒‚⸴][⁰¹²³⁴-⁹]+)*")
_SUPERSCRIPT_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_INTERVAL_BEFORE = re.compile(
    r"(?:=|∈|±|\b(?:intervals?|ranges?|between|CI|values?|from|domain|bounds?|limits?|within|scale|set|array|list|vector))"
    r"\s*(?:of|in|is|are|:)?\s*$",
    re.IGNORECASE,
)
_WORD_BEFORE = re.compile(
    r"\b(?:in|as|see|to|of|from|by|per|with|unlike|under|sources?|passages?|documents?|refs?\.?|references?)\s*$",
    re.IGNORECASE,
)
_ELEMENT = re.compile(
    r"(?<![\w-])(?:[a-z]|args|argv|arr|array|buffer|cells|cols|columns|data|elements|entries|items|lines|list|lst|nums|"
    r"queue|results|rows|stack|tuple|values|vector)(?=\[\d{1,3}\])"
)
"""A name that code gives a list, with an index right behind it."""
_DAGGER = re.compile(r"(?P<number>\d{1,3})(?P<of_message>:\d{1,3})?†(?P<name>[^†]{0,150})")
"""What OpenAI's file search writes: ``5†source``, ``4:1†leaflet.pdf``."""
_OPENS = re.compile(r"(?:^|[.!?…\n])[\"'“(*_\s]*$")


def find_marks(answer: str, passages: Sequence[Passage]) -> Marks:
    """Find the citation marks of an answer and what they point at.

    Numbers count the passages of the turn in their order (from 0 where the answer uses ``[0]``); a footnote or an
    entry of a list of sources goes by the id, title, source or URL it names, else by its number.

    Args:
        answer: the answer as the trace has it.
        passages: the passages of the same turn.
    """
    length, answer = len(answer), answer[:LONGEST_ANSWER]
    no_text = [match.span() for match in (*_FENCE.finditer(answer), *_NO_TEXT.finditer(answer))]
    skipped = _Taken(len(answer), no_text)
    notes = definitions(answer, skipped.overlap)
    listed, entries = source_list(answer, skipped.overlap)
    taken = _Taken(len(answer), [*no_text, *(note.span for note in notes)])
    numbers_from = 0 if _counts_from_zero(answer, len(passages)) else 1
    by_key = {note.key: note for note in (*entries, *notes)}
    reader = _Reader(answer, passages, numbers_from, by_key, any(note.caret for note in notes))
    found: list[Mark] = []
    for mark in (*_links(reader, taken), *_superscripts(reader), *_parenthesised(reader), *_bracketed(reader)):
        if not taken.overlap(mark.start, mark.end) and not listed[0] <= mark.start < listed[1]:
            found.append(mark)
            taken.add(mark.start, mark.end)
    found += [mark for mark in map(reader.entry, entries) if mark is not None]
    found.sort(key=lambda mark: mark.start)
    del found[MOST_MARKS:]
    own = [note.span for note in notes]
    closes = listed[0] < listed[1] == len(answer)
    return Marks(
        marks=tuple(found),
        body_end=listed[0] if closes else length,
        notes=tuple(own if closes or not entries else [*own, listed]),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    answer: str
    passages: Sequence[Passage]
    numbers_from: int
    notes: dict[str, Note]
    has_footnotes: bool
    known: dict[str, Target] = field(default_factory=dict)

    def named(self, name: str) -> Target:
        """What a name means, looked up once."""
        if name not in self.known:
            self.known[name] = named_target(name, self.passages)
        return self.known[name]

    def number(self, digits: str) -> Target:
        """The passage a number stands for: by its note where that names one, else by its place."""
        note = self.notes.get(digits)
        if note is not None:
            target = self.named(note.text)
            if target.passages:
                return Target(digits, target.passages)
            if note.caret and target.dangling:
                return Target(digits, (), dangling=True)
        return numbered_target(digits, self.passages, self.numbers_from)

    def footnote(self, key: str) -> Target:
        note = self.notes.get(key)
        if note is not None:
            target = self.named(note.text)
            if target.passages:
                return Target(key, target.passages)
            ordinal = _ORDINAL.search(note.text)
            if ordinal:
                return numbered_target(ordinal["numbers"].split(",")[0].strip(), self.passages, self.numbers_from)
            return Target(key, (), dangling=target.dangling)
        if self.has_footnotes or not key.isdigit():
            return Target(key, (), dangling=True)
        return numbered_target(key, self.passages, self.numbers_from)

    def names(self, text: str) -> tuple[Target, ...]:
        """What a list of names after "Source:" points at."""
        whole = self.named(text)
        if whole.passages:
            return (whole,)
        for separator in (r"\s*;\s*", r"\s*(?:,|;|\band\b|&)\s*"):
            parts = [part for part in re.split(separator, text) if part.strip()]
            targets = [self.number(p) if p.isdigit() and len(p) <= 3 else self.named(p) for p in parts]
            if any(target.passages for target in targets):
                return tuple(targets)
        return (whole,)

    def entry(self, entry: Note) -> Mark | None:
        if not entry.text:
            return None
        target = self.named(entry.text)
        if not target.passages and entry.key:
            place = numbered_target(entry.key, self.passages, self.numbers_from)
            target = Target(entry.text, place.passages) if place.passages else target
        start, end = entry.span
        return Mark(self.answer[start:end], start, end, "listed", (target,))

    def as_word(self, start: int, end: int) -> bool:
        before, after = self.answer[max(0, start - 40) : start], self.answer[end : end + 3]
        if _WORD_BEFORE.search(before):
            return True
        return bool(_OPENS.search(before)) and after[:1] == " " and after[1:2].islower()

    def copied(self, start: int, end: int) -> bool:
        """Whether a passage has this bracket after the same words: then the answer only repeats it."""
        words = fold(self.answer[max(0, start - 16) : end])
        return len(words) > end - start + 6 and any(words in fold(passage.text or "") for passage in self.passages)


class _Taken:
    """Which characters of the answer are spoken for."""

    def __init__(self, length: int, spans: Iterable[tuple[int, int]]) -> None:
        self._mask = bytearray(length)
        for start, end in spans:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        self._mask[start:end] = b"\x01" * (end - start)

    def overlap(self, start: int, end: int) -> bool:
        return self._mask.find(1, start, end) >= 0


def _counts_from_zero(answer: str, passages: int) -> bool:
    answer = _ELEMENT.sub("_", answer)
    return "[0]" in answer and f"[{passages}]" not in answer and bool(re.search(r"[^\W\d_)\].] ?\[0\]", answer))


def _links(reader: _Reader, taken: _Taken) -> Iterator[Mark]:
    """Links whose address is a passage's source are marks; all other links are none."""
    for match in _LINK.finditer(reader.answer):
        target = reader.named(match[2])
        if target.passages:
            yield Mark(match[0], *match.span(), "named", (target,), not match[1].strip().isdigit())
        else:
            taken.add(*match.span())


def _superscripts(reader: _Reader) -> Iterator[Mark]:
    for match in _SUP.finditer(reader.answer):
        targets = _group(reader, match["inside"])
        if targets and not re.search(r"\d\s*$", reader.answer[: match.start()][-3:]):
            yield Mark(match[0], *match.span(), "superscript", targets)
    for match in _SUPERSCRIPT.finditer(reader.answer):
        if not _is_exponent(reader.answer, match.start()):
            digits = [run.translate(_SUPERSCRIPT_DIGITS) for run in re.findall(r"[⁰¹²³⁴-⁹]+", match[0])]
            if len(digits) == 1 and len(digits[0]) > 1 and int(digits[0]) > len(reader.passages):
                digits = list(digits[0])
            yield Mark(match[0], *match.span(), "superscript", tuple(reader.number(n) for n in digits))


def _is_exponent(answer: str, start: int) -> bool:
    """Whether a superscript follows a unit, a number, a symbol or a short name: m², 10³, x², R²."""
    word = re.search(r"[^\W\d_]+$", answer[max(0, start - 40) : start])
    if word:
        return len(word[0]) < 4 or is_unit(word[0])
    return answer[start - 1 : start] not in tuple(".,;:!?)\"'”’") or start == 0


def _parenthesised(reader: _Reader) -> Iterator[Mark]:
    for match in _NAMED_PAREN.finditer(reader.answer):
        name = match["name"].strip()
        targets = _group(reader, name) if _NUMBERS.fullmatch(name) else reader.names(name)
        if match[0][1:4].lower() in ("see", "cf."):
            targets = tuple(target for target in targets if target.passages)
        if targets:
            yield Mark(match[0], *match.span(), "named", targets)
    for match in re.finditer(r"\((?P<inside>[^()\n]{4,60})\)", reader.answer):
        ordinal = _ORDINAL.fullmatch(match["inside"].strip())
        targets = _group(reader, ordinal["numbers"]) if ordinal else ()
        if targets:
            yield Mark(match[0], *match.span(), "number", targets)


def _bracketed(reader: _Reader) -> Iterator[Mark]:
    for match in _BRACKET.finditer(reader.answer):
        inside = (match["square"] or match["wide"] or match["full"]).strip()
        start, end = match.span()
        kind, targets = _read_bracket(reader, inside, start, end)
        if targets and not reader.copied(start, end):
            yield Mark(match[0], start, end, kind, targets, reader.as_word(start, end))


def _read_bracket(reader: _Reader, inside: str, start: int, end: int) -> tuple[MarkKind, tuple[Target, ...]]:
    ids = _ids(reader, inside)
    if ids:
        return "id", ids
    if inside.startswith("^") and re.fullmatch(r"\^[\w-]{1,40}(?:\s*,\s*\^[\w-]{1,40})*", inside):
        return "footnote", tuple(reader.footnote(key.strip(" ^")) for key in inside.split(","))
    if _NUMBERS.fullmatch(inside):
        return "number", () if _is_index(reader, inside, start, end) else _group(reader, inside)
    dagger = _DAGGER.fullmatch(inside)
    if dagger:
        return "number", (_file_search(reader, dagger),)
    ordinal = _ORDINAL.fullmatch(inside)
    if ordinal:
        return "number", _group(reader, ordinal["numbers"])
    named = _NAMED.fullmatch(inside)
    if named:
        return "named", reader.names(named["name"].strip())
    exact = named_target(inside, reader.passages, exact=True)
    return "named", (exact,) if exact.passages else ()


def _file_search(reader: _Reader, mark: re.Match[str]) -> Target:
    """The passage of a file that is named, else of a number; never dangling, as the numbers may count other results."""
    found = reader.named(mark["name"].strip()) if mark["name"].strip() not in ("", "source") else None
    if (found is None or not found.passages) and not mark["of_message"]:
        found = reader.number(mark["number"])
    return Target(mark[0], () if found is None else found.passages)


def _ids(reader: _Reader, inside: str) -> tuple[Target, ...]:
    """Passage ids, one or several; an invented one counts where it has the form of the others beside it."""
    known = {passage.id.casefold(): index for index, passage in enumerate(reader.passages) if passage.own_id}
    if inside.casefold() in known:
        return (Target(inside, (known[inside.casefold()],)),)
    if not known or _NUMBERS.fullmatch(inside):
        return ()
    parts = [part.strip() for part in re.split(r"[,;]", inside)]
    targets = [Target(part, (known[part.casefold()],)) for part in parts if part.casefold() in known]
    unknown = [part for part in parts if part.casefold() not in known]
    if any(not same_shape(part, known) for part in unknown):
        return ()
    return (*targets, *(Target(part, (), dangling=True) for part in unknown))


def _is_index(reader: _Reader, inside: str, start: int, end: int) -> bool:
    """Whether bracketed numbers are an array index, an interval, or copied from a passage."""
    before, after = reader.answer[max(0, start - 40) : start], reader.answer[end : end + 20]
    if re.search(r"[\w)\]]*(?:[_=(]|[a-z][A-Z]|\w\.\w)[\w)\]]*$", before) and not before[-1:].isspace():
        return True
    if _is_element(reader.answer, start):
        return True
    if re.match(r"[\w=(]|\.\w|\s*[=+*/<>]\s*\w", after):
        return True
    numbers = [int(n) for n in re.findall(r"\d+", inside)]
    inside_range = [reader.numbers_from <= n < reader.numbers_from + len(reader.passages) for n in numbers]
    if not any(inside_range) and any(f"[{inside}]" in (passage.text or "") for passage in reader.passages):
        return True
    if 0 in numbers and reader.numbers_from == 1:
        return True
    if len(numbers) < 2:
        return False
    word = re.match(r"\s?([^\W\d_]+|%|°)", after)
    followed_by_unit = word is not None and (word[1] in "%°" or is_unit(word[1]))
    return not any(inside_range) or followed_by_unit or bool(_INTERVAL_BEFORE.search(before))


def _is_element(answer: str, start: int) -> bool:
    """Whether a list's name is right before the bracket: ``a[1]``, ``items[1]`` where ``items[0]`` is there, too."""
    word = re.search(r"[a-z]+$", answer[max(0, start - 40) : start])
    if word is None or not _ELEMENT.match(answer, start - len(word[0])):
        return False
    return len(word[0]) == 1 or f"{word[0]}[0]" in answer


def _group(reader: _Reader, inside: str) -> tuple[Target, ...]:
    """``1, 3–5`` as targets; a range that runs the wrong way or too far is none."""
    targets: list[Target] = []
    for part in re.split(r"\s*(?:[,;&]|and)\s*", inside):
        ends = [int(n) for n in re.findall(r"\d+", part)]
        if len(ends) == 2:
            if not ends[0] < ends[1] <= ends[0] + 30:
                return ()
            targets += [reader.number(str(n)) for n in range(ends[0], ends[1] + 1)]
        elif ends:
            targets.append(reader.number(str(ends[0])))
    return tuple(targets)
