"""Conventions and shapes beside the given captures: the same small conversation, written the way each of them does."""
# ruff: noqa: E501 - prompts and messages stay on the line they are sent on

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from otel_drift.model import Session
from otel_drift.normalise.names import scalar
from spans import Trace, evidence, one, said

TALK = [
    ("When do you open?", "We open at nine, usually.", [("open-1", "The shop usually opens at nine."), ("open-2", "On Sundays it is closed.")]),
    ("And on Sunday?", "It is closed on Sundays.", [("open-2", "On Sundays it is closed.")]),
    ("Do you sell tea?", "Yes, green and black tea.", [("tea-1", 'We sell "green" tea:\n black tea too — in tins.')]),
]  # fmt: skip
SYSTEM = "You are a shop's assistant."


def history(k: int) -> list[dict[str, Any]]:
    """OpenAI-style messages before turn k (0-based)."""
    return [m for q, a, _ in TALK[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]


def tool_history(k: int) -> list[dict[str, Any]]:
    """The same with the tool calls of the earlier turns resent."""
    messages: list[dict[str, Any]] = []
    for i, (q, a, docs) in enumerate(TALK[:k]):
        messages += [
            {"role": "user", "content": q},
            {"role": "assistant", "content": None, "tool_calls": [call(i)]},
            {"role": "tool", "tool_call_id": f"call{i}", "content": results(docs)},
            {"role": "assistant", "content": a},
        ]
    return messages


def call(k: int) -> dict[str, Any]:
    arguments = json.dumps({"query": TALK[k][0].lower()})
    return {"id": f"call{k}", "type": "function", "function": {"name": "search_kb", "arguments": arguments}}


def results(docs: list[tuple[str, str]], **names: str) -> str:
    id_key, text_key = names.get("id", "id"), names.get("text", "text")
    return json.dumps([{id_key: i, text_key: t, "score": 0.5} for i, t in docs])


def flat(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """OpenInference's indexed message keys."""
    out: dict[str, Any] = {}
    for i, m in enumerate(messages):
        base = f"{prefix}.{i}.message."
        out[base + "role"] = m["role"]
        if m.get("content") is not None:
            out[base + "content"] = m["content"]
        if m.get("tool_call_id"):
            out[base + "tool_call_id"] = m["tool_call_id"]
        for j, c in enumerate(m.get("tool_calls", [])):
            out[base + f"tool_calls.{j}.tool_call.id"] = c["id"]
            out[base + f"tool_calls.{j}.tool_call.function.name"] = c["function"]["name"]
            out[base + f"tool_calls.{j}.tool_call.function.arguments"] = c["function"]["arguments"]
    return out


def parts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages of the current GenAI conventions."""
    out = []
    for m in messages:
        if m.get("tool_calls"):
            c = m["tool_calls"][0]
            body = [
                {
                    "type": "tool_call",
                    "id": c["id"],
                    "name": c["function"]["name"],
                    "arguments": json.loads(c["function"]["arguments"]),
                }
            ]
        elif m["role"] == "tool":
            body = [{"type": "tool_call_response", "id": m["tool_call_id"], "response": m["content"]}]
        else:
            body = [{"type": "text", "content": m["content"]}]
        out.append({"role": m["role"], "parts": body})
    return out


def listed(docs: list[tuple[str, str]]) -> str:
    return "\n".join(f"[{i}] {t}" for i, t in docs)


def old_openllmetry(k: int) -> Trace:
    """`gen_ai.prompt.N` and `gen_ai.completion.N`, passages in the system message."""
    t = Trace(k * 100.0, scope="opentelemetry.instrumentation.openai.v1")
    q, a, docs = TALK[k]
    messages = [
        {"role": "system", "content": "Use the passages below.\n\n" + listed(docs)},
        *history(k),
        {"role": "user", "content": q},
    ]
    attributes: dict[str, Any] = {"llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.request.model": "m"}
    for i, m in enumerate(messages):
        attributes[f"gen_ai.prompt.{i}.role"] = m["role"]
        attributes[f"gen_ai.prompt.{i}.content"] = m["content"]
    attributes |= {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": a}
    attributes["traceloop.association.properties.chatSessionId"] = "s1"
    t.add("openai.chat", attributes)
    return t


def old_openllmetry_tools(k: int) -> Trace:
    """The same with tool calls in the indexed keys."""
    t = Trace(k * 100.0, scope="opentelemetry.instrumentation.openai.v1")
    q, a, docs = TALK[k]
    first = [*tool_history(k), {"role": "user", "content": q}]
    second = [
        *first,
        {"role": "assistant", "content": None, "tool_calls": [call(k)]},
        {"role": "tool", "tool_call_id": f"call{k}", "content": results(docs)},
    ]
    root = t.add(
        "turn.workflow",
        {"traceloop.span.kind": "workflow", "traceloop.association.properties.session_id": "s1"},
        lasts=5,
    )
    for messages, answer in ((first, None), (second, a)):
        attributes: dict[str, Any] = {
            "llm.request.type": "chat",
            "gen_ai.system": "OpenAI",
            "gen_ai.request.model": "m",
        }
        for i, m in enumerate(messages):
            attributes[f"gen_ai.prompt.{i}.role"] = m["role"]
            if m.get("content") is not None:
                attributes[f"gen_ai.prompt.{i}.content"] = m["content"]
            if m.get("tool_call_id"):
                attributes[f"gen_ai.prompt.{i}.tool_call_id"] = m["tool_call_id"]
            for j, c in enumerate(m.get("tool_calls", [])):
                attributes |= {
                    f"gen_ai.prompt.{i}.tool_calls.{j}.id": c["id"],
                    f"gen_ai.prompt.{i}.tool_calls.{j}.name": c["function"]["name"],
                    f"gen_ai.prompt.{i}.tool_calls.{j}.arguments": c["function"]["arguments"],
                }
        if answer:
            attributes |= {
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": answer,
                "gen_ai.completion.0.finish_reason": "stop",
            }
        else:
            c = call(k)
            attributes |= {
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.finish_reason": "tool_calls",
                "gen_ai.completion.0.tool_calls.0.id": c["id"],
                "gen_ai.completion.0.tool_calls.0.name": c["function"]["name"],
                "gen_ai.completion.0.tool_calls.0.arguments": c["function"]["arguments"],
            }
        t.add("openai.chat", attributes, root)
    return t


def langgraph_plain(k: int) -> Trace:
    """OpenInference over LangGraph without a retriever span: passages only in the tool's serialised message."""
    t = Trace(k * 100.0, scope="openinference.instrumentation.langchain")
    q, a, docs = TALK[k]
    thread = {"metadata": json.dumps({"thread_id": "s1", "langgraph_step": 1})}
    everything = [
        {
            "type": "human" if m["role"] == "user" else "ai" if m["role"] == "assistant" else "tool",
            "data": {"content": m["content"] or ""},
        }
        for m in [*tool_history(k + 1)]
    ]
    root = t.add(
        "LangGraph",
        {
            "openinference.span.kind": "CHAIN",
            "input.value": json.dumps({"messages": [{"type": "human", "data": {"content": q}}]}),
            "input.mime_type": "application/json",
            "output.value": json.dumps({"messages": everything}),
            "output.mime_type": "application/json",
            **thread,
        },
        lasts=9,
    )
    first = [*tool_history(k), {"role": "user", "content": q}]
    model = t.add(
        "model", {"openinference.span.kind": "CHAIN", **flat("llm.input_messages", first), **thread}, root, lasts=1
    )
    t.add(
        "ChatOpenAI",
        {
            "openinference.span.kind": "LLM", "llm.model_name": "m", **flat("llm.input_messages", first),
            **flat("llm.output_messages", [{"role": "assistant", "content": None, "tool_calls": [call(k)]}]), **thread,
        },
        model,
    )  # fmt: skip
    t.add(
        "search_kb",
        {
            "openinference.span.kind": "TOOL", "tool.name": "search_kb", "input.value": "{'query': 'x'}",
            "output.value": json.dumps({"type": "tool", "data": {"content": results(docs), "tool_call_id": f"call{k}"}}),
            "output.mime_type": "application/json", **thread,
        },
        root,
    )  # fmt: skip
    second = [
        *first,
        {"role": "assistant", "content": None, "tool_calls": [call(k)]},
        {"role": "tool", "tool_call_id": f"call{k}", "content": results(docs)},
    ]
    t.add(
        "ChatOpenAI",
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            **flat("llm.input_messages", second),
            **flat("llm.output_messages", [{"role": "assistant", "content": a}]),
            **thread,
        },
        root,
    )
    return t


def dspy(k: int) -> Trace:
    """DSPy: field markers around question and answer, documents without ids."""
    t = Trace(k * 100.0, scope="openinference.instrumentation.dspy")
    q, a, docs = TALK[k]
    session = {"session.id": "s1"}
    root = t.add(
        "RAG.forward",
        {
            "openinference.span.kind": "CHAIN", "input.value": json.dumps({"question": q, "history": repr(history(k))}),
            "input.mime_type": "application/json", "output.value": json.dumps({"reasoning": "because", "response": a}),
            "output.mime_type": "application/json", **session,
        },
        lasts=9,
    )  # fmt: skip
    found = {f"retrieval.documents.{i}.document.content": text for i, (_, text) in enumerate(docs)}
    t.add(
        "Retrieve.forward",
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": json.dumps({"query": q}),
            "input.mime_type": "application/json",
            **found,
            **session,
        },
        root,
    )
    context = "\n".join(f"[{i + 1}] «{text}»" for i, (_, text) in enumerate(docs))
    asked = f"[[ ## context ## ]]\n{context}\n\n[[ ## question ## ]]\n{q}\n\nRespond with the corresponding output fields, starting with the field `[[ ## reasoning ## ]]`."
    answer = f"[[ ## reasoning ## ]]\nbecause\n\n[[ ## response ## ]]\n{a}\n\n[[ ## completed ## ]]"
    t.add(
        "LM.__call__",
        {
            "openinference.span.kind": "LLM", "llm.model_name": "m", **session,
            **flat("llm.input_messages", [{"role": "system", "content": "Your input fields are: context, question."}, {"role": "user", "content": asked}]),
            **flat("llm.output_messages", [{"role": "assistant", "content": answer}]),
        },
        root,
    )  # fmt: skip
    return t


