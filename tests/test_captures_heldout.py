"""Captures of further libraries and shapes (see tests/captures/heldout/README.md) are rebuilt as their labels say."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from captures import joined
from otel_drift.model import Record, Session
from otel_drift.normalise.values import fold
from otel_drift.otlp import decode_logs_json, decode_traces_json
from otel_drift.sessions import reconstruct

FOLDER = Path(__file__).parent / "captures" / "heldout"
NAMES = sorted(
    f"{path.parent.name}/{path.name.removesuffix('.json.gz')}"
    for path in FOLDER.glob("*/*.json.gz")
    if not path.name.endswith(".logs.json.gz")
)
IDS_LOST = {
    "langfuse-observe/kiln-strings-plainspan": "a function that returns bare strings",
    "mlflow-dspy/kiln-otlp": "bare strings",
    "openinference-anthropic/vault-documents": "titles of attached documents",
    "openinference-dspy/kiln-cot": "bare strings",
    "openinference-langchain/clinic-agent": "sources in what the tool returned",
    "openinference-litellm/ferry-headed": "titles in the prompt",
    "openinference-openai/ferry-branched-nosession": "numbers in the prompt",
    "openlit-langchain/ferry-historyaware": "OpenLIT reports the source as id",
    "otel-genai-langchain/astro-historyaware": "bare paragraphs in the prompt",
    "otel-openai-v2/ferry-legacy-ragprompt": "bare paragraphs in the prompt",
    "pydantic-ai/ferry-deps": "sources in the prompt",
    "traceloop-cohere/kettle-rerank": "places in the list that was ranked",
    "vercel-ai/bees-contextblock-stream": "bare lines in the prompt",
    "vercel-ai/ferry-stuffed": "bare paragraphs in the prompt",
}
"""Captures in which no id of a passage stands, and what stands instead."""


def rebuilt(name: str) -> list[Session]:
    """The sessions of a capture, its log records joined."""
    records: list[Record] = []
    library, _, shape = name.partition("/")
    for path in sorted((FOLDER / library).glob(shape + ".*")):
        data = gzip.decompress(path.read_bytes())
        records.extend(decode_logs_json(data) if ".logs." in path.name else decode_traces_json(data))
    return reconstruct(joined(records))


def label_of(name: str) -> list[dict[str, Any]]:
    """The labelled turns of a capture's conversation."""
    conversation = name.partition("/")[2].partition("-")[0]
    turns: list[dict[str, Any]] = json.loads((FOLDER / "labels" / f"{conversation}.json").read_text())["turns"]
    return turns


def test_there_are_captures() -> None:
    assert len(NAMES) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_one_session_with_the_labelled_turns(name: str) -> None:
    sessions = rebuilt(name)
    assert len(sessions) == 1
    said = [(fold(t.user or ""), fold(t.answer or "")) for t in sessions[0].turns]
    assert said == [(fold(t["user"]), fold(t["answer"])) for t in label_of(name)]


@pytest.mark.parametrize("name", NAMES)
def test_each_turn_has_its_own_passages_and_no_other(name: str) -> None:
    (session,) = rebuilt(name)
    for turn, want in zip(session.turns, label_of(name), strict=True):
        assert sorted(fold(p.text or "") for p in turn.passages) == sorted(fold(p["text"]) for p in want["passages"])
        if want["passages"]:
            assert turn.retrieval == "captured"
        else:
            assert turn.retrieval in ("none", "no_retrieval")


@pytest.mark.parametrize("name", [n for n in NAMES if n not in IDS_LOST])
def test_passages_keep_their_ids(name: str) -> None:
    (session,) = rebuilt(name)
    for turn, want in zip(session.turns, label_of(name), strict=True):
        assert sorted(p.id for p in turn.passages) == sorted(p["id"] for p in want["passages"])
