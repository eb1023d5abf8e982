"""What the outermost wrapper was called with and returned, where model calls are missing or work on other texts."""
# ruff: noqa: E501 - prompts and messages stay on the line they are sent on

from __future__ import annotations

import json
from typing import Any

from otel_drift.normalise.messages import read_messages
from otel_drift.sessions.user_text import transcript, user_text
from spans import Trace, evidence, one, said, sessions_of

A = "The kiln is fired every second Thursday."
B = "Pieces have to be on the shelf by Tuesday.\n\nUntagged pieces are not fired."
ASKED = "When is the kiln fired, and until when can I hand in?"


def span(kind: str, given: Any = None, returned: Any = None, **attributes: Any) -> dict[str, Any]:
    """Attributes of an OpenInference span of one session."""
    found: dict[str, Any] = {"openinference.span.kind": kind, "session.id": "s", **attributes}
    for name, value in (("input", given), ("output", returned)):
        if value is not None:
            found[f"{name}.value"] = value if isinstance(value, str) else json.dumps(value)
            found[f"{name}.mime_type"] = "text/plain" if isinstance(value, str) else "application/json"
    return found


def call(asked: str, answer: str, system: str = "") -> dict[str, Any]:
    """Attributes of an OpenInference model call."""
    messages = [*([("system", system)] if system else []), ("user", asked)]
    found = span("LLM")
    for place, (role, text) in enumerate(messages):
        found[f"llm.input_messages.{place}.message.role"] = role
        found[f"llm.input_messages.{place}.message.content"] = text
    return {**found, "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": answer}


def retriever(query: str, *texts: str) -> dict[str, Any]:
    """Attributes of an OpenInference retriever."""
    found = span("RETRIEVER", query)
    for place, text in enumerate(texts):
        found[f"retrieval.documents.{place}.document.id"] = f"d{place}"
        found[f"retrieval.documents.{place}.document.content"] = text
    return {**found, "output.value": json.dumps({"documents": [{"page_content": text} for text in texts]})}


def test_the_question_a_chain_was_called_with_is_found_in_any_template() -> None:
    refine = f"The original question is as follows: {ASKED}\nWe have an existing answer: Soon.\n------------\nUser: a line of the passage\n------------\nGiven the new context, refine the original answer to better answer the question."
    t = Trace()
    root = t.add("chain", span("CHAIN", {"question": ASKED, "chat_history": []}, {"answer": "On Thursday."}))
    t.add("retriever", retriever(ASKED, A), root)
    root = t.add(
        "refine", span("CHAIN", {"input_documents": [{"page_content": A}], "text": "a line of the passage"}), root
    )
    t.add("llm", call(refine, "On Thursday."), root)
    assert said(one(t)) == [(ASKED, "On Thursday.")]


def test_a_short_question_fills_its_slot() -> None:
    assert user_text("Chat:\n...\n<Follow Up Message>\nja\n<Standalone question>\n", [("ja", True)], None) == "ja"


def test_a_search_query_inside_the_users_sentence_is_not_what_the_user_said() -> None:
    text = "Do you sell any seeds of truffles?"
    assert user_text(text, [("seeds of truffles", True), ("seeds of truffles", False)], None) == text


def test_a_template_of_one_line_is_one() -> None:
    text = f"Answer the visitor's question as briefly as you can: {ASKED} Use no more than two sentences."
    assert user_text(text, [(ASKED, True)], None) == ASKED


def test_context_that_middleware_put_behind_a_message_is_not_the_users() -> None:
    t = Trace()
    messages = {"messages": [{"role": "user", "content": ASKED}]}
    reply = {"messages": [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "On Thursday."}]}
    root = t.add("graph", span("CHAIN", messages, reply))
    t.add("retriever", retriever(ASKED, A, B), root)
    t.add(
        "llm",
        call(f"{ASKED}\n\nUse the context below if it helps:\n<context>\n{A}\n---\n{B}\n</context>", "On Thursday."),
        root,
    )
    session = one(t)
    assert said(session) == [(ASKED, "On Thursday.")]
    assert [text for _, text in evidence(session)[0]] == [A, B]


def condensed(found: tuple[str, ...], answer: str) -> Trace:
    """A chat engine that makes the question standalone, searches, and answers only where something was found."""
    t = Trace()
    root = t.add("Engine.chat", span("CHAIN", {"message": "And bowls?"}, {"response": answer, "sources": []}))
    t.add(
        "llm",
        call("Rewrite the message.\n<History>\n...\n<Message>\nAnd bowls?\n<Standalone question>\n", "firing of bowls"),
        root,
    )
    t.add("retriever", retriever("firing of bowls", *found), root)
    if found:
        t.add("llm", call(f"Context:\n{A}\n\nQuery: firing of bowls\nAnswer:", answer), root)
    return t


