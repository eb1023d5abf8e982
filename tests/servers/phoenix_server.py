"""A real Phoenix server for tests: private, in a temporary folder, without telemetry."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from otel_drift.model import Span
from otlp_json import request_of
from servers.program_server import started

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".servers" / "phoenix" / "bin" / "phoenix"


@dataclass(frozen=True)
class Phoenix:
    """A running server, and what tests do with it."""

    url: str
    http: httpx.Client

    def ingest(self, project: str, spans: Sequence[Span]) -> None:
        """Send spans by OTLP as an application does, and wait until they can be read."""
        sent = self.http.post(
            "/v1/traces", content=_protobuf(spans, project), headers={"content-type": "application/x-protobuf"}
        )
        assert sent.status_code == 200, sent.text
        self.await_that(lambda: {span.span_id for span in spans} <= self.span_ids(project), "the spans are there")

    def span_ids(self, project: str) -> set[str]:
        """What spans the project has."""
        path = self.path(project)
        return {span["context"]["span_id"] for span in self.listed(f"{path}/spans", limit=1000)} if path else set()

    def path(self, project: str) -> str:
        """Where the API has a project; empty where there is none yet."""
        found = [one["id"] for one in self.listed("/v1/projects", limit=1000) if one["name"] == project]
        return f"/v1/projects/{found[0]}" if found else ""

    def listed(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """All elements of a list; none where Phoenix says 404."""
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            answer = self.http.get(path, params={**params, **({"cursor": cursor} if cursor else {})})
            if answer.status_code == 404:
                return found
            assert answer.status_code == 200, answer.text
            found += answer.json()["data"]
            cursor = answer.json()["next_cursor"]
            if not cursor:
                return found

    def annotations(self, project: str, target: str, **params: Any) -> list[dict[str, Any]]:
        """What stands on the spans, traces or sessions of a project; ours unless told otherwise."""
        params = params or {"identifier": "otel-drift"}
        return self.listed(f"/v1/projects/{project}/{target}_annotations", limit=1000, **params)

    def documents(self, span_id: str) -> list[dict[str, Any]]:
        """What stands on the documents of a span, whoever wrote it; the REST API does not tell."""
        fields = "id name identifier annotatorKind label score explanation documentPosition updatedAt"
        found = self._of_span(span_id, f"documentEvaluations {{ {fields} }}")
        return sorted(found["documentEvaluations"], key=lambda one: (one["documentPosition"], one["id"]))

    def retrieval_metrics(self, span_id: str) -> list[dict[str, Any]]:
        """What Phoenix makes of the scores of a span's documents."""
        found: list[dict[str, Any]] = self._of_span(
            span_id, "documentRetrievalMetrics { evaluationName ndcg precision hit }"
        )["documentRetrievalMetrics"]
        return found

    def _of_span(self, span_id: str, fields: str) -> dict[str, Any]:
        query = f'{{ getSpanByOtelId(spanId: "{span_id}") {{ {fields} }} }}'
        answer = self.http.post("/graphql", json={"query": query}).json()
        assert "errors" not in answer, answer
        span: dict[str, Any] = answer["data"]["getSpanByOtelId"]
        return span

    def annotate(self, target: str, **row: Any) -> str:
        """Leave an annotation as a person or another program does; returns its id."""
        body = {"data": [{"annotator_kind": "HUMAN", "identifier": "", **row}]}
        answer = self.http.post(f"/v1/{target}_annotations", params={"sync": "true"}, json=body)
        assert answer.status_code == 200, answer.text
        made: str = answer.json()["data"][0]["id"]
        return made

    def run(self, script: str) -> str:
        """Run a script with Phoenix' own client, in the server's environment; returns what it printed."""
        done = subprocess.run(
            [str(PROGRAM.with_name("python")), "-c", script],
            env={**os.environ, "PHOENIX_ENDPOINT": self.url},
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def await_that(self, holds: Callable[[], bool], what: str) -> None:
        """Ask until it holds: spans are queued before they can be read."""
        end = time.monotonic() + 180
        while not holds():
            assert time.monotonic() < end, f"after three minutes it is not so that {what}"
            time.sleep(0.1)


@contextmanager
def running(**environment: str) -> Iterator[Phoenix]:
    """Start a server and stop it in the end."""

    def command(folder: Path, ports: Sequence[int]) -> tuple[Sequence[str], Mapping[str, str]]:
        return [str(PROGRAM), "serve"], {
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(ports[0]),
            "PHOENIX_GRPC_PORT": str(ports[1]),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            **environment,
        }

    with started("Phoenix", command, ports=2, health="/healthz", hidden=("PHOENIX_", "OTEL_")) as http:
        yield Phoenix(str(http.base_url).rstrip("/"), http)


def _protobuf(spans: Sequence[Span], project: str) -> bytes:
    """The spans as an OTLP request: Phoenix takes no JSON. The project is a resource attribute."""
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = request_of(spans)
    for entry in request["resourceSpans"]:
        attributes = [one for one in entry["resource"]["attributes"] if one["key"] != "openinference.project.name"]
        entry["resource"]["attributes"] = [
            *attributes,
            {"key": "openinference.project.name", "value": {"stringValue": project}},
        ]
        for span in entry["scopeSpans"][0]["spans"]:
            for key in {"traceId", "spanId", "parentSpanId"} & span.keys():
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    return ParseDict(json.loads(json.dumps(request)), ExportTraceServiceRequest()).SerializeToString()
