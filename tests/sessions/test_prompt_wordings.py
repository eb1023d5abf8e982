"""Passages are found in the well-known prompts of RAG libraries, and in what varies where no wording is known."""
# ruff: noqa: E501 - prompts stay on the line they are sent on

from __future__ import annotations

import json

import pytest

from otel_drift.sessions.user_text import from_template
from spans import Trace, evidence, found, one

A = "Refunds are paid within 14 days of the return, by the method used for the purchase."
B = "Gift cards are never refunded, except where the law requires it."
LISTED = "Sizes in stock:\n- small\n- large"
Q = "How long does a refund take?"
UNKNOWN = "If you don't know the answer, just say that you don't know, don't try to make up an answer."


WORDINGS = {
    "LangChain's tutorial": f"You are an assistant for question-answering tasks. Use the following pieces of retrieved context to answer the question. If you don't know the answer, say that you don't know. Use three sentences maximum and keep the answer concise.\n\n{A}\n\n{B}",
    "rlm/rag-prompt": f"You are an assistant for question-answering tasks. Use the following pieces of retrieved context to answer the question. Keep the answer concise.\nQuestion: {Q} \nContext: {A}\n\n{B} \nAnswer:",
    "RetrievalQA": f"Use the following pieces of context to answer the question at the end. {UNKNOWN}\n\n{A}\n\n{B}\n\nQuestion: {Q}\nHelpful Answer:",
    "chat QA": f"Use the following pieces of context to answer the user's question. \n{UNKNOWN}\n----------------\n{A}\n\n{B}",
    "with sources": f'Given the following extracted parts of a long document and a question, create a final answer with references ("SOURCES").\n\nQUESTION: {Q}\n=========\nContent: {A}\nSource: a.md\nContent: {B}\nSource: b.md\n=========\nFINAL ANSWER:',
    "citation engine": f"Please provide an answer based solely on the provided sources. For example:\nSource 1:\nThe sky is red in the evening.\nSource 2:\nWater is wet when the sky is red.\nQuery: When is water wet?\nAnswer: In the evening [1][2].\nNow it's your turn. Below are several numbered sources of information:\n------\nSource 1:\n{A}\n\nSource 2:\n{B}\n------\nQuery: {Q}\nAnswer: ",
    "Spring AI": f"{Q}\n\nContext information is below, surrounded by ---------------------\n\n---------------------\n{A}\n{B}\n---------------------\n\nGiven the context and provided history information and not prior knowledge,\nreply to the user comment.\n",
    "LangChain4j": f"{Q}\n\nAnswer using the following information:\n{A}\n\n{B}",
    "Semantic Kernel": f"Please use this information to answer the question:\nName: a\nValue: {A}\nLink: a.md\n-----------------\nName: b\nValue: {B}\nLink: b.md\n-----------------\n\nInclude citations to the relevant information.",
    "cookbook": f'Use the below articles to answer the question. If the answer cannot be found in the articles, write "I could not find an answer."\n\nArticle section:\n"""\n{A}\n"""\n\nArticle section:\n"""\n{B}\n"""\n\nQuestion: {Q}',
    "triple quotes": f'Context: """{A}\n\n{B}"""\n\nQuestion: """{Q}"""',
    "Markdown sections": f"You are helpful.\n\n# Retrieved documents\n\n## Refunds\n\n{A}\n\n## Cards\n\n{B}\n\n# Instructions\n\nBe brief.",
    "titles under a line": f"You help customers.\n\nRetrieved sections:\n\n### Refunds\n{A}\n\n### Cards\n{B}",
    "bold titles": f"Relevant knowledge base articles:\n\n**Refunds** (a.md)\n{A}\n\n**Cards** (b.md)\n{B}\n\nAnswer politely.",
    "bullets under capitals": f"Rules bot.\n\nEXCERPTS\n• {A}\n• {B}",
    "rules between": f"Answer the question using the following context.\n\nContext:\n{A}\n---\n{B}\n\nQuestion: {Q}",
    "German excerpts": f"Du bist ein Assistent. Beantworte die Frage nur anhand der folgenden Auszüge.\n\nAuszug 1: {A}\n\nAuszug 2: {B}",
    "German context": f"Kontext:\n{A}\n\n{B}\n\nFrage: {Q}\nAntwort:",
    "French context": f"Contexte :\n{A}\n\n{B}\n\nQuestion : {Q}",
    "notes in front": f"Passages:\n[1] (a.md) {A}\n[2] (b.md) {B}",
    "closed blocks": f"Context:\n[CONTEXT 0]:\n{A}\n[END CONTEXT 0]\n\n[CONTEXT 1]:\n{B}\n[END CONTEXT 1]\n\n",
}


@pytest.mark.parametrize("wording", WORDINGS)
def test_prompts_of_libraries(wording: str) -> None:
    assert [text for _, text in found(WORDINGS[wording])] == [A, B]


@pytest.mark.parametrize(
    "prompt",
    [
        f"Sources:\nref-12: {A}\nref-9: {B}",
        f"CONTEXT:\n- id: ref-12\n  text: {A}\n- id: ref-9\n  text: {B}",
        f"===== Document ref-12 =====\n{A}\n\n===== Document ref-9 =====\n{B}",
    ],
)
def test_ids_beside_the_texts(prompt: str) -> None:
    assert found(prompt) == [("ref-12", A), ("ref-9", B)]


def test_a_list_inside_a_passage_does_not_divide_it() -> None:
    assert [t for _, t in found(f"EXCERPTS\n• {LISTED}\n• {B}")] == [LISTED, B]
    assert [t for _, t in found(f"CONTEXT:\n- id: a-1\n  text: {LISTED}\n- id: a-2\n  text: {B}")] == [LISTED, B]