def test_the_users_words_are_those_before_rewriting() -> None:
    assert said(one(condensed((A,), "Like the rest."))) == [("And bowls?", "Like the rest.")]


def test_the_question_may_be_in_the_first_of_several_calls_only() -> None:
    t = Trace()
    root = t.add("chain", span("CHAIN", {"question": ASKED, "chat_history": []}, {"answer": "On Thursday."}))
    t.add("retriever", retriever(ASKED, A, B), root)
    t.add("llm", call(ASKED, "Some day.", f"Context:\n{A}"), root)
    t.add(
        "llm",
        call(
            f"Refine the answer with more context.\n------------\n{B}\n------------\nReturn the answer.", "On Thursday."
        ),
        root,
    )
    session = one(t)
    assert said(session) == [(ASKED, "On Thursday.")]
    assert evidence(session) == [[("d0", A), ("d1", B)]]


def test_a_rewritten_question_is_no_answer_where_nothing_was_found() -> None:
    session = one(condensed((), "Empty Response"))
    assert said(session) == [("And bowls?", "Empty Response")]
    assert session.turns[0].retrieval == "none"


def test_an_answer_from_a_cache_is_a_turn() -> None:
    t = Trace()
    messages = [{"type": "human", "data": {"content": ASKED}}, {"type": "ai", "data": {"content": "On Thursday."}}]
    root = t.add("graph", span("CHAIN", {"messages": [{"role": "user", "content": ASKED}]}, {"messages": messages}))
    t.add("retriever", retriever(ASKED, A), root)
    session = one(t)
    assert said(session) == [(ASKED, "On Thursday.")]
    assert evidence(session) == [[("d0", A)]]


def test_a_tool_that_joins_what_its_retriever_found_hides_it_not() -> None:
    t = Trace()
    root = t.add("graph", span("CHAIN", {"messages": [{"role": "user", "content": ASKED}]}))
    result = {"type": "tool", "data": {"content": f"{A}\n\n{B}", "name": "documents", "tool_call_id": "c1"}}
    tool = t.add("documents", span("TOOL", ASKED, result, **{"tool.name": "documents"}), root)
    t.add("retriever", retriever(ASKED, A, B), tool)
    t.add("llm", call(ASKED, "On Thursday."), root)
    assert evidence(one(t)) == [[("d0", A), ("d1", B)]]


def test_a_tool_in_which_a_retriever_ran_without_content_is_retrieval() -> None:
    t = Trace()
    root = t.add("graph", span("CHAIN", {"messages": [{"role": "user", "content": ASKED}]}))
    tool = t.add("almanac", span("TOOL", ASKED, f"{A} {A}", **{"tool.name": "almanac"}), root)
    t.add("retriever", span("RETRIEVER"), tool)
    t.add("llm", call(ASKED, "On Thursday."), root)
    assert evidence(one(t)) == [[(None, f"{A} {A}")]]


def test_a_chain_that_answers_from_a_cache_is_no_search_though_it_names_its_sources() -> None:
    t = Trace()
    sources = [{"page_content": A, "metadata": {"source": "kiln.md"}}]
    t.add("chain", span("CHAIN", {"query": ASKED}, {"result": "On a Thursday.", "source_documents": sources}))
    assert [turn.user for turn in one(t).turns] == [ASKED]


def test_what_an_agent_answers_that_is_a_tool_is_no_passage() -> None:
    t = Trace()
    root = t.add("graph", span("CHAIN", {"messages": [{"role": "user", "content": ASKED}]}))
    tool = t.add("expert", span("TOOL", ASKED, f"{A} {A}", **{"tool.name": "expert"}), root)
    t.add("retriever", span("RETRIEVER"), tool)
    t.add("llm", call(ASKED, f"{A} {A}"), tool)
    t.add("llm", call(ASKED, "On Thursday."), root)
    session = one(t)
    assert evidence(session) == [[]]
    assert session.turns[0].retrieval == "not_captured"


def test_a_retriever_that_reports_ids_only_names_what_its_tool_returned() -> None:
    t = Trace()
    root = t.add("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "s"})
    result = f'<doc title="Firing">\n{A}\n</doc>\n\n<doc title="Shelf">\n{B}\n</doc>'
    tool = t.add(
        "execute_tool documents",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "documents", "gen_ai.tool.call.result": result},
        root,
    )
    t.add(
        "retrieval",
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.documents": json.dumps([{"id": "k-1", "score": None}, {"id": "k-2", "score": None}]),
        },
        tool,
    )
    t.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "s",
            "gen_ai.input.messages": json.dumps([{"role": "user", "content": ASKED}]),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "On Thursday."}]),
        },
        root,
    )
    assert evidence(one(t)) == [[("k-1", A), ("k-2", B)]]


