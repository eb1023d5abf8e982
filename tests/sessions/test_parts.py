"""Parts of a turn that arrive as traces of their own go to the turn they serve."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from spans import TURNS, Trace, evidence, one, said

FOUND = [["Orders leave the warehouse on Mondays."], ["Parcels take three days by road."], []]


def answering(k: int, at: float) -> Trace:
    """Turn k's model call, the passages in its system message."""
    t = Trace(at)
    messages = [{"role": "system", "content": "Context:\n" + "\n\n".join(FOUND[k])}]
    messages += [m for q, a in TURNS[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})]
    messages.append({"role": "user", "content": TURNS[k][0]})
    output = json.dumps([{"role": "assistant", "content": TURNS[k][1]}])
    t.add("chat", {"gen_ai.operation.name": "chat", "session.id": "s", "gen_ai.input.messages": json.dumps(messages),
                   "gen_ai.output.messages": output})  # fmt: skip
    return t


def retrieving(k: int, at: float) -> Trace:
    t = Trace(at)
    flat = {f"retrieval.documents.{n}.document.content": text for n, text in enumerate(FOUND[k])}
    t.add("search", {"openinference.span.kind": "RETRIEVER", "session.id": "s", "input.value": "order", **flat})
    return t


def own_function(k: int, at: float) -> Trace:
    t = Trace(at)
    entity = {"traceloop.span.kind": "task", "traceloop.association.properties.session_id": "s"}
    root = t.add("retrieve_passages.task", {
        **entity, "traceloop.entity.input": json.dumps({"args": [TURNS[k][0]], "kwargs": {}}),
        "traceloop.entity.output": json.dumps([{"id": f"d{n}", "text": text} for n, text in enumerate(FOUND[k])]),
    })  # fmt: skip
    hits = [
        ("db.query.result", {"db.query.result.id": f"d{n}", "db.query.result.document": d})
        for n, d in enumerate(FOUND[k])
    ]
    t.add("chroma.query", {"db.system": "chroma", "db.operation": "query"}, root, events=hits)
    return t


@pytest.mark.parametrize("late", [-2, -1, 0, 1, 3], ids=lambda s: f"{s}s")
@pytest.mark.parametrize("search", [retrieving, own_function], ids=lambda f: f.__name__)
def test_a_search_in_a_trace_of_its_own(search: Any, late: int) -> None:
    """Also where the searching service's clock is some seconds off."""
    traces = [t for k in range(2) for t in (search(k, 40.0 * k + late), answering(k, 40.0 * k + 1))]
    session = one(*traces, answering(2, 80.0))
    assert said(session) == TURNS
    assert [[text for _, text in found] for found in evidence(session)] == FOUND


def test_a_late_search_of_the_last_turn() -> None:
    session = one(answering(0, 0.0), retrieving(0, 5.0))
    assert [[text for _, text in found] for found in evidence(session)] == FOUND[:1]


@pytest.mark.parametrize("search", [retrieving, own_function], ids=lambda f: f.__name__)
def test_a_search_that_lost_its_parent_within_the_turns_time(search: Any) -> None:
    """A queue or a thread between caller and search did not carry the trace on."""
    traces = []
    for k in range(3):
        call = answering(k, 40.0 * k + 3)
        around = {
            "traceloop.span.kind": "workflow",
            "traceloop.association.properties.session_id": "s",
            "traceloop.entity.input": json.dumps({"args": [TURNS[k][0]], "kwargs": {}}),
            "traceloop.entity.output": json.dumps(TURNS[k][1]),
        }
        root = call.add("turn.workflow", around, at=40.0 * k, lasts=9.0)
        call.spans[0] = dataclasses.replace(call.spans[0], parent_id=root)
        traces += [call, search(k, 40.0 * k + 1)]
    session = one(*traces)
    assert said(session) == TURNS
    assert [[text for _, text in found] for found in evidence(session)] == FOUND


def listing(k: int, name: str = "retrieve.task") -> tuple[str, dict[str, Any]]:
    """An application's own function that returns the passages of turn k, and has no span below it."""
    output = json.dumps([{"id": f"d{n}", "text": text} for n, text in enumerate(FOUND[k])])
    return name, {"traceloop.span.kind": "task", "traceloop.association.properties.session_id": "s",
                  "traceloop.entity.input": json.dumps({"args": [TURNS[k][0]], "kwargs": {}}),
                  "traceloop.entity.output": output}  # fmt: skip


def test_an_own_function_in_a_trace_of_its_own_keeps_the_ids() -> None:
    traces = []
    for k in range(2):
        search = Trace(40.0 * k)
        search.add(*listing(k))
        traces += [search, answering(k, 40.0 * k + 2)]
    assert evidence(one(*traces)) == [[("d0", FOUND[0][0])], [("d0", FOUND[1][0])]]


@pytest.mark.parametrize("late", [-3, 0, 3], ids=lambda s: f"{s}s")
def test_an_own_function_of_the_same_trace_whose_clock_is_off(late: int) -> None:
    traces = []
    for k in range(2):
        call = answering(k, 40.0 * k + 3)
        root = call.add("turn", {"session.id": "s"}, at=40.0 * k, lasts=9.0)
        call.spans[0] = dataclasses.replace(call.spans[0], parent_id=root)
        call.add(*listing(k), root, at=40.0 * k + 2 + late)
        traces.append(call)
    session = one(*traces)
    assert said(session) == TURNS[:2]
    assert evidence(session) == [[("d0", FOUND[0][0])], [("d0", FOUND[1][0])]]


def test_what_a_function_returns_after_the_answer_was_not_given() -> None:
    call = answering(0, 3.0)
    root = call.add("turn", {"session.id": "s"}, at=0.0, lasts=9.0)
    call.spans[0] = dataclasses.replace(call.spans[0], parent_id=root)
    call.add(*listing(1, "find_related_articles.task"), root, at=6.0)
    assert [text for _, text in evidence(one(call))[0]] == FOUND[0]
