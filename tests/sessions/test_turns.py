"""Turns: retries, regenerated and edited answers, clocks that differ, rewriting, tools, evidence of this turn only."""
# ruff: noqa: E501 - prompts and messages stay on the line they are sent on

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from otel_drift.sessions import ReconstructOptions
from spans import TURNS, Trace, chat, evidence, one, said

S = {"session.id": "s"}
P = "The warehouse ships on Mondays and Thursdays only."
R = "Parcels to the islands take three days longer than others."


def llm(t: Trace, messages: list[dict[str, Any]], answer: Any, parent: str | None = None, **kwargs: Any) -> str:
    output = answer if isinstance(answer, dict) else {"role": "assistant", "content": answer}
    return t.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([output]) if answer else "",
            **S,
        },
        parent,
        **kwargs,
    )


def test_a_failed_try_that_was_repeated_is_no_turn() -> None:
    failed = Trace(90.0)
    failed.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps([{"role": "user", "content": TURNS[0][0]}]),
            **S,
        },
        error="HTTP 500",
    )
    assert said(one(failed, chat(0, start=95.0, ids=S), chat(1, start=200.0, ids=S))) == TURNS[:2]


def test_a_failure_without_retry_is_a_failed_turn() -> None:
    failed = Trace(150.0)
    failed.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps([{"role": "user", "content": "And my refund?"}]),
            **S,
        },
        error="HTTP 500: down",
    )
    session = one(chat(0, ids=S), failed, chat(1, start=200.0, ids=S))
    assert [(t.user, t.answer_state) for t in session.turns] == [
        (TURNS[0][0], "captured"),
        ("And my refund?", "failed"),
        (TURNS[1][0], "captured"),
    ]
    assert session.turns[1].error == "HTTP 500: down"


def test_regenerated_answers_are_alternatives_and_the_history_says_which_counts() -> None:
    session = one(
        chat(0, ids=S), chat(1, ids=S), chat(1, start=110.0, answer="On Friday, perhaps.", ids=S), chat(2, ids=S)
    )
    assert said(session) == TURNS
    assert [[a.answer for a in t.alternatives] for t in session.turns] == [[], ["On Friday, perhaps."], []]


def test_a_short_message_that_got_no_answer_and_is_sent_again_is_one_turn() -> None:
    """Also where it was said before, or stands within a word of what was ("no" in "know")."""
    turns = [("no", "Do you know where it is?"), ("I know where it is.", "Good."), ("no", "Fine then."), TURNS[2]]
    lost = chat(2, ids=S, turns=turns)
    attributes = {k: v for k, v in lost.spans[0].attributes.items() if k != "gen_ai.output.messages"}
    lost.spans[0] = dataclasses.replace(lost.spans[0], attributes=attributes)
    again = [chat(k, start=9_000.0 + k, ids=S, turns=turns) for k in (2, 3)]
    assert said(one(*(chat(k, ids=S, turns=turns) for k in (0, 1)), lost, *again)) == turns


def test_the_same_call_sent_twice_is_one_turn() -> None:
    """The same conversation, question and answer: a client that asked again, though the later history holds it once."""
    again = chat(1, start=105.0, ids=S)
    session = one(*(chat(k, ids=S) for k in range(3)), again)
    assert said(session) == TURNS
    assert [len(t.alternatives) for t in session.turns] == [0, 1, 0]


def test_the_last_regenerated_answer_counts_where_nothing_follows() -> None:
    session = one(chat(0, ids=S), chat(1, ids=S), chat(1, start=110.0, answer="On Friday, perhaps.", ids=S))
    assert [t.answer for t in session.turns] == [TURNS[0][1], "On Friday, perhaps."]


def test_a_given_up_branch_that_had_branches_itself_belongs_to_the_turn_that_stays() -> None:
    first, second = [("Where is it?", "In Bonn.")], [("Where is it?", "In Bonn."), ("Since when?", "Since Monday.")]
    told = [
        ([], "Where is it?", "In Bonn."),
        (first, "Since when?", "Since Monday."),
        (second, "Why?", "The depot is full."),
        (first, "Since when?", "Since Sunday."),
        ([], "Where is it?", "In Trier."),
    ]
    traces = []
    for number, (history, asked, answer) in enumerate(told):
        trace = Trace(100.0 + 10 * number)
        before = [
            {"role": r, "content": t} for pair in history for r, t in zip(("user", "assistant"), pair, strict=True)
        ]
        llm(trace, [*before, {"role": "user", "content": asked}], answer)
        traces.append(trace)
    session = one(*traces)
    assert [turn.answer for turn in session.turns] == ["In Trier."]
    assert sorted(a.answer or "" for a in session.turns[0].alternatives) == [
        "In Bonn.",
        "Since Monday.",
        "Since Sunday.",
        "The depot is full.",
    ]


