"""Passages are found in prompts in the forms people write them, and nothing else is taken for one."""
# ruff: noqa: E501 - prompts and messages stay on the line they are sent on

from __future__ import annotations

import json
import time

import pytest

from otel_drift.errors import ConfigError
from otel_drift.sessions import ReconstructOptions
from otel_drift.sessions.prompt import find_passages

A = "Refunds are paid within 14 days of the return, by the method used for the purchase."
B = "Gift cards are never refunded, except where the law requires it."
C = "The shop in Leeds closes at six.\n\nOn Sundays it opens at ten."


def texts(prompt: str, **options: object) -> list[tuple[str | None, str | None]]:
    found = find_passages(prompt, **options)  # type: ignore[arg-type]
    return [(d.id, d.text) for d in found.documents] if found else []


FORMS = {
    "bracketed ids": (f"Answer only from the passages below.\n\n[ref-12] {A}\n[ref-9] {B}", ["ref-12", "ref-9"]),
    "bracketed ids with blank lines": (
        f"Use these sources:\n\n[ref-12] {A}\n\n[ref-9] {B}\n\nQuestion: when?",
        ["ref-12", "ref-9"],
    ),
    "bracketed ids on their own line": (f"Sources:\n[ref-12]\n{A}\n\n[ref-9]\n{B}\n", ["ref-12", "ref-9"]),
    "bracketed numbers": (f"Context:\n[1] {A}\n[2] {B}\n\nQuestion: when?\nAnswer:", [None, None]),
    "bracketed with colon": (f"Context:\n[ref-12]: {A}\n[ref-9]: {B}\n\nQuestion: when?", ["ref-12", "ref-9"]),
    "numbered": (f"Use the following context:\n1. {A}\n2. {B}\n\nQuestion: when?", [None, None]),
    "numbered with brackets": (f"Context:\n1) {A}\n2) {B}\n\nQuestion: when?", [None, None]),
    "bullets": (f"Relevant passages:\n- {A}\n- {B}\n\nQuestion: when?", [None, None]),
    "document n": (f"Document 1: {A}\nDocument 2: {B}\n\nQuestion: when?", [None, None]),
    "document n on its own line": (f"Context\n\nDocument 1:\n{A}\n\nDocument 2:\n{B}\n\nQuestion: when?", [None, None]),
    "source with id": (f"Source ref-12: {A}\nSource ref-9: {B}\n", ["ref-12", "ref-9"]),
    "document with title": (f"Document [1](Title: Refunds) {A}\nDocument [2](Title: Cards) {B}", [None, None]),
    "passage with note": (f"[Passage 1 (id: ref-12)]: {A}\n[Passage 2 (id: ref-9)]: {B}\n", ["ref-12", "ref-9"]),
    "xml": (
        f'<documents>\n<document id="ref-12">{A}</document>\n<document id="ref-9">\n{B}\n</document>\n</documents>',
        ["ref-12", "ref-9"],
    ),
    "xml of a vendor's guide": (
        f'<documents><document index="1"><source>a.md</source><document_content>{A}</document_content></document>'
        f'<document index="2"><source>b.md</source><document_content>{B}</document_content></document></documents>',
        [None, None],
    ),
    "xml passages": (
        f'<passage id="ref-12" score="0.9">{A}</passage>\n<passage id="ref-9">{B}</passage>',
        ["ref-12", "ref-9"],
    ),
    "context tag with ids": (
        f"<context>\n[ref-12] {A}\n[ref-9] {B}\n</context>\nAnswer the question.",
        ["ref-12", "ref-9"],
    ),
    "context tag with paragraphs": (f"<context>\n{A}\n\n{B}\n</context>\n\nwhen?", [None, None]),
    "source and content": (f"Source: a.md\nContent: {A}\n\nSource: b.md\nContent: {B}", [None, None]),
    "source as a mapping": (
        f"Source: {{'doc_id': 'ref-12', 'title': 'x'}}\nContent: {A}\n\nSource: {{'doc_id': 'ref-9'}}\nContent: {B}",
        ["ref-12", "ref-9"],
    ),
    "metadata lines": (
        f"Context information is below.\n---------------------\ntitle: Refunds\nsource: a.md\n\n{A}\n\ntitle: Cards\nsource: b.md\n\n"
        f"{B}\n---------------------\nGiven the context information and not prior knowledge, answer the query.\nQuery: when?\nAnswer: ",
        [None, None],
    ),
    "json": (
        "Documents: " + json.dumps([{"id": "ref-12", "text": A}, {"id": "ref-9", "text": B}]) + "\n\nQuestion: when?",
        ["ref-12", "ref-9"],
    ),
    "paragraphs": (f"Context:\n{A}\n\n{B}\n\nQuestion: when?\nAnswer:", [None, None]),
    "ruled paragraphs": (f"Context:\n{A}\n---\n{B}\n\nQuestion: when?", [None, None]),
    "scores after ids": (f"Passages:\n[ref-12] (score: 0.91) {A}\n[ref-9] (score: 0.5) {B}\n", ["ref-12", "ref-9"]),
    "bold ids": (f"Answer from the passages below.\n\n**[ref-12]** {A}\n**[ref-9]** {B}", ["ref-12", "ref-9"]),
    "bare ids with colon": (f"Answer from the passages below.\n\nref-12: {A}\nref-9: {B}", ["ref-12", "ref-9"]),
    "ids in parentheses": (f"Answer from the passages below.\n\n(ref-12) {A}\n(ref-9) {B}", ["ref-12", "ref-9"]),
    "bullets with ids": (f"Answer from the passages below.\n\n- ref-12: {A}\n- ref-9: {B}", ["ref-12", "ref-9"]),
    "one passage a line": (f"Answer from the passages below.\n\n{A}\n{B}", [None, None]),
    "dspy": (f"[[ ## context ## ]]\n[1] «{A}»\n[2] «{B}»\n\n[[ ## question ## ]]\nwhen?", [None, None]),
}


