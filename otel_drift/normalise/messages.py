"""Normalise: chat messages in every shape frameworks serialise them (OpenAI, LangChain, Vercel, Google, semconv)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from otel_drift.normalise.attached import attached
from otel_drift.normalise.remembered import kept_per_session
from otel_drift.normalise.step import ChatMessage, Step, ToolResult, ToolUse
from otel_drift.normalise.values import load, structured, text_of

_ROLES = {
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "user": "user",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "bot": "assistant",
    "system": "system",
    "systemmessage": "system",
    "developer": "system",
    "tool": "tool",
    "toolmessage": "tool",
    "function": "tool",
    "functionmessage": "tool",
    "tool-call": "assistant",
    "tool_call": "assistant",
    "tool-response": "tool",
    "tool_response": "tool",
}
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal", ""})
_CALL_PARTS = frozenset({"tool_call", "tool-call", "tool_use", "function_call", "toolCall", "functionCall"})
_RESULT_PARTS = frozenset(
    {"tool_call_response", "tool-result", "tool_result", "function_call_output", "function_response", "tool_response"}
)
_LIST_KEYS = ("messages", "input", "contents", "output", "choices", "candidates", "prompt", "prompts", "replies")
MAX_MESSAGES = 5_000
MAX_DEPTH = 6


def role_of(name: Any) -> str | None:
    """The canonical role (user, assistant, system, tool), or None."""
    return _ROLES.get(name) or _ROLES.get(name.lower()) if isinstance(name, str) else None


def read_messages(value: Any, default_role: str = "user", depth: int = 0) -> tuple[ChatMessage, ...]:
    """Chat messages found in `value`, whatever its shape; plain text becomes one message of `default_role`."""
    found: list[ChatMessage] = []
    _collect(value, default_role, depth, found)
    return tuple(found[:MAX_MESSAGES])


def messages_in(step: Step, key: str, default_role: str) -> tuple[ChatMessage, ...]:
    """The chat messages in an attribute of a span, read once."""
    found: tuple[ChatMessage, ...] | None = step.notes.get((key, default_role))
    if found is None:
        text = step.span.attributes.get(key)
        if default_role == "user" and isinstance(text, str) and text[:2] == "[{" and text[-1] == "]":
            found = _resent(text, key)
        if found is None:
            found = read_messages(step.json(key), default_role)
        step.notes[key, default_role] = found
    return found


_begun = kept_per_session()
"""By attribute the last few lists of messages: their JSON without its closing bracket, and what was read."""
_MOST_BEGUN = 4


def _resent(text: str, key: str) -> tuple[ChatMessage, ...] | None:
    """The messages of a JSON list, of which those that an earlier call of the session was given are not read again.

    None where the text is no JSON list.
    """
    begun: list[tuple[str, tuple[ChatMessage, ...]]] = _begun.setdefault(key, [])
    found: list[ChatMessage] = []
    new = text
    for beginning, messages in reversed(begun):
        if text.startswith(beginning) and text.startswith(",", len(beginning)):
            found.extend(messages)
            new = "[" + text[len(beginning) + 1 :]
            break
    try:
        items = orjson.loads(new)
    except orjson.JSONDecodeError:
        return None
    if not items:
        return None  # a comma before the bracket
    _collect_each(items, "user", 1, found)
    read = tuple(found[:MAX_MESSAGES])
    begun.append((text[:-1], read))
    del begun[:-_MOST_BEGUN]
    return read


def read_answer(value: Any) -> tuple[ChatMessage, ...]:
    """What a model answered, whatever its shape; structured output that is no message becomes its JSON text."""
    found = read_messages(value, "assistant")
    if not found and isinstance(value, dict | list) and value:
        return (ChatMessage("assistant", text_of(value) or ""),)
    return found


def _collect(value: Any, default_role: str, depth: int, found: list[ChatMessage]) -> None:
    """Add the messages in `value` to `found`."""
    if depth > MAX_DEPTH or value is None:
        return
    if isinstance(value, str):
        loaded, _ = load(value)
        if isinstance(loaded, list | dict):
            _collect(loaded, default_role, depth + 1, found)
        elif isinstance(loaded, str) and loaded.strip():
            found.append(ChatMessage(default_role, loaded))
    elif isinstance(value, list):
        if value and isinstance(value[0], str) and all(isinstance(item, str) for item in value):
            found.extend(ChatMessage(default_role, item) for item in value if item)
            return
        _collect_each(value, default_role, depth + 1, found)
    elif isinstance(value, dict):
        _collect_each([value], default_role, depth, found)


def _collect_each(items: Sequence[Any], default_role: str, depth: int, found: list[ChatMessage]) -> None:
    """Add the messages in each of `items` to `found`."""
    for item in items:
        if not isinstance(item, dict):
            _collect(item, default_role, depth, found)
        elif depth <= MAX_DEPTH:
            message = _plain(item) or _named_after_tool(item, found) or _message(item, default_role)
            if message is not None:
                found.append(message)
            else:
                _collect_below(item, default_role, depth, found)


def _named_after_tool(item: dict[str, Any], before: Sequence[ChatMessage]) -> ChatMessage | None:
    """A message whose role is the name of a tool that was called before it: what that tool returned (Langfuse JS)."""
    name = item.get("role")
    if not isinstance(name, str) or role_of(name) or not any(u.name == name for m in before for u in m.uses):
        return None
    return ChatMessage("tool", "", results=(ToolResult(None, name, item.get("content")),))


def _collect_below(value: dict[str, Any], default_role: str, depth: int, found: list[ChatMessage]) -> None:
    """Add the messages in a mapping that is none itself."""
    requests = _pydantic_ai(value)
    if requests is not None:
        found.extend(requests)
        return
    system = value.get("system") or value.get("instructions") or value.get("system_instruction")
    if isinstance(system, str) and system:
        found.append(ChatMessage("system", system))
    elif isinstance(system, dict | list):
        parts = read_parts(system.get("parts") if isinstance(system, dict) else system)
        if parts[0]:
            found.append(ChatMessage("system", parts[0]))
    if "generations" in value:
        found.extend(_generations(value["generations"], depth))
        return
    for key in _LIST_KEYS:
        if value.get(key):
            role = "assistant" if key in ("choices", "replies") else default_role
            _collect(value[key], role, depth + 1, found)
            return


def _generations(value: Any, depth: int) -> Iterator[ChatMessage]:
    """LangChain's ``LLMResult``: a batch of lists of generations, each with a message or only text."""
    if isinstance(value, list):
        for item in value:
            yield from _generations(item, depth)
    elif isinstance(value, dict):
        inner = value.get("message")
        message = read_message(inner, "assistant") if isinstance(inner, dict) else None
        if message is not None:
            yield message
        elif isinstance(value.get("text"), str):
            yield ChatMessage("assistant", value["text"])


