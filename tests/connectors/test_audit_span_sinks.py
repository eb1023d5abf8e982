"""Writing to Tempo and Jaeger: conformance of the sinks, and the commands of the guides from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jaeger_server import Jaeger, openapi
from otel_drift.model import Annotation
from otel_drift.testing import SinkCase, check_sink, conversation, sample_annotations, sample_spans
from otel_drift.testing.sinks import Place, place
from otel_drift_connectors.jaeger import JaegerSink
from otel_drift_connectors.tempo import TempoSink
from otlp_receiver import Receiver, http_receiver, values
from tempo_server import Tempo, serving

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("TEMPO_", "JAEGER_", "OTEL_EXPORTER")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")


def standing(receiver: Receiver, annotations: list[Annotation]) -> Callable[[], list[tuple[Place, str]]]:
    """What counts of the spans in the store: the highest revision of each id, not withdrawn."""
    places = {one.id: place(one) for one in annotations}

    def read() -> list[tuple[Place, str]]:
        current: dict[str, tuple[int, dict[str, Any]]] = {}
        for span in receiver.spans:
            held = values(span.attributes)
            key, revision = held["otel_drift.result.id"], held["otel_drift.result.revision"]
            if key not in current or current[key][0] < revision:
                current[key] = (revision, held)
        return [
            (places[key], held["gen_ai.evaluation.score.label"])
            for key, (_, held) in current.items()
            if not held.get("otel_drift.result.withdrawn")
        ]

    return read


@pytest.mark.parametrize(
    ("sink", "url"), [(TempoSink, "http://localhost:3200"), (JaegerSink, "http://localhost:16686")]
)
def test_the_sinks_pass_the_conformance_checks(sink: Any, url: str) -> None:
    annotations = sample_annotations(sample_spans())
    with http_receiver() as receiver:

        @contextmanager
        def refusing(status: int) -> Iterator[None]:
            receiver.http = lambda _: (status, {}, b"")
            yield
            receiver.http = lambda _: None

        check_sink(
            SinkCase(
                lambda: sink(f"{url}?otlp={receiver.url}", otlp_headers={"x-key": "s3cret"}),
                annotations,
                standing(receiver, annotations),
                failing={"bad request": lambda: refusing(400), "redirect": lambda: refusing(302)},
                broken={
                    "no endpoint": lambda: sink(url),
                    "nobody there": lambda: sink(f"{url}?otlp=http://127.0.0.1:1"),
                },
                secrets=["s3cret"],
            )
        )


def test_tempo_from_search_to_audit_span_and_again(otel_drift: Run) -> None:
    spans = conversation("s1")
    with serving(Tempo()) as tempo, http_receiver() as receiver:
        tempo.store.add_spans(spans)
        target = f"tempo:{tempo.url}?otlp={receiver.url}&grafana=https://g.example"

        checked = otel_drift("check", target)
        first = otel_drift("audit", target, "--since", "24h", "--format", "json")
        written = len(receiver.spans)
        tempo.store.add_exported(receiver.arrived)
        again = otel_drift("audit", target, "--since", "24h", "--format", "json")

    assert (checked.returncode, first.returncode, again.returncode) == (0, 0, 0), checked.stderr + first.stderr
    assert "has chat traces" in checked.stdout
    assert written > 0
    assert len(receiver.spans) == written
    one, other = json.loads(first.stdout), json.loads(again.stdout)
    assert one["outcome"] == other["outcome"] == "findings"
    assert one["report"] == other["report"]
    assert "https://g.example/explore" in first.stdout


def test_what_is_still_to_come_does_not_count_as_read(otel_drift: Run) -> None:
    """A run until a later day leaves the next one, which goes on from the last, something to read."""
    later = datetime.now(UTC).date() + timedelta(days=2)
    with serving(Tempo()) as tempo:
        ahead = otel_drift("audit", f"tempo:{tempo.url}", "--until", str(later), "--sink", "none")
        tempo.store.add_spans(conversation("s1", ends=time.time_ns() - 10 * 60 * 10**9))
        after = otel_drift("audit", f"tempo:{tempo.url}", "--sink", "none", "--format", "json")
        found = json.loads(after.stdout)

    assert found["outcome"] == "findings"
    assert (ahead.returncode, after.returncode) == (0, 0), ahead.stderr + after.stderr


def test_jaeger_from_search_to_audit_span_and_again(otel_drift: Run, shared: Path) -> None:
    with serving(Jaeger(openapi(shared))) as jaeger, http_receiver() as receiver:
        jaeger.store.add_spans(conversation("s1"))
        target = f"jaeger:{jaeger.url}?service=shop-bot&otlp={receiver.url}"

        checked = otel_drift("check", target)
        first = otel_drift("audit", target, "--since", "24h", "--format", "json")
        written = len(receiver.spans)
        jaeger.store.add_exported(receiver.arrived)
        again = otel_drift("audit", target, "--since", "24h", "--format", "json")

    assert (checked.returncode, first.returncode, again.returncode) == (0, 0, 0), checked.stderr + first.stderr
    assert written > 0
    assert len(receiver.spans) == written
    one, other = json.loads(first.stdout), json.loads(again.stdout)
    assert one["outcome"] == other["outcome"] == "findings"
    assert one["report"] == other["report"]


def test_without_an_endpoint_the_audit_is_shown_and_one_line_says_that_nothing_was_written(otel_drift: Run) -> None:
    with serving(Tempo()) as tempo:
        tempo.store.add_spans(conversation("s1"))
        run = otel_drift("audit", f"tempo:{tempo.url}", "--since", "24h", "--format", "json")
        silent = otel_drift("audit", f"tempo:{tempo.url}", "--since", "24h", "--sink", "none")

    assert run.returncode == 3
    assert json.loads(run.stdout)["outcome"] == "findings"
    assert run.stderr.count("nothing is written back") == 1
    assert silent.returncode == 0, silent.stderr
    assert "nothing is written back" not in silent.stderr
