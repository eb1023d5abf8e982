"""Normalise: Vercel AI SDK 6 (`ai.*`), and 7 through its legacy integration; version 7 itself writes `gen_ai.*`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from otel_drift.normalise.messages import messages_in
from otel_drift.normalise.names import SESSION_NAMESPACED, named_sessions
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Kind, Step, Tool, ToolUse
from otel_drift.normalise.values import text_of

_NAMESPACES = ("ai.telemetry.metadata.", "ai.settings.context.", "ai.settings.runtimeContext.")


class Vercel(Reader):
    """Spans with `ai.*` attributes."""

    name = "vercel_ai"
    facts: ClassVar = {"model": ("ai.response.model", "ai.model.id"), "prompt_name": ("ai.telemetry.functionId",)}

    def kind(self, step: Step) -> Kind:
        """From `ai.operationId`: the outer call is an agent run, each ``do…`` a model call."""
        operation = step.span.attributes.get("ai.operationId")
        if not isinstance(operation, str):
            return "other"
        if operation == "ai.toolCall":
            return "tool"
        if "embed" in operation.lower():
            return "embedding"
        if "rerank" in operation.lower():
            return "reranker"
        if operation.endswith((".doGenerate", ".doStream")):
            return "llm"
        return "agent"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """Session ids in the telemetry metadata or runtime context; the name is the application's choice."""
        return [(SESSION_NAMESPACED, key) for _, key in named_sessions(keys, *_NAMESPACES)]

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """`ai.prompt.messages` of a step, `ai.prompt` of the whole call."""
        a = step.span.attributes
        if step.kind not in {"llm", "agent"}:
            return None
        key = "ai.prompt.messages" if "ai.prompt.messages" in a else "ai.prompt"
        return messages_in(step, key, "user") or None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """`ai.response.text`, `ai.response.object`, `ai.response.toolCalls`."""
        if step.kind not in {"llm", "agent"}:
            return None
        a = step.span.attributes
        text = a.get("ai.response.text") or a.get("ai.response.object") or a.get("ai.result.text")
        calls = step.json("ai.response.toolCalls")
        uses = tuple(
            ToolUse(
                text_of(call.get("toolCallId")),
                text_of(call.get("toolName")),
                text_of(call.get("input", call.get("args"))),
            )
            for call in (calls if isinstance(calls, list) else ())
            if isinstance(call, dict)
        )
        if not isinstance(text, str):
            text = ""
        return (ChatMessage("assistant", text, uses),) if text or uses else None

    def query(self, step: Step) -> str | None:
        """The single text embedded (`ai.value`)."""
        value = step.json("ai.value") if step.kind == "embedding" else None
        return value if isinstance(value, str) else None

    def tool(self, step: Step) -> Tool | None:
        """`ai.toolCall.*`."""
        if step.kind != "tool":
            return None
        a = step.span.attributes
        return Tool(
            text_of(a.get("ai.toolCall.name")),
            a.get("ai.toolCall.args", a.get("ai.toolCall.input")),
            step.json("ai.toolCall.result") if "ai.toolCall.result" in a else step.json("ai.toolCall.output"),
            text_of(a.get("ai.toolCall.id")),
        )

    def input(self, step: Step) -> Any:
        """The last user message of the whole call."""
        if step.kind != "agent":
            return None
        messages = self.input_messages(step) or ()
        return next((m.text for m in reversed(messages) if m.role == "user" and m.text), None)

    def output(self, step: Step) -> Any:
        """The text of the whole call."""
        if step.kind != "agent":
            return None
        value = step.span.attributes.get("ai.response.text")
        return value if isinstance(value, str) else step.json("ai.response.object")
