"""Every given capture is rebuilt: turns, passages, ids, and what the incomplete ones report instead."""

from __future__ import annotations

import dataclasses
import functools
import random
from pathlib import Path
from typing import Any

import pytest

from captures import joined, label_of, names_in, records_of, scorer, spans_of
from otel_drift.model import Session
from otel_drift.normalise.values import fold
from otel_drift.sessions import reconstruct, session_json

PROMPT_ONLY = {
    "litellm-otel/hrleave-callback",
    "litellm-otel/telecom-stream",
    "openlit-openai/cloudlimits-chroma-nosession",
    "openlit-openai/medleaflet-stream-error",
    "openlit-openai/telecom-chroma",
    "otel-genai-langchain/guideline-spans",
    "otel-genai-langchain/hrleave-error",
    "otel-genai-langchain/hrleave-with-openai",
    "otel-genai-langchain/labreport-spans",
    "otel-genai-langchain/medleaflet-streaming",
    "otel-genai-langchain/pension-spans",
    "otel-genai-langchain/telecom-span-and-event",
    "otel-genai-langchain/telecom-spans",
    "otel-genai-openai/cloudlimits-nosession",
    "otel-genai-openai/telecom-responses",
    "otel-openai-v2/cloudlimits-legacy-onetrace",
    "otel-openai-v2/hrleave-latest-nosession-stuffed",
    "otel-openai-v2/hrleave-legacy",
    "otel-openai-v2/telecom-legacy-stream-error",
    "vercel-ai/hrleave-stream-chat",
    "vercel-ai/medleaflet-rag",
    "vercel-ai/telecom-nosession-stream",
    "vercel-ai-v7/hrleave-legacy-stream",
    "vercel-ai-v7/medleaflet-supplemental",
}
"""Captures whose passages stand in the prompt only."""

STRUCTURED = {
    "google-adk/hrleave-native",
    "langfuse-langchain/hrleave-streaming",
    "langfuse-langchain/medleaflet-agent",
    "langfuse-langchain/telecom-rewrite",
    "langfuse-observe/cloudlimits-nosession",
    "langfuse-observe/guideline-retriever",
    "langfuse-observe/hrleave-retriever",
    "langfuse-observe/labreport-retriever",
    "langfuse-observe/medleaflet-onetrace",
    "langfuse-observe/pension-retriever",
    "langfuse-observe/telecom-tool",
    "mlflow-langchain/hrleave-agent",
    "mlflow-langchain/telecom-native",
    "mlflow-langchain/telecom-otlp",
    "mlflow-openai/hrleave-native",
    "mlflow-openai/medleaflet-semconv-tool",
    "openinference-haystack/cloudlimits-onetrace",
    "openinference-haystack/hrleave-pipeline",
    "openinference-langchain/cloudlimits-one-trace",
    "openinference-langchain/cloudlimits-with-openai",
    "openinference-langchain/hrleave-agent",
    "openinference-langchain/hrleave-scores",
    "openinference-langchain/hrleave-with-openllmetry",
    "openinference-langchain/labreport-turns",
    "openinference-langchain/medleaflet-rewrite",
    "openinference-langchain/telecom-per-turn",
    "openinference-langchain/telecom-streaming",
    "openinference-llamaindex/cloudlimits-one-trace",
    "openinference-llamaindex/hrleave-chat-engine-stream",
    "openinference-llamaindex/hrleave-error-no-session",
    "openinference-llamaindex/medleaflet-query-engine-rerank",
    "openinference-llamaindex/telecom-query-engine",
    "openinference-openai/cloudlimits-nosession",
    "openinference-openai/cloudlimits-onetrace",
    "openinference-openai/guideline-turns",
    "openinference-openai/hrleave-flat",
    "openinference-openai/labreport-turns",
    "openinference-openai/medleaflet-responses-rerank",
    "openinference-openai/pension-turns",
    "openinference-openai/telecom-rewrite",
    "openinference-openai-agents/hrleave-chat-group",
    "openinference-openai-agents/medleaflet-stream-nosession",
    "openinference-openai-agents/telecom-responses",
    "otel-genai-openai/hrleave-doctext",
    "pydantic-ai/hrleave-stream",
    "pydantic-ai/medleaflet-nosession",
    "pydantic-ai/telecom-agent",
    "traceloop-langchain/cloudlimits-no-session",
    "traceloop-langchain/cloudlimits-one-trace",
    "traceloop-langchain/guideline-turns",
    "traceloop-langchain/hrleave-per-turn",
    "traceloop-langchain/medleaflet-streaming",
    "traceloop-langchain/pension-turns",
    "traceloop-langchain/telecom-conversation",
    "traceloop-openai/cloudlimits-chroma-events",
    "traceloop-openai/hrleave-chroma",
    "traceloop-openai/medleaflet-chroma-conversation-stream",
    "traceloop-openai/telecom-chroma-bare-error",
    "vercel-ai/guideline-tool",
    "vercel-ai/labreport-tool",
    "vercel-ai/pension-tool",
    "vercel-ai-v7/telecom-tool",
}
"""Captures whose spans, span events or tool results hold passages and ids as structured data."""

