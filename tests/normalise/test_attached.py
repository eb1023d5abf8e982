"""Documents that stand in messages as parts of their own are the turn's passages, and no part of what the user says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spans import Trace, evidence, one, said

TEXTS = ["Colonies: two on a plot of up to 300 m².", "Entrances face away from footpaths."]
ASKED, ANSWERED = "How many hives may I keep?", "Two, on a plot of up to 300 m²."


def anthropic(text: str, n: int) -> dict[str, Any]:
    return {
        "type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, "title": f"Rule {n}",
        "citations": {"enabled": True},
    }  # fmt: skip


def in_blocks(text: str, n: int) -> dict[str, Any]:
    return {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": text}]}}


def search_result(text: str, n: int) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "search_result", "source": f"law-{n}", "title": f"Rule {n}", "content": content}


def bedrock(text: str, n: int) -> dict[str, Any]:
    return {"document": {"name": f"Rule {n}", "format": "txt", "source": {"text": text}}}


def bedrock_search(text: str, n: int) -> dict[str, Any]:
    return {"searchResult": {"source": f"law-{n}", "title": f"Rule {n}", "content": [{"text": text}]}}


def cohere(text: str, n: int) -> dict[str, Any]:
    return {"type": "document", "document": {"id": f"law-{n}", "data": json.dumps({"text": text})}}


def cohere_with_the_id_inside(text: str, n: int) -> dict[str, Any]:
    return {"type": "document", "document": {"data": {"id": f"law-{n}", "text": text}}}


BLOCKS = [anthropic, in_blocks, search_result, bedrock, bedrock_search, cohere, cohere_with_the_id_inside]
WITH_IDS = [search_result, bedrock_search, cohere, cohere_with_the_id_inside]


def genai(parts: list[Any]) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat", "session.id": "s",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": parts}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": ANSWERED}]),
    }  # fmt: skip


def openinference(parts: list[Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {"llm.input_messages.0.message.role": "user"}
    for n, part in enumerate(parts):
        key = f"llm.input_messages.0.message.contents.{n}.message_content."
        flat[key + "type"] = part["type"]
        flat[key + "text"] = part["text"] if part["type"] == "text" else json.dumps(part)
    return {
        "openinference.span.kind": "LLM", "session.id": "s", **flat,
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": ANSWERED,
    }  # fmt: skip


@pytest.mark.parametrize("block", BLOCKS, ids=lambda f: f.__name__)
def test_attached_documents_are_passages(block: Any) -> None:
    check(genai, block)


@pytest.mark.parametrize("block", [b for b in BLOCKS if "type" in b("", 0)], ids=lambda f: f.__name__)
def test_flattened_parts_are_passages(block: Any) -> None:
    """OpenInference writes such a part as JSON text, of the part's type."""
    check(openinference, block)


def check(write: Any, block: Any) -> None:
    parts = [*(block(text, n) for n, text in enumerate(TEXTS)), {"type": "text", "text": ASKED}]
    t = Trace()
    t.add("chat", write(parts))
    session = one(t)
    assert said(session) == [(ASKED, ANSWERED)]
    ids = ["law-0", "law-1"] if block in WITH_IDS else [None, None]
    assert evidence(session) == [list(zip(ids, TEXTS, strict=True))]
    assert session.turns[0].retrieval == "captured"
    assert session.turns[0].tool_calls == ()


def test_documents_without_text_are_no_passages() -> None:
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}}
    t = Trace()
    t.add(
        "chat",
        genai([pdf, {"document": {"name": "x", "source": {"bytes": "JVBERi0x"}}}, {"type": "text", "text": ASKED}]),
    )
    session = one(t)
    assert said(session) == [(ASKED, ANSWERED)]
    assert evidence(session) == [[]]