def read_message(value: dict[str, Any], default_role: str = "user") -> ChatMessage | None:
    """One message of any shape, or None where the mapping is no message."""
    return _plain(value) or _message(value, default_role)


def _message(value: dict[str, Any], default_role: str) -> ChatMessage | None:
    kind = _word(value.get("type"))
    if value.get("lc") and isinstance(value.get("kwargs"), dict):
        name = value["id"][-1] if isinstance(value.get("id"), list) and value["id"] else None
        role = role_of(name) or role_of(value["kwargs"].get("type"))
        return _build(role, value["kwargs"]) if role else None
    if isinstance(value.get("data"), dict) and role_of(kind):
        return _build(role_of(kind) or default_role, value["data"])
    if kind in _CALL_PARTS:
        return ChatMessage("assistant", "", uses=(_use(value),))
    if kind in _RESULT_PARTS:
        return ChatMessage("tool", "", results=(_result(value),))
    inner = value.get("message")
    if isinstance(inner, dict) and ("role" in inner or "content" in inner):
        return read_message(inner, "assistant")
    inner = value.get("content")
    if isinstance(inner, dict) and "parts" in inner:  # Google candidate
        return read_message(inner, "assistant")
    role = role_of(value.get("role")) or (role_of(kind) if "content" in value else None)
    if role is None:
        if ("role" in value and ("content" in value or "parts" in value)) or (kind == "message" and "content" in value):
            role = default_role
        else:
            return None
    return _build(role, value)


_PART_KINDS = {
    "system-prompt": "system",
    "user-prompt": "user",
    "text": "assistant",
    "tool-call": "assistant",
    "tool-return": "tool",
    "retry-prompt": "tool",
}


def _pydantic_ai(value: dict[str, Any]) -> list[ChatMessage] | None:
    """Pydantic AI's own messages: requests and responses, whose parts say whose they are; None for other mappings."""
    parts = value.get("parts")
    if not isinstance(parts, list) or not any(isinstance(p, dict) and "part_kind" in p for p in parts):
        return None
    found: list[ChatMessage] = []
    instructions = value.get("instructions")
    if isinstance(instructions, str) and instructions:
        found.append(ChatMessage("system", instructions))
    for part in parts:
        kind = _word(part.get("part_kind")) if isinstance(part, dict) else ""
        role = _PART_KINDS.get(kind)
        if kind == "tool-call":
            found.append(ChatMessage("assistant", "", uses=(_use(part),)))
        elif role == "tool":
            found.append(ChatMessage("tool", "", results=(_result(part),)))
        elif role is not None:
            found.append(_build(role, {"content": part.get("content")}))
    return found


