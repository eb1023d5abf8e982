"""Normalise: OpenInference (LangChain, LlamaIndex, OpenAI, OpenAI Agents, Haystack, DSPy, Google ADK instrumentations).

The span's role is `openinference.span.kind`; lists are flattened into indexed keys.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from otel_drift.model import Attributes
from otel_drift.normalise.attached import BLOCKS, attached
from otel_drift.normalise.document_fields import document_from_flat
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.haystack_reprs import is_agent_run, printed_messages
from otel_drift.normalise.messages import read_answer, read_messages, read_parts, role_of
from otel_drift.normalise.names import (
    NOT_ASKED,
    QUESTION_KEYS,
    SESSION_DELIBERATE,
    SESSION_THREAD,
    indexed,
    leaves,
    session_in,
)
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import ChatMessage, Document, Kind, Step, Tool, ToolResult, ToolUse
from otel_drift.normalise.values import fold, load, structured, text_of

_KINDS: dict[str, Kind] = {
    "LLM": "llm",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "TOOL": "tool",
    "EMBEDDING": "embedding",
    "AGENT": "agent",
    "CHAIN": "chain",
    "PROMPT": "chain",
    "GUARDRAIL": "chain",
    "EVALUATOR": "chain",
}


class OpenInference(Reader):
    """Spans that carry `openinference.span.kind` or OpenInference's indexed keys."""

    name = "openinference"
    facts: ClassVar = {
        "model": ("llm.model_name",),
        "prompt_name": ("llm.prompt_template.name", "prompt.id"),
        "prompt_version": ("llm.prompt_template.version",),
        "tags": ("tag.tags",),
        "project": (),
    }
    needs: ClassVar = {"variables": "llm.prompt_template.variables", "candidates": "reranker.input_documents."}

    def kind(self, step: Step) -> Kind:
        """From the span kind attribute; the indexed keys alone do not make an LLM call."""
        a = step.span.attributes
        declared = a.get("openinference.span.kind")
        if isinstance(declared, str):
            kind = _KINDS.get(declared.upper(), "chain")
            if kind == "chain" and is_agent_run(a):
                return "llm"
            if kind == "llm" and not _is_call(a):
                return "chain"
            if kind == "retriever" and "llm.model_name" in a:
                return "llm"  # it answers from what it retrieves (Bedrock's RetrieveAndGenerate)
            return kind
        return "llm" if "llm.input_messages.0.message.role" in a else "chain"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """`session.id`."""
        return [(SESSION_DELIBERATE, "session.id")]

    def nested_session(self, a: Attributes) -> tuple[int, str] | None:
        """A thread id in the metadata."""
        metadata = a.get("metadata")
        if isinstance(metadata, str) and (
            "session" in metadata or "thread_id" in metadata or "conversation" in metadata
        ):
            details, _ = load(metadata)
            if isinstance(details, dict):
                found = session_in(details)
                return (SESSION_THREAD, found) if found else None
        return None

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """`llm.input_messages.N.message.*`; else `llm.prompts`, else what `input.value` holds."""
        a = step.span.attributes
        found = _messages(step, "llm.input_messages.", "user")
        if found:
            return found
        if step.kind != "llm":
            return None
        if is_agent_run(a):
            return printed_messages(self.output(step))[:-1] or None
        prompts = a.get("llm.prompts")
        if isinstance(prompts, list | tuple):
            return tuple(ChatMessage("user", p) for p in prompts if isinstance(p, str))
        flat = step.numbered("llm.prompts.")
        if flat:
            texts = [next((v for v in group.values() if isinstance(v, str)), "") for group in flat]
            return tuple(ChatMessage("user", text) for text in texts if text)
        return read_messages(self.input(step), "user") or None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """`llm.output_messages.N.message.*`; else what `output.value` holds."""
        found = _messages(step, "llm.output_messages.", "assistant")
        if found:
            return found
        if step.kind != "llm":
            return None
        if is_agent_run(step.span.attributes):
            return printed_messages(self.output(step))[-1:] or None
        value = self.output(step)
        if isinstance(value, str):
            return (ChatMessage("assistant", value.removeprefix("assistant: ")),) if value.strip() else None
        return read_answer(value) or None

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """Indexed documents, completed from `output.value` (LangChain's ids are only there)."""
        a = step.span.attributes
        if step.kind == "reranker":
            found = _documents(step, "reranker.output_documents.")
            return found if found else read_documents(self.output(step), strings=True)
        if step.kind == "retriever":
            found = _documents(step, "retrieval.documents.")
            if not found:
                output = self.output(step)
                if output is None and "input.value" in a and not step.failed:
                    return ()  # the flattened form of an empty list is no key at all
                return read_documents(output, strings=True)
            if all(d.id for d in found):
                return found
            return _completed(found, read_documents(self.output(step)) or ())
        if step.kind == "llm":
            return _documents(step, "retrieval.documents.") or None
        return None

    def candidates(self, step: Step) -> tuple[Document, ...] | None:
        """What a reranker was given."""
        return _documents(step, "reranker.input_documents.") or None

    def query(self, step: Step) -> str | None:
        """The query of a retriever, reranker or embedding."""
        a = step.span.attributes
        if step.kind == "reranker":
            value = a.get("reranker.query")
            return value if isinstance(value, str) else None
        if step.kind == "embedding":
            value = a.get("embedding.embeddings.0.embedding.text")
            if isinstance(value, str) and "embedding.embeddings.1.embedding.text" not in a:
                return value
        if step.kind in {"retriever", "embedding"}:
            value = self.input(step)
            if isinstance(value, str):
                return value
            return next(iter(leaves(value, QUESTION_KEYS, NOT_ASKED)), None)
        return None

    def tool(self, step: Step) -> Tool | None:
        """`tool.name`, input and output of a TOOL span."""
        if step.kind != "tool":
            return None
        a = step.span.attributes
        name = a.get("tool.name") or a.get("tool_call.function.name")
        arguments = a.get("tool_call.function.arguments") or a.get("input.value") or a.get("tool.parameters")
        return Tool(name if isinstance(name, str) else step.span.name, arguments, self.output(step))

    def input(self, step: Step) -> Any:
        """`input.value`: parsed where it is JSON."""
        return _value(step, "input.value")

    def output(self, step: Step) -> Any:
        """`output.value`: parsed where it is JSON."""
        return _value(step, "output.value")

    def variables(self, step: Step) -> Any:
        """`llm.prompt_template.variables`."""
        return step.json("llm.prompt_template.variables")

    def fact(self, step: Step, name: str) -> Any:
        """Model, prompt name and version, tags; the project is the resource's."""
        if name == "project":
            return step.span.resource.get("openinference.project.name")
        return super().fact(step, name)


