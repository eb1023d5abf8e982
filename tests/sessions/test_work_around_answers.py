"""What stands around an answer is no answer: classifiers before it, titles and checks after it, reprs and reports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_drift.model import Session
from spans import TURNS, Trace, one, said, sessions_of

S = {"session.id": "s"}
DESK = {"role": "system", "content": "You are the desk of a parcel service. Answer in one sentence."}


def resent(k: int, system: dict[str, Any] | None = DESK) -> list[dict[str, Any]]:
    """Messages of turn k (0-based), the earlier turns resent."""
    before = [m for q, a in TURNS[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]
    return [*([system] if system else []), *before, {"role": "user", "content": TURNS[k][0]}]


def call(t: Trace, messages: list[dict[str, Any]], answer: str, parent: str | None = None, ids: Any = S) -> None:
    t.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": answer}]),
            **ids,
        },
        parent,
    )


def classified(k: int) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "Name the topic of the message."}, {"role": "user", "content": TURNS[k][0]}]


def after(k: int, task: str) -> list[dict[str, Any]]:
    """What a title or a suggestion is asked for with: the turn as it ended."""
    return [
        {"role": "system", "content": task},
        {"role": "user", "content": TURNS[k][0]},
        {"role": "assistant", "content": TURNS[k][1]},
    ]


@pytest.mark.parametrize("ids", [S, {}])
def test_calls_around_the_answer_in_traces_of_their_own(ids: dict[str, Any]) -> None:
    traces = []
    for k in range(3):
        work = [(resent(k), TURNS[k][1]), (after(k, "Suggest follow-up questions."), "Where? Why?")]
        if ids:  # without an id nothing ties a lone classifier to the conversation
            work.insert(0, (classified(k), "parcels"))
        if k == 0:
            work.append((after(k, "Write a title."), "A parcel"))
        for step, (messages, answer) in enumerate(work):
            t = Trace(100.0 * k + 10 * step)
            call(t, messages, answer, ids=ids)
            traces.append(t)
    assert said(one(*traces)) == TURNS


def test_calls_around_the_answer_below_a_root_without_content() -> None:
    traces = []
    for k in range(3):
        t = Trace(100.0 * k)
        root = t.add("POST /chat", S)
        call(t, classified(k), "parcels", root)
        call(t, resent(k), TURNS[k][1], root)
        call(t, after(k, "Suggest follow-up questions."), "Where? Why?", root)
        traces.append(t)
    assert said(one(*traces)) == TURNS


def test_the_last_answer_is_the_one_asked_for_like_the_others() -> None:
    """A check that gets question and answer as one text does not end with the assistant's message."""
    traces = []
    for k in range(3):
        t = Trace(100.0 * k)
        root = t.add("POST /chat", S)
        call(t, resent(k), TURNS[k][1], root)
        check = [
            {"role": "system", "content": "Is the reply polite? Say yes or no."},
            {"role": "user", "content": f"Message: {TURNS[k][0]}\nReply: {TURNS[k][1]}"},
        ]
        call(t, check, "yes", root)
        traces.append(t)
    assert said(one(*traces)) == TURNS


@pytest.mark.parametrize("rooted", [False, True])
def test_a_check_of_question_and_answer_as_one_text_in_a_trace_of_its_own(rooted: bool) -> None:
    traces = []
    for k in range(3):
        turn, check = Trace(100.0 * k), Trace(100.0 * k + 10)
        call(turn, resent(k), TURNS[k][1], turn.add("POST /chat", S) if rooted else None)
        asked = f"Message: {TURNS[k][0]}\nReply: {TURNS[k][1]} Is the reply polite?"
        call(check, [{"role": "user", "content": asked}], "Yes, it is.")
        traces += [turn, check]
    long = [turn for turn in TURNS if len(turn[1]) >= 20]  # a shorter answer may stand in a text by chance
    assert said(one(*traces))[: len(long)] == long


def test_an_answer_begun_for_the_model_is_a_turn() -> None:
    """A prefilled answer ends the input with an assistant message too, but no call gave it."""
    t = Trace()
    call(t, [*resent(0), {"role": "assistant", "content": "It left"}], TURNS[0][1])
    assert said(one(t)) == TURNS[:1]