def contents(k: int) -> Trace:
    """OpenInference multi-part contents on Google ADK's own spans: one span, two conventions."""
    t = Trace(k * 100.0, scope="gcp.vertex.agent")
    q, a, docs = TALK[k]
    ids = {"session.id": "s1", "gen_ai.conversation.id": "s1", "user.id": "u"}
    root = t.add("invocation [app]", {"openinference.span.kind": "CHAIN", **ids}, lasts=9)

    def of(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        out = flat(prefix, [{**m, "content": None} for m in messages])
        for i, m in enumerate(messages):
            if m.get("content") is not None:
                out[f"{prefix}.{i}.message.contents.0.message_content.type"] = "text"
                out[f"{prefix}.{i}.message.contents.0.message_content.text"] = m["content"]
        return out

    common = {
        "openinference.span.kind": "LLM",
        "gen_ai.operation.name": "generate_content",
        "llm.model_name": "m",
        **ids,
    }
    first = [{"role": "system", "content": SYSTEM}, *history(k), {"role": "user", "content": q}]
    t.add(
        "generate_content m",
        {
            **common,
            **of("llm.input_messages", first),
            **of("llm.output_messages", [{"role": "model", "content": None, "tool_calls": [call(k)]}]),
        },
        root,
    )
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "search_kb",
        "input.value": '{"query": "x"}',
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search_kb",
    }
    t.add(
        "execute_tool search_kb",
        {
            **tool,
            "output.value": json.dumps(
                {"id": f"call{k}", "name": "search_kb", "response": {"result": json.loads(results(docs))}}
            ),
            "output.mime_type": "application/json",
            **ids,
        },
        root,
    )
    second = [
        *first,
        {"role": "model", "content": None, "tool_calls": [call(k)]},
        {"role": "tool", "content": results(docs)},
    ]
    t.add(
        "generate_content m",
        {**common, **of("llm.input_messages", second), **of("llm.output_messages", [{"role": "model", "content": a}])},
        root,
    )
    return t


