"""Sessions: earlier questions and answers, in every form in which they are resent to a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from otel_drift.normalise.messages import read_messages
from otel_drift.normalise.names import HISTORY_KEYS
from otel_drift.normalise.step import ChatMessage, final_answer
from otel_drift.normalise.values import fold
from otel_drift.sessions.answers import unwrapped
from otel_drift.sessions.tree import is_observation
from otel_drift.sessions.user_text import from_template, transcript

Pair = tuple[str, str]
"""A question and its answer, white space folded."""


def worked_on(messages: Sequence[ChatMessage]) -> str | None:
    """The answer that ends what a model was given, folded; None where the user or a tool has the last word."""
    for message in reversed(messages):
        if message.role != "system":
            spoken = message.role == "assistant" and not message.uses and message.text.strip()
            return fold(message.text) if spoken else None
    return None


def pairs_of(messages: Sequence[ChatMessage]) -> list[Pair]:
    """The questions and answers among messages; tool calls and their results between them are passed over."""
    pairs: list[Pair] = []
    asked, said = "", ""
    for message in messages:
        text = message.text
        if message.role == "user" and text.strip() and not is_observation(text):
            if said:
                pairs.append((asked, said))
            if "[[ ## " in text:
                text = from_template(text) or text
            asked, said = fold(text), ""  # of several in a row (context, then question) the last one asks
        elif message.role == "assistant" and text.strip():
            said = fold(unwrapped(text) if "[[ ## " in text else text)
        elif message.uses and (final := final_answer(message.uses)):
            said = fold(final)
    if said:
        pairs.append((asked, said))
    return pairs


def first_line(text: str) -> str:
    """What of a text is compared with a conversation that was written into a prompt: where it ends there is unclear."""
    return fold(text.strip().partition("\n")[0])


def transcribed(text: str, names: bool = False) -> list[Pair]:
    """The pairs of a conversation written as text, each text's first line."""
    said = transcript(text, names)
    return pairs_of([ChatMessage(role, first_line(body)) for role, body in said])


def histories(value: Any, depth: int = 0) -> Iterator[Any]:
    """What stands under the names that a history usually has, in a wrapper's (nested) input."""
    if not isinstance(value, dict) or depth > 3:
        return
    for key, inner in value.items():
        if inner and isinstance(key, str) and key.lower() in HISTORY_KEYS:
            if isinstance(inner, dict) and isinstance(inner.get("messages"), list):
                inner = inner["messages"]
            yield inner
        elif isinstance(inner, dict):
            yield from histories(inner, depth + 1)


def history_pairs(value: Any) -> list[Pair]:
    """The pairs of a history: messages, mappings or pairs of a question and an answer, or text."""
    if isinstance(value, str):
        return transcribed(value, names=True) if "\n" in value else []
    if not isinstance(value, list):
        return []
    pairs = pairs_of(read_messages(value, "user"))
    if pairs:
        return pairs[:-1] if pairs[-1][1] == "" else pairs
    for item in value:
        if isinstance(item, dict) and "role" not in item and "type" not in item:
            item = list(item.values())
        if not isinstance(item, list | tuple) or len(item) < 2:
            return []
        if not isinstance(item[0], str) or not isinstance(item[-1], str):
            return []
        pairs.append((fold(item[0]), fold(item[-1])))
    return pairs
