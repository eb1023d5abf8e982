"""Dates as far as a text gives them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from otel_drift.text.remembered import remembered

DateRole = Literal["start", "deadline", ""]


@dataclass(frozen=True, slots=True)
class Date:
    """A calendar date as far as it is given; a bare year has only `year`. `role` is the end of a period it marks."""

    day: int | None
    month: int | None
    quarter: int | None
    year: int | None
    role: DateRole
    text: str
    start: int
    end: int

    def differs(self, other: Date) -> bool:
        """Whether both give the same parts (day, month, quarter) and any of them, or the year, is another."""
        mine = (self.day, self.month, self.quarter)
        theirs = (other.day, other.month, other.quarter)
        if any((a is None) != (b is None) for a, b in zip(mine, theirs, strict=True)):
            return False
        if self.year is not None and other.year is not None and self.year != other.year:
            return True
        return mine != theirs


MONTHS = {
    name: number
    for number, forms in enumerate(
        (
            ("january", "jan"), ("february", "feb"), ("march", "mar"), ("april", "apr"), ("may",), ("june", "jun"),
            ("july", "jul"), ("august", "aug"), ("september", "sept", "sep"), ("october", "oct"), ("november", "nov"),
            ("december", "dec"),
        ),
        start=1,
    )
    for name in forms
}  # fmt: skip
"""Month names and short forms in lower case, to 1..12."""

_MONTH = "|".join(sorted((m.capitalize() for m in MONTHS), key=len, reverse=True))
_YEAR = r"1[5-9]\d\d|20\d\d|21\d\d"
_DAY = r"3[01]|[12]\d|0?[1-9]"
_DATE = re.compile(
    r"(?<![\w.,/-])(?:"
    rf"(?P<day1>{_DAY})(?:st|nd|rd|th)?\b(?:\s+(?:day\s+)?of)?\s+(?P<month1>{_MONTH})\b\.?"
    rf"(?:,?\s+(?P<year1>{_YEAR})\b)?"
    rf"|(?P<month2>{_MONTH})\b\.?\s+(?P<day2>{_DAY})(?:st|nd|rd|th)?\b(?!\s*%)(?:,?\s+(?P<year2>{_YEAR})\b)?"
    rf"|(?P<month3>{_MONTH})\b\.?\s+(?:of\s+)?(?P<year3>{_YEAR})\b"
    r"|(?P<iso>\d{4}-\d\d-\d\d)(?![\w-])"
    rf"|Q(?P<quarter>[1-4])\s*(?:/|of\s+)?\s*(?P<year4>{_YEAR})\b"
    rf"|(?P<year5>{_YEAR})\b(?!\s*(?:%|[.,]\d|EUR|USD|GBP|€|mg|km|kg|m\b))"
    r")"
)
_ARTICLES = r"\s+(?:the\s+)?(?:end\s+of\s+)?$"
_DEADLINE = re.compile(
    r"\b(?:by|until|till|before|(?:no|not) later than|latest"
    r"|(?:expir(?:es?|ing|ed)|laps(?:es?|ing)|ends?|due)(?: on| by)?"
    rf"|deadline(?: is| of)?|through){_ARTICLES}",
    re.IGNORECASE,
)
_START = re.compile(
    r"\b(?:from|since|after|(?:start(?:s|ing)?|opens?|begin(?:s|ning)?)(?: on)?|as (?:of|from|at)|effective)"
    rf"{_ARTICLES}",
    re.IGNORECASE,
)


@remembered(8192)
def dates(text: str) -> tuple[Date, ...]:
    """Return the dates of `text`, bare years included, in order."""
    found = []
    for match in _DATE.finditer(text):
        parts = _parts(match)
        if parts is not None:
            before = text[max(0, match.start() - 40) : match.start()]
            found.append(Date(*parts, role=_role(before), text=match.group(), start=match.start(), end=match.end()))
    return tuple(found)


def _role(before: str) -> DateRole:
    if _DEADLINE.search(before):
        return "deadline"
    return "start" if _START.search(before) else ""


def _parts(match: re.Match[str]) -> tuple[int | None, int | None, int | None, int | None] | None:
    groups = match.groupdict()
    if groups["iso"]:
        year, month, day = (int(part) for part in groups["iso"].split("-"))
        return (day, month, None, year) if 1 <= month <= 12 and 1 <= day <= 31 else None
    day_text = groups["day1"] or groups["day2"]
    month_text = groups["month1"] or groups["month2"] or groups["month3"]
    year_text = next((groups[f"year{n}"] for n in range(1, 6) if groups[f"year{n}"]), None)
    return (
        int(day_text) if day_text else None,
        MONTHS[month_text.casefold()] if month_text else None,
        int(groups["quarter"]) if groups["quarter"] else None,
        int(year_text) if year_text else None,
    )