def events_only(k: int) -> Trace:
    """EVENT_ONLY: content as arrays in log records, the workflow and retrieval spans bare."""
    t = Trace(k * 100.0, scope="opentelemetry.instrumentation.genai.openai")
    q, a, docs = TALK[k]
    root = t.add(
        "invoke_workflow rag", {"gen_ai.operation.name": "invoke_workflow", "gen_ai.conversation.id": "s1"}, lasts=9
    )
    t.add("retrieval kb", {"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "kb"}, root)
    given = parts(
        [{"role": "system", "content": "Passages:\n" + listed(docs)}, *history(k), {"role": "user", "content": q}]
    )
    content = {"gen_ai.input.messages": given, "gen_ai.output.messages": parts([{"role": "assistant", "content": a}])}
    t.add(
        "chat m",
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.conversation.id": "s1"},
        root,
        logs=[("gen_ai.client.inference.operation.details", None, content)],
    )
    return t


def span_events(k: int) -> Trace:
    """Content in span events, as early versions of the conventions had it."""
    t = Trace(k * 100.0)
    q, a, docs = TALK[k]
    prompt = [{"role": "system", "content": "Context:\n" + listed(docs)}, *history(k), {"role": "user", "content": q}]
    root = t.add("POST /chat", {"http.request.method": "POST", "conversation_id": "s1"}, lasts=5)
    t.add(
        "chat m",
        {"gen_ai.system": "openai", "gen_ai.request.model": "m"},
        root,
        events=[
            ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(prompt)}),
            ("gen_ai.content.completion", {"gen_ai.completion": json.dumps([{"role": "assistant", "content": a}])}),
        ],
    )
    return t


