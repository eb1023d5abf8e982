"""Passages from a file of JSON lines: what the conflict gate and cited answers are given outside of traces.

One object a line: ``{"id", "text", "title"?, "author"?, "date"?, "document_type"?, "source"?, "score"?}``. Other keys
are ignored; blank lines are passed over.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

import orjson

from otel_drift.errors import ConfigError
from otel_drift.model import Passage

MOST_PASSAGES = 2_000
LONGEST_LINE = 4 * 1024 * 1024
"""Bytes of one line."""
LONGEST_FILE = 64 * 1024 * 1024
"""Bytes of all lines together."""
LONGEST_ID = 500
LONGEST_FIELD = 2_000
"""Characters of a title, an author, a date, a document type or a source."""

_Seen: TypeAlias = tuple[int, str | None]
"""Where an id was first given, and its text."""


def read_passages(source: str | Path | IO[bytes] | IO[str], *, lenient: bool = False) -> tuple[Passage, ...]:
    """Read a file of passages, one JSON object a line.

    Args:
        source: a path (``-`` is standard input) or an open stream of bytes or text.
        lenient: keep passages without words, the same passage again and any number of them, for a caller that deals
            with these itself.

    Returns:
        The passages in the order of the file; `rank` counts from 1.

    Raises:
        ConfigError: the file cannot be read, is too large, holds no passage or an id twice, or a line is no passage;
            the message names file and line.
    """
    if isinstance(source, str | Path):
        if str(source) == "-":
            return _read(sys.stdin.buffer, "standard input", lenient)
        try:
            with Path(source).open("rb") as stream:
                return _read(stream, str(source), lenient)
        except OSError as error:
            raise ConfigError(f"passages {source}: cannot be read: {error.strerror or error}") from error
    return _read(source, str(getattr(source, "name", "") or "stream"), lenient)


def as_passages(
    items: Iterable[Passage | Mapping[str, Any]], where: str = "passages", *, lenient: bool = False
) -> tuple[Passage, ...]:
    """Return passages given in a program or a request: each a `Passage` or a mapping with the keys of a file's line.

    Args:
        items: the passages in order.
        where: what to call them in an error.
        lenient: as `read_passages` takes it; then there may be none, too.

    Raises:
        ConfigError: one of them is no passage, an id comes twice, or there are none or too many.
    """
    found: list[Passage] = []
    seen: dict[str, _Seen] = {}
    for number, item in enumerate(items, 1):
        place = f"{where}: number {number}"
        passage = (
            _checked(item, place, lenient) if isinstance(item, Passage) else _passage(item, number, place, lenient)
        )
        _add(passage, number, place, found, seen, "number", lenient)
    return tuple(found) if lenient else _some(found, where)


def is_blank(text: str | None) -> bool:
    """Whether a text shows nothing: none, white space, marks of no width."""
    return not any(char.isprintable() and not char.isspace() for char in text or "")


def _read(stream: IO[bytes] | IO[str], name: str, lenient: bool) -> tuple[Passage, ...]:
    found: list[Passage] = []
    seen: dict[str, _Seen] = {}
    total = number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        place = f"{name}: line {number}"
        try:
            raw = line.encode() if isinstance(line, str) else line
        except UnicodeEncodeError as error:
            raise ConfigError(f"{place}: is no valid text: {error.reason}") from error
        total += len(raw)
        if len(raw) > LONGEST_LINE or total > LONGEST_FILE:
            raise ConfigError(f"{place}: too large (at most {LONGEST_LINE} bytes a line, {LONGEST_FILE} in all)")
        raw = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        if raw.strip():
            passage = _passage(_object(raw, place), len(found) + 1, place, lenient)
            _add(passage, number, place, found, seen, "line", lenient)
    return _some(found, name)


def _object(raw: bytes, place: str) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{place}: is no JSON: {error}; put one object with id and text on each line") from error


def _passage(item: Any, rank: int, place: str, lenient: bool) -> Passage:
    if not isinstance(item, Mapping):
        raise ConfigError(f"{place}: is no object; a passage is {{id, text, title?, author?, date?, document_type?}}")
    score = item.get("score")
    passage = Passage(
        id=_text(item, "id", LONGEST_ID, place) or "",
        text=_text(item, "text", sys.maxsize if lenient else LONGEST_LINE, place),
        rank=rank,
        score=float(score) if isinstance(score, int | float) and math.isfinite(score) else None,
        title=_text(item, "title", LONGEST_FIELD, place),
        source=_text(item, "source", LONGEST_FIELD, place),
        author=_text(item, "author", LONGEST_FIELD, place),
        date=_text(item, "date", LONGEST_FIELD, place),
        document_type=_text(item, "document_type", LONGEST_FIELD, place),
    )
    return _checked(passage, place, lenient and "text" in item)


def _text(item: Mapping[str, Any], name: str, longest: int, place: str) -> str | None:
    """A field as text; ids and dates (years) may be whole numbers."""
    value = item.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and name in ("id", "date"):
        value = str(value)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigError(f"{place}: {name} is a {type(value).__name__}, not a text")
    if len(value) > longest:
        raise ConfigError(f"{place}: {name} has {len(value)} characters, more than {longest}")
    return value if value.strip() else None


def _checked(passage: Passage, place: str, lenient: bool) -> Passage:
    for name in ("id",) if lenient else ("id", "text"):
        if not (getattr(passage, name) or "").strip():
            raise ConfigError(f"{place}: {name} is missing or empty")
    return passage


def _add(
    passage: Passage,
    number: int,
    place: str,
    found: list[Passage],
    seen: dict[str, _Seen],
    counted_by: str,
    lenient: bool,
) -> None:
    if not (lenient and is_blank(passage.text)):
        first, text = seen.setdefault(passage.id, (number, passage.text))
        if first != number and not (lenient and text == passage.text):
            raise ConfigError(f"{place}: id {passage.id[:80]!r} was given at {counted_by} {first} already")
    if len(found) >= MOST_PASSAGES and not lenient:
        raise ConfigError(f"{place}: more than {MOST_PASSAGES} passages")
    found.append(passage)


def _some(found: list[Passage], name: str) -> tuple[Passage, ...]:
    if not found:
        raise ConfigError(f"{name}: holds no passage")
    return tuple(found)