def test_what_a_memory_holds_after_the_turn_is_no_earlier_turn() -> None:
    turns = [("When is it fired?", "On Thursday."), ("And when must I hand in?", "By Tuesday.")]
    traces = []
    for k, (question, answer) in enumerate(turns):
        memory = [[q, a] for q, a in turns[: k + 1]]
        t = Trace(k * 100.0)
        root = t.add(
            "chain",
            {**span("CHAIN", {"question": question, "chat_history": memory}, {"answer": answer}), "session.id": ""},
        )
        t.add("llm", {**call(question, answer), "session.id": ""}, root)
        traces.append(t)
    assert said(one(*traces)) == turns


def test_a_question_without_an_answer_is_a_turn_where_the_conversation_goes_on_from_it() -> None:
    turns = [("How many are we?", ""), ("And with two teachers?", "Both enter free."), ("Thanks!", "Welcome.")]
    traces = []
    for k, (question, answer) in enumerate(turns):
        messages = [
            m for q, a in turns[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})
        ]
        t = Trace(k * 100.0)
        t.add(
            "chat m",
            {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "s",
             "gen_ai.input.messages": json.dumps([{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}, *messages, {"role": "user", "content": question}]),
             "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": answer}])},
        )  # fmt: skip
        traces.append(t)
    assert [(u, a or "") for u, a in said(one(*traces))] == turns


def test_the_answer_behind_a_thought_is_the_answer() -> None:
    t = Trace()
    root = t.add("agent", span("AGENT", ASKED))
    t.add("llm", call(ASKED, "Thought: I can answer now.\nAnswer: On Thursday."), root)
    assert said(one(t)) == [(ASKED, "On Thursday.")]


def test_a_stream_that_repeats_the_conversation_is_not_the_answer() -> None:
    t = Trace()
    root = t.add("graph", span("CHAIN", ASKED, f"{ASKED}{ASKED}{A}On Thursday, hand in by Tuesday."))
    t.add("llm", call(ASKED, "On Thursday, hand in by Tuesday."), root)
    assert said(one(t)) == [(ASKED, "On Thursday, hand in by Tuesday.")]


def test_an_inner_agents_messages_join_turns_whose_wrapper_knows_the_new_message_only() -> None:
    first, second = (ASKED, "On Thursday."), ("And bowls?", "Like the rest.")
    traces = []
    for k, (question, answer) in enumerate((first, second)):
        before = [
            m for q, a in (first,)[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})
        ]
        new = [{"role": "user", "content": question}]
        reply = json.dumps([{"role": "assistant", "content": answer}])
        t = Trace(k * 100.0)
        root = t.add(
            "invoke_workflow w",
            {
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.input.messages": json.dumps(new),
                "gen_ai.output.messages": reply,
            },
        )
        t.add(
            "invoke_agent a",
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.input.messages": json.dumps([*before, *new]),
                "gen_ai.output.messages": reply,
            },
            root,
        )
        traces.append(t)
    assert said(one(*traces)) == [first, second]


def test_messages_of_pydantic_ai() -> None:
    value = [
        {
            "kind": "request",
            "instructions": "Be kind.",
            "parts": [{"part_kind": "user-prompt", "content": ["Hi", {"url": "https://x"}]}],
        },
        {
            "kind": "response",
            "parts": [
                {"part_kind": "thinking", "content": "hm"},
                {"part_kind": "tool-call", "tool_name": "find", "args": '{"q": 1}', "tool_call_id": "c1"},
            ],
        },
        {
            "kind": "request",
            "parts": [
                {
                    "part_kind": "tool-return",
                    "tool_name": "find",
                    "content": [{"id": "a", "text": A}],
                    "tool_call_id": "c1",
                }
            ],
        },
        {"kind": "response", "parts": [{"part_kind": "text", "content": "Hello."}]},
    ]
    found = read_messages({"message_history": value, "messages": value})
    assert [(m.role, m.text) for m in found] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("assistant", ""),
        ("tool", ""),
        ("assistant", "Hello."),
    ]
    assert found[2].uses[0].name == "find"
    assert (found[3].results[0].id, found[3].results[0].content) == ("c1", [{"id": "a", "text": A}])


def test_transcripts_in_other_languages() -> None:
    assert transcript("Nutzer: Wann?\nAssistent: Morgen.\nNutzer: Und wo?") == [
        ("user", "Wann?"),
        ("assistant", "Morgen."),
        ("user", "Und wo?"),
    ]
    assert transcript("Cliente: ¿Cuándo?\nAsistente: Mañana.") == [("user", "¿Cuándo?"), ("assistant", "Mañana.")]


def test_two_conversations_stay_two() -> None:
    assert len(sessions_of(*(condensed((A,), answer) for answer in ("One.", "Two.")))) == 1
