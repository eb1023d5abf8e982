"""The files for deployment: what they name exists, and what they run is a command there is."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from otel_drift.cli import app
from otel_drift.cli import audit as _audit  # noqa: F401 - adds its command
from otel_drift.config import load_settings
from otel_drift.faults import Fault
from otel_drift.telemetry.instruments import INSTRUMENTS
from otel_drift_connectors.otlp_file import OtlpFileSource

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
COMPOSE = EXAMPLES / "docker-compose"
GUIDES = EXAMPLES / "guides"


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.fixture
def compose() -> dict[str, Any]:
    made: dict[str, Any] = loaded(COMPOSE / "compose.yml")
    return made


def test_files_and_volumes_of_the_compose_file_exist(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (COMPOSE / source).is_file() if source.startswith(".") else source in compose["volumes"], volume
        assert set(service.get("depends_on", ())) <= compose["services"].keys(), name
        assert "image" in service, name
        assert not service["image"].endswith(":latest"), name
    build = compose["services"]["otel-drift"]["build"]
    assert (COMPOSE / build["context"] / build["dockerfile"]).is_file()
    assert (COMPOSE / build["context"] / "pyproject.toml").is_file()


def test_what_the_compose_file_wants_stands_in_the_example_of_env() -> None:
    wanted = set(re.findall(r"\$\{(\w+)", (COMPOSE / "compose.yml").read_text()))
    offered = set(re.findall(r"^(\w+)=$", (COMPOSE / ".env.example").read_text(), flags=re.M))

    assert wanted == offered, "and none of them has a value"


def test_only_loopback_reaches_published_ports(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_parts_find_each_other(compose: dict[str, Any]) -> None:
    """Host names in the configuration files are services, and otel-drift listens where it is looked for."""
    settings = load_settings(COMPOSE / "otel-drift.toml")
    prometheus = loaded(COMPOSE / "prometheus.yml")
    ((job,), (manager,)) = prometheus["scrape_configs"], prometheus["alerting"]["alertmanagers"]
    targets = [*job["static_configs"][0]["targets"], *manager["static_configs"][0]["targets"]]
    sources = {one["name"]: one for one in loaded(COMPOSE / "grafana-datasources.yml")["datasources"]}
    endpoint = compose["services"]["collector"]["environment"]["OTEL_DRIFT_ENDPOINT"]

    assert job["job_name"] == "otel-drift"
    assert f"otel-drift:{settings.serve.admin.rpartition(':')[2]}" in targets
    assert endpoint == f"http://otel-drift:{settings.serve.http.rpartition(':')[2]}"
    hosts = {re.sub(r"^\w+://", "", one).partition(":")[0] for one in [*targets, *(s["url"] for s in sources.values())]}
    assert hosts | {re.search(r"//(\w+)", settings.alerts.to[0])[1]} <= compose["services"].keys()  # type: ignore[index]
    assert sources["Ledger"]["user"] in (COMPOSE / "reader.sh").read_text()
    mounted = compose["services"]["prometheus"]["volumes"]
    assert f"../prometheus/otel-drift.rules.yml:{prometheus['rule_files'][0]}:ro" in mounted


def test_docker_accepts_the_compose_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    values = dict.fromkeys(re.findall(r"^(\w+)=$", (COMPOSE / ".env.example").read_text(), flags=re.M), "x")
    done = subprocess.run(
        [docker, "compose", "-f", COMPOSE / "compose.yml", "config", "--quiet"],
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/nonexistent", **values},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


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


def commands() -> dict[str, str]:
    """What the batch examples run, without what the shell does around it."""
    line = (EXAMPLES / "batch" / "crontab").read_text().splitlines()[-1]
    minute, hour, *_, command = line.split(maxsplit=5)
    assert (minute, hour) == ("30", "2")
    job = loaded(EXAMPLES / "batch" / "cronjob.yaml")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return {
        "crontab": re.split(r" \d?>>", command.partition("&& ")[2])[0],
        "cronjob": shlex.join(["otel-drift", *container["args"]]),
    }


@pytest.mark.parametrize("command", commands().values(), ids=commands())
def test_the_batch_runs_a_command_there_is(command: str) -> None:
    program, *words = shlex.split(command)
    done = CliRunner().invoke(app, [*words, "--help"])

    assert program == "otel-drift"
    assert done.exit_code == 0, done.output


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
    sources = "\n".join(file.read_text() for file in (EXAMPLES.parent / "otel_drift").rglob("*.py"))
    rules = set(re.findall(r'\bFault\(\s*"(\w+)"', sources)) | {Fault.of("x").rule}
    rules |= {reason.removeprefix("answer_") for reason in re.findall(r'UnreadableAnswerError\(\s*"(\w+)"', sources)}
    told = (GUIDES / "metrics.md").read_text().partition("`rule` of")[2].partition("- Gauges")[0]

    assert rules == set(re.findall(r"`([a-z_]+)`", told)) - {"otel_drift_validation_failures_total"}
