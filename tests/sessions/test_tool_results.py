"""Tool results: content blocks, nested documents, texts under unknown names, marked texts, and what is unsure."""
# ruff: noqa: E501 - results stay on the line they are returned on

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_drift.model import Turn
from spans import Trace, evidence, one

A = "Refunds are paid within 14 days of the return, by the method used for the purchase."
B = "Gift cards are never refunded, except where the law requires it.\nVouchers are no gift cards."
MARKED = [("a-1", A), ("a-2", B)]


def asked(result: Any, tool: str = "search_rules", k: int = 0, answer: str = "Within 14 days.") -> Trace:
    """A turn whose model called a tool: the result is on the tool's span only."""
    t = Trace(k * 100.0)
    root = t.add("turn", {"gen_ai.operation.name": "invoke_agent", "session.id": "s"})
    t.add(
        f"execute_tool {tool}",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "session.id": "s",
         "gen_ai.tool.call.result": result if isinstance(result, str) else json.dumps(result)},
        root,
    )  # fmt: skip
    t.add(
        "chat m",
        {"gen_ai.operation.name": "chat", "session.id": "s",
         "gen_ai.input.messages": json.dumps([{"role": "user", "content": f"Question {k}: how long does a refund take?"}]),
         "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": answer}])},
        root,
    )  # fmt: skip
    return t


def turn(result: Any, tool: str = "search_rules") -> Turn:
    return one(asked(result, tool)).turns[0]