def test_an_edited_message_is_a_branch_of_its_turn() -> None:
    session = one(
        chat(0, ids=S),
        chat(1, start=100.0, user="When will it come?", answer="Soon.", ids=S),
        chat(1, start=110.0, ids=S),
        chat(2, ids=S),
    )
    assert said(session) == TURNS
    assert [a.user for a in session.turns[1].alternatives] == ["When will it come?"]


def test_a_question_asked_twice_without_history_is_two_turns() -> None:
    """An engine without memory: asking again is how its answers come to contradict each other."""
    session = one(chat(0, ids=S), chat(0, start=50.0, answer="It never left.", ids=S))
    assert [t.answer for t in session.turns] == [TURNS[0][1], "It never left."]


def test_fixed_examples_in_front_are_no_history() -> None:
    """Few-shot examples are resent before every question; the turns are still turns."""
    shots = [("example question", "example answer")]
    turns = [(f"question {i}", f"answer {i}") for i in range(3)]
    traces = [chat(1, start=100.0 * i, turns=[*shots, turn], ids=S) for i, turn in enumerate(turns)]
    assert said(one(*traces)) == turns


def test_history_orders_turns_where_clocks_differ() -> None:
    session = one(chat(0, start=60.0, ids=S), chat(1, start=30.0, ids=S), chat(2, start=45.0, ids=S))
    assert said(session) == TURNS


def test_a_rewriting_call_is_no_turn_with_or_without_a_wrapper() -> None:
    for wrapped in (True, False):
        traces = []
        for k in range(2):
            t = Trace(100.0 * k)
            root = t.add("POST /chat", {"http.request.method": "POST"}, lasts=9) if wrapped else None
            past = [
                m for q, a in TURNS[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})
            ]
            asked = [*past, {"role": "user", "content": TURNS[k][0]}]
            llm(t, [{"role": "system", "content": "Write a search query."}, *asked], "order status warehouse", root)
            t.add(
                "search",
                {
                    "openinference.span.kind": "RETRIEVER",
                    "input.value": "order status warehouse",
                    "retrieval.documents.0.document.content": P,
                    **S,
                },
                root,
            )
            llm(
                t,
                [{"role": "system", "content": f"Answer from the context.\n\nContext:\n{P}"}, *asked],
                TURNS[k][1],
                root,
            )
            if not wrapped:  # every span a trace of its own
                for span in t.spans:
                    own = Trace()
                    own.spans = [dataclasses.replace(span, trace_id=own.trace_id)]
                    traces.append(own)
            else:
                traces.append(t)
        session = one(*traces)
        assert said(session) == TURNS[:2], wrapped
        assert [[x for _, x in docs] for docs in evidence(session)] == [[P], [P]], wrapped


def test_calls_after_the_answer_do_not_replace_it() -> None:
    """A title is generated after the answer; the next turn's history says what was the answer."""
    first = Trace(0.0)
    root = first.add("POST /chat", {"http.request.method": "POST"}, lasts=9)
    llm(first, [{"role": "user", "content": TURNS[0][0]}], TURNS[0][1], root)
    llm(first, [{"role": "user", "content": f"Give a title to this conversation: {TURNS[0][0]}"}], "Order status", root)
    assert said(one(first, chat(1, ids=S))) == TURNS[:2]


def tool_turn(name: str, result: Any, *, text: str = "It ships on Monday.") -> Trace:
    t = Trace()
    use = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": name, "arguments": "{}"}}]}
    given = [{"role": "user", "content": "When?"}]
    root = t.add("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", **S}, lasts=9)
    llm(t, given, use, root)
    t.add(
        f"execute_tool {name}",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.result": json.dumps(result),
        },
        root,
    )
    llm(t, [*given, use, {"role": "tool", "tool_call_id": "c1", "content": json.dumps(result)}], text, root)
    return t


