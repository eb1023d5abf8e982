"""Conversations without a session id are found again by their history, in each form in which frameworks resend it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from otel_drift.sessions.history import first_line
from otel_drift.sessions.user_text import transcript, works_on
from spans import Trace, one, said

TALK = [
    ("Where is my order?", "It left on Monday:\n\n1. by train\n2. then by van"),
    ("When does it arrive?", "Most likely on Thursday."),
    ("Thanks!", "You're welcome."),
]


def span(attributes: dict[str, Any], k: int, name: str = "llm") -> Trace:
    t = Trace(100.0 * k)
    t.add(name, attributes)
    return t


def plain(k: int) -> list[dict[str, Any]]:
    before = [m for q, a in TALK[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]
    return [*before, {"role": "user", "content": TALK[k][0]}]


def openinference(k: int, messages: list[tuple[str, str]], answer: dict[str, Any] | None = None) -> dict[str, Any]:
    flat: dict[str, Any] = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    for i, (role, text) in enumerate(messages):
        flat[f"llm.input_messages.{i}.message.role"] = role
        flat[f"llm.input_messages.{i}.message.content"] = text
    said_ = {"message.role": "assistant", "message.content": TALK[k][1]} if answer is None else answer
    return {**flat, **{f"llm.output_messages.0.{key}": value for key, value in said_.items()}}


def llamaindex_blocks(k: int) -> Trace:
    """MLflow's LlamaIndex spans: messages are lists of blocks."""

    def blocks(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": text}]}

    return span(
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": json.dumps({"messages": [blocks(m["role"], m["content"]) for m in plain(k)]}),
            "mlflow.spanOutputs": json.dumps({"message": blocks("assistant", TALK[k][1]), "raw": {"id": "x"}}),
        },
        k,
    )


def dspy_mappings(k: int) -> Trace:
    """DSPy's `History`: a mapping of input and output field a turn."""
    inputs = {"guest_question": TALK[k][0], "history": {"messages": [{"guest_question": q, "reply": a} for q, a in TALK[:k]]}}  # fmt: skip # noqa: E501
    return span(
        {
            "mlflow.spanType": '"CHAIN"',
            "mlflow.spanInputs": json.dumps(inputs),
            "mlflow.spanOutputs": json.dumps({"reply": TALK[k][1]}),
        },
        k,
    )


def dspy_fields(k: int) -> Trace:
    """The same as the adapter sends it: fields between markers."""
    end = "\n\nRespond with the corresponding output fields, starting with the field `[[ ## reply ## ]]`."
    messages = [("system", "Your input fields are: 1. `guest_question` (str)")]
    for q, a in TALK[:k]:
        messages += [("user", f"[[ ## guest_question ## ]]\n{q}{end}"), ("assistant", f"[[ ## reply ## ]]\n{a}\n\n[[ ## completed ## ]]\n")]  # fmt: skip # noqa: E501
    messages.append(("user", f"[[ ## guest_question ## ]]\n{TALK[k][0]}{end}"))
    answer = f"[[ ## reply ## ]]\n{TALK[k][1]}\n\n[[ ## completed ## ]]"
    return span(openinference(k, messages, {"message.role": "assistant", "message.content": answer}), k)


def text_in_the_input(k: int) -> Trace:
    """A pipeline that is given its history as one text, with the assistant's lists in it."""
    t = Trace(100.0 * k)
    talk = "".join(f"User: {q}\nAssistant: {a}\n" for q, a in TALK[:k])
    root = t.add(
        "Pipeline.run",
        {
            "openinference.span.kind": "CHAIN",
            "input.value": json.dumps({"data": {"builder": {"question": TALK[k][0], "history": talk}}}),
            "input.mime_type": "application/json",
            "output.value": json.dumps({"llm": {"replies": [TALK[k][1]]}}),
            "output.mime_type": "application/json",
        },
    )
    t.add("Generator.run", openinference(k, [("user", f"{talk}\nQuestion: {TALK[k][0]}\nAnswer:")]), root)
    return t


def text_with_other_names(k: int) -> Trace:
    """A crew's inputs: the application chose how the two are called."""
    talk = "".join(f"Guest: {q}\nYou: {a}\n" for q, a in TALK[:k])
    return span(
        {
            "openinference.span.kind": "CHAIN",
            "input.value": json.dumps({"message": TALK[k][0], "history": talk}),
            "input.mime_type": "application/json",
            "output.value": json.dumps({"raw": TALK[k][1], "pydantic": None}),
            "output.mime_type": "application/json",
        },
        k,
    )