@pytest.mark.parametrize("form", FORMS)
def test_common_forms(form: str) -> None:
    prompt, ids = FORMS[form]
    assert texts(prompt) == list(zip(ids, [A, B], strict=True))


@pytest.mark.parametrize(
    "form", ["bracketed ids", "bracketed ids with blank lines", "document n on its own line", "xml", "json", "numbered"]
)
def test_passages_of_several_paragraphs_stay_whole(form: str) -> None:
    prompt, _ = FORMS[form]
    prompt = prompt.replace(json.dumps(A), json.dumps(C)) if form == "json" else prompt.replace(A, C)
    found = texts(prompt)
    assert [t for _, t in found] == [C, B]


@pytest.mark.parametrize(
    "text",
    [
        "How long do refunds take?",
        "Can I use [x] or [ ] here? See [the docs](https://example.com).",
        "You are a helpful assistant.\nRules:\n1. Be brief.\n2. Be kind.",
        "I have two questions:\n1. When do you open?\n2. Where are you?",
        "Always answer the query using the provided context information, and not prior knowledge.\n"
        "Some rules to follow:\n1. Never directly reference the given context in your answer.\n2. Avoid statements like it.",
    ],
)
def test_other_text_holds_no_passages(text: str) -> None:
    assert texts(text) == []


def test_an_announced_but_empty_section_is_found_empty() -> None:
    found = find_passages("You are a support assistant. Answer only from the passages below.\n\n")
    assert found is not None
    assert (found.documents, found.form) == ((), "empty")


def test_the_users_own_pattern_comes_first() -> None:
    prompt = f"KB#a1 >> {A} <<\nKB#b2 >> {B} <<\n[ref] decoy"
    assert texts(prompt, pattern=r"KB#(?P<id>\w+) >> (?P<text>.*?) <<") == [("a1", A), ("b2", B)]


def test_a_pattern_that_backtracks_forever_is_stopped() -> None:
    started = time.process_time()
    texts("[ref-1] " + "a" * 4000 + "!", pattern=r"(?P<text>(a+)+)$x", seconds=0.1)
    assert time.process_time() - started < 3


@pytest.mark.parametrize("pattern", ["(", "no text group", "(?P<id>x)"])
def test_a_useless_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="passage_pattern"):
        ReconstructOptions(passage_pattern=pattern)


@pytest.mark.parametrize(
    "text",
    ["[" * 50_000, "<document>" * 20_000, "Source: x\n" * 20_000, "1. a\n" * 20_000, "a: b\n" * 20_000, "context:\n" * 20_000, "[a] " * 20_000,
     "Document 1" * 20_000, " " * 100_000 + "context", "user: x\n" * 20_000, "<context>" + "<doc " * 20_000,
     "Content: x\nSource: y\n" * 20_000, "# documents\n## a\n" * 10_000, "context:\n" + "---\na\n" * 20_000, "Context: a\n" * 10_000 + "Question: b",
     "Use the following context\n" * 10_000, "the following documents " * 8_000, "context:\n" + "name: x\nvalue: y\n" * 10_000,
     'Context: """' * 5_000, "documents:\n" + "**a** (b)\n" * 10_000, "Source: a (b-1)\ntext\n\n" * 8_000, "[[ ## context ## ]]\n" * 8_000],
)  # fmt: skip
def test_hostile_prompts_take_no_time(text: str) -> None:
    started = time.process_time()
    find_passages(text)
    assert time.process_time() - started < 2
