"""Which traces are one session: by id, user and project; without an id by history; never by guessing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable

import pytest

from otel_drift.model import Span
from otel_drift.sessions import ReconstructOptions, stream
from otel_drift.spool import SpanSpool
from spans import TURNS, Trace, chat, one, said, sessions_of


def test_history_links_traces_without_an_id() -> None:
    session = one(chat(2), chat(0), chat(1))
    assert session.session_id is None
    assert said(session) == TURNS


def test_a_windowed_history_links_too() -> None:
    turns = [(f"question {i} about it", f"answer {i} to it") for i in range(6)]
    assert said(one(*(chat(k, turns=turns, window=2) for k in range(6)))) == turns


def test_the_previous_answer_must_match_too() -> None:
    """Two customers open with the same question; only the answer tells whose second turn it is."""
    other = [(TURNS[0][0], "It is on its way to Leeds."), ("Can I collect it?", "Yes, from noon.")]
    sessions = sessions_of(chat(0), chat(0, turns=other, start=1.0), chat(1), chat(1, turns=other, start=101.0))
    assert [said(s) for s in sessions] == [TURNS[:2], other]


def test_ambiguous_history_stays_separate() -> None:
    """Two sessions that began word for word alike: nothing says whose the second turn is."""
    sessions = sessions_of(chat(0), chat(0, start=2.0), chat(1))
    assert sorted(len(s.turns) for s in sessions) == [1, 1, 1]


def test_a_known_user_resolves_it() -> None:
    a, b = {"user.id": "ada"}, {"user.id": "bo"}
    sessions = sessions_of(chat(0, ids=a), chat(0, start=2.0, ids=b), chat(1, ids=b))
    assert sorted((s.user, len(s.turns)) for s in sessions) == [("ada", 1), ("bo", 2)]


def test_the_time_gap_is_an_option() -> None:
    late = chat(1, start=7200.0)
    assert len(sessions_of(chat(0), late, options=ReconstructOptions(gap_seconds=3600))) == 2
    assert len(sessions_of(chat(0), late, options=ReconstructOptions(gap_seconds=7200))) == 1


def test_other_services_and_environments_are_not_linked() -> None:
    assert len(sessions_of(chat(0), chat(1, resource={"service.name": "other"}))) == 2
    assert len(sessions_of(chat(0), chat(1, resource={"deployment.environment.name": "staging"}))) == 2


def test_session_one_of_two_customers_never_merges() -> None:
    one_ = {"session.id": "1"}
    by_service = sessions_of(chat(0, ids=one_), chat(1, ids=one_, resource={"service.name": "other"}))
    by_environment = sessions_of(chat(0, ids=one_), chat(1, ids=one_, resource={"deployment.environment.name": "prod"}))
    by_user = sessions_of(chat(0, ids={**one_, "user.id": "ada"}), chat(1, ids={**one_, "user.id": "bo"}))
    for sessions in (by_service, by_environment, by_user):
        assert [s.session_id for s in sessions] == ["1", "1"]
        assert len({s.key for s in sessions}) == 2


def test_a_user_known_on_some_traces_only_is_the_sessions_user() -> None:
    session = one(chat(0, ids={"session.id": "1", "user.id": "ada"}), chat(1, ids={"session.id": "1"}))
    assert session.user == "ada"
    assert session.key == "bot/-/ada/1"


def test_a_trace_without_id_joins_a_session_it_continues() -> None:
    session = one(chat(0, ids={"session.id": "1"}), chat(1), chat(2, ids={"session.id": "1"}))
    assert (session.session_id, said(session)) == ("1", TURNS)


def test_the_same_turn_recorded_by_two_instrumentations_is_one() -> None:
    """Two traces, other scopes, overlapping in time, equal question and answer; only one knows the session."""
    traces = [chat(k, ids={"session.id": "1"}, lasts=3) for k in range(3)]
    twins = [chat(k, start=k * 100.0 + 1, scope="other") for k in range(3)]
    session = one(*traces, *twins)
    assert said(session) == TURNS
    assert all(len(t.trace_ids) == 2 for t in session.turns)


def test_two_customers_asking_the_same_at_once_are_two() -> None:
    """The same instrumentation does not record a turn twice."""
    assert len(sessions_of(chat(0, lasts=3), chat(0, start=1.0, lasts=3))) == 2


def test_several_sessions_in_one_trace() -> None:
    """A batch job replays conversations below one root."""
    t = Trace()
    root = t.add("job", {}, lasts=1000)
    for sid in ("a", "b"):
        top = t.add("conversation", {"session.id": sid}, root, lasts=300)
        for k in range(2):
            messages = [
                m for q, a in TURNS[:k] for m in ({"role": "user", "content": q}, {"role": "assistant", "content": a})
            ]
            t.add(
                "chat m",
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.input.messages": json.dumps([*messages, {"role": "user", "content": TURNS[k][0]}]),
                    "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": TURNS[k][1] + sid}]),
                },
                top,
            )
    sessions = sessions_of(t)
    assert [(s.session_id, [t.answer for t in s.turns]) for s in sessions] == [
        ("a", [TURNS[0][1] + "a", TURNS[1][1] + "a"]),
        ("b", [TURNS[0][1] + "b", TURNS[1][1] + "b"]),
    ]


def test_an_attribute_of_the_users_choice_holds_the_session_id() -> None:
    traces = [chat(k, ids={"acme.dialogue": "d7", "session.id": f"browser-{k}"}) for k in range(3)]
    assert len(sessions_of(*traces)) == 3
    session = one(*traces, options=ReconstructOptions(session_attributes=("acme.dialogue",)))
    assert session.session_id == "d7"


@pytest.mark.parametrize("key", ["session.id", "session_id", "conversation_id", "chat.session.id", "thread_id"])
def test_an_id_on_an_outer_span_only(key: str) -> None:
    traces = []
    for k in range(2):
        inner = chat(k)
        root = inner.add("POST /chat", {"http.request.method": "POST", key: "s9"}, at=k * 100.0, lasts=5)
        inner.spans[0] = dataclasses.replace(inner.spans[0], parent_id=root)
        traces.append(inner)
    assert one(*traces).session_id == "s9"


def test_a_browsers_session_does_not_hide_the_conversation() -> None:
    """A framework's HTTP span may carry another kind of session id; the conversation's own one counts."""
    traces = []
    for k in range(2):
        inner = chat(k, ids={"gen_ai.conversation.id": "c1"})
        root = inner.add("GET /", {"session_id": f"web-{k}"}, at=k * 100.0, lasts=5)
        inner.spans[0] = dataclasses.replace(inner.spans[0], parent_id=root)
        traces.append(inner)
    assert one(*traces).session_id == "c1"


def test_retrieval_in_a_trace_of_its_own_is_found_by_its_passages() -> None:
    """No session id anywhere; what was retrieved stands in the next prompt."""
    passage = "Orders leave the warehouse on Mondays and Thursdays."
    t = Trace(0.0)
    t.add(
        "search",
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "order",
            "retrieval.documents.0.document.content": passage,
            "retrieval.documents.0.document.id": "w-1",
        },
    )
    c = Trace(3.0)
    c.add(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(
                [
                    {"role": "system", "content": f"Use the passages below.\n\n[w-1] {passage}"},
                    {"role": "user", "content": TURNS[0][0]},
                ]
            ),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": TURNS[0][1]}]),
        },
    )
    session = one(t, c)
    assert [(p.id, p.text, p.read_from) for p in session.turns[0].passages] == [("w-1", passage, "retriever")]
    assert set(session.trace_ids) == {t.trace_id, c.trace_id}


def test_index_building_is_no_session() -> None:
    t = Trace()
    t.add(
        "embeddings e",
        {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.input.messages": json.dumps([{"role": "user", "content": "passage"}]),
        },
    )
    i = Trace(1.0)
    i.add("chroma.add", {"db.system": "chroma", "db.operation": "add"})
    assert sessions_of(t, i) == []
    assert said(one(t, i, chat(0, start=10.0))) == TURNS[:1]


@pytest.mark.parametrize(
    ("name", "attributes", "is_read"),
    [
        ("embeddings m", {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"}, False),
        ("chroma.add", {"db.system": "chroma", "db.operation": "add"}, False),
        ("embeddings and chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, True),
    ],
)
def test_traces_that_only_prepare_a_search_are_not_read(name: str, attributes: dict[str, str], is_read: bool) -> None:
    """An index is built by thousands of them, and none can be linked to anything."""
    apart = Trace()
    apart.add(name, attributes)
    with (spool := RecordingSpool()):
        sessions = list(stream([*chat(0).spans, *apart.spans], spool))
    assert [said(s) for s in sessions if s.turns[0].answer] == [TURNS[:1]]
    assert (apart.trace_id in spool.loaded) == is_read


class RecordingSpool(SpanSpool):
    """Remembers which traces were read."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def load(self, trace_ids: str | Iterable[str]) -> list[Span]:
        wanted = [trace_ids] if isinstance(trace_ids, str) else list(trace_ids)
        self.loaded += wanted
        return super().load(wanted)