RESULTS: dict[str, Any] = {
    "one block of JSON": [{"type": "text", "text": json.dumps([{"id": "a-1", "text": A}, {"id": "a-2", "text": B}])}],
    "an envelope of blocks": {"content": [{"type": "text", "text": json.dumps({"results": [{"id": "a-1", "text": A}, {"id": "a-2", "text": B}]})}], "isError": False},
    "Bedrock's result": {"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"json": {"retrievalResults": [{"documentId": "a-1", "content": {"text": A}}, {"documentId": "a-2", "content": {"text": B}}]}}]}},
    "a record in a match": {"matches": [{"score": 0.5, "record": {"key": "a-1", "text": A}}, {"score": 0.4, "record": {"key": "a-2", "text": B}}]},
    "metadata in a match": {"matches": [{"id": "a-1", "score": 0.5, "metadata": {"text": A}}, {"id": "a-2", "score": 0.4, "metadata": {"text": B}}]},
    "hits of hits": {"hits": {"total": 2, "hits": [{"_id": "a-1", "_source": {"body": A}}, {"_id": "a-2", "_source": {"body": B}}]}},
    "value": {"value": [{"@search.score": 1.2, "id": "a-1", "content": A}, {"@search.score": 1.1, "id": "a-2", "content": B}]},
    "properties": {"objects_results": [{"uuid": "a-1", "properties": {"content": A}}, {"uuid": "a-2", "properties": {"content": B}}]},
    "payload": {"points": [{"id": "a-1", "score": 0.5, "payload": {"text": A}}, {"id": "a-2", "score": 0.5, "payload": {"text": B}}]},
    "ref": [{"ref": "a-1", "text": A}, {"ref": "a-2", "text": B}],
    "an id outside its document": {"results": [{"id": "a-1", "document": {"text": A}}, {"id": "a-2", "document": {"text": B}}]},
    "a tool message": {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"], "kwargs": {"type": "tool", "name": "search_rules", "content": json.dumps([{"id": "a-1", "text": A}, {"id": "a-2", "text": B}])}},
    "marked text": f"[a-1] {A}\n---\n[a-2] {B}",
    "marked text in a block": [{"type": "text", "text": f"[a-1] {A}\n\n[a-2] {B}"}],
    "marked text in LangChain's tool message": {"type": "tool", "data": {"type": "tool", "content": f"[a-1] {A}\n\n[a-2] {B}", "name": "search_rules", "artifact": None, "status": "success"}},
    "marked text in LlamaIndex's tool output": {"blocks": [{"text": f"[a-1] {A}\n\n[a-2] {B}"}], "tool_name": "search_rules", "raw_input": {"kwargs": {"query": "return"}}, "raw_output": f"[a-1] {A}\n\n[a-2] {B}", "is_error": False},
    "sources with ids": f"Source: rules.md (a-1)\n{A}\n\nSource: rules.md (a-2)\n{B}",
}  # fmt: skip


@pytest.mark.parametrize("form", RESULTS)
def test_documents_with_ids(form: str) -> None:
    session = one(asked(RESULTS[form]))
    assert evidence(session) == [MARKED]
    assert session.turns[0].retrieval == "captured"


@pytest.mark.parametrize(
    "result",
    [
        [{"clause": "a-1", "wording": A, "chapter": "Refunds"}, {"clause": "a-2", "wording": B, "chapter": "Cards"}],
        f"[a-1] {A}\n---\n[a-2] {B}",
    ],
)
def test_a_tool_of_any_name_that_returns_marked_texts_retrieves(result: Any) -> None:
    """Its name says nothing; each text stands with an id, and is by far the longest value."""
    assert evidence(one(asked(result, "consult_desk"))) == [MARKED]


@pytest.mark.parametrize("nothing", ["[]", "No documents found.", "(no results)", [], {"results": []}, [{"type": "text", "text": "[]"}], {"retrievalResults": []}])  # fmt: skip
def test_nothing_found_is_none(nothing: Any) -> None:
    assert (turn(nothing).retrieval, turn(nothing).passages) == ("none", ())


def test_json_never_becomes_a_passage_as_it_is() -> None:
    passages = turn({"verdict": {"explanation": B, "certainty": 3}}).passages
    assert [p.text for p in passages] == [B + "\ncertainty: 3"]


@pytest.mark.parametrize(
    ("result", "tool"),
    [
        ({"order": "A-17", "status": "sent"}, "get_order"),
        ("22 degrees and sunny", "get_weather"),
        ([{"id": 1, "price": 3.5}], "list_prices"),
        ({"assistant": "Rules agent"}, "transfer_to_rules_agent"),
        (
            "[2026-03-01] The order left the warehouse in the morning.\n[2026-03-02] The order reached the customer.",
            "get_log",
        ),
    ],
)
def test_values_and_records_are_no_retrieval(result: Any, tool: str) -> None:
    assert turn(result, tool).passages == ()
    assert not turn(result, tool).tool_calls[0].is_retrieval


def test_prose_of_a_tool_that_may_have_retrieved_is_not_captured() -> None:
    """Its claims can't be judged: neither supported by what was read, nor unsupported."""
    found = turn("The desk says that " + A + " " + B.replace("\n", " "), "ask_desk")
    assert (found.retrieval, found.passages, found.tool_calls[0].is_retrieval) == ("not_captured", (), False)


def test_a_tool_known_from_another_turn_found_nothing() -> None:
    marked = [{"clause": "a-1", "wording": A}, {"clause": "a-2", "wording": B}]
    session = one(asked(marked, "consult_desk"), asked([], "consult_desk", 1, "I found nothing about that."))
    assert [t.retrieval for t in session.turns] == ["captured", "none"]


def test_an_applications_function_that_fetches_texts_retrieves() -> None:
    t = Trace()
    common = {"session.id": "s", "langfuse.observation.type": "span"}
    root = t.add(
        "handle",
        {
            **common,
            "langfuse.observation.input": json.dumps({"text": "How long?"}),
            "langfuse.observation.output": json.dumps({"reply": "14 days."}),
        },
    )
    t.add("find_chunks", {**common, "langfuse.observation.output": json.dumps([A, B])}, root)
    t.add(
        "llm",
        {**common, "langfuse.observation.type": "generation",
         "langfuse.observation.input": json.dumps([{"role": "user", "content": "How long?"}]),
         "langfuse.observation.output": json.dumps({"role": "assistant", "content": "14 days."})},
        root,
    )  # fmt: skip
    assert evidence(one(t)) == [[(None, A), (None, B)]]


@pytest.mark.parametrize(
    ("results", "state", "passages"),
    [
        ([{"attributes": {"id": "a-1"}, "file_id": "f", "filename": "a.md", "score": 0.9, "text": A}], "captured", [("a-1", A)]),
        ([{"attributes": {}, "file_id": "f-7", "filename": "a.md", "score": 0.9, "text": A}], "captured", [("f-7", A)]),
        ([], "none", []),
        (None, "not_captured", []),
    ],
)  # fmt: skip
def test_a_providers_own_file_search(results: Any, state: str, passages: list[tuple[str, str]]) -> None:
    t = Trace()
    said = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "14 days."}]}
    search = {"id": "fs", "type": "file_search_call", "queries": ["refund"], "results": results}
    t.add(
        "Response",
        {"openinference.span.kind": "LLM", "session.id": "s", "llm.model_name": "m",
         "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "How long?",
         "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "14 days.",
         "output.value": json.dumps({"object": "response", "output": [search, said]}), "output.mime_type": "application/json"},
    )  # fmt: skip
    session = one(t)
    assert (evidence(session), session.turns[0].retrieval) == ([passages], state)
    assert any(h.code == "search_results_not_included" for h in session.hints) == (results is None)


