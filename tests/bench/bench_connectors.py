"""How fast connectors read sessions and write findings, and how many requests each takes.

Sixty sessions of three turns; of each the six values an audit with a finding writes. Phoenix and MLflow are real
servers, if they are installed as ``.ci/run`` does it. Langfuse, Tempo and Jaeger are the strict fakes of the tests,
whose checks of every request cost more than the connector: of them only the number of requests tells something. By the
clock, server included. The last line is JSON.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from jaeger_server import Jaeger, openapi
from langfuse_observations import recorded
from langfuse_scores import Scores
from langfuse_server import langfuse_server
from otel_drift import retry
from otel_drift.model import Annotation, Span
from otel_drift.protocols import Window
from otel_drift.testing import conversation, sample_annotations
from otel_drift_connectors.jaeger import JaegerSink, JaegerSource
from otel_drift_connectors.langfuse import LangfuseSource
from otel_drift_connectors.langfuse.sink import LangfuseSink
from otel_drift_connectors.mlflow import MlflowSink, MlflowSource
from otel_drift_connectors.phoenix import PhoenixSink, PhoenixSource
from otel_drift_connectors.tempo import TempoSink, TempoSource
from otlp_receiver import http_receiver
from servers import mlflow_server, phoenix_server
from tempo_server import Tempo, serving

ROOT = Path(__file__).parents[2]
SESSIONS = 60
HOUR = 3600 * 10**9
NOW = time.time_ns()
WINDOW = Window(NOW - 24 * HOUR, NOW)
BATCH = 100


def main() -> None:
    """Measure each connector that can run here."""
    shared = Path(os.environ.get("OTEL_DRIFT_SHARED", ROOT.parent / "shared"))
    figures: dict[str, Any] = {}
    for name, running in (
        ("phoenix", phoenix if phoenix_server.PROGRAM.exists() else None),
        ("mlflow", mlflow if mlflow_server.PROGRAM.exists() else None),
        ("langfuse (fake)", (lambda: langfuse(shared)) if shared.is_dir() else None),
        ("tempo (fake)", tempo),
        ("jaeger (fake)", (lambda: jaeger(shared)) if shared.is_dir() else None),
    ):
        if running is None:
            print(f"{name:16} not here")
        else:
            figures[name] = measured(name, running)
    print(json.dumps(figures))


def measured(name: str, running: Callable[[], AbstractContextManager[Any]]) -> dict[str, float]:
    """Read everything, write everything, write it again."""
    with running() as (source, sink, requests, annotations, window):
        before, started = requests(), time.perf_counter()
        spans = [span for page, _ in source.read(None, window) for span in page if isinstance(span, Span)]
        read, reading = time.perf_counter() - started, requests() - before
        before, started = requests(), time.perf_counter()
        write(sink, annotations)
        wrote, writing = time.perf_counter() - started, requests() - before
        before = requests()
        write(sink, annotations)
        again = requests() - before
    figures = {
        "spans": len(spans),
        "sessions_per_second": round(SESSIONS / read, 1),
        "read_requests_per_session": round(reading / SESSIONS, 2),
        "annotations_per_second": round(len(annotations) / wrote, 1),
        "write_requests_per_session": round(writing / SESSIONS, 2),
        "requests_per_session_when_unchanged": round(again / SESSIONS, 2),
    }
    print(
        f"{name:16} " + " · ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in figures.items()), flush=True
    )
    return figures


def write(sink: Any, annotations: list[Annotation]) -> None:
    """As the delivery does: in batches, then read back."""
    accepted: list[str] = []
    for first in range(0, len(annotations), BATCH):
        report = sink.write(annotations[first : first + BATCH])
        assert not report.rejected, report.rejected[0]
        accepted += report.written
    if hasattr(sink, "confirm") and accepted:
        report = sink.confirm([one for one in annotations if one.id in set(accepted)])
        assert not report.rejected, report.rejected[0]


def sampled(number: int) -> list[Span]:
    return conversation(f"bench-{number}", ends=NOW - HOUR - number * 60 * 10**9)


def said_of(sessions: list[list[Span]]) -> list[Annotation]:
    return [
        replace(one, id=f"{number:04d}{one.id[4:]}")
        for number, spans in enumerate(sessions)
        for one in sample_annotations(spans)
    ]


@contextmanager
def phoenix() -> Iterator[Any]:
    sessions = [sampled(number) for number in range(SESSIONS)]
    with phoenix_server.running() as server:
        server.ingest("bench", [span for spans in sessions for span in spans])
        source, sink = PhoenixSource(f"{server.url}?project=bench"), PhoenixSink(f"{server.url}?project=bench")
        yield source, sink, lambda: source.requests + sink.requests, said_of(sessions), WINDOW
        source.close()
        sink.close()


@contextmanager
def mlflow() -> Iterator[Any]:
    sessions = [sampled(number) for number in range(SESSIONS)]
    with mlflow_server.running() as server:
        id_ = server.experiment("bench")
        for spans in sessions:
            server.ingest(id_, spans)
        source, sink = MlflowSource(f"{server.url}?experiment=bench"), MlflowSink(f"{server.url}?experiment=bench")
        yield source, sink, lambda: source.requests + sink.requests, said_of(sessions), WINDOW
        source.close()
        sink.close()


@contextmanager
def langfuse(shared: Path) -> Iterator[Any]:
    """Sixty copies of a recorded session."""
    [file] = (shared / "recorded/langfuse/sessions-all-fields").glob("langfuse-observe-telecom-tool.json*")
    rows = [row for exchange in recorded(file)["exchanges"] for row in exchange["response"]["body"]["data"]]
    with langfuse_server(shared / "contracts/langfuse-openapi-4.16.yml") as server, retry.testing():
        Scores(server)
        annotations = []
        for number in range(SESSIONS):
            mine = [
                row | {"traceId": f"{number:04x}{row['traceId'][4:]}", "sessionId": row["sessionId"] and f"s-{number}"}
                for row in copy.deepcopy(rows)
            ]
            server.observations.add(mine)
            spans = [
                Span(row["traceId"], row["id"], None if row["isRootObservation"] else "0" * 16, "", NOW, NOW,
                     {"gen_ai.conversation.id": f"s-{number}", "gen_ai.operation.name": "chat"})
                for row in mine
            ]  # fmt: skip
            annotations.append(spans)
        keys = {"public_key": server.public_key, "secret_key": server.secret_key}
        source, sink = LangfuseSource(server.url, **keys), LangfuseSink(server.url, **keys)

        def requests() -> int:
            return source.connection.http.requests + sink.connection.http.requests

        yield source, sink, requests, said_of(annotations), Window(NOW - 90 * 24 * HOUR, NOW)
        source.close()
        sink.close()


@contextmanager
def tempo() -> Iterator[Any]:
    yield from _store(Tempo(), TempoSource, TempoSink)


@contextmanager
def jaeger(shared: Path) -> Iterator[Any]:
    yield from _store(Jaeger(openapi(shared)), JaegerSource, JaegerSink)


def _store(kind: Any, source_class: Any, sink_class: Any) -> Iterator[Any]:
    sessions = [sampled(number) for number in range(SESSIONS)]
    with serving(kind) as server, http_receiver() as collector:
        for spans in sessions:
            server.store.add_spans(spans)
        source = source_class(server.url)
        sink = sink_class(server.url, otlp=collector.url)
        yield source, sink, lambda: source.requests + collector.requests, said_of(sessions), WINDOW
        source.close()
        sink.close()


if __name__ == "__main__":
    main()