@pytest.mark.parametrize(
    "result",
    [
        [{"id": "a1", "text": P}, {"id": "b2", "text": R}],
        {"documents": [{"doc_id": "a1", "page_content": P}, {"doc_id": "b2", "page_content": R}]},
        {"results": [{"id": "a1", "content": P, "score": 0.2}, {"id": "b2", "content": R, "score": 0.1}]},
        {"hits": {"total": 2, "hits": [{"_id": "a1", "_score": 2, "_source": {"body": P}}, {"_id": "b2", "_score": 1, "_source": {"body": R}}]}},
        {"matches": [{"id": "a1", "score": 0.5, "metadata": {"text": P}}, {"id": "b2", "score": 0.4, "metadata": {"text": R}}]},
        {"ids": [["a1", "b2"]], "documents": [[P, R]], "metadatas": [[{}, {}]], "distances": [[0.1, 0.2]]},
        [[{"id": "a1", "snippet": P}, 0.9], [{"id": "b2", "snippet": R}, 0.8]],
        [{"node": {"id_": "a1", "text": P}, "score": 0.9}, {"node": {"id_": "b2", "text": R}, "score": 0.8}],
        {"content": [{"type": "text", "text": json.dumps([{"id": "a1", "text": P}, {"id": "b2", "text": R}])}]},
        {"chunks": [{"chunk_id": "a1", "chunk": P}, {"chunk_id": "b2", "chunk": R}]},
        [{"metadata": {"source_id": "a1"}, "text": P}, {"metadata": {"source_id": "b2"}, "text": R}],
        {"data": [{"uuid": "a1", "passage": P}, {"uuid": "b2", "passage": R}], "took": 3},
        f"[a1] {P}\n[b2] {R}",
        f"<document id='a1'>{P}</document><document id='b2'>{R}</document>",
        repr([{"id": "a1", "text": P}, {"id": "b2", "text": R}]),
    ],
    ids=range(15),
)  # fmt: skip
def test_results_of_retrieval_tools(result: Any) -> None:
    session = one(tool_turn("search_kb", result))
    assert evidence(session) == [[("a1", P), ("b2", R)]]
    assert [c.is_retrieval for c in session.turns[0].tool_calls] == [True]
    assert {p.read_from for p in session.turns[0].passages} == {"tool"}


def test_strings_and_plain_text_of_a_retrieval_tool() -> None:
    assert evidence(one(tool_turn("retrieve_passages", [P, R]))) == [[(None, P), (None, R)]]
    assert evidence(one(tool_turn("lookupPolicy", P))) == [[(None, P)]]


@pytest.mark.parametrize("result", [[], {"results": []}, "", "No results found."])
def test_a_search_that_found_nothing_is_none(result: Any) -> None:
    turn = one(tool_turn("search_kb", result)).turns[0]
    assert (turn.retrieval, turn.passages) == ("none", ())


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("get_weather", {"temperature": 21, "text": "sunny"}),
        ("send_email", "sent"),
        ("list_orders", [{"id": 1, "status": "open"}, {"id": 2, "status": "sent"}]),
        ("calculate", 42),
    ],
)
def test_other_tools_are_no_retrieval(name: str, result: Any) -> None:
    turn = one(tool_turn(name, result)).turns[0]
    assert (turn.retrieval, turn.passages) == ("no_retrieval", ())
    assert [(c.name, c.is_retrieval) for c in turn.tool_calls] == [(name, False)]


def test_which_tools_retrieve_is_an_option() -> None:
    options = ReconstructOptions(retrieval_tools=("get_weath*",))
    turn = one(tool_turn("get_weather", "Sunny and warm, with some wind from the west."), options=options).turns[0]
    assert (turn.retrieval, turn.tool_calls[0].is_retrieval) == ("captured", True)


def test_a_tool_of_any_name_that_returns_documents_is_retrieval() -> None:
    assert evidence(one(tool_turn("ask_archive", [{"id": "a", "text": P, "score": 0.3}]))) == [[("a", P)]]


