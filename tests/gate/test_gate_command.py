"""``otel-drift gate``: exit statuses, output, bad input by line, and the server it starts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

import otel_drift.cli.gate  # noqa: F401 - importing registers the command
from model_server import ModelServer, Reply
from otel_drift.cli import app

Run = Callable[..., subprocess.CompletedProcess[str]]
QUESTION = "What is the notice period of the rental contract?"
FIRST = {"id": "a", "text": "The notice period for the rental contract is 30 days. It starts on the first of a month."}
SECOND = {"id": "b", "text": "The notice period for the rental contract is 90 days. Notice is given in writing."}
FOUND = {
    "conflicts": [
        {
            "source_a": "t1.p1", "claim_a": "30 days.", "quote_a": FIRST["text"].partition(" It ")[0],
            "source_b": "t1.p2", "claim_b": "90 days.", "quote_b": SECOND["text"].partition(" Notice ")[0],
            "severity": "MATERIAL", "explanation": "Both cannot hold.", "confidence": 0.9, "disclosed": False,
            "disclosure_quote": None,
        }
    ],
    "conflict_notes": "They disagree.",
}  # fmt: skip


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    file = tmp_path / "passages.jsonl"
    file.write_text("\n".join(json.dumps(one) for one in (FIRST, SECOND)) + "\n\n")
    return file


def gate(monkeypatch: pytest.MonkeyPatch, server: ModelServer, passages: Path, *options: str) -> Result:
    """The command in this process, so that the model library is loaded once."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model = ["--model", "openai/scripted", "--api-base", server.url]
    return CliRunner().invoke(app, ["gate", "--query", QUESTION, "--passages", str(passages), *model, *options])


def test_a_conflict_is_exit_1_and_json(passages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([Reply(FOUND)]) as server:
        run = gate(monkeypatch, server, passages, "--format", "json")

    assert run.exit_code == 1, run.output
    decision = json.loads(run.stdout)
    assert (decision["decision"], decision["reason"], decision["answer"]) == ("abstain", "conflict", None)
    assert decision["report"]["conflict_count"] == 1
    assert decision["recorded"] is True
    assert decision["judge"] == "openai/scripted"


def test_no_conflict_is_exit_0(passages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([Reply({"conflicts": [], "conflict_notes": ""})]) as server:
        run = gate(monkeypatch, server, passages)

    assert run.exit_code == 0, run.output
    assert run.stdout.startswith("proceed: ")


def test_the_embedded_judge_by_name(otel_drift: Run, passages: Path) -> None:
    run = otel_drift("gate", "--query", QUESTION, "--passages", passages, "--judge", "rules")
    support = otel_drift("gate", "--query", QUESTION, "--passages", passages, "--judge", "rules", "--preset", "support")

    assert (run.returncode, support.returncode) == (1, 0)
    assert "30 days against 90 days" in run.stdout
    assert "lexical heuristics" in run.stdout


def test_empty_and_repeated_lines_are_left_out_and_named(otel_drift: Run, tmp_path: Path) -> None:
    file = tmp_path / "passages.jsonl"
    file.write_text("\n".join(json.dumps(one) for one in (FIRST, {"id": "c", "text": " "}, SECOND, FIRST)))
    run = otel_drift("gate", "--query", QUESTION, "--passages", file, "--judge", "rules")

    assert run.returncode == 1, run.stderr
    assert "passages left out: 2 (empty), 4 (repeated)" in run.stdout
    assert "30 days against 90 days" in run.stdout


def test_a_judge_that_is_down_abstains_in_time(passages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([Reply({}, delay=30)]) as server:
        run = gate(monkeypatch, server, passages, "--deadline", "0.5", "--format", "json")

    assert run.exit_code == 1, run.output
    decision = json.loads(run.stdout)
    assert (decision["reason"], decision["safety_override"]) == ("safety_override", "timeout")
    assert decision["seconds"] < 25, "the judge would have taken 30 s"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"id": "a", "text": "x"}', "{"], "line 2: is no JSON"),
        (['{"id": "a", "text": "x"}', "", "[1]"], "line 3: is no object"),
        (['{"id": "a"}'], "line 1: text is missing"),
        (['{"id": "a", "text": "x"}', '{"id": "a", "text": "y"}'], "line 2: id 'a' was given at line 1"),
        (['{"id": "a", "text": "x", "date": []}'], "line 1: date is a list"),
    ],
)
def test_a_bad_line_is_exit_2_with_its_number(lines: list[str], said: str, otel_drift: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text("\n".join(lines))
    run = otel_drift("gate", "--query", QUESTION, "--passages", file, "--judge", "rules")

    assert (run.returncode, run.stdout) == (2, "")
    assert said in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name a judge on purpose"), (["--judge", "gpt"], "only rules"),
        (["--judge", "rules", "--model", "openai/x"], "asks no model"),
        (["--judge", "rules", "--preset", "clinical"], "language model"),
        (["--judge", "rules", "--serve", "127.0.0.1:0"], "over HTTP"),
        (["--judge", "rules", "--deadline", "0"], "deadline"),
    ],
)  # fmt: skip
def test_wrong_options_are_exit_2(options: list[str], said: str, otel_drift: Run, passages: Path) -> None:
    run = otel_drift("gate", "--query", QUESTION, "--passages", passages, *options)

    assert run.returncode == 2
    assert said in run.stderr


