"""What a written answer must keep to besides its sources: recency, authority, length."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from otel_drift.errors import ConfigError
from otel_drift.model import Passage
from otel_drift.text import fold

_DATE = re.compile(r"(?:1[5-9]|20|21)\d\d(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?")
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Constraints:
    """Rules for an answer.

    `recency`: passages dated before it (``2024``, ``2024-06`` or ``2024-06-30``) support nothing; undated ones may.
    `authority`: names of authors, titles, sources or kinds of documents, the highest first. `max_words`: of the answer.
    """

    recency: str | None = None
    authority: tuple[str, ...] = ()
    max_words: int | None = None

    def in_words(self) -> str:
        """The rules as the judge is told them."""
        lines = []
        if self.recency:
            lines.append(f"- Passages dated before {self.recency} must not support a claim; they may contradict one.")
        if self.authority:
            ranked = "; ".join(self.authority)
            lines.append(f"- These authors or kinds of documents rank highest, the first above the next: {ranked}.")
        if self.max_words:
            lines.append(f"- The answer has at most {self.max_words} words, marks not counted.")
        return "\n".join(lines) or "- None beyond the rules above."

    def is_too_old(self, date: str | None) -> bool:
        """Whether a passage's date (see `written_on`) is before `recency`, as far as both are given."""
        if self.recency is None or date is None:
            return False
        length = min(len(date), len(self.recency))
        return date[:length] < self.recency[:length]

    def rank(self, passage: Passage) -> int | None:
        """The place of a passage in `authority`, 0 the highest; None where it is not among them."""
        about = [passage.author, passage.document_type, passage.title, passage.source]
        known = [fold(text).casefold() for text in about if text]
        for place, name in enumerate(self.authority):
            if any(fold(name).casefold() in text for text in known):
                return place
        return None


def constraints(
    recency: str | datetime.date | None = None, authority: str | Iterable[str] = (), max_words: int | None = None
) -> Constraints:
    """Check what a caller gives.

    Raises:
        ConfigError: a date that is none, an empty name, or a length below one word.
    """
    date = recency.isoformat()[:10] if isinstance(recency, datetime.date) else recency
    if date is not None and not _DATE.fullmatch(date):
        raise ConfigError(f"recency {date!r}: give a date as 2024, 2024-06 or 2024-06-30")
    names = tuple(" ".join(name.split()) for name in ([authority] if isinstance(authority, str) else authority))
    for name in names:
        if not name or len(name) > LONGEST_NAME:
            raise ConfigError(f"authority {name[:40]!r}: give names of 1 to {LONGEST_NAME} characters, highest first")
    if max_words is not None and max_words < 1:
        raise ConfigError(f"max_words {max_words}: give at least 1")
    return Constraints(date, names, max_words)


def outranked(
    supporting: Sequence[str], contradicting: Sequence[str], sources: Mapping[str, Passage], told: Constraints
) -> bool:
    """Whether the contradicting side ranks as high as the supporting one, or higher, in the authority given."""
    ours, theirs = (
        min((rank for ref in side if ref in sources and (rank := told.rank(sources[ref])) is not None), default=None)
        for side in (supporting, contradicting)
    )
    return ours is None or (theirs is not None and theirs <= ours)