def test_the_same_from_an_abandoned_branch() -> None:
    """The user asks, goes on, then goes back, words the first question anew and goes on from there."""
    gone = [("Where is it?", "On its way."), ("Since when?", "Since Monday.")]
    kept = [("Where is my red parcel?", "In Bremen."), ("And the blue one?", "In Kiel.")]
    talk = [TURNS[0]]
    traces = []
    for start, line in enumerate((talk, [*talk, gone[0]], [*talk, *gone], [*talk, kept[0]], [*talk, *kept])):
        messages = [m for q, a in line for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]
        t = Trace(100.0 * start)
        call(t, messages[:-1], line[-1][1])
        traces.append(t)
    session = one(*traces)
    assert said(session) == [*talk, *kept]
    assert [[a.user for a in turn.alternatives] for turn in session.turns] == [[], ["Where is it?"], ["Since when?"]]
    without_ids = one(*[_without_ids(t) for t in traces])
    assert said(without_ids) == [*talk, *kept]
    up_to_the_edit = one(*traces[:4])
    assert said(up_to_the_edit) == [*talk, kept[0]]


def _without_ids(trace: Trace) -> Trace:
    for span in trace.spans:
        span.attributes.pop("session.id", None)  # type: ignore[attr-defined]
    return trace


TEXT = 'It\'s in the "red" box:\n\n1. top shelf\n2. left'


def wrapped(output: str, answer: str | None = TEXT, mime: str = "text/plain") -> Session:
    """An OpenInference chain that returned `output`, around a model call that answered `answer`."""
    t = Trace()
    root = t.add(
        "Agent.run",
        {
            "openinference.span.kind": "AGENT",
            "input.value": json.dumps({"user_msg": "Where is it?"}),
            "output.value": output,
            "output.mime_type": mime,
            **S,
        },
    )
    if answer is not None:
        t.add(
            "ChatCompletion",
            {
                "openinference.span.kind": "LLM",
                "llm.model_name": "m",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": "Where is it?",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": answer,
                **S,
            },
            root,
        )
    return one(t)


@pytest.mark.parametrize(
    "output",
    [
        f"AgentOutput(response=ChatMessage(role=<Role.ASSISTANT>, blocks=[TextBlock(text={TEXT!r})]), raw=None)",
        f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text={TEXT!r})])",
        f"StopEvent(result={TEXT[:20]!r}",
    ],
)
def test_a_root_that_shows_its_objects_does_not_hide_the_answer(output: str) -> None:
    assert said(wrapped(output)) == [("Where is it?", TEXT)]


def test_the_text_in_such_an_object_is_the_answer_where_no_call_was_recorded() -> None:
    output = f"AgentOutput(response=ChatMessage(role=<Role.ASSISTANT>, blocks=[TextBlock(text={TEXT!r})]), raw=None)"
    assert said(wrapped(output, None)) == [("Where is it?", TEXT)]


def test_a_report_of_the_run_around_the_answer_is_not_the_answer_but_sources_below_it_are() -> None:
    assert said(wrapped(f"run 17 ended: {TEXT} (2 steps)"))[0][1] == TEXT
    listed = f"{TEXT}\n\nSources: shelf.md"
    assert said(wrapped(listed))[0][1] == listed


def test_a_crews_result_is_its_raw_text() -> None:
    result = json.dumps({"raw": "In the red box.", "pydantic": None, "tasks_output": [{"description": "Find it"}]})
    assert said(wrapped(result, None, "application/json")) == [("Where is it?", "In the red box.")]


def test_a_second_recording_without_content_is_no_session_of_its_own() -> None:
    """A client library's own span of the same call, in a trace of its own and without messages."""
    traces = []
    for k in range(2):
        t = Trace(100.0 * k)
        call(t, resent(k, None), TURNS[k][1], ids={})
        bare = Trace(100.0 * k + 0.2, scope="sdk")
        bare.add("messages.create", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, lasts=0.5)
        traces += [t, bare]
    (session,) = sessions_of(*traces)
    assert said(session) == TURNS[:2]


