"""OTLP's scalars and ``AnyValue`` in their JSON spellings: ids, times, enums, texts, nested values."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from typing import Any

from otel_drift.errors import RecordError
from otel_drift.otlp.limits import ProblemLog, ReadLimits

TRUNCATED = "otel_drift.truncated"
"""Attribute naming the texts of a record that were cut, at `ReadLimits.max_text` or by the store it came from."""
PARTIAL_TRACE = "otel_drift.trace.partial"
"""Attribute (true) of spans whose store gave only a part of their trace."""

_HEX = re.compile(r"[0-9a-fA-F]*\Z")
_PLAIN_ID = {size: re.compile(rf"[0-9a-f]{{{size * 2}}}\Z").match for size in (8, 16)}
_ZERO_ID = {size: "0" * size * 2 for size in (8, 16)}
_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")
_PATH = 100
_INT64 = range(-(2**63), 2**64)
_SCALARS = {
    "stringValue": "text", "string_value": "text",
    "intValue": "int", "int_value": "int",
    "arrayValue": "array", "array_value": "array",
    "kvlistValue": "map", "kvlist_value": "map",
    "doubleValue": "double", "double_value": "double",
    "boolValue": "bool", "bool_value": "bool",
    "bytesValue": "bytes", "bytes_value": "bytes",
}  # fmt: skip
_RANKS = {name: rank for rank, name in enumerate(_SCALARS)}
"""A value may have one of these only; of one that has several, which OTLP forbids, the first of this list counts: the
quick ways to read look in this order."""


class Decoding:
    """The limits and the problem log of one decode, and whether its texts must be looked at one by one.

    `careful` is off for small documents that a strict parser accepted: they can hold neither a lone surrogate nor an
    over-long text, which spares nearly all of them that look. `where` names the current record in problems.
    """

    __slots__ = ("careful", "limits", "log", "trace_id", "truncated", "where")

    def __init__(self, limits: ReadLimits, log: ProblemLog) -> None:
        self.limits = limits
        self.log = log
        self.careful = True
        self.where = ""
        self.trace_id = ""
        self.truncated: list[str] = []

    def report(self, reason: str, *, lost: bool = False) -> None:
        """Count a problem of the current record, which is read all the same unless it is `lost`."""
        self.log.report(reason, self.where, lost=lost)


def identifier(value: Any, size: int, what: str) -> str:
    """Return a trace id (`size` 16) or span id (8) as lower-case hex, from hex, base64 or bytes.

    OTLP/JSON demands hex, protobuf's own JSON mapping and MLflow give base64; the lengths never coincide.

    Raises:
        RecordError: it is missing, all zeros, or neither.
    """
    if type(value) is str:
        if _PLAIN_ID[size](value) and value != _ZERO_ID[size]:
            return value
        if len(value) == size * 2 and _HEX.match(value):
            if value.strip("0"):
                return value.lower()
            raise RecordError(f"{what} is all zeros")
        raw = _base64_id(value, size)
    elif isinstance(value, bytes):
        raw = value
    else:
        raw = None
    if value is None or value == "" or value == b"":
        raise RecordError(f"no {what}")
    if raw is None or len(raw) != size:
        raise RecordError(f"{what} is no {size}-byte id in hex or base64: {shortened(value)}")
    if not any(raw):
        raise RecordError(f"{what} is all zeros")
    return raw.hex()


def optional_identifier(value: Any, size: int) -> str | None:
    """Return an id as `identifier` does, or None where it is missing, all zeros or malformed."""
    if not value:
        return None
    try:
        return identifier(value, size, "id")
    except RecordError:
        return None


def _base64_id(text: str, size: int) -> bytes | None:
    bare = text.rstrip("=")
    if len(bare) != (size * 8 + 5) // 6:
        return None
    padded = bare.replace("-", "+").replace("_", "/") + "=" * (-len(bare) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        return None


def nanoseconds(value: Any) -> int:
    """Return a time in nanoseconds, from a number or its text; 0 where there is none or it is absurd."""
    try:
        time = _whole(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return time if 0 <= time < 2**64 else 0


def _whole(value: Any) -> int:
    """An integer, from a number or its text; which may have an exponent, as protobuf's JSON mapping says.

    Raises:
        TypeError, ValueError, OverflowError: it is none.
    """
    try:
        return int(value)
    except ValueError:
        number = float(value)
        if number.is_integer():
            return int(number)
        raise


def enum_value(value: Any, names: Mapping[str, int]) -> int:
    """Return an enum's number, from the number, its text, or its name (with or without prefix); 0 if unknown."""
    if isinstance(value, str):
        if value.isascii() and value.isdigit() and len(value) < 4:
            return int(value)
        return names.get(value.upper(), 0)
    return value if type(value) is int and 0 <= value < 100 else 0


def text_of(value: Any, decoding: Decoding, key: str = "") -> str:
    """Return a text without NUL and lone surrogates (U+FFFD instead), cut at the limit."""
    text = value if isinstance(value, str) else "" if value is None else str(value)[:1000]
    if decoding.careful and len(text) > decoding.limits.max_text:
        text = text[: decoding.limits.max_text]
        decoding.report(f"text of {shortened(key)} cut at {decoding.limits.max_text} characters")
        decoding.truncated.append(_UNPRINTABLE.sub("\ufffd", key[:_PATH]))
    if "\x00" in text or (decoding.careful and not text.isascii() and _UNPRINTABLE.search(text)):
        text = _UNPRINTABLE.sub("\ufffd", text)
    return text


def attributes_of(items: Any, decoding: Decoding) -> dict[str, Any]:
    """Return a list of OTLP ``KeyValue`` as a dict (the last of equal keys counts)."""
    if not decoding.careful:
        try:
            return _attributes_fast(items, decoding)
        except (TypeError, KeyError, AttributeError, ValueError):
            pass  # not the shape nearly all of them have
    return _attributes_tolerant(items, decoding, "", 0)


