"""From a judge's raw text to one JSON object, where there is no doubt which object is the answer.

Models wrap JSON in prose and code fences. Text quoted from a trace may be JSON too, put there to pass for the
answer: so with more than one candidate, or one that is copied from the data, nothing is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

MAX_CHARACTERS = 4_000_000
_REASONING = re.compile(r"\A\s*<think>.*</think>", re.DOTALL)
_SHORTEST_COPY = 12


class UnreadableAnswerError(ValueError):
    """No JSON object can be taken from an answer. `reason` is a code; the message tells the judge what to mend."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


def read_object(text: str, data: Iterable[str] = ()) -> dict[str, Any]:
    """Return the one JSON object in `text`.

    Args:
        text: the judge's raw answer.
        data: the texts the judge was given; an object that stands in them as it is, is no answer.

    Raises:
        UnreadableAnswerError: empty, no JSON, more than one object, repeated keys, NaN, or copied from the data.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnreadableAnswerError("answer_too_long", f"The answer is longer than {MAX_CHARACTERS} characters.")
    body = _REASONING.sub("", text, count=1).strip().lstrip("\ufeff")
    if not body:
        raise UnreadableAnswerError("answer_empty", "The answer is empty. Answer with one JSON object.")
    found = _whole(body)
    if found is None:
        found = _only_object(body)
    if _is_copied(found, body, data):
        raise UnreadableAnswerError(
            "answer_copied", "The answer is a JSON object that stands in the data. Judge the data yourself."
        )
    return found


def _whole(body: str) -> dict[str, Any] | None:
    try:
        value = _DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnreadableAnswerError):
            raise
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        kind = "array" if isinstance(value, list) else type(value).__name__
        raise UnreadableAnswerError("answer_not_json", f"The answer is a JSON {kind}; it must be one JSON object.")
    return value


def _only_object(body: str) -> dict[str, Any]:
    """The object in prose or a code fence, if no other brace stands around it."""
    start = body.find("{")
    if start < 0:
        raise UnreadableAnswerError("answer_not_json", "The answer holds no JSON object.")
    try:
        value, end = _DECODER.raw_decode(body, start)
    except RecursionError:
        raise UnreadableAnswerError("answer_not_json", "The JSON is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise UnreadableAnswerError(
            "answer_not_json", f"The answer is no valid JSON: {error.msg} at character {error.pos}."
        ) from None
    except ValueError as error:
        if isinstance(error, UnreadableAnswerError):
            raise
        raise UnreadableAnswerError("answer_not_json", f"The answer is no valid JSON: {error}.") from None
    if "{" in body[end:]:
        raise UnreadableAnswerError(
            "answer_ambiguous", "The answer holds more than one JSON object. Answer with one object and nothing else."
        )
    assert isinstance(value, dict)
    return value


def _is_copied(found: dict[str, Any], body: str, data: Iterable[str]) -> bool:
    if len(body) < _SHORTEST_COPY or not found:
        return False
    keys = [key for key in found if key]
    return any(_stands_in(found, text) for text in data if all(key in text for key in keys))


def _stands_in(found: dict[str, Any], text: str) -> bool:
    """Whether `text`, as it is or with JSON string escapes taken off, holds an object equal to `found`."""
    for plain in (text, text.replace("\\\\", "\\").replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t")):
        start = plain.find("{")
        tries = 0
        while start >= 0 and tries < 2_000:
            tries += 1
            try:
                value, _ = json.JSONDecoder().raw_decode(plain, start)
            except (ValueError, RecursionError):
                value = None
            if value == found:
                return True
            start = plain.find("{", start + 1)
    return False


def _no_constants(name: str) -> NoReturn:
    raise UnreadableAnswerError("answer_not_json", f"{name} is no JSON number.")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise UnreadableAnswerError("answer_ambiguous", "A key stands twice in one JSON object.")
    return keys


_DECODER = json.JSONDecoder(parse_constant=_no_constants, object_pairs_hook=_unique_keys)
