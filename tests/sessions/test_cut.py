"""Where a call's messages were cut, the question is looked for elsewhere, and none is taken from the history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spans import Trace, evidence, one, said

TURNS = [(f"Question number {k} of the caller?", f"Answer number {k}, " + "at some length " * 20) for k in range(6)]
LIMIT = 1_000
"""The messages of turn 3 and later are longer."""


def traced(k: int, *, wrapped: bool, limit: int = LIMIT) -> Trace:
    """Turn k with all of the history resent, the list of messages cut."""
    t = Trace(k * 100.0)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help."}]
    messages += [m for q, a in TURNS[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]
    messages.append({"role": "user", "content": TURNS[k][0]})
    around: dict[str, Any] = {"langfuse.observation.type": "span", "session.id": "s"}
    if wrapped:
        around["langfuse.observation.input"] = json.dumps({"args": [TURNS[k][0], 4], "kwargs": {}})
    root = t.add("turn", around, lasts=9)
    found = json.dumps([{"id": f"d{k}", "text": f"Passage {k}, found for this question."}])
    t.add("search", {"langfuse.observation.type": "retriever", "langfuse.observation.output": found}, root)
    given = json.dumps(messages)[:limit]
    t.add("llm", {"langfuse.observation.type": "generation", "langfuse.observation.input": given,
                  "langfuse.observation.output": TURNS[k][1]}, root)  # fmt: skip
    return t


@pytest.mark.parametrize("limit", range(900, 1_900, 60))
def test_the_question_stands_on_the_turns_span(limit: int) -> None:
    """Wherever in the list it was cut."""
    session = one(*(traced(k, wrapped=True, limit=limit) for k in range(len(TURNS))))
    assert said(session) == TURNS
    assert evidence(session) == [[(f"d{k}", f"Passage {k}, found for this question.")] for k in range(len(TURNS))]
    assert not any(t.alternatives for t in session.turns)


@pytest.mark.parametrize("limit", range(900, 1_900, 60))
def test_the_question_is_lost(limit: int) -> None:
    """A turn stays a turn, with its own answer; its question is none rather than an earlier turn's."""
    session = one(*(traced(k, wrapped=False, limit=limit) for k in range(len(TURNS))))
    assert [t.answer for t in session.turns] == [a for _, a in TURNS]
    asked = [t.user for t in session.turns]
    whole = sum(text is not None for text in asked)
    assert 2 <= whole < len(TURNS)
    assert asked == [q for q, _ in TURNS[:whole]] + [None] * (len(TURNS) - whole)


def test_what_tools_returned_is_not_known() -> None:
    """Without a span of its own a tool's result is lost with the end of the list: no claim is unsupported for it."""
    traces = []
    for k in range(len(TURNS)):
        t = traced(k, wrapped=False)
        t.spans = [s for s in t.spans if s.name != "search"]
        traces.append(t)
    states = [t.retrieval for t in one(*traces).turns]
    assert states[0] == "no_retrieval"
    assert states[-1] == "not_captured"


def test_a_cut_list_is_the_same_as_text_within_an_object() -> None:
    """As MLflow keeps what it took over from another instrumentation: ``{"messages": "[…"}``."""
    traces = [traced(k, wrapped=False) for k in range(len(TURNS))]
    asked = [turn.user for turn in one(*traces).turns]
    for span in [span for trace in traces for span in trace.spans if span.name == "llm"]:
        given = span.attributes["langfuse.observation.input"]
        span.attributes["langfuse.observation.input"] = json.dumps({"messages": given, "tools": []})

    assert [turn.user for turn in one(*traces).turns] == asked
    assert asked[-1] is None