@pytest.mark.parametrize(
    "attributes",
    [
        {"query": "refund", "n_results": 0},
        {"query": "refund", "result_count": 0},
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": "refund",
            "gen_ai.retrieval.document_count": 0,
        },
        {
            "openinference.span.kind": "CHAIN",
            "output.value": json.dumps({"context": []}),
            "output.mime_type": "application/json",
        },
    ],
)
def test_a_search_that_counted_nothing_found_nothing(attributes: dict[str, Any]) -> None:
    t = Trace()
    root = t.add("turn", {"gen_ai.operation.name": "invoke_agent", "session.id": "s"})
    t.add("retrieve", {"session.id": "s", **attributes}, root)
    t.add(
        "chat m",
        {"gen_ai.operation.name": "chat", "session.id": "s",
         "gen_ai.input.messages": json.dumps([{"role": "user", "content": "How long does a refund take?"}]),
         "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "I don't know."}])},
        root,
    )  # fmt: skip
    assert one(t).turns[0].retrieval == "none"


def test_passages_in_another_order_are_not_cut() -> None:
    """Two prompts of one greatest length that hold the same passages in another order show no length limit."""
    traces = []
    for k, listed in enumerate(([A, B], [B, A])):
        t = Trace(k * 100.0)
        t.add(
            "chat m",
            {"gen_ai.operation.name": "chat", "session.id": "s",
             "gen_ai.input.messages": json.dumps([
                 {"role": "system", "content": "Answer from these passages:\n\n" + "\n\n".join(listed)},
                 {"role": "user", "content": f"Question {k}?"}]),
             "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": f"Answer {k}."}])},
        )  # fmt: skip
        traces.append(t)
    assert [t.retrieval for t in one(*traces).turns] == ["captured", "captured"]


def test_texts_cut_at_one_length_are_partial() -> None:
    texts = [(A + " " + B)[:100], (B + " " + A)[:100]]
    traces = []
    for k, text in enumerate(texts):
        t = Trace(k * 100.0)
        root = t.add("turn", {"gen_ai.operation.name": "invoke_agent", "session.id": "s"})
        t.add(
            "search",
            {"openinference.span.kind": "RETRIEVER", "session.id": "s", "retrieval.documents.0.document.content": text},
            root,
        )
        t.add(
            "chat m",
            {"gen_ai.operation.name": "chat", "session.id": "s",
             "gen_ai.input.messages": json.dumps([{"role": "user", "content": f"Question {k}?"}]),
             "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": f"Answer {k}."}])},
            root,
        )  # fmt: skip
        traces.append(t)
    assert [t.retrieval for t in one(*traces).turns] == ["partial", "partial"]