def azure_events(k: int) -> Trace:
    """One span event a message, its content as JSON text."""
    t = Trace(k * 100.0)
    q, a, docs = TALK[k]
    prompt = [{"role": "system", "content": "Context:\n" + listed(docs)}, *history(k), {"role": "user", "content": q}]
    names = {"system": "gen_ai.system.message", "user": "gen_ai.user.message", "assistant": "gen_ai.assistant.message"}
    events = [(names[m["role"]], {"gen_ai.event.content": json.dumps(m)}) for m in prompt]
    events.append(
        (
            "gen_ai.choice",
            {"gen_ai.event.content": json.dumps({"message": {"content": a}, "finish_reason": "stop", "index": 0})},
        )
    )
    t.add(
        "chat m",
        {"gen_ai.operation.name": "chat", "gen_ai.system": "az.ai.inference", "session.id": "s1"},
        events=events,
    )
    return t


def semconv_agent(k: int) -> Trace:
    """An agent after the current conventions: tool results both on the tool span and resent in later turns."""
    t = Trace(k * 100.0)
    q, a, docs = TALK[k]
    conversation = {"gen_ai.conversation.id": "s1"}
    root = t.add("invoke_agent shop", {"gen_ai.operation.name": "invoke_agent", **conversation}, lasts=9)
    first = [*tool_history(k), {"role": "user", "content": q}]
    second = [
        *first,
        {"role": "assistant", "content": None, "tool_calls": [call(k)]},
        {"role": "tool", "tool_call_id": f"call{k}", "content": results(docs)},
    ]
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": SYSTEM}]),
    }
    t.add(
        "chat m",
        {
            **chat,
            "gen_ai.input.messages": json.dumps(parts(first)),
            "gen_ai.output.messages": json.dumps(parts(second[-2:-1])),
            **conversation,
        },
        root,
    )
    t.add(
        "execute_tool search_kb",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search_kb",
            "gen_ai.tool.call.id": f"call{k}",
            "gen_ai.tool.call.result": results(docs),
        },
        root,
    )
    t.add(
        "chat m",
        {
            **chat,
            "gen_ai.input.messages": json.dumps(parts(second)),
            "gen_ai.output.messages": json.dumps(parts([{"role": "assistant", "content": a}])),
            **conversation,
        },
        root,
    )
    return t