def _is_call(a: Attributes) -> bool:
    """Whether an LLM span is a model call: some frameworks mark their own methods as LLM."""
    return (
        "llm.model_name" in a
        or "llm.invocation_parameters" in a
        or "llm.input_messages.0.message.role" in a
        or "llm.output_messages.0.message.role" in a
        or "llm.prompts" in a
        or "llm.token_count.total" in a
        or "llm.provider" in a
        or ("llm.system" in a)
    )


def _value(step: Step, key: str) -> Any:
    value = step.span.attributes.get(key)
    if not isinstance(value, str):
        return value
    kind = step.span.attributes.get(key[: key.index(".")] + ".mime_type")
    if kind == "application/json" or value[:1] in ("[", "{"):
        return step.json(key)
    return value


def _messages(step: Step, prefix: str, default_role: str) -> tuple[ChatMessage, ...] | None:
    a = step.span.attributes
    messages = []
    for member in step.shape.numbered(prefix):
        if len(member) == 2 and member[0][0] == "message.role" and member[1][0] == "message.content":
            role, content = role_of(a[member[0][1]]) or default_role, a[member[1][1]]
            if isinstance(content, str) and role != "tool" and content[:14] != _CALLING:
                messages.append(ChatMessage(role, content))
                continue
        messages.append(_message({rest: a[key] for rest, key in member}, default_role))
    return tuple(messages) or None