def rag(documents: list[tuple[str, str, str | None]], prompt: list[str]) -> Trace:
    """Retriever-like spans (kind, id, text) below a chain, then a call whose prompt holds `prompt`."""
    t = Trace()
    root = t.add(
        "chain",
        {"openinference.span.kind": "CHAIN", "input.value": "When?", "output.value": "On Monday.", **S},
        lasts=20,
    )
    for kind, own, text in documents:
        prefix = "reranker.output_documents.0.document" if kind == "RERANKER" else "retrieval.documents.0.document"
        attributes = {"openinference.span.kind": kind, "input.value": "q", f"{prefix}.id": own}
        if text is not None:
            attributes[f"{prefix}.content"] = text
        t.add(kind.lower(), attributes, root)
    llm(
        t,
        [{"role": "system", "content": "Context:\n" + "\n".join(prompt)}, {"role": "user", "content": "When?"}],
        "On Monday.",
        root,
    )
    return t


def test_what_the_prompt_holds_counts() -> None:
    """Retrieved, but filtered out before the prompt."""
    assert evidence(one(rag([("RETRIEVER", "a", P), ("RETRIEVER", "b", R)], [R]))) == [[("b", R)]]


def test_several_retrievals_add_up_without_copies() -> None:
    session = one(rag([("RETRIEVER", "a", P), ("RETRIEVER", "b", R), ("RETRIEVER", "a", P)], [P, R]))
    assert evidence(session) == [[("a", P), ("b", R)]]


def test_a_reranker_replaces_what_it_was_given() -> None:
    session = one(rag([("RETRIEVER", "a", P), ("RETRIEVER", "b", R), ("RERANKER", "b", R)], ["(not shown)"]))
    assert evidence(session) == [[("b", R)]]
    assert session.turns[0].passages[0].read_from == "reranker"


def test_ids_without_text_are_completed_from_the_prompt() -> None:
    session = one(rag([("RETRIEVER", "a", None), ("RETRIEVER", "b", None)], [f"[a] {P}", f"[b] {R}"]))
    assert evidence(session) == [[("a", P), ("b", R)]]
    assert session.turns[0].retrieval == "captured"


def test_ids_without_text_anywhere_are_ids_only() -> None:
    t = rag([("RETRIEVER", "a", None)], [])
    t.spans[-1].attributes["gen_ai.input.messages"] = json.dumps([{"role": "user", "content": "When?"}])  # type: ignore[index]
    turn = one(t).turns[0]
    assert (turn.retrieval, [p.id for p in turn.passages], turn.passages[0].text) == ("ids_only", ["a"], None)


def test_resent_tool_results_are_no_evidence_of_a_later_turn() -> None:
    """The second turn calls no tool; the first one's result is only in its history."""
    first = tool_turn("search_kb", [{"id": "a", "text": P}])
    second = Trace(100.0)
    past = json.loads(first.spans[-1].attributes["gen_ai.input.messages"])
    llm(
        second,
        [*past, {"role": "assistant", "content": "It ships on Monday."}, {"role": "user", "content": "Thanks!"}],
        "You're welcome.",
    )
    session = one(first, second)
    assert evidence(session) == [[("a", P)], []]
    assert [t.retrieval for t in session.turns] == ["captured", "no_retrieval"]


