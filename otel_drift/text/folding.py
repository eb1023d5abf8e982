"""How quotes are compared: white space and typographic quotes folded, nothing else.

Anything softer (case, accents, punctuation) would let an invented quote pass for a verbatim one.
"""

from __future__ import annotations

import re

_QUOTES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u2039\u203a", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    }
)
_SPACE = re.compile(r"\s+")


def fold(text: str) -> str:
    """Return `text` with runs of white space as one blank and typographic quotes as straight ones."""
    return _SPACE.sub(" ", text.translate(_QUOTES)).strip()


def holds(text: str, quote: str) -> bool:
    """Whether `quote` stands verbatim in `text`, both folded. An empty quote is held by nothing."""
    folded = fold(quote)
    return bool(folded) and folded in fold(text)


def locate(text: str, quote: str) -> tuple[int, int] | None:
    """Return the span (start, end) of `text` where `quote` stands after folding, or None.

    The span is in characters of the unfolded `text`, so that a report can mark it.
    """
    parts = fold(quote).split(" ")
    if not parts[0]:
        return None
    pattern = r"\s+".join(_either_quote(part) for part in parts)
    found = re.search(pattern, text)
    return found.span() if found else None


def _either_quote(part: str) -> str:
    escaped = re.escape(part)
    single = "['\u2018\u2019\u201a\u201b\u02bc\u2032\u2039\u203a]"
    double = '["\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb]'
    return escaped.replace("'", single).replace('"', double)
