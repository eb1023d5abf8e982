"""The Collector's configuration, and what the guides say of deployment and metrics."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import otel_drift
from otel_drift.faults import Fault
from otel_drift.telemetry.instruments import INSTRUMENTS
from otel_drift_connectors.otlp_file import OtlpFileSource

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
GUIDES = EXAMPLES / "guides"


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.fixture
def collector() -> dict[str, Any]:
    made: dict[str, Any] = loaded(EXAMPLES / "collector" / "config.yaml")
    return made


def test_every_component_of_the_collector_is_declared_and_used(collector: dict[str, Any]) -> None:
    pipelines = collector["service"]["pipelines"]
    connectors = set(collector["connectors"])
    for kind in ("receivers", "processors", "exporters"):
        used = {name for pipeline in pipelines.values() for name in pipeline.get(kind, ())}
        assert used - connectors == set(collector[kind]), kind
    assert connectors <= {name for one in pipelines.values() for name in one["exporters"]}
    assert connectors <= {name for one in pipelines.values() for name in one["receivers"]}
    assert set(collector["service"]["extensions"]) == set(collector["extensions"])
    exporter = collector["exporters"]["otlp_http/otel-drift"]
    assert exporter["auth"]["authenticator"] in collector["extensions"]
    assert exporter["sending_queue"]["storage"] in collector["extensions"]


def test_the_collector_lets_every_convention_through(collector: dict[str, Any], examples: Path) -> None:
    """Each example trace has a span with one of the attributes that the Collector keeps a trace for."""
    (policy,) = collector["processors"]["tail_sampling/rag"]["policies"]
    kept = {re.fullmatch(r'attributes\["([^"]+)"\] != nil', one)[1] for one in policy["ottl_condition"]["span"]}  # type: ignore[index]
    traces: dict[str, set[str]] = {}
    for page, _cursor in OtlpFileSource([examples]).read():
        for record in page:
            traces.setdefault(record.trace_id, set()).update(record.attributes)

    assert traces
    assert not [trace_id for trace_id, names in traces.items() if not names & kept]


def test_the_guide_of_deployment_says_what_is_installed_and_what_was_not_run() -> None:
    text = (GUIDES / "deployment.md").read_text()
    extras = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra for found in re.findall(r"'\.\[([\w,]+)\]'", text) for extra in found.split(",")}

    assert "pip install '.[serve,postgres]'" in text
    assert named <= extras.keys()
    parts = {part.partition("\n")[0]: " ".join(part.split()) for part in text.split("\n## ")}
    for title, part in parts.items():
        if "Kubernetes" in title:
            assert re.search(r"(was not|None of this was) run in a cluster here", part), title


def test_every_file_is_told_of_in_a_guide() -> None:
    """By a link; ``.env.example`` by its command."""
    told = "\n".join(page.read_text() for page in GUIDES.glob("*.md"))
    for folder in ("batch", "collector", "docker-compose", "grafana", "prometheus"):
        for file in (EXAMPLES / folder).iterdir():
            assert f"](../{folder}/{file.name})" in told or f"cp {file.name}" in told, file


def test_the_guide_lists_the_metrics_there_are() -> None:
    text = (GUIDES / "metrics.md").read_text()
    rows = re.findall(r"^\| `(otel_drift_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$", text, flags=re.M)

    assert [(name, kind, tuple(re.findall(r"`(\w+)`", labels)), about) for name, kind, labels, about in rows] == [
        (one.prometheus, one.kind, one.labels, one.about) for one in INSTRUMENTS.values()
    ]


def test_the_guide_lists_the_rules_that_answers_break() -> None:
    sources = "\n".join(file.read_text() for file in Path(otel_drift.__file__).parent.rglob("*.py"))
    rules = set(re.findall(r'\bFault\(\s*"(\w+)"', sources)) | {Fault.of("x").rule}
    rules |= {reason.removeprefix("answer_") for reason in re.findall(r'UnreadableAnswerError\(\s*"(\w+)"', sources)}
    told = (GUIDES / "metrics.md").read_text().partition("`rule` of")[2].partition("- Gauges")[0]

    assert rules == set(re.findall(r"`([a-z_]+)`", told)) - {"otel_drift_validation_failures_total"}