def test_instructions_that_never_change_are_no_passages() -> None:
    system = {
        "role": "system",
        "content": "Follow these documents guidelines:\n1. Be kind to people.\n2. Be brief in answers.",
    }
    traces = []
    for k in range(2):
        t = Trace(100.0 * k)
        past = [m for q, a in TURNS[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]
        llm(t, [system, *past, {"role": "user", "content": TURNS[k][0]}], TURNS[k][1])
        traces.append(t)
    assert [t.retrieval for t in one(*traces).turns] == ["no_retrieval", "no_retrieval"]


def test_several_steps_of_tools_are_one_turn() -> None:
    t = Trace()
    given: list[dict[str, Any]] = [{"role": "user", "content": "When, and to the islands?"}]
    for i, (own, text) in enumerate([("a", P), ("b", R)]):
        use = {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [{"id": f"c{i}", "function": {"name": "search_kb", "arguments": "{}"}}],
        }
        llm(t, given, use)
        given = [
            *given,
            use,
            {"role": "tool", "tool_call_id": f"c{i}", "content": json.dumps([{"id": own, "text": text}])},
        ]
    llm(t, given, "On Monday, three days longer.")
    session = one(*[_own_trace(span) for span in t.spans])
    assert said(session) == [("When, and to the islands?", "On Monday, three days longer.")]
    assert evidence(session) == [[("a", P), ("b", R)]]
    assert len(session.turns[0].trace_ids) == 3


def _own_trace(span: Any) -> Trace:
    t = Trace()
    t.spans = [dataclasses.replace(span, trace_id=t.trace_id, parent_id=None)]
    return t


def test_a_json_answer_is_unwrapped() -> None:
    t = Trace()
    llm(t, [{"role": "user", "content": "When?"}], json.dumps({"answer": "On Monday.", "citations": [1]}))
    assert said(one(t)) == [("When?", "On Monday.")]


def test_a_check_after_the_answer_does_not_replace_it() -> None:
    """Nothing follows, no wrapper says what was answered: the call that was given the passages answered."""
    t = Trace()
    root = t.add("POST /chat", {"http.request.method": "POST"}, lasts=20)
    t.add(
        "search",
        {"openinference.span.kind": "RETRIEVER", "input.value": "q", "retrieval.documents.0.document.content": P, **S},
        root,
    )
    llm(t, [{"role": "system", "content": f"Context:\n{P}"}, {"role": "user", "content": "When?"}], "On Monday.", root)
    llm(t, [{"role": "user", "content": "Is the answer to 'When?' polite? Say yes or no."}], "yes", root)
    assert said(one(t)) == [("When?", "On Monday.")]


def test_a_library_that_reports_the_first_documents_only_is_completed_from_the_prompt() -> None:
    """OpenLIT: three documents, cut; the prompt has all four."""
    docs = [P, R, "Gift wrapping costs two euros a parcel.", "Returns are free within thirty days."]
    for shown, state in ((True, "captured"), (False, "partial")):
        t = Trace(scope="openlit.instrumentation.langchain")
        found = [{"content": d[:20] + "...", "id": f"doc-{i}"} for i, d in enumerate(docs[:3])]
        root = t.add("invoke_workflow rag", {"gen_ai.operation.name": "invoke_workflow", **S}, lasts=9)
        t.add(
            "retrieval Store",
            {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps(found)},
            root,
        )
        prompt = "Answer from the context.\n\nContext:\n" + "\n\n".join(docs) if shown else "Answer."
        llm(t, [{"role": "system", "content": prompt}, {"role": "user", "content": "When?"}], "On Monday.", root)
        turn = one(t).turns[0]
        assert turn.retrieval == state
        if shown:
            assert [p.text for p in turn.passages] == docs
            assert [p.id for p in turn.passages[:3]] == ["doc-0", "doc-1", "doc-2"]
    assert "first_documents_only" in {h.code for h in one(t).hints}


def test_scrubbed_results_are_read_from_the_next_call() -> None:
    """logfire replaces a tool's result that speaks of a session; the message that carried it is exempt."""
    t = tool_turn("search_kb", [{"id": "a1", "text": P}])
    span = next(s for s in t.spans if s.name.startswith("execute_tool"))
    span.attributes["gen_ai.tool.call.result"] = "[Scrubbed due to 'session']"  # type: ignore[index]
    assert evidence(one(t)) == [[("a1", P)]]


def test_a_scrubbed_session_id_is_no_session_id() -> None:
    traces = [chat(k, ids={"session_id": "[Scrubbed due to 'session']"}) for k in range(2)]
    assert one(*traces).session_id is None


def test_texts_cut_at_the_attribute_limit_are_partial() -> None:
    """The limit shows where a JSON value was cut; a text of just that length was cut too."""
    text = P * 10
    t = Trace()
    root = t.add(
        "chain",
        {"openinference.span.kind": "CHAIN", "input.value": "When?", "output.value": "On Monday.", **S},
        lasts=9,
    )
    whole = json.dumps({"documents": [{"page_content": text, "id": "a1"}]})
    t.add(
        "retriever",
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "q",
            "retrieval.documents.0.document.content": text[:200],
            "output.value": whole[:200],
        },
        root,
    )
    turn = one(t).turns[0]
    assert turn.retrieval == "partial"
    assert "truncated" in {h.code for h in one(t).hints}