_CALLING = "Calling tools:"
"""How smolagents begins the text that stands for tool calls in its memory."""


def _message(group: dict[str, Any], default_role: str) -> ChatMessage:
    role = role_of(group.get("message.role")) or default_role
    content = group.get("message.content")
    if len(group) <= 2 and isinstance(content, str) and role != "tool" and content[:14] != _CALLING:
        return ChatMessage(role, content)
    text = content if isinstance(content, str) else ""
    uses: list[ToolUse] = []
    results: list[ToolResult] = []
    parts: list[str] = []
    blocks: list[Any] = []
    for _, part in indexed(group, "message.contents."):
        piece = part.get("message_content.text")
        if isinstance(piece, str) and part.get("message_content.type") in BLOCKS and piece[:1] == "{":
            blocks.append(structured(piece))
        elif isinstance(piece, str) and part.get("message_content.type") not in ("reasoning", "thinking"):
            parts.append(piece)
        elif part.get("message_content.type") in ("tool_use", "tool_call"):
            uses.append(_use(part, "message_content."))
    text = text or "\n".join(parts)
    if role == "assistant" and text.startswith(_CALLING):
        calls = structured(text.partition(":")[2].strip())
        if isinstance(calls, list):
            return ChatMessage(
                role, "", read_parts([{**c, "type": "tool_call"} for c in calls if isinstance(c, dict)])[1]
            )
    uses.extend(_use(call, "tool_call.") for _, call in indexed(group, "message.tool_calls."))
    name = group.get("message.function_call_name")
    if isinstance(name, str) and name:
        uses.append(ToolUse(None, name, text_of(group.get("message.function_call_arguments_json"))))
    if role == "tool":
        call_id, tool = group.get("message.tool_call_id"), group.get("message.name")
        results.append(
            ToolResult(call_id if isinstance(call_id, str) else None, tool if isinstance(tool, str) else None, text)
        )
        text = ""
    return ChatMessage(role, text, tuple(uses), tuple(results), attached(blocks))


def _use(call: dict[str, Any], prefix: str) -> ToolUse:
    name = call.get(prefix + "function.name") or call.get(prefix + "name")
    arguments = call.get(prefix + "function.arguments") or call.get(prefix + "arguments")
    call_id = call.get(prefix + "id")
    return ToolUse(
        call_id if isinstance(call_id, str) else None, name if isinstance(name, str) else None, text_of(arguments)
    )


def _documents(step: Step, prefix: str) -> tuple[Document, ...]:
    return tuple(
        document_from_flat(
            group.get("document.id"),
            group.get("document.content"),
            group.get("document.score"),
            group.get("document.metadata"),
        )
        for group in step.numbered(prefix)
    )


def _completed(found: tuple[Document, ...], whole: tuple[Document, ...]) -> tuple[Document, ...]:
    """Give `found` the ids that the serialised documents hold, by text, else by place."""
    by_text = {fold(d.text): d for d in whole if d.text}
    same_length = len(found) == len(whole)
    completed = []
    for index, item in enumerate(found):
        other = by_text.get(fold(item.text)) if item.text else None
        if other is None and same_length and not whole[index].text:
            other = whole[index]
        if other is not None and other.id:
            item = Document(
                other.id,
                item.text,
                item.score if item.score is not None else other.score,
                item.title or other.title,
                item.source or other.source,
                item.author or other.author,
                item.date or other.date,
                item.document_type or other.document_type,
            )
        completed.append(item)
    return tuple(completed)