def test_a_router_in_a_trace_of_its_own_is_found_by_its_question() -> None:
    traces = []
    for k in range(3):
        router, turn = Trace(100.0 * k), Trace(100.0 * k + 5)
        call(router, classified(k), "parcels", ids={})
        call(turn, resent(k), TURNS[k][1], ids={})
        traces += [router, turn]
    assert said(one(*traces)) == TURNS


def test_two_customers_who_ask_the_same_soon_after_another_stay_two() -> None:
    first, second = Trace(0.0), Trace(5.0)
    for t, name in ((first, "Ada"), (second, "Bo")):
        system = {"role": "system", "content": f"You are the desk of a parcel service. The customer is {name}."}
        call(t, resent(0, system), "On Monday.", ids={})
    assert len(sessions_of(first, second)) == 2


def test_a_guard_beside_the_answer_is_not_the_answer() -> None:
    """It may start after the answering call; it is not given the conversation."""
    traces = []
    for k in range(3):
        t = Trace(100.0 * k)
        root = t.add("POST /chat", S)
        call(t, resent(k), TURNS[k][1], root)
        call(
            t, [{"role": "system", "content": "Is this safe?"}, {"role": "user", "content": TURNS[k][0]}], "safe", root
        )
        traces.append(t)
    assert said(one(*traces)) == TURNS


def test_a_verdict_on_the_answer_alone_is_not_the_answer_but_its_translation_is() -> None:
    long = "It left the warehouse on Monday and comes by van."
    check, translated = Trace(0.0), Trace(500.0)
    for t, system, answer in ((check, "Moderate.", "safe"), (translated, "To German.", "Es ging am Montag ab und kommt mit dem Wagen.")):  # fmt: skip # noqa: E501
        root = t.add("POST /chat", {"session.id": system})
        call(t, resent(0), long, root, {})
        call(t, [{"role": "system", "content": system}, {"role": "user", "content": long}], answer, root, {})
    answers = [said(session)[0][1] for session in sessions_of(check, translated)]
    assert answers == [long, "Es ging am Montag ab und kommt mit dem Wagen."]


@pytest.mark.parametrize("ids", [S, {}])
def test_a_message_that_the_application_sends_after_each_turn_is_no_turn(ids: dict[str, Any]) -> None:
    traces = []
    for k in range(3):
        turn, more = Trace(100.0 * k), Trace(100.0 * k + 5)
        call(turn, resent(k), TURNS[k][1], ids=ids)
        order = {"role": "user", "content": "Suggest three questions the user may ask next."}
        call(more, [*resent(k), {"role": "assistant", "content": TURNS[k][1]}, order], "1. Why?", ids=ids)
        traces += [turn, more]
    assert said(one(*traces)) == TURNS


def test_what_the_root_calls_its_answer_comes_before_a_grade() -> None:
    t = Trace()
    returned = {"grade": "yes", "answer": TURNS[0][1]}
    root = t.add(
        "graph",
        {
            "openinference.span.kind": "CHAIN",
            "input.value": json.dumps({"question": TURNS[0][0]}),
            "input.mime_type": "application/json",
            "output.value": json.dumps(returned),
            "output.mime_type": "application/json",
            **S,
        },
    )
    call(t, resent(0), TURNS[0][1], root)
    call(t, [{"role": "user", "content": f"Grounded? Facts: none. Answer: {TURNS[0][1]}"}], "yes", root)
    assert said(one(t)) == TURNS[:1]


@pytest.mark.parametrize("ids", [S, {}])
def test_the_users_words_are_those_before_the_question_was_made_standalone(ids: dict[str, Any]) -> None:
    traces = []
    for k in range(3):
        t = Trace(100.0 * k)
        root = t.add("POST /chat", ids)
        talk = "".join(f"Human: {q}\nAssistant: {a}\n" for q, a in TURNS[:k])
        standalone = TURNS[k][0] if k == 0 else f"Where and when, parcel {k}?"
        if k:
            text = f"Rephrase the follow up question.\n\nChat History:\n{talk}Follow Up Input: {TURNS[k][0]}\nStandalone question:"  # noqa: E501
            call(t, [{"role": "user", "content": text}], standalone, root, ids)
        call(t, [DESK, {"role": "user", "content": standalone}], TURNS[k][1], root, ids)
        traces.append(t)
    assert said(one(*traces)) == TURNS