def test_a_cut_shows_on_a_call_too_whose_messages_an_inner_span_has() -> None:
    text = P * 10
    t = Trace()
    t.add(
        "retriever",
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "q",
            "retrieval.documents.0.document.content": text[:200],
        },
    )
    outer = t.add(
        "llm",
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "input.value": json.dumps({"messages": [text]})[:200],
            **S,
        },
        lasts=9,
    )
    t.add(
        "chat",
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "When?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "On Monday.",
        },
        outer,
    )
    session = one(t)
    assert session.turns[0].answer == "On Monday."
    assert session.turns[0].retrieval == "partial"
    assert "truncated" in {h.code for h in session.hints}


@pytest.mark.parametrize("key", ["output.value", "gen_ai.output.messages"])
@pytest.mark.parametrize(
    "answer",
    [
        {"type": ["string", "null"], "description": "file_search"},
        {"type": {"name": "string"}},
        [{"type": ["object"]}],
        {"role": "assistant", "content": [{"type": ["text"], "text": "file_search"}]},
        {"role": "assistant", "parts": [{"type": 5, "content": "On Monday."}]},
    ],
)
def test_an_answer_in_json_may_have_anything_for_its_type(key: str, answer: Any) -> None:
    t = Trace()
    asked = {"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": "Which schema?"}
    if key != "output.value":
        asked = {"gen_ai.operation.name": "chat", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Which?"}
    t.add("chat", {**asked, key: json.dumps(answer), **S})
    session = one(t)
    assert [turn.user[:5] for turn in session.turns if turn.user] == ["Which"]
    assert "reconstruction_failed" not in {h.code for h in session.hints}


def test_feedback_of_people_is_kept() -> None:
    t = Trace(scope="mlflow")
    human = {
        "assessment_name": "helpful",
        "source": {"source_type": "HUMAN"},
        "feedback": {"value": False},
        "rationale": "wrong date",
    }
    judge = {"assessment_name": "grounded", "source": {"source_type": "LLM_JUDGE"}, "feedback": {"value": True}}
    t.add(
        "turn",
        {
            "mlflow.spanType": '"CHAIN"',
            "mlflow.spanInputs": '{"q": "When?"}',
            "mlflow.spanOutputs": '"On Monday."',
            "mlflow.trace.session": "s",
            "mlflow.trace.assessments": [human, judge],
        },
    )
    assert one(t).turns[0].feedback == "helpful: False (wrong date)"


def test_turns_without_content_below_one_root_are_told_by_their_shape() -> None:
    """Content capture is off: three times the same work is three turns, an agent's two steps are one."""
    session = Trace()
    root = session.add("session", {"openinference.span.kind": "CHAIN", **S}, lasts=50)
    for _ in range(3):
        turn = session.add("chat_turn", {"openinference.span.kind": "CHAIN"}, root, lasts=5)
        session.add("ChatCompletion", {"openinference.span.kind": "LLM", "llm.model_name": "m"}, turn)
    assert [(t.user, t.answer_state) for t in one(session).turns] == [(None, "not_captured")] * 3
    agent = Trace()
    root = agent.add("LangGraph", {"openinference.span.kind": "CHAIN", **S}, lasts=50)
    for name in ("agent", "tools", "agent"):
        node = agent.add(name, {"openinference.span.kind": "CHAIN"}, root, lasts=5)
        kind = "TOOL" if name == "tools" else "LLM"
        agent.add(name, {"openinference.span.kind": kind, "llm.model_name": "m", "tool.name": "search_kb"}, node)
    assert len(one(agent).turns) == 1


@pytest.mark.parametrize("given", [{"answer": ""}, {"answer": " \n"}])
def test_an_agent_that_ends_with_an_empty_answer_has_its_turn(given: dict[str, str]) -> None:
    messages: list[dict[str, Any]] = []
    traces = []
    for k, (question, answer) in enumerate(TURNS):
        final = {"name": "final_answer", "arguments": json.dumps({"answer": answer} if k != 1 else given)}
        ends = {"role": "assistant", "tool_calls": [{"id": f"c{k}", "type": "function", "function": final}]}
        messages.append({"role": "user", "content": question})
        t = Trace(100.0 * k)
        root = t.add("agent", {"openinference.span.kind": "AGENT", "input.value": question, **S})
        llm(t, messages, ends, root)
        traces.append(t)
        messages += [ends, {"role": "tool", "tool_call_id": f"c{k}", "content": answer if k != 1 else ""}]
    assert said(one(*traces)) == [TURNS[0], (TURNS[1][0], None), TURNS[2]]
