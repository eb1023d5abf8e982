"""Footnotes and the closing list of sources of an answer: what its numbers and keys stand for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MOST_ENTRIES = 300
"""Lines of a list of sources: what follows is something else."""
LONGEST_ENTRY = 400

_DEFINITION = re.compile(r"^[ \t]*\[(?P<caret>\^?)(?P<key>[^\]\n]{1,60})\]:[ \t]*(?P<text>\S[^\n]*)$", re.MULTILINE)
_LIST_HEAD = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*)?[*_]{0,2}(?:Sources?|References?|Citations?|Bibliography|Footnotes?|Works cited|Quellen)"
    r"(?: used| cited| consulted)?[*_]{0,2}[ \t]*(?P<colon>:?)[*_]{0,2}[ \t]*(?P<rest>[^\n]*)$",
    re.MULTILINE | re.IGNORECASE,
)
_ENTRY = re.compile(
    r"^[ \t]*(?P<mark>[-*+•·][ \t]+)?(?:\[\^?(?P<key>\d{1,3})\]|(?P<number>\d{1,3})[.)])?"
    r"[ \t]*[:.–-]?[ \t]*(?P<text>[^\n]*?)[ \t]*$"
)
_FOOTNOTE = re.compile(r"[ \t]*\[\^[^\]\n]{1,60}\]:")


@dataclass(frozen=True, slots=True)
class Note:
    """A footnote definition or an entry of a list of sources. `key` is empty where it has no number."""

    key: str
    text: str
    span: tuple[int, int]
    caret: bool = False


def definitions(answer: str, skipped: Callable[[int, int], bool]) -> list[Note]:
    """The footnotes and link definitions of an answer: lines that begin with ``[key]:`` or ``[^key]:``."""
    return [
        Note(match["key"].strip(), match["text"].strip(), match.span(), bool(match["caret"]))
        for match in _DEFINITION.finditer(answer)
        if not skipped(*match.span())
    ]


def source_list(answer: str, skipped: Callable[[int, int], bool]) -> tuple[tuple[int, int], list[Note]]:
    """Where a list of sources stands, and its entries; an empty span at the end of the answer where there is none."""
    for head in _LIST_HEAD.finditer(answer):
        if skipped(*head.span()):
            continue
        rest, after = head["rest"].strip(" *_"), answer[head.end() :]
        if rest and (not head["colon"] or after.strip()):
            continue
        if rest:
            return (head.start(), len(answer)), [Note("", rest, (head.start("rest"), head.end("rest")))]
        entries, end = _entries(answer, head.end())
        if entries:
            return (head.start(), end), entries
    return (len(answer), len(answer)), []


def _entries(answer: str, start: int) -> tuple[list[Note], int]:
    """The lines from `start` on that list sources, and where they end.

    Lines without a list mark count unless they are prose, or come after a blank line or a marked one.
    """
    found: list[Note] = []
    position = end = start
    marked = False
    for line in answer[start:].splitlines(keepends=True):
        match = _ENTRY.match(line.rstrip("\r\n"))
        blank = not line.strip()
        definition = _FOOTNOTE.match(line)
        own = bool(match and (match["mark"] or match["key"] or match["number"]))
        prose = line.rstrip().endswith((".", "!", "?"))
        apart = bool(found) and answer[position - 2 : position] == "\n\n"
        stops = not own and not definition and (marked or prose or apart)
        if match is None or len(line) > LONGEST_ENTRY or len(found) >= MOST_ENTRIES or (stops and not blank):
            break
        if not blank:
            marked = marked or own
            first = len(line) - len(line.lstrip())
            end = position + len(line.rstrip())
            if not definition:
                text = re.sub(r"^\[([^\]]+)\]\(([^)]+)\)$", r"\1 \2", match["text"])
                text = re.sub(r"^\[([^\]]{1,200})\]$", r"\1", text)
                found.append(Note(match["key"] or match["number"] or "", text, (position + first, end)))
        position += len(line)
    return found, len(answer) if not answer[end:].strip() else end
