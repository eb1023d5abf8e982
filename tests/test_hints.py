"""Hints name what is missing, for which turns, and the setting of the instrumentation at hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from captures import spans_of
from otel_drift.model import Hint
from otel_drift.sessions import reconstruct
from spans import TURNS, Trace, chat, one, said


def hints(folder: Path, name: str) -> dict[str, Hint]:
    return {h.code: h for s in reconstruct(spans_of(folder, name)) for h in s.hints}


@pytest.mark.parametrize(
    ("name", "convention", "setting"),
    [
        ("langfuse-observe/cloudlimits-nosession", "langfuse", "propagate_attributes(session_id="),
        ("openinference-openai-agents/hrleave-chat-group", "openinference", "using_session(session_id)"),
        ("traceloop-langchain/cloudlimits-no-session", "traceloop", "set_association_properties"),
        ("vercel-ai/telecom-nosession-stream", "vercel_ai", "metadata.sessionId"),
        ("mlflow-langchain/telecom-otlp", "mlflow", "mlflow.update_current_trace"),
        ("litellm-otel/hrleave-callback", "litellm", "session.id"),
        ("openlit-openai/cloudlimits-chroma-nosession", "openlit", "using_attributes"),
        ("otel-genai-openai/cloudlimits-nosession", "gen_ai", "gen_ai.conversation.id"),
    ],
)
def test_how_to_name_the_session(shared: Path, name: str, convention: str, setting: str) -> None:
    hint = hints(shared, name)["no_session_id"]
    assert hint.convention == convention
    assert setting in hint.remedy


@pytest.mark.parametrize(
    ("name", "convention", "setting"),
    [
        ("openlit-openai/telecom-chroma", "openlit", "vector store spans have no documents"),
        ("otel-genai-langchain/telecom-spans", "gen_ai", "gen_ai.retrieval.documents"),
        ("vercel-ai/medleaflet-rag", "vercel_ai", "make the search a tool"),
        ("litellm-otel/telecom-stream", "litellm", "record a retriever span"),
    ],
)
def test_how_to_record_passages(shared: Path, name: str, convention: str, setting: str) -> None:
    hint = hints(shared, name)["passages_from_prompt"]
    assert hint.convention == convention
    assert setting in hint.remedy


def test_the_turns_concerned_are_named(shared: Path) -> None:
    """The telecom conversation retrieves in its first four turns only."""
    assert hints(shared, "otel-genai-langchain/telecom-spans")["passages_from_prompt"].turns == (1, 2, 3, 4)


def test_litellms_race_with_a_parent_span(shared: Path) -> None:
    assert "litellm_parent_race" in hints(shared, "litellm-otel/medleaflet-parent-error")
    assert "litellm_parent_race" not in hints(shared, "litellm-otel/hrleave-callback")


def test_nothing_missing_nothing_said() -> None:
    assert one(chat(0, ids={"session.id": "s"})).hints == ()


def with_parents(trace: Trace, **parents: str) -> Trace:
    """The trace with the parent of each span of that name replaced."""
    trace.spans = [dataclasses.replace(s, parent_id=parents[s.name]) if s.name in parents else s for s in trace.spans]
    return trace


def test_a_circle_of_parents_that_was_cut_is_said() -> None:
    """The turn is read all the same."""
    trace = chat(0, ids={"session.id": "1"})
    call = trace.spans[0].span_id
    outer = trace.add("outer", {}, at=0.0)
    trace.spans[0] = dataclasses.replace(trace.spans[0], parent_id=outer)
    straight = one(trace)
    session = one(with_parents(trace, outer=call))
    assert said(session) == said(straight) == TURNS[:1]
    assert "parent_circle" not in {h.code for h in straight.hints}
    [hint] = [h for h in session.hints if h.code == "parent_circle"]
    assert hint.turns == (1,)
    assert "each span" in hint.remedy


def test_a_span_that_names_itself_as_parent_is_said() -> None:
    trace = chat(0, ids={"session.id": "1"})
    trace.spans[0] = dataclasses.replace(trace.spans[0], parent_id=trace.spans[0].span_id)
    assert [h.code for h in one(trace).hints if h.code == "parent_circle"] == ["parent_circle"]
