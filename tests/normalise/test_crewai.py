"""A crew's inputs are read out of its tasks' texts, and what one agent hands to the next is no passage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_drift.normalise.crewai import slots
from spans import Trace, evidence, one, said

QUESTION, ANSWER = "Which days do parcels leave?", "They leave on Mondays, before noon."
FOUND = "Parcels leave the warehouse on Mondays before noon, except on public holidays."
TEMPLATES = ["Find what answers: {question}\nEarlier talk:\n{history}", "Answer the question: {question}"]


@pytest.mark.parametrize(
    ("template", "filled", "found"),
    [
        ("Answer: {q}", "Answer: why?", {"q": "why?"}),
        ("{q}", "why {not}?\n", {"q": "why {not}?\n"}),
        ("A: {q}\nTalk:\n{h}", "A: why?\nTalk:\n", {"q": "why?", "h": ""}),
        ("A: {q}\nTalk:\n{h}\nEnd", "A: why?\nTalk:\nU: x\nEnd\nEnd", {"q": "why?", "h": "U: x\nEnd"}),
        ("{a}{b}", "xy", {"a": "", "b": "xy"}),
        ("Answer: {q}", "Reply: why?", {}),
        ("A{q}A", "A", {}),
        ("A {q} b {r} c", "A why c", {}),
        ("Answer it", "Answer it", {}),
    ],
)
def test_what_fills_a_template(template: str, filled: str, found: dict[str, str]) -> None:
    assert slots(template, filled) == found


def call(t: Trace, parent: str, messages: list[dict[str, Any]], answer: str | None) -> None:
    said = [{"role": "assistant", "content": answer}] if answer else []
    content = {"gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps(said)}
    t.add("openai.chat", {"gen_ai.operation.name": "chat", **content}, parent)


def crew(first: list[dict[str, Any]], summary: str, *, broken: str = "") -> Trace:
    """A crew of two: the first agent's messages after its task, what it said, and the second, which was given that."""
    texts = [TEMPLATES[0].format(question=QUESTION, history=""), TEMPLATES[1].format(question=QUESTION)]
    outputs = ", ".join(f"TaskOutput(description={text!r}, name={text!r}, raw='x')" for text in texts)
    t = Trace(100.0)
    root = t.add(
        "crewai.workflow",
        {
            "gen_ai.operation.name": "invoke_agent",
            "traceloop.association.properties.session_id": "s",
            "crewai.crew.tasks": json.dumps([{"description": text} for text in TEMPLATES]),
            "crewai.crew.tasks_output": f"[{outputs}]",
            **({broken: r"[TaskOutput(description='\N{no}', name='x')]"} if broken else {}),
            "crewai.crew.result": ANSWER,
        },
    )
    tasks = [f"\nCurrent Task: {text}\n\nThis is the expected criteria for your final answer: text" for text in texts]
    call(t, root, [{"role": "user", "content": tasks[0]}, *first], summary)
    handed = f"{tasks[1]}\n\nThis is the context you're working with:\n{summary}\n\nProvide your complete response:"
    call(t, root, [{"role": "user", "content": handed}], ANSWER)
    return t


def looked_up(text: str) -> list[dict[str, Any]]:
    use = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"query": "parcels"}'}}
    result = json.dumps([{"id": "p1", "text": text}])
    return [{"role": "assistant", "tool_calls": [use]}, {"role": "tool", "tool_call_id": "c1", "content": result}]


def test_what_the_first_agent_found_is_what_the_answer_rests_on() -> None:
    session = one(crew(looked_up(FOUND), "They leave on Mondays before noon, as I was told."))
    assert said(session) == [(QUESTION, ANSWER)]
    assert evidence(session) == [[("p1", FOUND)]]


def test_what_the_first_agent_said_of_itself_is_no_passage() -> None:
    session = one(crew([], "Parcels usually leave on Mondays, in most of the companies I know."))
    assert said(session) == [(QUESTION, ANSWER)]
    assert session.turns[0].retrieval == "no_retrieval"


def test_what_the_first_agent_copied_from_its_prompt_is_a_passage() -> None:
    given = [{"role": "user", "content": f"{QUESTION} Copy what matters: {FOUND}"}]
    session = one(crew(given, FOUND))
    assert FOUND in [text for _, text in evidence(session)[0]]


@pytest.mark.parametrize("broken", ["crewai.crew.tasks", "crewai.crew.tasks_output"])
def test_tasks_that_cannot_be_read_say_nothing(broken: str) -> None:
    session = one(crew(looked_up(FOUND), "They leave on Mondays.", broken=broken))
    assert len(session.turns) == 1