UNLINKABLE = {"openinference-llamaindex/hrleave-error-no-session"}
"""No session id, and an engine without memory resends no history: nothing says these traces are one session."""


@functools.cache
def rebuilt(folder: Path, name: str) -> list[Session]:
    return reconstruct(spans_of(folder, name))


def scored(folder: Path, name: str) -> dict[str, float]:
    sessions = [session_json(s) for s in rebuilt(folder, name)]
    return scorer(folder).score(sessions, label_of(folder, name))  # type: ignore[no-any-return]


def test_the_lists_name_every_capture(shared: Path) -> None:
    known = PROMPT_ONLY | STRUCTURED | scorer(shared).INCOMPLETE
    assert set(names_in(shared)) <= known, "sort new captures into PROMPT_ONLY or STRUCTURED"


def test_means_reach_the_figures(shared: Path) -> None:
    """The figures the product promises over all captures that have content."""
    rows = {n: scored(shared, n) for n in names_in(shared) if n not in scorer(shared).INCOMPLETE}
    mean = {key: sum(row[key] for row in rows.values()) / len(rows) for key in scorer(shared).KEYS}
    assert mean["turns"] >= 0.98
    assert mean["evidence"] >= 0.99
    assert mean["leakage"] <= 0.005
    assert mean["sessions"] >= 0.97
    structured = [rows[n] for n in STRUCTURED & rows.keys()]
    assert sum(row["exact"] for row in structured) / len(structured) >= 0.9
    assert sum(row["ids"] for row in structured) / len(structured) >= 0.9


def test_every_linkable_capture_is_rebuilt_exactly(shared: Path) -> None:
    """No capture hides behind the mean."""
    perfect = {"sessions": 1.0, "turns": 1.0, "evidence": 1.0, "leakage": 0.0, "exact": 1.0, "ids": 1.0}
    wrong = {
        name: row
        for name in names_in(shared)
        if name not in scorer(shared).INCOMPLETE | UNLINKABLE and (row := scored(shared, name)) != perfect
    }
    assert wrong == {}


def test_unlinkable_turns_stay_separate_and_complete(shared: Path) -> None:
    """Without session id or history every turn is a session of its own, its failed first try dropped."""
    for name in UNLINKABLE:
        sessions = rebuilt(shared, name)
        label = label_of(shared, name)
        assert [s.turns[0].user for s in sessions] == [t["user"] for t in label]
        assert [s.turns[0].answer for s in sessions] == [t["answer"] for t in label]
        assert all(len(s.turns) == 1 for s in sessions)


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5, 6])
def test_an_empty_retrieval_is_none(shared: Path, turn: int) -> None:
    """Whatever the convention, a retriever that found nothing is told apart from one that was not captured."""
    for name in names_in(shared):
        label = label_of(shared, name)
        if name in scorer(shared).INCOMPLETE | UNLINKABLE or turn > len(label):
            continue
        state = rebuilt(shared, name)[0].turns[turn - 1].retrieval
        want = (
            "none"
            if label[turn - 1].get("retrieval_empty")
            else "captured"
            if label[turn - 1]["passages"]
            else "no_retrieval"
        )
        assert state == want, name


def incomplete(folder: Path, name: str) -> Session:
    sessions = rebuilt(folder, name)
    assert len(sessions) == 1
    return sessions[0]


def codes(session: Session) -> set[str]:
    return {hint.code for hint in session.hints}


def test_content_switched_off_reports_turns_without_content(shared: Path) -> None:
    """NO_CONTENT: as many turns as there were, nothing in them, and the setting that would capture it."""
    session = incomplete(shared, "otel-genai-langchain/cloudlimits-no-content")
    assert len(session.turns) == 4
    assert {(t.user, t.answer_state, t.retrieval) for t in session.turns} == {(None, "not_captured", "not_captured")}
    remedy = " ".join(h.remedy for h in session.hints)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in remedy


