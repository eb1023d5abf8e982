"""A real MLflow tracking server for tests: private, in a temporary folder, without job workers and telemetry."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from otel_drift.model import Span
from otlp_json import request_of
from servers.program_server import started

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".servers" / "mlflow" / "bin" / "mlflow"
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
    """Start a server and stop it in the end."""

    def command(folder: Path, ports: Sequence[int]) -> tuple[Sequence[str], Mapping[str, str]]:
        return [
            *(str(PROGRAM), "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"),
            *("--artifacts-destination", str(folder / "artifacts"), "--host", "127.0.0.1", "--port", str(ports[0])),
        ], QUIET

    with started("MLflow", command, ports=1, health="/health", hidden=("MLFLOW_", "OTEL_")) as http:
        yield Mlflow(str(http.base_url).rstrip("/"), http)


def _clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW_", "OTEL_"))} | QUIET
