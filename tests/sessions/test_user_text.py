"""The user's own words are told from the template around them."""
# ruff: noqa: E501 - prompts and messages stay on the line they are sent on

from __future__ import annotations

import pytest

from otel_drift.sessions.user_text import from_template, transcript, user_text

Q = "Can I return a gift card?"
CONTEXT = "[ref-12] Refunds are paid within 14 days.\n[ref-9] Gift cards are never refunded."

TEMPLATES = {
    "context, question, answer": f"Context:\n{CONTEXT}\n\nQuestion: {Q}\nAnswer:",
    "question last": f"Use the following pieces of context to answer the question at the end.\n\n{CONTEXT}\n\nQuestion: {Q}",
    "helpful answer": f"Use the following context.\n\n{CONTEXT}\n\nQuestion: {Q}\nHelpful Answer:",
    "fenced": f"Context information is below.\n-----\n{CONTEXT}\n-----\nGiven the context, answer the query.\nQuery: {Q}\nAnswer: ",
    "question first": f"Question: {Q}\n\nContext:\n{CONTEXT}",
    "question first, no mark": f"{Q}\n\nContext:\n{CONTEXT}",
    "question after a rule": f"Context:\n{CONTEXT}\n\n---\n\n{Q}",
    "tags": f"<context>\n{CONTEXT}\n</context>\n\n<question>{Q}</question>",
    "tagged context, bare question": f"<context>\n{CONTEXT}\n</context>\n\n{Q}",
    "markdown": f"### Context\n{CONTEXT}\n\n### Question:\n{Q}\n\n### Answer:",
    "bold": f"**Context:**\n{CONTEXT}\n\n**Question:** {Q}",
    "user question": f"Documents:\n{CONTEXT}\n\nUser question: {Q}",
    "dspy": f"[[ ## context ## ]]\n[1] «Refunds»\n\n[[ ## question ## ]]\n{Q}\n\nRespond with the corresponding output fields, starting with the field `[[ ## response ## ]]`.",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(name: str) -> None:
    assert from_template(TEMPLATES[name]) == Q


@pytest.mark.parametrize(
    "text",
    [
        Q,
        "My question: can I return it?",
        "Question: is this allowed?",
        "Here is what happened:\n- I bought it\n- I lost it\n\nWhat now?",
        "user: root\npassword: none\nWhy does it fail?",
    ],
)
def test_what_a_user_wrote_is_left_alone(text: str) -> None:
    assert user_text(text, [], None) == text


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_known_question_inside_the_template_wins(name: str) -> None:
    """What the chain was called with is exact where the template is not understood."""
    assert user_text(TEMPLATES[name], [("en", True), (Q, True)], None) == Q
    assert user_text(TEMPLATES[name], [], Q) == Q


def test_a_rewritten_query_does_not_stand_for_the_user() -> None:
    assert user_text(None, [("gift card refund policy", False)], None) is None
    assert user_text(None, [(Q, True)], None) == Q


def test_transcripts() -> None:
    text = "Rewrite.\n\nChat history:\nuser: Hi\nassistant: Hello.\nHow are you?\n\nLast user message: Bye\n\nQueries:"
    assert transcript(text) == [("user", "Hi"), ("assistant", "Hello.\nHow are you?")]


def test_a_chains_inputs_written_as_one_message_are_a_template() -> None:
    asked = "When does my order arrive?"
    inputs = '{"question": "When does my order arrive?", "history": []}'
    assert user_text(inputs, [(asked, True)], None) == asked
    assert (
        user_text(f"I asked: {asked} But nobody said.", [(asked, True)], None) == f"I asked: {asked} But nobody said."
    )
