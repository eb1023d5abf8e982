"""Parses one JSON value at a window's position, whole where its end can be guessed, else with as much as it takes."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from otel_drift.otlp.limits import MIB
from otel_drift.otlp.values import Decoding
from otel_drift.otlp.window import ByteWindow

LINE = MIB
"""Lines up to this size are tried as one document."""
QUICK = 256 * 1024
"""How far to look for a value's end by its separator."""

_SEPARATOR = re.compile(rb'\}\s*,?\s*\{\s*"\w*"\s*:')
_DOCUMENT_LINE = re.compile(rb'\n\{"(?:resource(?:Spans|Logs|Metrics|_spans|_logs|_metrics)|info)"\s*:')
"""A line that begins a document; inside a value it means that the line before was cut off."""
_FIRST_GUESS = 8192
_CUT_TOKEN = 16
"""A syntax error further than this from the end of the text read so far is no token cut off there."""
_USELESS = 8
"""So many guesses in a row that failed, and no more are made."""


class _Nothing:
    """There is no value (None is one)."""


NOTHING: Final = _Nothing()


class MalformedError(Exception):
    """The JSON is broken `ahead` bytes after the window's position."""

    def __init__(self, reason: str, ahead: int = 0) -> None:
        self.reason = reason
        self.ahead = ahead
        super().__init__(reason)


def _bounded_int(digits: str) -> int | str:
    return int(digits) if len(digits) < 40 else digits[:40]


_ENDS = json.JSONDecoder(parse_int=len, parse_float=len)
_LENIENT = json.JSONDecoder(parse_int=_bounded_int)


class JsonValues:
    """Reads values from a window. Each leaves `decoding.careful` saying whether its texts must be looked at."""

    def __init__(self, window: ByteWindow, decoding: Decoding) -> None:
        self._window = window
        self._decoding = decoding
        self._separators: dict[int, bytes] = {}
        self._misses: dict[int, int] = {}
        self._guess = _FIRST_GUESS

    def line_end(self) -> int:
        """Where the current line ends in the window's data; its position where the line is too long to be tried."""
        window = self._window
        searched = 0
        while True:
            end = window.data.find(b"\n", window.pos + searched, window.pos + LINE)
            if end >= 0:
                return end
            searched = len(window.data) - window.pos
            if searched >= LINE:
                return window.pos
            if not window.fill():
                return len(window.data)

    def parsed(self, piece: bytes | bytearray | memoryview) -> Any:
        """The value that `piece` is, or NOTHING where it is not exactly one."""
        try:
            value = orjson.loads(piece)
        except orjson.JSONDecodeError:
            return NOTHING
        self._decoding.careful = len(piece) > self._decoding.limits.max_text
        return value

    def quick(self, level: int) -> Any:
        """The value at the position, if it ends where the separator seen at this level comes next; else NOTHING.

        What parses from its first byte to a guessed end is a whole value, so a wrong guess does no harm.
        """
        separator = self._separators.get(level)
        if separator is None:
            return NOTHING
        window = self._window
        end = window.data.find(separator, window.pos, window.pos + QUICK)
        if end < 0 and len(window.data) - window.pos < QUICK and window.fill():
            end = window.data.find(separator, window.pos, window.pos + QUICK)
        value = self.parsed(window.data[window.pos : end + 1]) if end >= 0 else NOTHING
        if value is NOTHING:
            misses = self._misses[level] = self._misses.get(level, 0) + 1
            if misses > _USELESS:
                del self._separators[level]
        else:
            self._misses[level] = 0
            window.pos = end + 1
        return value

    def learn_separator(self, level: int) -> None:
        """Remember what stands between the value that ends at the position and the next one of its level."""
        if level in self._separators or self._misses.get(level, 0) > _USELESS:
            return
        match = _SEPARATOR.match(self._window.data, self._window.pos - 1)
        if match is not None:
            self._separators[level] = match[0]

    def value(self) -> Any:
        """The value at the position, with as much read as it takes.

        Raises:
            MalformedError: it is broken, ends early, or is larger or deeper than a record may be.
        """
        window = self._window
        limit = self._decoding.limits.max_record_bytes
        size = min(self._guess, limit)
        while True:
            whole = not window.have(size + 1)
            text = window.data[window.pos : window.pos + size].decode("latin-1")
            whole = whole and len(text) == len(window.data) - window.pos
            try:
                _, end = _ENDS.raw_decode(text)
            except json.JSONDecodeError as problem:
                if problem.pos < len(text) - _CUT_TOKEN and not problem.msg.startswith("Unterminated string"):
                    raise self._fault(f"no valid JSON ({problem.msg})", problem.pos) from None
                if whole:
                    raise self._fault("the document ends early in this value", len(text)) from None
            except RecursionError:
                raise MalformedError("nested too deeply", 1) from None
            else:
                if end < len(text) or whole or text[end - 1] in "}]":
                    break
            if size >= limit:
                raise self._fault(f"value of more than {limit} bytes", len(text))
            size = min(size * 4, limit)
        self._guess = max(_FIRST_GUESS, min(end * 2, QUICK))
        piece = window.data[window.pos : window.pos + end]
        if b"\n" in piece and _DOCUMENT_LINE.search(piece):
            raise self._fault("the document ends early in this value", end)
        value = self.parsed(piece)
        if value is NOTHING:
            value = self._lenient(piece)
        window.pos += end
        return value

    def _fault(self, reason: str, ahead: int) -> MalformedError:
        """The error of a value that is broken `ahead` bytes on, or where it runs into the next line's document."""
        window = self._window
        swallowed = _DOCUMENT_LINE.search(window.data, window.pos, window.pos + ahead)
        return MalformedError(reason, swallowed.start() - window.pos if swallowed else ahead)

    def _lenient(self, piece: bytes | bytearray) -> Any:
        """What only a strict parser refuses: NaN, lone surrogates, invalid UTF-8, huge integers."""
        try:
            text = piece.decode()
        except UnicodeDecodeError:
            text = piece.decode(errors="replace")
            self._decoding.log.report("invalid UTF-8 replaced", self._window.place(), lost=False)
        self._decoding.careful = True
        try:
            return _LENIENT.decode(text)
        except (ValueError, RecursionError):
            raise MalformedError("no valid JSON", len(piece)) from None
