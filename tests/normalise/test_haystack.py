"""Haystack's own tracer: components told by their class names, sessions by a span around the pipeline or by history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_drift.normalise.haystack_reprs import printed_messages
from otel_drift.normalise.step import ChatMessage
from spans import TURNS, Trace, evidence, one, said

DOCUMENTS = [
    {"id": "d1", "content": "Parcels leave the warehouse on Mondays.", "score": 0.9, "meta": {"title": "Days"}},
    {"id": "d2", "content": "The islands take three days longer.", "score": 0.4, "meta": {}},
]


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "meta": {"model": "m-1"}, "name": None, "content": [{"text": text}]}


def component(t: Trace, root: str, kind: str, given: Any, returned: Any) -> None:
    t.add(
        "haystack.component.run",
        {
            "haystack.component.name": kind.lower(),
            "haystack.component.type": kind,
            "haystack.component.input": json.dumps(given),
            "haystack.component.output": json.dumps(returned),
        },
        root,
    )


def pipeline(k: int, session: str | None, *, chat: bool = True, ranked: bool = False) -> Trace:
    question, answer = TURNS[k]
    t = Trace(100.0 * k)
    outer = t.add("turn", {"session.id": session}) if session else None
    data = {"retriever": {"query": question}, "builder": {"question": question}}
    root = t.add("haystack.pipeline.run", {"haystack.pipeline.input_data": json.dumps(data), "haystack.pipeline.output_data": "{}"}, outer)  # fmt: skip # noqa: E501
    component(t, root, "InMemoryBM25Retriever", {"query": question, "top_k": 2}, {"documents": DOCUMENTS})
    if ranked:
        component(
            t, root, "SimilarityRanker", {"query": question, "documents": DOCUMENTS}, {"documents": DOCUMENTS[1:]}
        )
    if chat:
        before = [m for q, a in TURNS[:k] for m in (message("user", q), message("assistant", a))]
        given = {"messages": [message("system", "Answer from what was found."), *before, message("user", question)]}
        component(t, root, "OpenAIChatGenerator", given, {"replies": [message("assistant", answer)]})
    else:
        prompt = (
            f"Given these documents, answer.\nDocuments:\n{DOCUMENTS[0]['content']}\n\nQuestion: {question}\nAnswer:"
        )
        component(t, root, "OpenAIGenerator", {"prompt": prompt}, {"replies": [answer], "meta": [{"model": "m-1"}]})
    return t


@pytest.mark.parametrize("session", ["s-1", None])
def test_turns_passages_and_model(session: str | None) -> None:
    found = one(*(pipeline(k, session) for k in range(3)))
    assert said(found) == TURNS
    assert found.session_id == session
    assert evidence(found)[1] == [(d["id"], d["content"]) for d in DOCUMENTS]
    assert found.turns[0].model == "m-1"
    assert found.conventions == ("haystack",)


def test_a_generator_of_text_and_a_ranker() -> None:
    found = one(pipeline(0, "s-1", chat=False, ranked=True))
    assert said(found) == TURNS[:1]
    assert evidence(found)[0] == [("d2", DOCUMENTS[1]["content"])]


def test_without_content_it_says_which_setting_captures_it() -> None:
    t = Trace()
    root = t.add("haystack.pipeline.run", {"haystack.pipeline.input_data": "{}", "session.id": "s-1"})
    for kind in ("InMemoryBM25Retriever", "OpenAIChatGenerator"):
        t.add("haystack.component.run", {"haystack.component.type": kind}, root)
    assert any("HAYSTACK_CONTENT_TRACING_ENABLED" in hint.remedy for hint in one(t).hints)


def printed(role: str, *parts: str) -> str:
    """A chat message as Python prints it."""
    return (
        f"ChatMessage(_role=<ChatRole.{role.upper()}: '{role}'>, _content=[{', '.join(parts)}], _name=None, _meta={{}})"
    )


def text_part(text: str) -> str:
    """A part of text as Python prints it."""
    return f"TextContent(text={text!r})"


def test_an_agents_run_that_openinference_records_as_printed_messages() -> None:
    found = [
        {"id": "p-1", "content": "It's \"quiet\" from 22:00.\n- TextContent(text='no')", "meta": {"title": "Hours"}}
    ]
    origin = "ToolCall(tool_name='find', arguments={'query': 'quiet hours'}, id='c1', extra=None)"
    earlier = [printed("user", text_part("Hello")), printed("assistant", text_part("Hi, what's up?"))]
    asked = printed("user", text_part("When is it quiet?"))
    messages = [
        printed("system", text_part("Use find.")), *earlier, asked, printed("assistant", origin),
        printed("tool", f"ToolCallResult(result={json.dumps(found)!r}, origin={origin}, error=False)"),
        printed("assistant", text_part("From 22:00.")),
    ]  # fmt: skip
    t = Trace()
    given, returned = {"messages": [*earlier, asked]}, {"messages": messages, "step_count": 2}
    json_type = {"input.mime_type": "application/json", "output.mime_type": "application/json"}
    chain = {"openinference.span.kind": "CHAIN", "session.id": "s", **json_type}
    root = t.add("Pipeline.run", {**chain, "input.value": json.dumps({"data": {"agent": given}}),
                                  "output.value": json.dumps({"agent": returned})})  # fmt: skip
    t.add("Agent.run", {**chain, "input.value": json.dumps(given), "output.value": json.dumps(returned)}, root)
    session = one(t)
    assert said(session) == [("When is it quiet?", "From 22:00.")]
    assert evidence(session) == [[("p-1", found[0]["content"])]]


def test_a_printed_call_that_never_ends_is_looked_for_once() -> None:
    endless = "ToolCall(tool_name='find', arguments={"
    text = printed("assistant", text_part("Hello"), *[endless] * 20_000)  # each looked through to the end: minutes
    assert printed_messages({"messages": [text]}) == (ChatMessage("assistant", "Hello"),)
