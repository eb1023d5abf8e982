"""Normalise: what Pydantic AI and logfire add to the GenAI conventions (`pydantic_ai.*`, `request_data`)."""

from __future__ import annotations

from typing import Any, ClassVar

from otel_drift.normalise.messages import messages_in, read_answer, read_messages
from otel_drift.normalise.names import scalar
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Kind, Step, Tool


class PydanticAI(Reader):
    """Agent runs, and model calls of versions that wrote their messages into `events` or `all_messages_events`."""

    name = "pydantic_ai"
    facts: ClassVar = {"model": ("model_name",)}

    def kind(self, step: Step) -> Kind:
        """A span with a final result or all messages is an agent run; older tool spans have `tool_response`."""
        a = step.span.attributes
        if "pydantic_ai.all_messages" in a or "final_result" in a or "all_messages_events" in a:
            return "agent"
        if "request_data" in a:
            return "embedding" if "embedding" in step.span.name.lower() else "llm"
        if "tool_response" in a or "tool_arguments" in a:
            return "tool"
        return "other"

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """All messages of the run without its answer; for an older model call its `events`."""
        a = step.span.attributes
        if "pydantic_ai.all_messages" in a:
            return self._run(step)[0] or None
        if "request_data" in a and "events" not in a:
            return (read_messages(step.json("request_data"), "user") or None) if step.kind == "llm" else None
        if step.kind == "llm" and "events" in a:
            return read_messages(_events(step)[0], "user") or None
        return None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """The choice among the older `events`."""
        if step.kind == "llm" and "response_data" in step.span.attributes:
            return _response(step.json("response_data"))
        if step.kind == "llm" and "events" in step.span.attributes:
            return read_messages(_events(step)[1], "assistant") or None
        return None

    def tool(self, step: Step) -> Tool | None:
        """Older tool spans."""
        if step.kind != "tool":
            return None
        a = step.span.attributes
        if "tool_response" not in a and "tool_arguments" not in a:
            return None
        return Tool(scalar(a.get("gen_ai.tool.name")), a.get("tool_arguments"), step.json("tool_response"))

    def input(self, step: Step) -> Any:
        """The user text of this run."""
        if "pydantic_ai.all_messages" not in step.span.attributes:
            return None
        given, _ = self._run(step)
        return next((m.text for m in reversed(given) if m.role == "user" and m.text), None)

    def output(self, step: Step) -> Any:
        """`final_result`."""
        value = step.span.attributes.get("final_result")
        if isinstance(value, str) and value.startswith("[Scrubbed"):
            return None
        return value if not isinstance(value, str) or value[:1] not in ("{", "[") else step.json("final_result")

    def _run(self, step: Step) -> tuple[tuple[ChatMessage, ...], tuple[ChatMessage, ...]]:
        messages = messages_in(step, "pydantic_ai.all_messages", "user")
        last = max((i for i, m in enumerate(messages) if m.role == "user" and m.text), default=-1)
        return messages[: last + 1], messages[last + 1 :]


def _events(step: Step) -> tuple[list[Any], list[Any]]:
    """What the `events` of a model call say was given, and what was answered.

    Pydantic AI writes the answer as a choice, logfire's OpenAI Agents integration as the trailing assistant messages.
    """
    events = step.json("events")
    given = [e for e in events if isinstance(e, dict)] if isinstance(events, list) else []
    chosen = [e for e in given if e.get("event.name") == "gen_ai.choice"]
    if chosen:
        return [e for e in given if e.get("event.name") != "gen_ai.choice"], chosen
    end = len(given)
    while end and given[end - 1].get("event.name") == "gen_ai.assistant.message":
        end -= 1
    return given[:end], given[end:]


def _response(data: Any) -> tuple[ChatMessage, ...] | None:
    """Logfire's `response_data` of a model client: a message, or the joined chunks of a stream."""
    if not isinstance(data, dict):
        return None
    for key in ("message", "combined_chunk_content", "content", "text"):
        if data.get(key):
            value = data[key]
            return read_answer({"role": "assistant", "content": value} if isinstance(value, str) else value) or None
    return None
