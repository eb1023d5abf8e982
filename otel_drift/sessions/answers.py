"""Sessions: the answer in what a model call said or a wrapper returned, whatever it is wrapped in."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from otel_drift.normalise import Step
from otel_drift.normalise.messages import read_messages
from otel_drift.normalise.names import ANSWER_KEYS, CONTEXT_KEYS, HISTORY_KEYS, leaves
from otel_drift.normalise.values import fold, load
from otel_drift.sessions.tree import instructions
from otel_drift.sessions.user_text import dspy_fields, from_template, works_on

_NOT_ANSWER = frozenset({"reasoning", "rationale", "thought", "thoughts", "completed", "explanation"})


def said_by(value: Any) -> tuple[bool, list[str]]:
    """Texts in a wrapper's output, and whether it was plain text."""
    if isinstance(value, str):
        if _REPR.match(value):
            written = _written(value)
            return len(written) == 1, written
        return True, [value] if value.strip() else []
    if isinstance(value, dict | list):
        if isinstance(value, dict) and isinstance(value.get("messages"), list):
            messages = read_messages(value["messages"], "assistant")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            messages = read_messages(value, "assistant")
        else:
            messages = (
                read_messages(value, "assistant")
                if isinstance(value, dict)
                and ("choices" in value or "generations" in value or "role" in value or "lc" in value)
                else ()
            )
        spoken = [m.text for m in messages if m.role == "assistant" and m.text.strip() and not m.uses]
        if spoken:
            return False, [spoken[-1]]
        return False, leaves(value, ANSWER_KEYS, HISTORY_KEYS | CONTEXT_KEYS)[:12]
    return False, []


def matching(said: Sequence[str], finals: Sequence[Step]) -> tuple[str, Step] | None:
    """The answer among a wrapper's texts that a model call gave, and the call; exact matches before parts."""
    texts = [(fold(call.answer_text or ""), call) for call in reversed(finals)]
    for candidate in said:  # what a wrapper calls its answer comes first, a grade or a route after it
        short = fold(candidate)
        for whole, call in texts:
            if short == whole:
                return call.answer_text or "", call
    for call in reversed(finals):
        meant = variants(call.answer_text or "")
        for candidate in said:
            short = fold(candidate)
            if short in meant:
                return candidate, call
            if len(said) == 1 and len(short) >= 8:
                whole = fold(call.answer_text or "")
                if short in whole and 2 * len(short) >= len(whole):
                    return candidate, call
                if whole and whole in short:
                    added = short.startswith(whole) or short.endswith(whole)  # sources or a notice beside the answer
                    asked = fold(call.last_user or "")
                    added = added and (not asked or asked in whole or asked not in short)  # else a whole conversation
                    return (candidate if added else unwrapped(call.answer_text or "")), call
    return None


_REPR = re.compile(r"\s*[A-Z]\w*\(\w+=")
_REPR_TEXT = re.compile(r"\b_?(?:text|content|response|raw)=(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")


def _written(text: str) -> list[str]:
    """The texts in a Python repr of message objects, such as LlamaIndex's and Haystack's."""
    found: list[str] = []
    for match in _REPR_TEXT.finditer(text[:200_000]):
        try:
            value = ast.literal_eval(match["text"])
        except (SyntaxError, ValueError):
            continue
        if isinstance(value, str) and value.strip() and value not in found:
            found.append(value)
    return found[:12]


def named_answer(value: Any) -> str | None:
    """The answer in a wrapper's structured output, by the names it usually has."""
    if not isinstance(value, dict):
        return None
    for key in ("answer", "final_answer", "response", "reply", "answer_text", "output_text", "raw"):
        text = value.get(key)
        if isinstance(text, str) and text.strip():
            return text
    messages = value.get("messages")
    last = read_messages(messages[-1:], "user") if isinstance(messages, list) else ()
    if last and last[-1].role == "assistant" and not last[-1].uses:
        return last[-1].text or None
    return None


_THINKING = re.compile(r"\s*<(think(?:ing)?)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)


_REASONED = re.compile(r"\s*Thought:.*?\n[ \t]*(?:Final )?Answer:\s*", re.DOTALL)
"""What stands before the answer in the ReAct form."""


def _spoken(text: str) -> str:
    """`text` without the thinking that some models, or agents' prompts, put in front of the answer."""
    match = _REASONED.match(text) if text.lstrip().startswith("Thought:") else _THINKING.match(text)
    return text[match.end() :] if match and match.end() < len(text) else text


def variants(text: str) -> set[str]:
    """The texts that `text` may stand for: itself, what follows its thinking, its JSON's or template's fields."""
    found = {fold(text), fold(_spoken(text))}
    for _, body in dspy_fields(text):
        found.add(fold(body))
    if text.lstrip()[:1] == "{" or "```" in text:
        value = _json_in(text)
        if value is not None:
            found.update(fold(leaf) for leaf in leaves(value, ANSWER_KEYS, frozenset()))
    found.discard("")
    return found


def _json_in(text: str) -> Any:
    body = text.strip()
    if body.startswith("```"):
        body = body.strip("`").strip()
        body = body[body.find("{") :] if "{" in body else body
        body = body[: body.rfind("}") + 1]
    value, _ = load(body)
    return value if isinstance(value, dict) else None


def unwrapped(text: str) -> str:
    """The answer behind thinking, inside DSPy's fields or a JSON object with an answer field; else `text`."""
    text = _spoken(text)
    fields = [(n, b) for n, b in dspy_fields(text) if n not in _NOT_ANSWER and b]
    if fields:
        return fields[-1][1]
    if text.lstrip()[:1] == "{" or text.lstrip().startswith("```json"):
        value = _json_in(text)
        if value is not None:
            for key in (
                "answer",
                "final_answer",
                "response",
                "reply",
                "answer_text",
                "output",
                "message",
                "text",
                "content",
            ):
                inner = value.get(key)
                if isinstance(inner, str) and inner.strip():
                    return inner
    return text


def alike(one: str, other: str) -> bool:
    """Whether two texts share many of their words."""
    first, second = set(one.lower().split()), set(other.lower().split())
    return bool(first) and len(first & second) >= 0.4 * min(len(first), len(second)) and len(first) > 2


def checks(call: Step, answering: Step) -> bool:
    """Whether a call was given another's question and answer as one text and said something else than the answer."""
    asked, said = answering.last_user or "", answering.answer_text or ""
    if said not in (call.last_user or "") or instructions(call) == instructions(answering):
        return False
    answer = call.answer_text or ""
    return comments(call.last_user or "", from_template(asked) or asked, said, answer) and not alike(answer, said)


def comments(text: str, asked: str, said: str, answer: str) -> bool:
    """Whether `answer` to `text` is about a turn's question and answer, or a verdict on the answer alone.

    A text as long as the answer may be its translation or revision: then it is what the user got.
    """
    if works_on(text, asked, said):
        return True
    return 5 * len(answer) <= 3 * len(said) and (text.strip() == said.strip() or works_on(text, "", said))