def smolagents(roles: tuple[str, str]) -> Callable[[int], Trace]:
    """Smolagents' memory: tool calls and their results are texts, and the answer is a tool call too."""
    asking, telling = roles

    def calling(name: str, arguments: dict[str, Any]) -> str:
        return (
            f"Calling tools:\n{[{'id': 'c1', 'type': 'function', 'function': {'name': name, 'arguments': arguments}}]}"
        )

    def turn(k: int) -> Trace:
        messages = [("system", "You solve tasks.")]
        for q, a in TALK[:k]:
            messages += [("user", f"New task:\n{q}"), (asking, calling("final_answer", {"answer": a})), (telling, f"Observation:\n{a}")]  # fmt: skip # noqa: E501
        messages += [("user", f"New task:\n{TALK[k][0]}"), (asking, calling("look", {"what": "parcels"})), (telling, "Observation:\nshelf 3")]  # fmt: skip # noqa: E501
        t = Trace(100.0 * k)
        root = t.add(
            "ToolCallingAgent.run",
            {
                "openinference.span.kind": "AGENT",
                "input.value": json.dumps({"task": TALK[k][0], "reset": False}),
                "output.value": TALK[k][1],
            },
        )
        final = {
            "message.role": "assistant",
            "message.tool_calls.0.tool_call.function.name": "final_answer",
            "message.tool_calls.0.tool_call.function.arguments": json.dumps({"answer": TALK[k][1]}),
        }
        t.add("Model.generate", openinference(k, messages, final), root)
        return t

    return turn


def stuffed_sdk(k: int) -> Trace:
    """The AI SDK's outer span repeats the stuffed message, so it is no word of the user's own."""
    stuffed = f"Answer the question using the following context.\n\nContext:\nParcels leave on Mondays.\n---\nVans come later.\n\nQuestion: {TALK[k][0]}"  # noqa: E501
    messages = [*plain(k)[:-1], {"role": "user", "content": stuffed}]
    t = Trace(100.0 * k)
    root = t.add(
        "ai.generateText",
        {
            "ai.operationId": "ai.generateText",
            "ai.prompt": json.dumps({"messages": messages}),
            "ai.response.text": TALK[k][1],
        },
    )
    t.add(
        "ai.generateText.doGenerate",
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.prompt.messages": json.dumps(messages),
            "ai.response.text": TALK[k][1],
        },
        root,
    )
    return t


def agents_events(k: int) -> Trace:
    """Logfire's OpenAI Agents integration: given and answered messages in one list of events."""
    events = [{"event.name": "gen_ai.system.message", "content": "Be brief.", "role": "system"}]
    events += [{"event.name": f"gen_ai.{m['role']}.message", **m} for m in plain(k)]
    events.append({"event.name": "gen_ai.assistant.message", "role": "assistant", "content": TALK[k][1]})
    return span({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "events": json.dumps(events)}, k)


def events_of_one_attribute(k: int) -> Trace:
    """Strands Agents write an event for each attribute of the inference details."""
    given = [{"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]} for m in plain(k)]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": TALK[k][1]}], "finish_reason": "end_turn"}]
    name = "gen_ai.client.inference.operation.details"
    t = Trace(100.0 * k)
    t.add(
        "chat",
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
        events=[
            (name, {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}])}),
            (name, {"gen_ai.input.messages": json.dumps(given)}),
            (name, {"gen_ai.output.messages": json.dumps(answer)}),
        ],
    )
    return t


FORMS = {
    "LlamaIndex blocks in MLflow": llamaindex_blocks,
    "DSPy mappings": dspy_mappings,
    "DSPy fields": dspy_fields,
    "text in the input": text_in_the_input,
    "text with other names": text_with_other_names,
    "smolagents": smolagents(("tool-call", "tool-response")),
    "smolagents, older": smolagents(("assistant", "user")),
    "stuffed message of the AI SDK": stuffed_sdk,
    "events attribute": agents_events,
    "an event for each attribute": events_of_one_attribute,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_is_one_session(form: str) -> None:
    session = one(*(FORMS[form](k) for k in range(3)))
    assert said(session) == TALK
    assert [len(turn.alternatives) for turn in session.turns] == [0, 0, 0]


def test_names_in_a_history_are_told_by_their_order() -> None:
    text = "Guest: Hi\nYou: Hello.\nNote: we close at five.\nGuest: Bye\n"
    assert transcript(text) == []
    assert transcript(text, names=True) == [
        ("user", "Hi"),
        ("assistant", "Hello.\nNote: we close at five."),
        ("user", "Bye"),
    ]
    assert transcript("Opening hours: nine to five", names=True) == []


def test_texts_in_prompts_are_compared_by_their_first_line() -> None:
    assert first_line("\nIt left  on Monday:\n\n1. by train") == "It left on Monday:"


def test_a_prompt_that_asks_something_new_does_not_only_work_on_an_answer() -> None:
    question, answer = TALK[0]
    assert works_on(f"Question: {question}\nReply: {answer}\nIs it polite?", question, answer)
    assert not works_on(f"User: {question}\nAssistant: {answer}\nUser: And when?", question, answer)
    assert not works_on(f"Question: {question}\nReply: none", question, answer)
    assert not works_on("Question: Hi\nReply: Yes.", "Hi", "Yes.")
