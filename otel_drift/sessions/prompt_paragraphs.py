"""Sessions: which paragraphs of retrieved text belong together, because one of them cannot stand alone."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from otel_drift.sessions.prompt_sections import RULE

_FENCE = re.compile(r"^[ \t]*`{3,}\w*[ \t]*$", re.MULTILINE)
_ITEM = re.compile(r"[ \t]*(?:[-*•|>][ \t]?|\(?(?:\d{1,2}|[a-z])[.)][ \t])|[ \t]*`{3,}")
_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "।", '."', ".)", '!"', '?"', ".”", ".»")
HEADING = 60
"""How long (characters) a line without a full stop is at most, for it to be the heading of what is below it."""


def together(paragraphs: Sequence[str]) -> list[str]:
    """The paragraphs, those joined that a heading, a list, a table or a block of code makes one text."""
    if all(map(_ITEM.match, paragraphs)):
        return list(paragraphs)  # they are one another's equals
    titled = any(p.endswith(_ENDS) for p in paragraphs)  # else none of them ends like a sentence
    joined: list[list[str]] = []
    code = False
    for paragraph in paragraphs:
        if joined and (code or _goes_on(joined[-1][-1], paragraph, titled)):
            joined[-1].append(paragraph)
        else:
            joined.append([paragraph])
        code ^= len(_FENCE.findall(paragraph)) % 2 == 1
    return ["\n\n".join(parts) for parts in joined]


def first_text(text: str) -> str:
    """The first of the texts that blank lines are between.

    The last paragraph of all is the question rather than the end of a passage that was cut in the middle of a sentence.
    """
    paragraphs = text.split("\n\n")
    code = False
    for count, (before, after) in enumerate(itertools.pairwise(paragraphs), 1):
        code ^= len(_FENCE.findall(before)) % 2 == 1
        is_last = not any(p.strip() for p in paragraphs[count + 1 :])
        if not code and not (_ends_it if is_last else _goes_on)(before, after.strip("\n")):
            return "\n\n".join(paragraphs[:count])
    return text


def _ends_it(before: str, after: str) -> bool:
    """Whether `after`, behind which nothing stands, is the passage's end, told by more than how `before` ends."""
    below_table = before.rstrip().rpartition("\n")[2].lstrip()[:1] == "|"
    return _ITEM.match(after) is not None or (below_table and not after.rstrip().endswith(("?", "？", "؟")))


def _goes_on(before: str, after: str, titled: bool = True) -> bool:
    """Whether a text goes on with the paragraph `after`; `titled`: whether a line without a full stop is a heading."""
    lines = before.strip("\n").split("\n")
    last = lines[-1].strip()
    if last.endswith((":", "：", "،", ",", ";")) or last[:1] == "|" or _ITEM.match(after):
        return True
    return titled and len(lines) == 1 and 0 < len(last) <= min(HEADING, len(after)) and not last.endswith(_ENDS)


def outside_code(text: str, places: Iterable[int]) -> int | None:
    """The first of the places, in order, that is in no block of code."""
    fences = [match.start() for match in _FENCE.finditer(text)]
    return next((place for place in places if bisect_left(fences, place) % 2 == 0), None)


def without_outer_rules(text: str) -> str:
    """A passage without the rules above and below it; rules and blocks of code inside it are its own."""
    lines = text.strip("\n").split("\n")
    fences = sum(1 for line in lines if _FENCE.match(line))
    fenced = fences == 2 and _FENCE.match(lines[0]) and _FENCE.match(lines[-1])
    code = fences % 2 == 0 and not fenced
    while lines and RULE.fullmatch(lines[-1]) and not (code and _FENCE.match(lines[-1])):
        lines.pop()
        while lines and not lines[-1].strip():
            lines.pop()
    while lines and RULE.fullmatch(lines[0]) and not (code and _FENCE.match(lines[0])):
        lines.pop(0)
    return "\n".join(lines)


def has_code(text: str) -> bool:
    """Whether lines of backticks are around blocks of code, and no rules."""
    fences = _FENCE.findall(text)
    return len(fences) > 1 and len(fences) % 2 == 0 and any(fence.strip().strip("`") for fence in fences)
