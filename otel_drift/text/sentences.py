"""Where sentences begin and end, in answers and passages as models and retrievers write them.

An own splitter rather than pysbd: that needs 12 ms for an answer and its passages, half the budget of a judgement,
and does not know headings, list items, tables, code and trailing citation markers: the layout of a RAG answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from otel_drift.text.lexicon import ABBREVIATIONS, NEVER_FINAL

Kind = Literal["sentence", "item", "heading", "table", "code"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and where it stands: ``source[start:end] == text``.

    `kind` is ``item`` for a sentence of a list item, ``table`` for a table row; headings and code are no statements.
    """

    text: str
    start: int
    end: int
    kind: Kind = "sentence"


_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_BOLD_HEADING = re.compile(r"\s*(?:\*\*|__)[^*_\n]+(?:\*\*|__)\s*:?\s*$")
_ITEM = re.compile(r"\s*(?:[-*+\u2022\u2023\u25e6\u2043\u00b7]\s+|\(?\d{1,3}[.)]\s+|\(?[a-z][.)]\s+)(?:\[[ xX]\]\s+)?")
_TABLE = re.compile(r"\s*\|.*\|\s*$")
_TABLE_RULE = re.compile(r"\s*\|[\s:|\-]+\|\s*$")
_RULE = re.compile(r"\s*(?:[-*_=]\s*){3,}$")
_QUOTE_MARK = re.compile(r"\s*>\s?")

_END = re.compile(
    r"(?P<stop>[.!?\u2026]+|[\u3002\uff01\uff1f\uff0e\u061f\u06d4\u0964\u0965])"
    r"(?P<close>[\"'\u201d\u2019\u00bb)\]*_`]*)(?P<mark>(?:\s?\[\^?\d[\d,\s\-\u2013]*\])*)"
)
_LAST_WORD = re.compile(r"([^\W_]+(?:\.[^\W_]+)*)$")
_WORD_AFTER = re.compile(r"\W*(\w+)")
_OPENERS = frozenset(
    {"The", "This", "These", "It", "In", "If", "He", "She", "They", "You", "We", "A", "An", "For", "On", "At"}
)
_WIDE = "\u3002\uff01\uff1f\uff0e\u061f\u06d4\u0964\u0965"


def sentences(text: str) -> list[Sentence]:
    """Split `text` into sentences with their character spans; white space and list markers stay outside.

    Headings (``#`` lines, bold lines) and fenced code come back as their own kinds, one a line and one a block.
    """
    found: list[Sentence] = []
    for start, end, kind in _blocks(text):
        if kind in ("sentence", "item"):
            found.extend(_split(text, start, end, kind))
        else:
            start, end = _trim(text, start, end)
            if start < end:
                found.append(Sentence(text[start:end], start, end, kind))
    return found


def statements(text: str) -> list[Sentence]:
    """Return the sentences of `text` that can state something: no headings, no code."""
    return [s for s in sentences(text) if s.kind not in ("heading", "code")]


def clauses(sentence: str) -> list[str]:
    """Cut a sentence at semicolons, dashes, parentheses, clause conjunctions and after an opening subordinate clause.

    The pieces keep their order and their words.
    """
    pieces = [p.strip(" ,;:\u2014\u2013") for p in _CLAUSE.split(sentence)]
    found = []
    for piece in pieces:
        opening = _OPENING_CLAUSE.match(piece)
        if opening:
            found.append(opening.group(1))
            piece = piece[opening.end() :]
        if piece:
            found.append(piece)
    return found


_CLAUSE = re.compile(
    r";\s+|:\s+|\s[\u2014\u2013-]{1,2}\s|\s\(|\)\s"
    r"|,\s+(?=(?:and|but|so|because|since|while|whereas|although|though|which|who|where|or|yet|however|unless|"
    r"provided|as\s+long\s+as|if|once|when|with)\b)"
    r"|\s+(?=(?:because|since|whereas|although|but|unless|if|once|when|as\s+long\s+as|provided\s+that|"
    r"and\s+(?:it|they|you|the|a|this|is|are|must|may|can|will))\b)",
    re.IGNORECASE,
)
_OPENING_CLAUSE = re.compile(
    r"((?:and |but |so )?(?:if|should|when|whenever|once|because|although|though|while|since|after|before|unless|where)"
    r"\s[^,]{3,120}),\s+",
    re.IGNORECASE,
)


def _blocks(text: str) -> list[tuple[int, int, Kind]]:
    blocks: list[tuple[int, int, Kind]] = []
    open_start: int | None = None
    open_kind: Kind = "sentence"
    code_start: int | None = None

    def close(end: int) -> None:
        nonlocal open_start
        if open_start is not None:
            blocks.append((open_start, end, open_kind))
            open_start = None

    for match in _LINE.finditer(text):
        line, start, end = match.group(), match.start(), match.end()
        if not line:
            continue
        if code_start is not None:
            if _FENCE.match(line):
                blocks.append((code_start, end, "code"))
                code_start = None
            continue
        if _FENCE.match(line):
            close(start)
            code_start = start
            continue
        if not line.strip() or _RULE.match(line):
            close(start)
            continue
        if _HEADING.match(line) or _BOLD_HEADING.match(line):
            close(start)
            blocks.append((start + len(_prefix(_HEADING, line)), end, "heading"))
            continue
        if _TABLE.match(line):
            close(start)
            if not _TABLE_RULE.match(line):
                blocks.append((start, end, "table"))
            continue
        marker = _prefix(_ITEM, line)
        if marker:
            close(start)
            open_start, open_kind = start + len(marker), "item"
        elif open_start is None:
            open_start, open_kind = start + len(_prefix(_QUOTE_MARK, line)), "sentence"
    close(len(text))
    if code_start is not None:
        blocks.append((code_start, len(text), "code"))
    return blocks


def _prefix(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.match(line)
    return match.group() if match else ""


def _split(text: str, start: int, end: int, kind: Kind) -> list[Sentence]:
    found = []
    position = start
    for match in _END.finditer(text, start, end):
        if match.end() < position or not _is_boundary(text, position, match, end):
            continue
        first, last = _trim(text, position, match.end())
        if first < last:
            found.append(Sentence(text[first:last], first, last, kind))
        position = match.end()
    first, last = _trim(text, position, end)
    if first < last:
        found.append(Sentence(text[first:last], first, last, kind))
    return found


def _is_boundary(text: str, start: int, match: re.Match[str], end: int) -> bool:
    after = text[match.end() : min(end, match.end() + 60)]
    if match["stop"][-1] in _WIDE:
        return True
    if not after.strip():
        return True
    if not after[0].isspace():
        return False
    following = after.lstrip().lstrip("\"'\u201c\u2018\u00ab([*_\u201e`")[:1]
    before = text[start : match.start()]
    if "." not in match["stop"]:
        return not following.islower() or match["stop"][-1] in "!?"
    if before[-1:].isspace():  # tokenised text: " . "
        return len(match["stop"]) == 1
    last_word = _LAST_WORD.search(before)
    word = last_word.group(1).casefold() if last_word else ""
    if word.isdigit() and not before[: -len(word)].strip():  # "1." opening a line
        return False
    if word in NEVER_FINAL or (len(word) == 1 and word.isalpha() and word not in "i" and following.isupper()):
        return False
    if word == "no":
        return not following.isdigit()
    if word in ABBREVIATIONS:
        opener = _WORD_AFTER.match(after)
        return following.isupper() and bool(opener and opener.group(1) in _OPENERS)
    return not following.islower()


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
