"""Normalise: what Google ADK adds to the GenAI conventions: ids on log records, older `gcp.vertex.agent.*` content."""

from __future__ import annotations

from collections.abc import Collection

from otel_drift.normalise.messages import read_messages
from otel_drift.normalise.names import SESSION_CONVERSATION
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Step, Tool


class GoogleADK(Reader):
    """Spans of the `gcp.vertex.agent` scope."""

    name = "google_adk"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """`gcp.vertex.agent.session_id` of older versions."""
        return [(SESSION_CONVERSATION, "gcp.vertex.agent.session_id")]

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """`gcp.vertex.agent.llm_request` of older versions."""
        if step.kind != "llm":
            return None
        request = step.json("gcp.vertex.agent.llm_request")
        if not isinstance(request, dict):
            return None
        messages = read_messages(request.get("contents"), "user")
        config = request.get("config")
        system = config.get("system_instruction") if isinstance(config, dict) else None
        return ((ChatMessage("system", system), *messages) if isinstance(system, str) else messages) or None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """`gcp.vertex.agent.llm_response` of older versions."""
        if step.kind != "llm":
            return None
        return read_messages(step.json("gcp.vertex.agent.llm_response"), "assistant") or None

    def tool(self, step: Step) -> Tool | None:
        """`gcp.vertex.agent.tool_response` of older versions."""
        a = step.span.attributes
        if step.kind != "tool" or "gcp.vertex.agent.tool_response" not in a:
            return None
        return Tool(None, a.get("gcp.vertex.agent.tool_call_args"), step.json("gcp.vertex.agent.tool_response"))
