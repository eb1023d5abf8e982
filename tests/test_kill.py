"""`kill -9` at any moment, then the same command: nothing lost, nothing doubled, nothing committed judged again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from model_server import ModelServer
from scripted import finds_nothing

KILLS = 200 if os.environ.get("OTEL_DRIFT_SOAK") else 30


def test_killed_at_random_moments_nothing_is_lost_doubled_or_judged_again(examples: Path, tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    template = (examples / "telecom-otel-genai.json").read_text()
    names = [f"s{number:02}" for number in range(12)]
    for number, name in enumerate(names):
        copy = json.loads(template)
        for span in _spans(copy):
            for key in ("traceId", "spanId", "parentSpanId"):
                if span.get(key):
                    span[key] = f"{number + 1:04x}" + span[key][4:]
            for attribute in span["attributes"]:
                if attribute["key"] == "gen_ai.conversation.id":
                    attribute["value"] = {"stringValue": name}
        (sessions / f"{name}.json").write_text(json.dumps(copy))
    rng = random.Random(5)
    with ModelServer(partial(finds_nothing, delay=0.15)) as server:
        command = [
            sys.executable, "-m", "otel_drift", "audit", str(sessions), "--ledger", "l.db", "--sink", "jsonl:out.jsonl",
            "--format", "json", "--model", "openai/slow", "--api-base", server.url,
        ]  # fmt: skip
        env = {**os.environ, "OTEL_DRIFT_JUDGE__MAX_CONCURRENCY": "2"}
        started = time.monotonic()
        subprocess.run([*command, "--max-calls", "0"], cwd=tmp_path, env=env, capture_output=True, check=False)
        start_up = time.monotonic() - started
        for _ in range(KILLS):
            process = subprocess.Popen(
                command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(rng.uniform(0, 1.5 * start_up))
            process.send_signal(signal.SIGKILL)
            process.wait()
        last = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        again = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

        assert last.returncode == 0, last.stderr
        results = [json.loads(line) for line in last.stdout.splitlines()]
        assert sorted(names) == sorted(unit["session_id"] for unit in results)
        assert all(json.loads(line)["calls"] == 0 for line in again.stdout.splitlines())
        asked = Counter(request.messages[-1]["content"] for request in server.requests)
        in_flight_at_a_kill = 2 * KILLS
        assert len(asked) == len(names)
        assert sum(asked.values()) <= len(names) + in_flight_at_a_kill
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    keys = [(record["otel_drift.result.id"], record["revision"]) for record in written]
    assert len(keys) == len(set(keys))
    assert set(names) == {record["session_id"] for record in written if record["session_id"]}


def _spans(request: dict) -> list[dict]:
    return [
        span for resource in request["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]
    ]
