"""Normalise: Haystack's chat messages as Python prints them, which is how OpenInference records an agent's run."""

from __future__ import annotations

import ast
import re
from typing import Any

from otel_drift.model import Attributes
from otel_drift.normalise.messages import role_of
from otel_drift.normalise.step import ChatMessage, ToolResult, ToolUse

_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ROLE = re.compile(r"ChatMessage\(_role=<ChatRole\.(?P<role>\w+)")
_PART = re.compile(
    rf"TextContent\(text=(?P<text>{_TEXT})\)"
    rf"|ToolCallResult\(result=(?P<result>{_TEXT}), origin=ToolCall\(tool_name=(?P<of>{_TEXT}), "
    rf"arguments=\{{.*?\}}, id=(?P<call>{_TEXT}|None)"
    rf"|ToolCall\(tool_name=(?P<name>{_TEXT}), arguments=(?P<arguments>\{{.*?\}}), id=(?P<id>{_TEXT}|None)"
    rf"|(?P<endless>ToolCall\(tool_name={_TEXT}, arguments=\{{)",
    re.DOTALL,
)
"""A call's end is looked for through all of the text, so reading ends with the first that has none."""
_BEGINS = '{"messages": ["ChatMessage(_role='


def is_agent_run(a: Attributes) -> bool:
    """Whether a span is an agent's whole run: its model's calls and its tools have no spans of their own."""
    returned = a.get("output.value")
    return isinstance(returned, str) and returned.startswith(_BEGINS)


def printed_messages(value: Any) -> tuple[ChatMessage, ...]:
    """The chat messages that a mapping holds as text, those that cannot be read left out."""
    texts = value.get("messages") if isinstance(value, dict) else None
    found = (_printed(text) for text in texts or () if isinstance(text, str))
    return tuple(message for message in found if message is not None)


def _printed(text: str) -> ChatMessage | None:
    head = _ROLE.match(text)
    role = role_of(head["role"]) if head is not None else None
    if role is None:
        return None
    texts: list[str] = []
    uses: list[ToolUse] = []
    results: list[ToolResult] = []
    for part in _PART.finditer(text):
        if part["endless"]:
            break
        if part["text"]:
            texts.append(_literal(part["text"]) or "")
        elif part["result"]:
            results.append(ToolResult(_literal(part["call"]), _literal(part["of"]), _literal(part["result"])))
        else:
            uses.append(ToolUse(_literal(part["id"]), _literal(part["name"]), part["arguments"]))
    return ChatMessage(role, "\n".join(texts), tuple(uses), tuple(results))


def _literal(text: str) -> str | None:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None