def langfuse_v3(k: int) -> Trace:
    """Langfuse with a trace-level input and output and a generation in between."""
    t = Trace(k * 100.0, scope="langfuse-sdk")
    q, a, docs = TALK[k]
    root = t.add(
        "chat",
        {
            "langfuse.observation.type": "agent", "langfuse.session.id": "s1", "langfuse.trace.name": "chat",
            "langfuse.observation.input": json.dumps({"question": q}), "langfuse.observation.output": json.dumps({"answer": a, "sources": [i for i, _ in docs]}),
        },
        lasts=9,
    )  # fmt: skip
    t.add(
        "retrieve",
        {
            "langfuse.observation.type": "retriever",
            "langfuse.observation.input": q,
            "langfuse.observation.output": json.dumps(
                {"matches": [{"id": i, "score": 0.4, "metadata": {"text": x}} for i, x in docs]}
            ),
        },
        root,
    )
    prompt = [{"role": "user", "content": f"Context:\n{listed(docs)}\n\nQuestion: {q}\nAnswer:"}]
    t.add(
        "llm",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": json.dumps(prompt),
            "langfuse.observation.output": json.dumps({"answer": a, "sources": [1]}),
        },
        root,
    )
    return t


def mlflow_spans(k: int) -> Trace:
    """MLflow: every attribute value is JSON text."""
    t = Trace(k * 100.0, scope="mlflow")
    q, a, docs = TALK[k]
    root = t.add(
        "turn",
        {
            "mlflow.spanType": '"AGENT"',
            "mlflow.spanInputs": json.dumps({"message": q}),
            "mlflow.spanOutputs": json.dumps(a),
            "mlflow.trace.session": "s1",
        },
        lasts=9,
    )
    t.add(
        "retrieve",
        {
            "mlflow.spanType": '"RETRIEVER"',
            "mlflow.spanInputs": json.dumps({"q": q}),
            "mlflow.spanOutputs": json.dumps(
                [{"page_content": x, "metadata": {"doc_uri": "u"}, "id": i} for i, x in docs]
            ),
        },
        root,
    )
    t.add(
        "ChatModel",
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": json.dumps({"messages": [*history(k), {"role": "user", "content": q}]}),
            "mlflow.spanOutputs": json.dumps({"choices": [{"message": {"role": "assistant", "content": a}}]}),
        },
        root,
    )
    return t


def traceloop_agent(k: int) -> Trace:
    """OpenLLMetry over LangGraph: a tool span with JSON arguments and results of callbacks."""
    t = Trace(k * 100.0, scope="opentelemetry.instrumentation.langchain")
    q, a, docs = TALK[k]
    ids = {"traceloop.association.properties.thread_id": "s1", "traceloop.association.properties.langgraph_step": 2}
    root = t.add(
        "invoke_agent LangGraph",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "s1", **ids},
        lasts=9,
    )
    flow = t.add(
        "LangGraph.workflow",
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": json.dumps(
                {
                    "inputs": {
                        "messages": [
                            {
                                "lc": 1,
                                "type": "constructor",
                                "id": ["langchain", "schema", "messages", "HumanMessage"],
                                "kwargs": {"content": q},
                            }
                        ]
                    }
                }
            ),
            **ids,
        },
        root,
        lasts=8,
    )
    first = [*tool_history(k), {"role": "user", "content": q}]
    second = [
        *first,
        {"role": "assistant", "content": None, "tool_calls": [call(k)]},
        {"role": "tool", "tool_call_id": f"call{k}", "content": results(docs)},
    ]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **ids}
    t.add(
        "ChatOpenAI.chat",
        {
            **chat,
            "gen_ai.input.messages": json.dumps(parts(first)),
            "gen_ai.output.messages": json.dumps(parts(second[-2:-1])),
        },
        flow,
    )
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "ToolMessage"],
        "kwargs": {"content": results(docs), "type": "tool", "tool_call_id": f"call{k}"},
    }
    t.add(
        "execute_tool search_kb",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search_kb",
            "gen_ai.tool.call.result": json.dumps({"output": message}),
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "search_kb",
            **ids,
        },
        flow,
    )
    t.add(
        "ChatOpenAI.chat",
        {
            **chat,
            "gen_ai.input.messages": json.dumps(parts(second)),
            "gen_ai.output.messages": json.dumps(parts([{"role": "assistant", "content": a}])),
        },
        flow,
    )
    return t


