"""A judge that answered badly once: the ledger keeps it, says so, and asks anew when told to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from model_server import ModelServer, Reply, Request
from scripted import finds_nothing

Run = Callable[..., "subprocess.CompletedProcess[str]"]

KEY = "sk-test-8d2c91f04b7e"


def test_a_stored_answer_that_failed_is_said_asked_anew_on_request_and_holds_no_key(
    otel_drift: Run, examples: Path, tmp_path: Path
) -> None:
    replies = iter([Reply(f"No JSON, {KEY}."), Reply("None again.", model=KEY)])

    def bad_twice(request: Request) -> Reply:
        return next(replies, None) or finds_nothing(request)

    with ModelServer(bad_twice) as server:
        command = ["audit", examples / "pension-openinference.json", "--format", "json", "--ledger", "ledger.db"]
        command += ["--model", "openai/test-model", "--api-base", server.url]
        runs = [
            otel_drift(*command, *more, env={"OPENAI_API_KEY": KEY})
            for more in ([], [], ["--ask-again", "--dry-run"], ["--ask-again"], [])
        ]
        asked = len(server.requests)

    first, second, planned, anew, last = runs
    assert [run.returncode for run in runs] == [5, 5, 0, 0, 0], [run.stderr for run in runs]
    calls = [json.loads(run.stdout)["calls"] for run in (first, second, anew, last)]
    assert (calls, asked) == ([2, 0, 1, 0], 3)
    assert "--ask-again" in second.stderr
    assert not any("--ask-again" in run.stderr for run in (first, anew, last))
    assert json.loads(planned.stdout)["calls"] == 1
    assert KEY.encode() not in b"".join(_bytes_under(tmp_path))


def _bytes_under(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()
