"""``otel-drift cite`` as a person or a script runs it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from model_server import ModelServer, Reply, Request
from otel_drift.cli import app, cite  # noqa: F401 - importing registers the command

LIBRARY = Path(__file__).resolve().parents[2] / "examples" / "cite" / "tool-library.jsonl"
QUESTION = "What does a late day cost?"


def written(request: Request) -> Reply:
    """A model that answers the example's question rightly; one that is told to be wrong cites what is not there."""
    quote = "A late day costs 2 euros for each tool."
    older = "A late day costs 1 euro for each tool."
    source = {"source_id": "p1", "quote": quote, "rationale": "The charge."}
    other = {"source_id": "p3", "quote": older, "rationale": "Of 2021, so older.", "conflict_type": "temporal_change"}
    answer: dict[str, Any] = {
        "answer": f"{quote[:-1]} [p1]. An older list of 2021 does not agree and has 1 euro [p3].",
        "claims": [
            {"claim_id": "c1", "claim_text": quote, "quote": quote, "supporting_sources": [source],
             "contradicting_sources": [other], "unresolved": False, "resolved_by": "recency", "confidence": 0.9}
        ],
        "conflict_summary": "2 euros since 2025, 1 euro before.",
        "voiced_in": "An older list of 2021 does not agree and has 1 euro",
        "abstention_notes": None,
    }  # fmt: skip
    if "wrong" in request.text:
        answer["answer"] = "A late day costs 2 euros for each tool [p9]."
    return Reply(answer)


def test_it_works_as_written_without_a_model(otel_drift: Any) -> None:
    run = otel_drift("cite", "--question", QUESTION, "--passages", LIBRARY, "--format", "json")
    assert run.returncode == 0, run.stderr
    record = json.loads(run.stdout)
    assert record["status"] == "answered"
    assert record["extractive"] is True
    assert record["answer"].startswith("A late day costs 2 euros for each tool. [1][2]")
    assert record["claims"][0]["supporting_sources"][0]["source_id"] == "rules-2025"
    assert "sentences of the passages" in record["judge_note"]


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command in this process, where the model library is loaded once."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, ["cite", *map(str, arguments)])

    return run


def test_piped_lines_are_whole_however_narrow_the_terminal_was(otel_drift: Any) -> None:
    run = otel_drift("cite", "--question", QUESTION, "--passages", LIBRARY, env={"COLUMNS": "40"})
    conflict = "Possible conflict between passages: 1 euro against 2 euros; the contradicting passage is older."
    assert f"Conflict: {conflict}" in run.stdout.splitlines()
    assert any(line.startswith("Judge rules: ") and line.endswith("that matter") for line in run.stderr.splitlines())


def test_a_model_writes_and_its_answer_is_kept(in_process: Callable[..., Result]) -> None:
    with ModelServer(written) as server:
        options = ("--question", QUESTION, "--passages", LIBRARY, "--model", "openai/test", "--api-base", server.url,
                   "--format", "json")  # fmt: skip
        first, again = in_process(*options), in_process(*options)
    assert first.exit_code == 0, first.stderr
    record = json.loads(first.stdout)
    assert record["answer"] == (
        "A late day costs 2 euros for each tool [1]. An older list of 2021 does not agree and has 1 euro [3]."
    )
    assert (record["calls"], record["extractive"]) == (1, False)
    assert json.loads(again.stdout)["calls"] == 0


def test_an_answer_that_does_not_hold_is_none(in_process: Callable[..., Result]) -> None:
    with ModelServer(written) as server:
        run = in_process(
            "--question", f"{QUESTION} wrong", "--passages", LIBRARY, "--model", "openai/test", "--api-base", server.url
        )
    assert run.exit_code == 5
    assert run.stdout == ""
    assert "no answer (answer_checks)" in run.stderr


def test_an_abstention_has_its_own_status(otel_drift: Any) -> None:
    run = otel_drift("cite", "--question", "Who built the library?", "--passages", LIBRARY)
    assert run.returncode == 1
    assert run.stdout.startswith("No answer: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--question", " ", "--passages", LIBRARY), "the question must have"),
        (("--question", QUESTION, "--passages", "none.jsonl"), "none.jsonl: cannot be read"),
        (("--question", QUESTION, "--passages", LIBRARY, "--recency", "soon"), "give a date"),
        (("--question", QUESTION, "--passages", LIBRARY, "--field", "colour"), "confidence, human_review"),
        (("--question", QUESTION, "--passages", LIBRARY, "--examples", "none.jsonl"), "cannot be read"),
        (("--question", QUESTION, "--passages", LIBRARY, "--api-base", "http://127.0.0.1:9"), "needs --model"),
    ],
)
def test_wrong_options_say_what_to_do(options: tuple[Any, ...], message: str, otel_drift: Any) -> None:
    run = otel_drift("cite", *options)
    assert run.returncode == 2
    assert message in re.sub(r"\s+", " ", run.stderr)
    assert "Traceback" not in run.stderr


def test_hostile_passages_cannot_move_the_terminal(otel_drift: Any, tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    text = "A late day costs 2 euros\u001bc\u202e for each \u200btool."
    file.write_text(json.dumps({"id": "a\u001b]0;x\u0007", "text": text, "title": "[red]x[/red]"}))
    run = otel_drift("cite", "--question", QUESTION, "--passages", file)
    assert run.returncode == 0, run.stderr
    assert not set(run.stdout) & set("\u001b\u202e\u200b\u0007")
    assert "[red]x[/red]" in run.stdout
