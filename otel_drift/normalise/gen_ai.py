"""Normalise: OpenTelemetry GenAI semantic conventions, current and legacy, content on spans, in logs or span events.

Also the older `gen_ai.prompt` and `gen_ai.completion`, whole or flattened (`gen_ai.prompt.N.*`). Google ADK, OpenLIT,
Pydantic AI, LiteLLM and Vercel AI 7 write these too; what they add is in files of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from otel_drift.model import Attributes, LogRecord
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.messages import messages_in, read_message, read_messages, read_parts, role_of
from otel_drift.normalise.names import SESSION_CONVERSATION, SESSION_DELIBERATE, indexed
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Document, Kind, Step, Tool, ToolResult, ToolUse
from otel_drift.normalise.values import structured, text_of

_OPERATIONS: dict[str, Kind] = {
    "chat": "llm",
    "text_completion": "llm",
    "completion": "llm",
    "generate_content": "llm",
    "generate": "llm",
    "message": "llm",
    "responses": "llm",
    "embeddings": "embedding",
    "embedding": "embedding",
    "retrieval": "retriever",
    "retrieve": "retriever",
    "retriever": "retriever",
    "vector_db_retrieve": "retriever",
    "rerank": "reranker",
    "reranker": "reranker",
    "execute_tool": "tool",
    "tool": "tool",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "agent": "agent",
    "agent_step": "chain",
    "execute_task": "chain",
    "chain": "chain",
    "create_agent": "other",
    "vectordb": "other",
}
_DETAILS = "gen_ai.client.inference.operation.details"
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.developer.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


class GenAI(Reader):
    """Spans with `gen_ai.*` attributes."""

    name = "gen_ai"
    facts: ClassVar = {
        "model": ("gen_ai.response.model", "gen_ai.request.model"),
        "prompt_name": ("gen_ai.prompt.name",),
        "prompt_version": ("gen_ai.prompt.version",),
    }
    needs: ClassVar = {"variables": "gen_ai.prompt.variable.", "documents": "gen_ai.retrieval.document"}

    def kind(self, step: Step) -> Kind:
        """From `gen_ai.operation.name`, else from what else is there."""
        a = step.span.attributes
        operation = a.get("gen_ai.operation.name")
        if isinstance(operation, str):
            kind = _OPERATIONS.get(operation.lower())
            if kind is not None:
                return kind
        request = a.get("llm.request.type")
        if request in ("chat", "completion"):
            return "llm"
        if request == "embedding":
            return "embedding"
        if request == "rerank":
            return "reranker"
        if "gen_ai.retrieval.documents" in a or "gen_ai.retrieval.query.text" in a:
            return "retriever"
        if "gen_ai.tool.call.result" in a or "gen_ai.tool.call.arguments" in a:
            return "tool"
        if "gen_ai.request.model" in a or "gen_ai.prompt.0.role" in a or "gen_ai.completion.0.content" in a:
            return "embedding" if "embed" in str(a.get("gen_ai.request.model", "")) else "llm"
        return "chain"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """`gen_ai.conversation.id`, or the application's `session.id` on the same span."""
        return [(SESSION_DELIBERATE, "session.id"), (SESSION_CONVERSATION, "gen_ai.conversation.id")]

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """System instructions and input messages, wherever they were written."""
        a = step.span.attributes
        if step.kind in {"embedding", "retriever", "reranker", "tool"}:
            return None
        messages: tuple[ChatMessage, ...] = ()
        if "gen_ai.input.messages" in a:
            messages = messages_in(step, "gen_ai.input.messages", "user")
        if not messages:
            messages = _flat(step, "gen_ai.prompt.", "user")
        if not messages and "gen_ai.prompt" in a:
            messages = messages_in(step, "gen_ai.prompt", "user")
        if not messages:
            messages = tuple(_input_events(step))
        system = _system(step.json("gen_ai.system_instructions"))
        if system and not any(m.role == "system" and m.text == system for m in messages):
            messages = (ChatMessage("system", system), *messages)
        return messages or None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Output messages or choices."""
        a = step.span.attributes
        if step.kind in {"embedding", "retriever", "reranker", "tool"}:
            return None
        if "gen_ai.output.messages" in a:
            found = messages_in(step, "gen_ai.output.messages", "assistant")
            if found:
                return found
        found = _flat(step, "gen_ai.completion.", "assistant")
        if not found and "gen_ai.completion" in a:
            found = messages_in(step, "gen_ai.completion", "assistant")
        return found or tuple(_output_events(step)) or None

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """`gen_ai.retrieval.documents`."""
        if "gen_ai.retrieval.documents" in step.span.attributes:
            return read_documents(step.json("gen_ai.retrieval.documents"), strings=True)
        if step.span.attributes.get("gen_ai.retrieval.document_count") in (0, "0"):  # OpenLIT
            return ()
        return None

    def query(self, step: Step) -> str | None:
        """`gen_ai.retrieval.query.text`; for an embedding the single text embedded."""
        value = step.span.attributes.get("gen_ai.retrieval.query.text")
        if isinstance(value, str):
            return value
        if step.kind == "embedding":
            messages = read_messages(step.json("gen_ai.input.messages"), "user")
            return messages[0].text if len(messages) == 1 else None
        return None

    def tool(self, step: Step) -> Tool | None:
        """`gen_ai.tool.*` of a tool span."""
        if step.kind != "tool":
            return None
        a = step.span.attributes
        name = a.get("gen_ai.tool.name")
        if not isinstance(name, str):
            name = step.span.name.removeprefix("execute_tool ") or None
        call_id = a.get("gen_ai.tool.call.id")
        return Tool(
            name,
            a.get("gen_ai.tool.call.arguments"),
            _unscrubbed(step.json("gen_ai.tool.call.result")),
            call_id if isinstance(call_id, str) else None,
        )

    def input(self, step: Step) -> Any:
        """The last user message a workflow or agent was given; a dict written as text is parsed."""
        if step.kind not in {"agent", "chain"}:
            return None
        messages = self.input_messages(step) or ()
        text = next((m.text for m in reversed(messages) if m.role == "user" and m.text), None)
        return structured(text) if text and text[:1] == "{" else text

    def output(self, step: Step) -> Any:
        """The last assistant text of a workflow or agent."""
        if step.kind not in {"agent", "chain"}:
            return None
        messages = self.output_messages(step) or ()
        return next((m.text for m in reversed(messages) if m.role == "assistant" and m.text), None)

    def variables(self, step: Step) -> Any:
        """`gen_ai.prompt.variable.<name>`."""
        names = step.shape.below("gen_ai.prompt.variable.")
        return {name: step.span.attributes[key] for name, key in names} or None


def _unscrubbed(value: Any) -> Any:
    """None for a value that logfire replaced; the messages of the next call still hold it."""
    return None if isinstance(value, str) and value.startswith("[Scrubbed due to") else value


def _system(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        text, _, _ = read_parts(value)
        return text or "\n".join(m.text for m in read_messages(value, "system") if m.text)
    return ""


def _flat(step: Step, prefix: str, default_role: str) -> tuple[ChatMessage, ...]:
    """`gen_ai.prompt.N.*` and `gen_ai.completion.N.*`, older OpenLLMetry."""
    a = step.span.attributes
    if prefix + "0.role" not in a and prefix + "0.content" not in a and prefix + "1.content" not in a:
        return ()
    messages = []
    for group in step.numbered(prefix):
        role = role_of(group.get("role")) or default_role
        content = group.get("content")
        parsed = structured(content) if isinstance(content, str) and content[:2] in ("[{", "[]") else content
        text, uses, results = read_parts(parsed)
        if not text and isinstance(content, str) and not uses and not results:
            text = content
        for _, call in indexed(group, "tool_calls."):
            name, call_id = call.get("name"), call.get("id")
            uses = (
                *uses,
                ToolUse(
                    call_id if isinstance(call_id, str) else None,
                    name if isinstance(name, str) else None,
                    text_of(call.get("arguments")),
                ),
            )
        if role == "tool":
            call_id = group.get("tool_call_id")
            results = (ToolResult(call_id if isinstance(call_id, str) else None, None, content),)
            text = ""
        messages.append(ChatMessage(role, text, uses, results))
    return tuple(messages)


def _events(step: Step) -> Iterator[tuple[str, Any, Attributes]]:
    records = sorted(step.span.logs, key=lambda r: r.time) if len(step.span.logs) > 1 else step.span.logs
    before: LogRecord | None = None
    for record in records:
        if record.time and record == before:
            continue  # sent twice
        before = record
        name = record.event_name or record.attributes.get("event.name") or ""
        yield str(name), record.body, record.attributes
    for event in step.span.events:
        yield event.name, None, event.attributes


def _input_events(step: Step) -> Iterator[ChatMessage]:
    for name, body, attributes in _events(step):
        if name == _DETAILS or "gen_ai.input.messages" in attributes:
            system = _system(structured(attributes.get("gen_ai.system_instructions")))
            if system:
                yield ChatMessage("system", system)
            if attributes.get("gen_ai.input.messages"):  # Strands Agents write one such event for each attribute
                yield from read_messages(attributes["gen_ai.input.messages"], "user")
                return
        if name == "gen_ai.content.prompt":
            yield from read_messages(attributes.get("gen_ai.prompt"), "user")
        elif name in _EVENT_ROLES:
            yield from _event_message(_EVENT_ROLES[name], body, attributes)


def _event_message(role: str, body: Any, attributes: Attributes) -> Iterator[ChatMessage]:
    content = _content(body, attributes)
    if isinstance(content, str):
        yield ChatMessage(role, content)
    elif isinstance(content, dict):
        message = read_message({**content, "role": role})
        if message is not None:
            yield message


def _content(body: Any, attributes: Attributes) -> Any:
    """What an event says: its body, else its attributes, one of which may hold all of it as JSON text."""
    content = structured(body) if body is not None else dict(attributes)
    inner = content.get("gen_ai.event.content") if isinstance(content, dict) else None
    if isinstance(inner, str):
        parsed = structured(inner)
        return parsed if isinstance(parsed, dict) else {"content": inner}
    if isinstance(content, dict):
        for key in ("content", "message"):
            inner = content.get(key)
            if isinstance(inner, str) and inner[:2] == "[{":  # Strands Agents write Bedrock's parts as JSON text
                return {**content, "content": structured(inner)}
    return content


def _output_events(step: Step) -> Iterator[ChatMessage]:
    for name, body, attributes in _events(step):
        if attributes.get("gen_ai.output.messages"):
            yield from read_messages(attributes["gen_ai.output.messages"], "assistant")
            return
        if name == "gen_ai.content.completion":
            yield from read_messages(attributes.get("gen_ai.completion"), "assistant")
        elif name == "gen_ai.choice":
            content = _content(body, attributes)
            if isinstance(content, dict):
                message = content.get("message")
                message = structured(message) if isinstance(message, str) else message
                if isinstance(message, dict):
                    yield from _event_message("assistant", message, {})
                else:
                    yield from _event_message("assistant", content, {})
