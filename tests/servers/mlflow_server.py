"""A real MLflow tracking server for tests: private, in a temporary folder, without job workers and telemetry."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from otel_drift.model import Span
from otlp_json import request_of

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".servers" / "mlflow" / "bin" / "mlflow"
LONGEST_START = 240
QUIET = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven workers and 80 seconds, which assessments don't need
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_MODEL_CATALOG_URI": "",  # prices of models, asked for on the internet at ingestion
}


@dataclass(frozen=True)
class Mlflow:
    """A running server, and what tests do with it."""

    url: str
    http: httpx.Client

    def experiment(self, name: str = "") -> str:
        """Create an experiment; returns its id."""
        answer = self.post("/api/2.0/mlflow/experiments/create", {"name": name or f"demo-{uuid.uuid4().hex[:8]}"})
        return str(answer["experiment_id"])

    def ingest(self, experiment_id: str, spans: Sequence[Span] | dict[str, Any]) -> None:
        """Send spans by OTLP, as an application does."""
        body = spans if isinstance(spans, dict) else request_of(spans)
        sent = self.http.post(
            "/v1/traces",
            content=json.dumps(body),
            headers={"x-mlflow-experiment-id": experiment_id, "content-type": "application/json"},
        )
        assert sent.status_code == 200, sent.text

    def search(self, experiment_id: str, condition: str) -> set[str]:
        """The trace ids (as OpenTelemetry writes them) that a filter finds."""
        location = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment_id}}
        answer = self.post(
            "/api/3.0/mlflow/traces/search", {"locations": [location], "filter": condition, "max_results": 500}
        )
        return {info["trace_id"].removeprefix("tr-") for info in answer.get("traces", ())}

    def info(self, trace_id: str) -> dict[str, Any]:
        """What stands on a trace: assessments, tags, metadata."""
        answer = self.http.get(f"/api/3.0/mlflow/traces/tr-{trace_id}")
        assert answer.status_code == 200, answer.text
        info: dict[str, Any] = answer.json()["trace"]["trace_info"]
        return info

    def assess(
        self, trace_id: str, name: str, value: Any, *, source: str = "bob", kind: str = "HUMAN", **more: Any
    ) -> str:
        """Leave an assessment on a trace, as a person does in the UI; returns its id."""
        assessment = {
            "assessment_name": name,
            "trace_id": f"tr-{trace_id}",
            "source": {"source_type": kind, "source_id": source},
            "feedback": {"value": value},
            **more,
        }
        made = self.post(f"/api/3.0/mlflow/traces/tr-{trace_id}/assessments", {"assessment": assessment})
        return str(made["assessment"]["assessment_id"])

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a POST that succeeds."""
        answer = self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def run(self, script: str, **environment: str) -> str:
        """Run a script with MLflow's own SDK, in the server's environment; returns what it printed."""
        done = subprocess.run(
            [str(PROGRAM.with_name("python")), "-c", script],
            env={**_clean(), "MLFLOW_TRACKING_URI": self.url, **environment},
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def running() -> Iterator[Mlflow]:
    """Start a server on a free port and stop it, with everything it started, in the end."""
    folder = Path(tempfile.mkdtemp(prefix="otel-drift-mlflow-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(str(PROGRAM), "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"),
        *("--artifacts-destination", str(folder / "artifacts"), "--host", "127.0.0.1", "--port", str(port)),
    ]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=_clean(), cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            _wait(http, process, log)
            yield Mlflow(f"http://127.0.0.1:{port}", http)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(http: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(LONGEST_START * 4):
        try:
            if http.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        try:
            process.wait(0.25)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"MLflow ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}")
    pytest.fail(f"MLflow is not up after {LONGEST_START} s: {log.read_text(errors='replace')[-2000:]}")


def _clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW_", "OTEL_"))} | QUIET
