"""`kill -9` at any moment, then the same command: nothing lost, nothing doubled, nothing committed judged again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from model_server import ModelServer
from scripted import finds_nothing

KILLS = 200 if os.environ.get("OTEL_DRIFT_SOAK") else 20
SESSIONS = 3 * KILLS
CONCURRENCY = 2


def test_killed_at_random_moments_nothing_is_lost_doubled_or_judged_again(examples: Path, tmp_path: Path) -> None:
    """Every sixth kill comes while the process starts, the others after some answers of a slow judge."""
    names = write_sessions(examples / "telecom-otel-genai.json", tmp_path / "sessions")
    rng = random.Random(5)
    with ModelServer(partial(finds_nothing, delay=0.1)) as server:
        command = [
            sys.executable, "-m", "otel_drift", "audit", "sessions", "--ledger", "l.db", "--sink", "jsonl:out.jsonl",
            "--format", "json", "--model", "openai/slow", "--api-base", server.url,
        ]  # fmt: skip
        env = {**os.environ, "OTEL_DRIFT_JUDGE__MAX_CONCURRENCY": str(CONCURRENCY)}
        run = partial(subprocess.run, command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        for number in range(KILLS):
            process = subprocess.Popen(
                command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            if number % 6:
                wait_for(server, process, len(server.requests) + rng.randint(1, 5))
            time.sleep(rng.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            process.wait()
        last = run()
        asked = len(server.requests)
        again = run()

        assert last.returncode == 0, last.stderr
        results = [json.loads(line) for line in last.stdout.splitlines()]
        assert sorted(names) == sorted(unit["session_id"] for unit in results)
        assert all(json.loads(line)["calls"] == 0 for line in again.stdout.splitlines())
        assert len(server.requests) == asked, "a committed session was judged again"
        in_flight = CONCURRENCY * KILLS
        assert SESSIONS <= asked <= SESSIONS + in_flight
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    keys = [(record["otel_drift.result.id"], record["revision"]) for record in written]
    assert len(keys) == len(set(keys))
    assert set(names) == {record["session_id"] for record in written if record["session_id"]}


def wait_for(server: ModelServer, process: subprocess.Popen[bytes], requests: int) -> None:
    """Until the server has seen so many requests, or the process has ended by itself."""
    deadline = time.monotonic() + 120
    while len(server.requests) < requests and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def write_sessions(template: Path, folder: Path) -> list[str]:
    """Copies of one session, each with ids and one word of its own."""
    folder.mkdir()
    names = [f"s{number:03}" for number in range(SESSIONS)]
    for number, name in enumerate(names):
        copy = json.loads(template.read_text(encoding="utf-8").replace("Portugal", f"Portugal{number}"))
        spans = [span for entry in copy["resourceSpans"] for scope in entry["scopeSpans"] for span in scope["spans"]]
        for span in spans:
            for key in ("traceId", "spanId", "parentSpanId"):
                if span.get(key):
                    span[key] = f"{number + 1:04x}" + span[key][4:]
            for attribute in span["attributes"]:
                if attribute["key"] == "gen_ai.conversation.id":
                    attribute["value"] = {"stringValue": name}
        (folder / f"{name}.json").write_text(json.dumps(copy), encoding="utf-8")
    return names
