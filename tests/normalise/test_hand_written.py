"""Spans as teams write them by hand, and as less common instrumentations do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_drift.normalise.documents import read_documents
from spans import TURNS, Trace, chat, evidence, one, said, sessions_of

DOCUMENTS = [("d-1", "Orders leave the warehouse on Mondays."), ("d-2", "Parcels take three days by road.")]


def test_prompt_and_completion_as_whole_attributes() -> None:
    """`gen_ai.prompt` and `gen_ai.completion` (GenAI conventions before 1.28), messages in and plain text out."""
    t = Trace()
    asked, answered = TURNS[0]
    messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": asked}]
    t.add(
        "llm",
        {
            "gen_ai.system": "x",
            "gen_ai.request.model": "m",
            "session.id": "s",
            "gen_ai.prompt": json.dumps(messages),
            "gen_ai.completion": answered,
        },
    )
    assert said(one(t)) == [(asked, answered)]


def test_a_retriever_that_answers_is_a_turn() -> None:
    """Bedrock's RetrieveAndGenerate in OpenInference: one span of kind RETRIEVER with a model and an answer."""
    t = Trace()
    asked, answered = TURNS[0]
    flat = {
        f"retrieval.documents.{n}.document.{key}": value
        for n, (own, text) in enumerate(DOCUMENTS)
        for key, value in (("id", own), ("content", text))
    }
    t.add(
        "bedrock.retrieve_and_generate",
        {
            "openinference.span.kind": "RETRIEVER",
            "llm.model_name": "m",
            **flat,
            "session.id": "s",
            "input.value": asked,
            "output.value": answered,
        },
    )
    session = one(t)
    assert said(session) == [(asked, answered)]
    assert evidence(session) == [DOCUMENTS]


def test_a_role_named_after_the_tool_is_its_result() -> None:
    """Langfuse's JavaScript handler for LangChain gives a tool's message the tool's name as its role."""
    t = Trace()
    asked, answered = TURNS[0]
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    found = json.dumps([{"id": own, "text": text} for own, text in DOCUMENTS])
    messages = [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "lookup", "content": found, "additional_kwargs": {}},
    ]
    t.add(
        "ChatOpenAI",
        {
            "langfuse.observation.type": "generation",
            "session.id": "s",
            "langfuse.observation.input": json.dumps({"messages": messages}),
            "langfuse.observation.output": json.dumps({"role": "assistant", "content": answered}),
        },
    )
    session = one(t)
    assert said(session) == [(asked, answered)]
    assert evidence(session) == [DOCUMENTS]


@pytest.mark.parametrize("texts", [["ref-1: one", "ref-2: two"], ["[§1/a] one", "[#2-b] two"]])
def test_texts_that_begin_with_ids(texts: list[str]) -> None:
    found = read_documents(texts, strings=True) or ()
    assert [d.text for d in found] == ["one", "two"]
    assert all(d.id for d in found)


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-01-05: the fee is 5 euros", "2024-03-01: the fee is 6 euros"],
        ["1.2: a new menu", "1.3: a new page"],
        ["Note-1: one", "Note-1: two"],
        ["ref-1: one", "two"],
    ],
)
def test_texts_that_begin_with_a_date_are_whole(texts: list[str]) -> None:
    found = read_documents(texts, strings=True) or ()
    assert [(d.id, d.text) for d in found] == [(None, text) for text in texts]


def test_a_reranking_that_failed_did_not_find_nothing() -> None:
    t = Trace(scope="opentelemetry.instrumentation.cohere")
    root = t.add("turn", {"session.id": "s"}, lasts=9)
    flat = {"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": DOCUMENTS[0][1]}
    t.add("cohere.rerank", {"llm.request.type": "rerank", "gen_ai.system": "Cohere", **flat}, root)
    t.add("cohere.chat", chat(0).spans[-1].attributes, root)
    assert one(t).turns[0].retrieval == "not_captured"


def test_cohere_reranking() -> None:
    """OpenLLMetry: the passages as system prompts, their new order as answers."""
    t = Trace(scope="opentelemetry.instrumentation.cohere")
    asked, answered = TURNS[0]
    root = t.add("turn", {"session.id": "s"}, lasts=9)
    flat: dict[str, Any] = {"gen_ai.completion.0.content": "Doc 1, Score: 0.9"}
    for n, (_, text) in enumerate(DOCUMENTS):
        flat |= {f"gen_ai.prompt.{n}.role": "system", f"gen_ai.prompt.{n}.content": text}
    flat |= {"gen_ai.prompt.2.role": "user", "gen_ai.prompt.2.content": "order"}
    t.add("cohere.rerank", {"llm.request.type": "rerank", "gen_ai.system": "Cohere", **flat}, root)
    t.add(
        "cohere.chat",
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": asked,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": answered,
        },
        root,
    )
    session = one(t)
    assert said(session) == [(asked, answered)]
    assert evidence(session) == [[(None, DOCUMENTS[1][1])]]
    assert session.turns[0].passages[0].score == 0.9


@pytest.mark.parametrize(
    "name", ["retrieve.task", "KbRetriever", "retrieve_context"], ids=lambda n: n.replace(".", "-")
)
def test_an_own_function_that_found_nothing(name: str) -> None:
    """What is named as a search and returned an empty list did retrieve."""
    t = Trace()
    asked, answered = TURNS[0]
    root = t.add(
        "turn",
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": json.dumps({"args": [asked]}),
            "traceloop.association.properties.session_id": "s",
        },
        lasts=9,
    )
    t.add(name, {"traceloop.span.kind": "task", "traceloop.entity.output": "[]"}, root)
    messages = json.dumps([{"role": "user", "content": asked}])
    t.add(
        "chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": messages,
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": answered}]),
        },
        root,
    )
    assert one(t).turns[0].retrieval == "none"


NAMES = [
    "session.id",
    "session_id",
    "sessionId",
    "chat.id",
    "chatId",
    "app.conversation.id",
    "gen_ai.session.id",
    "conversation_id",
    "ai.telemetry.metadata.chatId",
    "acme.bot.dialog_id",
    "my.thread_id",
    "ChatSessionID",
]
NO_NAMES = [
    "chat.completion.id",
    "messaging.message.conversation_id",
    "chat.message.id",
    "session.name",
    "thread.id",
    "subchatid",
    "mcp.session.id",
    "parentSessionId",
    "app.previous_conversation_id",
    "websocket.session_id",
    "jvm.thread.id",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_session(name: str) -> None:
    session = one(*(chat(k, window=0, ids={name: "abc"}) for k in range(3)))
    assert session.session_id == "abc"
    assert said(session) == TURNS


@pytest.mark.parametrize("name", NO_NAMES)
def test_no_names_of_the_session(name: str) -> None:
    assert [s.session_id for s in sessions_of(*(chat(k, window=0, ids={name: "abc"}) for k in range(3)))] == [None] * 3
