"""Whether people's feedback on an answer is negative, whatever the application calls its thumbs and stars."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NEGATIVE = frozenset(
    (
        "down",
        "thumbs_down",
        "thumbsdown",
        "thumb_down",
        "negative",
        "bad",
        "poor",
        "no",
        "false",
        "incorrect",
        "wrong",
        "unhelpful",
        "not_helpful",
        "dislike",
        "disliked",
        "👎",
        "fail",
        "failed",
        "rejected",
    )
)
_STARS = re.compile(r"star|rating", re.IGNORECASE)
_LOW_STARS = 2


def is_negative(feedback: str | None) -> bool:
    """Whether any line of a turn's feedback (``name: value``, or the value alone) is a complaint.

    A number is one at 0 or below; under a name with "star" or "rating" from 2 down. Comments in words are not weighed.
    """
    return any(_is_complaint(name, value) for name, value in _lines(feedback or ""))


def _lines(feedback: str) -> Iterator[tuple[str, str]]:
    for said in feedback.splitlines():
        line = re.sub(r"\s*\(.*\)\s*$", "", said)  # a comment behind the value
        name, colon, value = line.rpartition(":")
        yield (name.strip(), value.strip()) if colon else ("", line.strip())


def _is_complaint(name: str, value: str) -> bool:
    try:
        number = float(value)
    except ValueError:
        return re.sub(r"[\s-]+", "_", value.casefold()) in _NEGATIVE
    return number <= (_LOW_STARS if _STARS.search(name) else 0)
