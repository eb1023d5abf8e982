"""Lists of passages as applications print them: marks, enclosing lines, JSON by line, texts with notes around them."""
# ruff: noqa: E501 - prompts stay on the line they are sent on

from __future__ import annotations

import json
import textwrap

import pytest

from otel_drift.sessions.prompt import find_passages
from spans import Trace, evidence, found, one

A = "Refunds are paid within 14 days of the return, by the method used for the purchase."
B = "Gift cards are never refunded, except where the law requires it."
LONG = "## Restoring a file\n\n1. List the snapshots.\n2. Restore one.\n\nNote: it is written beside the present file."
JAPANESE = ["最大容量は1.2リットルです。", "水以外の液体を沸かさないでください。"]


WITHOUT_IDS = {
    "numbered tags": f"Context:\n<source_1>\n{A}\n</source_1>\n<source_2>\n{B}\n</source_2>",
    "corner brackets": f"Context:\n【1】{A}\n\n【2】{B}",
    "a list in JSON": f"Context:\n{json.dumps([A, B])}\n\nQuestion: when?",
    "a list as Python prints it": f"Context:\n{[A, B]}\n\nQuestion: when?",
    "quoted lines": f'Context:\n"{A}"\n"{B}"\n\nQuestion: when?',
    "lines that enclose all": f"You are a bot.\nSTART CONTEXT BLOCK\n{A}\n{B}\nEND OF CONTEXT BLOCK\nAI assistant will take into account any CONTEXT BLOCK.",
    "lines that enclose all, in words": f"=== Beginning of search results ===\n{A}\n\n{B}\n=== End of search results ===\nBe brief.",
    "titles between rules": f"Context:\n--- Document 1: refunds.md ---\n{A}\n\n--- Document 2: cards.md ---\n{B}",
    "titles behind marks": f"Context:\nDocument 1: Refunds\n{A}\n\nDocument 2: Gift cards\n{B}",
    "sources below": f"Context:\n{A}\n(Source: refunds.md)\n\n{B}\n(Source: cards.md)",
    "JSON by line, texts only": "Context:\n" + "\n".join(json.dumps({"text": t}) for t in (A, B)),
    "bold titles in a list": f"Context:\n- **Refunds** (refunds.md): {A}\n- **Cards** (cards.md): {B}",
}
WITH_IDS = {
    "numbered brackets": f"Context:\n#1 [ref-12] {A}\n\n#2 [ref-9] {B}",
    "enclosing lines": f"Context:\n[BEGIN DOCUMENT ref-12]\n{A}\n[END DOCUMENT]\n[BEGIN DOCUMENT ref-9]\n{B}\n[END DOCUMENT]",
    "JSON by line": "Context:\n"
    + "\n".join(json.dumps({"id": i, "text": t}) for i, t in (("ref-12", A), ("ref-9", B))),
    "ids within a list in JSON": f"Context:\n{json.dumps([f'ref-12: {A}', f'ref-9: {B}'])}",
    "fields as YAML": f"Context:\n- id: ref-12\n  title: Refunds\n  text: {A}\n- id: ref-9\n  title: Cards\n  text: {B}",
    "a path as id": f"Context:\nDocument [ref-12]: Refunds\n{A}\n---\nDocument [ref-9]: Gift cards\n{B}",
}


@pytest.mark.parametrize("form", WITHOUT_IDS)
def test_texts(form: str) -> None:
    assert found(WITHOUT_IDS[form]) == [(None, A), (None, B)]


@pytest.mark.parametrize("form", WITH_IDS)
def test_texts_and_ids(form: str) -> None:
    assert found(WITH_IDS[form]) == [("ref-12", A), ("ref-9", B)]


def test_long_numbers_are_ids() -> None:
    assert found(f"Context:\n[4711] {A}\n[4712] {B}") == [("4711", A), ("4712", B)]
    assert found(f"Context:\n[1] {A}\n[2] {B}") == [(None, A), (None, B)]


def test_sentences_of_a_script_without_spaces() -> None:
    assert [text for _, text in found("Context:\n" + "\n".join(JAPANESE))] == JAPANESE
    assert [
        text for _, text in found(f"Context:\n{json.dumps(JAPANESE, ensure_ascii=False)}\n\nQuestion: 何?")
    ] == JAPANESE


def test_a_passage_keeps_its_own_heading_list_and_note() -> None:
    assert [text for _, text in found(f"Context:\n{LONG}\n---\n{A}")] == [LONG, A]
    assert [text for _, text in found(f"Context:\n{A}\n\nNote: cite the context in your answer.")] == [A]
    assert found(f"Context:\nDocument 1: Refunds\n{A}") == [(None, f"Refunds\n{A}")]


def test_a_sentence_that_begins_like_a_source_is_text() -> None:
    said = "Source: every repository is sealed with a key of its own.\nIt never leaves the machine."
    assert [text for _, text in found(f"Context:\n{said}\n---\n{A}")] == [said, A]


@pytest.mark.parametrize(
    "said",
    [
        "We could not find anything wrong with the pump.",
        "The search did not return any of the missing boats.",
        "I cannot retrieve any key once the vault is sealed.",
    ],
)
def test_a_passage_about_something_that_was_not_found_is_text(said: str) -> None:
    assert found(f"Context:\n{said}\n\nQuestion: when?") == [(None, said)]


def test_a_line_that_was_broken_is_no_title() -> None:
    broken = [textwrap.fill(text, 50) for text in (A, B)]
    assert found(f"Context:\nDocument 1: {broken[0]}\n\nDocument 2: {broken[1]}") == [(None, text) for text in broken]


def test_a_rule_of_dashes_in_an_enclosing_line_is_no_id() -> None:
    prompt = "".join(f"--- begin document ---\n{text}\n--- end document ---\n" for text in (A, B))
    assert found(prompt) == [(None, A), (None, B)]


@pytest.mark.parametrize(
    "nothing",
    [
        "Sorry, I could not find any relevant information.", "I couldn't find anything about that.",
        "The search did not return any results.", "No sources found.",
    ],
)  # fmt: skip
def test_what_a_tool_says_where_it_found_nothing(nothing: str) -> None:
    t = Trace()
    call = {"id": "c", "type": "function", "function": {"name": "getInformation", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "When?"}, {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": nothing},
    ]  # fmt: skip
    t.add("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages),
                   "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "I do not know."}])})  # fmt: skip
    session = one(t)
    assert evidence(session) == [[]]
    assert session.turns[0].retrieval == "none"


@pytest.mark.parametrize(
    "prompt",
    [
        "Follow these rules:\n1. [IMPORTANT] Always answer politely and at length.\n2. [OPTIONAL] Use the user's name.",
        'Reply with a line like\n{"label": "positive", "confidence": 0.5}',
        'Why does it stop?\n{"level": "error", "message": "Connection to the database timed out after 30 seconds"}',
        'What is wrong with this body?\n{"name": "greeting", "text": "Welcome to our shop, dear customer"}',
        "【お知らせ】本日は休業です。明日の営業時間を教えてください。",
        'Classify the message as one of ["a complaint about an order", "a question about an order"].',
        "Start context aware mode.\nThe end of the conversation is near.",
        "When you begin the document, greet the user.\nEnd with a question.",
    ],
)
def test_instructions_are_no_passages(prompt: str) -> None:
    assert found(prompt) == []


def test_an_empty_block_is_no_passage() -> None:
    result = find_passages("You are a bot.\nSTART CONTEXT BLOCK\n\nEND OF CONTEXT BLOCK\nAI assistant is kind.")
    assert result is not None
    assert (result.documents, result.form) == ((), "empty")