def responses_items(k: int) -> Trace:
    """OpenAI Responses items as the input, with a flat function call and its output."""
    t = Trace(k * 100.0, scope="langfuse-sdk")
    q, a, docs = TALK[k]
    items = [
        *history(k),
        {"role": "user", "content": [{"type": "input_text", "text": q}]},
        {"type": "function_call", "call_id": f"call{k}", "name": "search_kb", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"call{k}", "output": results(docs)},
    ]
    output = [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": a}]},
    ]
    t.add(
        "generation",
        {
            "langfuse.observation.type": "generation",
            "session.id": "s1",
            "langfuse.observation.input": json.dumps(items),
            "langfuse.observation.output": json.dumps(output),
        },
    )
    return t


def unknown_genai(k: int) -> Trace:
    """An instrumentation nobody knows that writes what the conventions say."""
    t = Trace(k * 100.0, scope="com.example.llm")
    q, a, docs = TALK[k]
    root = t.add("handle", {"app.session_id": "s1"}, lasts=9)
    t.add(
        "kb.search",
        {"kb.query": q, "kb.documents": json.dumps([{"chunk_id": i, "chunk": x, "similarity": 0.3} for i, x in docs])},
        root,
    )
    t.add(
        "llm",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(parts([*history(k), {"role": "user", "content": q}])),
            "gen_ai.output.messages": json.dumps(parts([{"role": "assistant", "content": a}])),
        },
        root,
    )
    return t


def langsmith(k: int) -> Trace:
    """LangSmith's exporter: JSON in `gen_ai.prompt` and `gen_ai.completion` of every span."""
    t = Trace(k * 100.0, scope="langsmith")
    q, a, docs = TALK[k]
    ids = {"langsmith.metadata.conversation_id": "s1"}
    root = t.add(
        "chat",
        {
            "langsmith.span.kind": "chain",
            "gen_ai.prompt": json.dumps({"question": q}),
            "gen_ai.completion": json.dumps({"output": a}),
            **ids,
        },
        lasts=9,
    )
    found = [{"page_content": x, "metadata": {"id": i}, "type": "Document"} for i, x in docs]
    t.add(
        "retriever",
        {
            "langsmith.span.kind": "retriever",
            "gen_ai.prompt": json.dumps({"query": q}),
            "gen_ai.completion": json.dumps({"documents": found}),
            **ids,
        },
        root,
    )
    t.add(
        "model",
        {
            "langsmith.span.kind": "llm",
            "gen_ai.prompt": json.dumps({"messages": [*history(k), {"role": "user", "content": q}]}),
            "gen_ai.completion": json.dumps({"choices": [{"message": {"role": "assistant", "content": a}}]}),
            **ids,
        },
        root,
    )
    return t


def logfire_openai(k: int) -> Trace:
    """logfire.instrument_openai: the request and the response as JSON attributes."""
    t = Trace(k * 100.0, scope="logfire.openai")
    q, a, docs = TALK[k]
    root = t.add("turn", {"logfire.msg": "turn", "conversation_id": "s1"}, lasts=9)
    request = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Passages:\n" + listed(docs)},
            *history(k),
            {"role": "user", "content": q},
        ],
    }
    t.add(
        "Chat Completion with 'm'",
        {
            "request_data": json.dumps(request),
            "response_data": json.dumps({"message": {"role": "assistant", "content": a}}),
            "gen_ai.request.model": "m",
        },
        root,
    )
    return t