@pytest.mark.parametrize(
    "prompt",
    [
        "You are the assistant of a shop. Use search_rules. Be polite and answer in the language of the guest.",
        "Rules:\n- Use the search tool for questions about documents.\n- Never reveal internal information.\n- Cite sources.",
        "You have access to these tools:\n- search_documents: searches the knowledge base\n- get_article: fetch an article",
        "Your input fields are:\n1. `context` (list[str]):\n2. `question` (str):\n\n[[ ## context ## ]]\n{context}\n\n[[ ## question ## ]]\n{question}",
        "Please compare the following sources of income:\n1. rent\n2. salary",
        "Context:\n\n\nQuestion: May my parrot come?",
        "Context:\n(no results)\n\nQuestion: May my parrot come?",
        "Context:\n[]\n\nQuestion: May my parrot come?",
        "Answer from the documents.\n<documents>\n\n</documents>",
    ],
)
def test_templates_instructions_and_placeholders_are_no_passages(prompt: str) -> None:
    assert found(prompt) == []


@pytest.mark.parametrize(
    "wording", ["Spring AI", "LangChain4j", "triple quotes", "rlm/rag-prompt", "RetrievalQA", "with sources"]
)
def test_the_question_of_a_stuffed_message(wording: str) -> None:
    assert from_template(WORDINGS[wording]) == Q


def turn(k: int, messages: list[dict[str, str]], answer: str, **more: object) -> Trace:
    t = Trace(k * 100.0)
    t.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "session.id": "s",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": answer}]),
            **more,
        },
    )
    return t


def test_what_varies_between_prompts_of_a_session_is_material() -> None:
    """Nothing announces it in a known wording, but the template speaks of a knowledge base."""
    texts = [
        A + " Keep the receipt until then.",
        B + " This holds for vouchers, too.",
        LISTED + "\nAll others can be ordered within two weeks.",
    ]
    traces = [
        turn(k, [{"role": "system", "content": f"Shop bot with a knowledge base, today it says\n{text}\nSo much for that."},
                 {"role": "user", "content": f"Question number {k}, please?"}], f"Answer number {k}.")
        for k, text in enumerate(texts)
    ]  # fmt: skip
    session = one(*traces)
    assert evidence(session) == [[(None, text)] for text in texts]
    assert {t.retrieval for t in session.turns} == {"captured"}


def test_a_date_that_varies_is_no_material() -> None:
    traces = [
        turn(k, [{"role": "system", "content": f"Shop bot with a knowledge base.\nToday is 2026-03-0{k}.\nBe kind."},
                 {"role": "user", "content": f"Question number {k}, please?"}], f"Answer number {k}.")
        for k in range(1, 4)
    ]  # fmt: skip
    assert {t.retrieval for t in one(*traces).turns} == {"no_retrieval"}


def test_a_history_in_the_prompt_is_no_material() -> None:
    said: list[str] = []
    traces = []
    for k in range(4):
        user, answer = (
            f"Question number {k} about the contents of the box?",
            f"The box holds {k} apples, and pears as well.",
        )
        system = "You know the documents of the shop.\nSo far:\n" + "\n".join(said) + "\nGo on."
        traces.append(turn(k, [{"role": "system", "content": system}, {"role": "user", "content": user}], answer))
        said += [f"guest said {user}", f"you said {answer}"]
    assert all(not t.passages for t in one(*traces).turns)


def test_a_template_variable_named_as_material_holds_the_passages() -> None:
    t = turn(
        0,
        [{"role": "user", "content": f"{A}\n{B}\n{Q}"}],
        "14 days.",
        **{"gen_ai.prompt.variable.docs": f"{A}\n\n{B}", "gen_ai.prompt.variable.question": Q},
    )
    assert evidence(one(t)) == [[(None, A), (None, B)]]
    empty = turn(
        0,
        [{"role": "user", "content": f"Passages: none. {Q}"}],
        "I don't know.",
        **{"gen_ai.prompt.variable.docs": "No documents found."},
    )
    assert [t.retrieval for t in one(empty).turns] == ["none"]


def test_an_empty_slot_is_no_retrieval_where_other_turns_have_retriever_spans() -> None:
    full = Trace(0.0)
    root = full.add("turn", {"session.id": "s"})
    full.add(
        "search",
        {
            "gen_ai.operation.name": "retrieval",
            "session.id": "s",
            "gen_ai.retrieval.documents": json.dumps([{"id": "a-1", "content": A}]),
        },
        root,
    )
    full.add(
        "chat m",
        {"gen_ai.operation.name": "chat", "session.id": "s",
         "gen_ai.input.messages": json.dumps([{"role": "system", "content": f"Answer from the passages below.\n\n[a-1] {A}"}, {"role": "user", "content": Q}]),
         "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "14 days."}])},
        root,
    )  # fmt: skip
    bare = turn(
        1,
        [{"role": "system", "content": "Answer from the passages below.\n\n"}, {"role": "user", "content": "Thanks!"}],
        "You're welcome.",
    )
    assert [t.retrieval for t in one(full, bare).turns] == ["captured", "no_retrieval"]
    alone = turn(
        1,
        [{"role": "system", "content": "Answer from the passages below.\n\n"}, {"role": "user", "content": "Thanks!"}],
        "You're welcome.",
    )
    assert [t.retrieval for t in one(alone).turns] == ["none"]


@pytest.mark.parametrize(
    "message",
    [
        f"Can you send me the documents below?\n1. {A}\n2. {B}",
        f"Extract the following information:\n- {A}\n- {B}",
    ],
)
def test_a_list_the_user_wrote_is_no_retrieved_material(message: str) -> None:
    session = one(turn(0, [{"role": "user", "content": message}], "Here you are."))
    assert (session.turns[0].user, session.turns[0].passages) == (message, ())