def test_pydantic_ai_without_content(shared: Path) -> None:
    session = incomplete(shared, "pydantic-ai/medleaflet-nocontent")
    assert len(session.turns) == 6
    assert {(t.answer_state, t.retrieval) for t in session.turns} == {("not_captured", "not_captured")}
    assert "include_content=True" in " ".join(h.remedy for h in session.hints)


def test_traceloop_events_keep_answers_only(shared: Path) -> None:
    session = incomplete(shared, "traceloop-langchain/telecom-events")
    label = label_of(shared, "traceloop-langchain/telecom-events")
    assert [t.answer for t in session.turns] == [t["answer"] for t in label]
    assert {t.retrieval for t in session.turns} == {"not_captured"}
    assert {t.user for t in session.turns} == {None}
    assert "use_attributes=True" in " ".join(h.remedy for h in session.hints)


def test_uninstrumented_model_calls_leave_ids_only(shared: Path) -> None:
    session = incomplete(shared, "otel-openai-v2/medleaflet-latest-responses")
    label = label_of(shared, "otel-openai-v2/medleaflet-latest-responses")
    assert {(t.answer_state, t.retrieval) for t in session.turns} == {("not_captured", "ids_only")}
    assert [[p.id for p in t.passages] for t in session.turns] == [[p["id"] for p in t["passages"]] for t in label]
    assert "no_model_call" in codes(session)


def test_cut_attributes_are_partial(shared: Path) -> None:
    session = incomplete(shared, "vercel-ai/medleaflet-truncated-tool")
    label = label_of(shared, "vercel-ai/medleaflet-truncated-tool")
    assert [t.answer for t in session.turns] == [t["answer"] for t in label]
    assert {t.retrieval for t in session.turns} == {"partial"}
    texts = {p["text"] for t in label for p in t["passages"]}
    assert all(p.text in texts for t in session.turns for p in t.passages if p.text), (
        "a cut passage is never shown as whole"
    )
    assert "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT" in " ".join(h.remedy for h in session.hints)


def test_litellm_with_a_parent_span_is_read_from_the_raw_request(shared: Path) -> None:
    """LiteLLM loses its own attributes in a race; the provider's raw request still holds everything."""
    row = scored(shared, "litellm-otel/medleaflet-parent-error")
    assert (row["sessions"], row["turns"], row["exact"]) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("kind", ["shuffled", "doubled"])
def test_order_and_copies_change_nothing(shared: Path, kind: str) -> None:
    """Export order is end order, batches are split, and a retried export comes twice."""
    for name in names_in(shared):
        records = list(records_of(shared, name))
        mixed = records[:]
        random.Random(name).shuffle(mixed)
        if kind == "doubled":
            mixed = [*records, *mixed[: len(records) // 2]]
        assert reconstruct(joined(mixed)) == rebuilt(shared, name), name


@pytest.mark.parametrize("limit", [120, 300])
def test_no_cut_passage_passes_for_a_whole_one(shared: Path, limit: int) -> None:
    """Every capture again as the SDK would have exported it with an attribute length limit."""

    def cut(value: Any) -> Any:
        if isinstance(value, str):
            return value[:limit]
        if isinstance(value, dict):
            return {key: cut(inner) for key, inner in value.items()}
        return [cut(inner) for inner in value] if isinstance(value, list) else value

    wrong = set()
    for name in names_in(shared):
        spans = [
            dataclasses.replace(
                s,
                attributes=cut(s.attributes),
                events=tuple(dataclasses.replace(e, attributes=cut(e.attributes)) for e in s.events),
                logs=tuple(dataclasses.replace(r, body=cut(r.body), attributes=cut(r.attributes)) for r in s.logs),
            )
            for s in spans_of(shared, name)
        ]
        whole = [fold(p["text"]) for t in label_of(shared, name) for p in t["passages"]]
        for turn in (t for s in reconstruct(spans) for t in s.turns if t.retrieval == "captured"):
            for text in (fold(p.text) for p in turn.passages if p.text):
                if text not in whole and any(other.startswith(text) for other in whole):
                    wrong.add((name, turn.number))
    assert len(wrong) <= 1, wrong  # a session with a single cut text shows no limit