def bedrock_events(k: int) -> Trace:
    """Strands Agents: Bedrock's content parts as JSON text in span events."""
    t = Trace(k * 100.0, scope="strands.telemetry.tracer")
    q, a, docs = TALK[k]
    root = t.add("invoke_agent shop", {"gen_ai.operation.name": "invoke_agent", "session.id": "s1"}, lasts=9)

    def text(x: str) -> dict[str, Any]:
        return {"content": json.dumps([{"text": x}])}

    events: list[tuple[str, dict[str, Any]]] = []
    for past_q, past_a, _ in TALK[:k]:
        events += [("gen_ai.user.message", text(past_q)), ("gen_ai.assistant.message", text(past_a))]
    events.append(("gen_ai.user.message", text(q)))
    use = [{"toolUse": {"toolUseId": f"c{k}", "name": "search_kb", "input": {"query": q}}}]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    t.add(
        "chat",
        chat,
        root,
        events=[*events, ("gen_ai.choice", {"message": json.dumps(use), "finish_reason": "tool_use"})],
    )
    result = [{"toolResult": {"toolUseId": f"c{k}", "status": "success", "content": [{"text": results(docs)}]}}]
    events += [
        ("gen_ai.assistant.message", {"content": json.dumps(use)}),
        ("gen_ai.tool.message", {"content": json.dumps(result)}),
    ]
    t.add(
        "chat",
        chat,
        root,
        events=[*events, ("gen_ai.choice", {"message": json.dumps([{"text": a}]), "finish_reason": "end_turn"})],
    )
    return t


def context_message(k: int) -> Trace:
    """The passages come in a user message of their own, before the question; the model thinks aloud."""
    t = Trace(k * 100.0)
    q, a, docs = TALK[k]
    messages = [
        {"role": "system", "content": SYSTEM},
        *history(k),
        {"role": "user", "content": "Context:\n" + listed(docs)},
        {"role": "user", "content": q},
    ]
    answer = {"role": "assistant", "content": f"<think>\nThey ask: {q}\n</think>\n\n{a}"}
    t.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "session.id": "s1",
            "gen_ai.input.messages": json.dumps(parts(messages)),
            "gen_ai.output.messages": json.dumps(parts([answer])),
        },
    )
    return t


WITH_IDS: list[Callable[[int], Trace]] = [
    old_openllmetry, old_openllmetry_tools, langgraph_plain, contents, events_only, span_events, azure_events, semconv_agent,
    langfuse_v3, mlflow_spans, traceloop_agent, responses_items, unknown_genai, langsmith, logfire_openai, bedrock_events, context_message,
]  # fmt: skip


def check(session: Session, *, ids: bool = True, ordered: bool = True) -> None:
    def fold(docs: list[tuple[str | None, str | None]]) -> list[tuple[str | None, str]]:
        return [(i if ids else None, " ".join((x or "").split())) for i, x in docs]

    assert said(session) == [(q, a) for q, a, _ in TALK]
    assert [fold(docs) for docs in evidence(session)] == [fold(docs) for *_, docs in TALK]  # type: ignore[arg-type]
    assert {t.retrieval for t in session.turns} == {"captured"}


@pytest.mark.parametrize("write", WITH_IDS, ids=lambda f: f.__name__)
def test_a_trace_a_turn(write: Callable[[int], Trace]) -> None:
    session = one(*(write(k) for k in range(len(TALK))))
    assert session.session_id == "s1"
    check(session)


def test_dspy() -> None:
    session = one(*(dspy(k) for k in range(len(TALK))))
    check(session, ids=False)
    assert all(not p.own_id for t in session.turns for p in t.passages)
    assert [p.id for p in session.turns[0].passages] == ["t1.p1", "t1.p2"]


@pytest.mark.parametrize("write", [*WITH_IDS, dspy], ids=lambda f: f.__name__)
def test_the_whole_session_in_one_trace(write: Callable[[int], Trace]) -> None:
    """A root span that says nothing holds all turns."""
    whole = Trace()
    root = whole.add("session", {}, lasts=1000)
    for k in range(len(TALK)):
        for span in write(k).spans:
            import dataclasses

            whole.spans.append(dataclasses.replace(span, trace_id=whole.trace_id, parent_id=span.parent_id or root))
    check(one(whole), ids=write is not dspy)


@pytest.mark.parametrize("written", ['it\'s "quoted"', " lead", '"', 'a"', "tab\there "])
def test_an_id_stays_as_it_is(written: str) -> None:
    assert scalar(written) == written


def test_an_id_written_as_json_text_is_unquoted() -> None:
    assert scalar('"sess-1"') == "sess-1"
    assert scalar('"say \\"hi\\""') == 'say "hi"'
    assert scalar("  ") is None
