"""The gate's examples run against a model server on this machine: they abstain, answer, and hand the notes on."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from free_ports import free_ports
from model_server import ModelServer, Reply, Request

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CARRY = "How many unused vacation days may be carried over?"
SICK = "Does sick leave of more than three days need a certificate?"


def carry_over(severity: str) -> dict[str, Any]:
    sides = {
        "source_a": "t1.p1", "claim_a": "Ten days may be carried over.",
        "quote_a": "Up to 10 unused vacation days may be carried over",
        "source_b": "t1.p2", "claim_b": "Five days may be carried over.",
        "quote_b": "A maximum of 5 unused vacation days can be carried over",
    }  # fmt: skip
    found = {**sides, "severity": severity, "explanation": "Ten is not five.", "confidence": 0.9, "disclosed": False}
    return {"conflicts": [{**found, "disclosure_quote": None}], "conflict_notes": "Ten days or five."}


def judge_and_model(request: Request) -> Reply:
    """The judge's asks get a report, severe unless the question speaks of January; the application's own an answer."""
    if "conflict_notes" in request.messages[0]["content"]:
        return Reply(carry_over("MINOR" if "January" in request.text else "MATERIAL"))
    return Reply("The sources disagree: ten days [handbook-12] or five [faq-3].")


def needs(module: str) -> None:
    """Skip without the framework; under CI it has to be there."""
    if importlib.util.find_spec(module) is None:
        assert os.environ.get("OTEL_DRIFT_CI") != "1", f"{module} is missing: it is part of the extra dev"
        pytest.skip(f"{module} is not installed (pip install -e '.[dev]')")


def run(example: str, server: ModelServer, *questions: str) -> str:
    words = [
        sys.executable,
        str(EXAMPLES / example),
        "--model",
        "openai/scripted",
        "--api-base",
        server.url,
        *questions,
    ]
    done = subprocess.run(
        words, env={**os.environ, "OPENAI_API_KEY": "sk-test"}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("example", "module"), [("gate_langchain.py", "langchain_core"), ("gate_llamaindex.py", "llama_index.core")]
)
def test_a_retrieval_chain_stops_at_a_conflict_and_hands_notes_on_below_it(example: str, module: str) -> None:
    needs(module.partition(".")[0])
    with ModelServer(judge_and_model) as server:
        printed = run(example, server, CARRY, CARRY.replace("over?", "over in January?"))

    stopped, answered = printed.rsplit("\n", 2)[:2]
    assert "contradict each other" in stopped
    assert "Handbook says “Up to 10 unused vacation days may be carried over”" in stopped
    assert answered == "The sources disagree: ten days [handbook-12] or five [faq-3]."
    assert len(server.requests) == 3, "where the gate abstains the model is not asked for an answer"
    prompt = server.requests[-1].messages[0]["content"]
    assert "<<<conflict notes " in prompt
    assert "Ten days or five." in prompt


def test_the_service_stops_at_a_conflict_and_answers_without_one(tmp_path: Path) -> None:
    needs("fastapi")
    (port,) = free_ports(1)
    with ModelServer(judge_and_model) as server:
        env = {**os.environ, "MODEL": "openai/scripted", "API_BASE": server.url, "OPENAI_API_KEY": "sk-test"}
        app = ["--app-dir", str(EXAMPLES), "gate_fastapi:app", "--port", str(port)]
        service = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", *app], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL
        )
        try:
            stopped = _ask(port, CARRY)
            answered = _ask(port, SICK)
        finally:
            service.terminate()
            service.wait(60)

    assert (stopped["answered"], answered["answered"]) == (False, True)
    assert "contradict each other" in stopped["text"]
    assert stopped["decision_id"] != answered["decision_id"]


def _ask(port: int, question: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        try:
            answer = httpx.post(f"http://127.0.0.1:{port}/ask", json={"question": question}, timeout=60)
        except httpx.ConnectError:
            assert time.monotonic() < deadline, "the service did not start"
            time.sleep(0.1)
        else:
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found