_CALLS = frozenset({"tool_calls", "function_call", "toolCalls"})
_PLAIN_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def _plain(value: dict[str, Any]) -> ChatMessage | None:
    """The two commonest shapes, read without looking further: a role with text, or with one part of text."""
    role = value.get("role")
    name = _PLAIN_ROLES.get(role) if isinstance(role, str) else None
    if name is None:
        return None
    content = value.get("content")
    if len(value) == 2 and isinstance(content, str):
        return ChatMessage(name, content)
    if not _CALLS.isdisjoint(value) and (
        value.get("tool_calls") or value.get("function_call") or value.get("toolCalls")
    ):
        return None
    parts = value.get("parts")
    if isinstance(content, str):
        return ChatMessage(name, content) if not parts else None
    if content is not None:
        parts = content
    if isinstance(parts, list) and len(parts) == 1:
        part = parts[0]
        if isinstance(part, dict) and part.get("type") == "text":
            text = part["content"] if "content" in part else part.get("text")
            if isinstance(text, str):
                return ChatMessage(name, text)
    return None


def _build(role: str, value: dict[str, Any]) -> ChatMessage:
    content = value.get("parts") if value.get("parts") is not None else value.get("content")
    if content is None:
        content = value.get("contents") if value.get("contents") is not None else value.get("text")
    if content is None:
        content = value.get("blocks")  # LlamaIndex
    if content is None and isinstance(value.get("message"), str):
        content = value["message"]
    text, uses, results = read_parts(content)
    calls = value.get("tool_calls") or value.get("toolCalls")
    if isinstance(calls, str):
        calls = structured(calls)
    if isinstance(calls, list):
        uses = (*uses, *(_use(call) for call in calls if isinstance(call, dict)))
    call = value.get("function_call")
    if isinstance(call, dict) and call:
        uses = (*uses, _use(call))
    if role == "tool" and not results:
        artifact = value.get("artifact")
        call_id = value.get("tool_call_id") or value.get("toolCallId") or value.get("call_id") or value.get("id")
        name = value.get("name") or value.get("tool_name")
        body = {"content": content, "artifact": artifact} if artifact else content
        results = (ToolResult(_id(call_id), name if isinstance(name, str) else None, body),)
        text = ""
    return ChatMessage(role, text, uses, results, attached(content) if isinstance(content, list) else ())


def read_parts(value: Any) -> tuple[str, tuple[ToolUse, ...], tuple[ToolResult, ...]]:
    """Text, tool calls and tool results of a message's content (text, or a list of parts)."""
    if isinstance(value, str):
        return value, (), ()
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return "", (), ()
    texts: list[str] = []
    uses: list[ToolUse] = []
    results: list[ToolResult] = []
    for part in value:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            continue
        kind = _word(part.get("type") or part.get("kind") or part.get("block_type"))
        if kind in _CALL_PARTS:
            uses.append(_use(part))
        elif kind in _RESULT_PARTS:
            results.append(_result(part))
        elif isinstance(part.get("function_call"), dict):
            uses.append(_use(part["function_call"]))
        elif isinstance(part.get("function_response"), dict):
            results.append(_result(part["function_response"]))
        elif isinstance(part.get("toolUse"), dict):  # Bedrock
            uses.append(_use({**part["toolUse"], "id": part["toolUse"].get("toolUseId")}))
        elif isinstance(part.get("toolResult"), dict):
            results.append(_result({**part["toolResult"], "tool_use_id": part["toolResult"].get("toolUseId")}))
        elif isinstance(part.get("functionResponse"), dict):
            results.append(_result(part["functionResponse"]))
        elif kind in _TEXT_PARTS or ("text" in kind and "reason" not in kind):
            text = part.get("text") if part.get("text") is not None else part.get("content")
            if isinstance(text, dict):
                text = text.get("value")
            if isinstance(text, str) and text:
                texts.append(text)
    return "\n".join(texts), tuple(uses), tuple(results)


def _use(value: dict[str, Any]) -> ToolUse:
    function = value.get("function")
    source = function if isinstance(function, dict) else value
    name = source.get("name") or value.get("toolName") or value.get("tool_name")
    arguments: Any = None
    for key in ("arguments", "args", "input", "partial_json"):
        if source.get(key) is not None:
            arguments = source[key]
            break
    call_id = value.get("id") or value.get("toolCallId") or value.get("call_id") or value.get("tool_call_id")
    if value.get("type") == "function_call" and value.get("call_id"):
        call_id = value["call_id"]
    return ToolUse(_id(call_id), name if isinstance(name, str) else None, text_of(arguments))


def _result(value: dict[str, Any]) -> ToolResult:
    name = value.get("name") or value.get("toolName") or value.get("tool_name")
    call_id = value.get("tool_use_id") or value.get("toolCallId") or value.get("call_id") or value.get("tool_call_id")
    call_id = call_id or value.get("id")
    body: Any = None
    for key in ("response", "result", "output", "content"):
        if value.get(key) is not None:
            body = value[key]
            break
    if isinstance(body, dict) and body.get("type") in ("json", "text", "content") and "value" in body:
        body = body["value"]
    return ToolResult(_id(call_id), name if isinstance(name, str) else None, body)


def _word(value: Any) -> str:
    """What a type is called; an answer in JSON may hold anything under that name, as JSON Schema does."""
    return value if isinstance(value, str) else ""


def _id(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