def _attributes_fast(items: list[dict[str, Any]], decoding: Decoding) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for item in items:
        key = item["key"]
        value = item["value"]
        if "stringValue" in value:
            text = value["stringValue"]
            if type(text) is not str or "\x00" in text:
                raise ValueError
            attributes[key] = text
        elif "intValue" in value:
            number = value["intValue"]
            small = type(number) is str and len(number) < 19
            attributes[key] = int(number) if small else any_value(value, decoding, key)
        elif "arrayValue" in value:
            attributes[key] = _plain_members(value["arrayValue"]) or any_value(value, decoding, key)
        else:
            attributes[key] = any_value(value, decoding, key)
    if len(items) > decoding.limits.max_attributes or "\x00" in "".join(attributes):
        raise ValueError
    return attributes


def _plain_members(array: dict[str, Any]) -> list[str] | list[float] | None:
    """An array of texts or of numbers; None for any other."""
    members = array.get("values") or ()
    try:
        texts = [member["stringValue"] for member in members]
        return texts if "\x00" not in "".join(texts) else None
    except (KeyError, TypeError):
        pass
    try:
        numbers = [member["doubleValue"] for member in members]
        plain = {*map(type, numbers)} == {float} and {*map(len, members)} == {1}
        return numbers if plain and math.isfinite(sum(numbers)) else None
    except (KeyError, TypeError):
        return None


def _attributes_tolerant(items: Any, decoding: Decoding, parent: str, depth: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if items is None:
        return attributes
    pairs: list[tuple[Any, Any]]
    if isinstance(items, dict):  # not OTLP, but exporters exist that write plain maps
        pairs = [(key, {"": value}) for key, value in items.items()]
    elif isinstance(items, list):
        pairs = [(item.get("key"), item.get("value")) for item in items if isinstance(item, dict)]
        if len(pairs) < len(items):
            decoding.report("attribute that is no object left out")
    else:
        decoding.report("attributes are no list; left out")
        return attributes
    if len(pairs) > decoding.limits.max_attributes:
        decoding.report(f"{len(pairs)} attributes, only {decoding.limits.max_attributes} kept")
        pairs = pairs[: decoding.limits.max_attributes]
    for key, value in pairs:
        if not isinstance(key, str):
            decoding.report("attribute without a key left out")
            continue
        path = inner_path(parent, key)
        if isinstance(value, dict) and "" in value:
            attributes[text_of(key, decoding)] = plain_value(value[""], decoding, path, depth + 1)
        else:
            attributes[text_of(key, decoding)] = any_value(value, decoding, path, depth + 1)
    return attributes


def inner_path(parent: str, key: str) -> str:
    """The name of a value inside another, for problems; bounded, however deep and long the keys are."""
    return f"{parent[:_PATH]}.{key[:_PATH]}" if parent else key


def any_value(value: Any, decoding: Decoding, key: str = "", depth: int = 1) -> Any:
    """Return an OTLP ``AnyValue``. Empty, unknown and non-finite values are None; deeper than the limit likewise."""
    if not isinstance(value, dict):
        return None if value is None else plain_value(value, decoding, key, depth)
    names = value if len(value) == 1 else sorted(value.keys() & _RANKS.keys(), key=_RANKS.__getitem__)
    for name in names:
        content = value[name]
        if content is None:
            continue
        shape = _SCALARS.get(name)
        if shape is None:
            continue
        if shape == "text":
            return text_of(content, decoding, key)
        if shape == "int":
            number = _integer(content)
            if number is None:
                decoding.report(f"value of {shortened(key)} is no integer; left out")
            return number
        if shape == "double":
            return _double(content)
        if shape == "bool":
            return content if isinstance(content, bool) else str(content).lower() == "true"
        if shape == "bytes":
            return _raw_bytes(content, decoding, key)
        if depth > decoding.limits.max_depth:
            decoding.report(f"value of {shortened(key)} nested deeper than {decoding.limits.max_depth}; left out")
            return None
        members = content.get("values") if isinstance(content, dict) else None
        if shape == "map":
            return _attributes_tolerant(members, decoding, key, depth)
        if not isinstance(members, list):
            return []
        return [any_value(member, decoding, key, depth + 1) for member in members[: decoding.limits.max_attributes]]
    return None


def plain_value(value: Any, decoding: Decoding, key: str = "", depth: int = 1) -> Any:
    """Return a plain JSON value, cleaned and cut as an ``AnyValue`` is."""
    if isinstance(value, str):
        return text_of(value, decoding, key)
    if isinstance(value, (dict, list)):
        if depth > decoding.limits.max_depth:
            decoding.report(f"value of {shortened(key)} nested deeper than {decoding.limits.max_depth}; left out")
            return None
        if isinstance(value, dict):
            return {text_of(k, decoding, key): plain_value(v, decoding, key, depth + 1) for k, v in value.items()}
        return [plain_value(member, decoding, key, depth + 1) for member in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _integer(value)
    return _double(value) if isinstance(value, float) else None


def _integer(value: Any) -> int | str | None:
    try:
        number = _whole(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number in _INT64 else str(value)[:64]


def _double(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _raw_bytes(value: Any, decoding: Decoding, key: str) -> bytes | str:
    if not isinstance(value, str):
        return b""
    try:
        raw = base64.b64decode(value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4))
    except (binascii.Error, ValueError):
        return text_of(value, decoding, key)
    return raw[: decoding.limits.max_text]


def shortened(value: Any) -> str:
    """Return a value for an error message: printable ASCII, at most 40 characters."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."