def test_a_missing_file_or_question_is_exit_2(otel_drift: Run, passages: Path) -> None:
    missing = otel_drift("gate", "--query", QUESTION, "--passages", "none.jsonl", "--judge", "rules")
    nothing = otel_drift("gate", "--judge", "rules")

    assert (missing.returncode, nothing.returncode) == (2, 2)
    assert "No such file" in missing.stderr
    assert "--query and --passages" in nothing.stderr


def test_the_settings_hold_the_gates_options_and_the_command_line_wins(
    otel_drift: Run, passages: Path, tmp_path: Path
) -> None:
    config = tmp_path / "gate.toml"
    config.write_text('[gate]\npreset = "support"\npair_threshold = 3\nseverity_threshold = "minor"\n')
    base = ["gate", "--query", QUESTION, "--passages", passages, "--judge", "rules", "--format", "json"]
    told = otel_drift(*base, "--config", config)
    stricter = otel_drift(*base, "--config", config, "--pair-threshold", "1", "--severity-threshold", "material")
    config.write_text('[gate]\npreset = "clinical"\n')
    refused = otel_drift(*base, "--config", config)
    config.write_text("[gate]\ndeadline = 0\n")
    impossible = otel_drift(*base, "--config", config)

    found = [json.loads(run.stdout)["report"] for run in (told, stricter)]
    assert [(one["severity_threshold"], one["pair_threshold"]) for one in found] == [("MINOR", 3), ("MATERIAL", 1)]
    assert (told.returncode, stricter.returncode) == (0, 1)
    assert (refused.returncode, impossible.returncode) == (2, 2)
    assert "language model" in refused.stderr
    assert "gate.deadline" in impossible.stderr


def test_passages_of_strangers_are_safe_on_a_terminal(otel_drift: Run, tmp_path: Path) -> None:
    file = tmp_path / "evil.jsonl"
    evil = {**SECOND, "title": "\x1b[31mred\u202e [link=http://x]x[/link]"}
    file.write_text(json.dumps(FIRST) + "\n" + json.dumps(evil))
    run = otel_drift("gate", "--query", QUESTION, "--passages", file, "--judge", "rules")

    assert run.returncode == 1
    assert "\x1b" not in run.stdout
    assert "[link=http://x]" in run.stdout


@pytest.mark.parametrize("told_by", ["command line", "settings"])
def test_it_serves_until_it_is_stopped(told_by: str, tmp_path: Path, passages: Path) -> None:
    address = ["--serve", "127.0.0.1:0"] if told_by == "command line" else []
    if not address:
        (tmp_path / "otel-drift.toml").write_text('[gate]\nserve = "127.0.0.1:0"\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "otel_drift", "gate", "--judge", "rules", *address],
        cwd=tmp_path, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stderr.readline())
        assert found
        decided = _post(f"http://127.0.0.1:{found[1]}/v1/gate", {"query": QUESTION, "passages": [FIRST, SECOND]})
        assert decided["decision"] == "abstain"
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "rental" not in errors
    assert "Traceback" not in errors


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        try:
            answer: dict[str, Any] = httpx.post(url, json=body, timeout=60).json()
        except httpx.ConnectError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return answer
