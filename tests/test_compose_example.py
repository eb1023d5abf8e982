"""The Compose example: its files find each other, its container gets what it needs, and its service alerts."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from alert_receiver import alert_receiver
from drift_cases import drifting
from model_server import ModelServer, Reply
from otel_drift.config import load_settings
from otel_drift.testing import conversation
from otlp_json import request_of
from service_process import serving, wait_until

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = ROOT / "examples" / "docker-compose"
GUIDES = ROOT / "examples" / "guides"


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


def offered(*, in_comments: bool = False) -> dict[str, str]:
    """Variables and values of ``.env.example``: those that are set, or those that its comments invite to set."""
    lines = (COMPOSE / ".env.example").read_text()
    return dict(re.findall(r"^# (\w+)=(.*)$" if in_comments else r"^(\w+)=(.*)$", lines, flags=re.M))


def in_the_container(compose: dict[str, Any], env_file: dict[str, str]) -> dict[str, str]:
    """What otel-drift's container gets where ``.env`` holds `env_file`, by Compose's rules."""
    service = compose["services"]["otel-drift"]
    assert service["env_file"] == ".env"

    def filled(value: str) -> str:
        return re.sub(r"\$\{(\w+)[^}]*\}", lambda found: env_file[found[1]], value)

    return {**env_file, **{name: filled(value) for name, value in service["environment"].items()}}


def test_what_the_compose_file_wants_stands_in_the_example_of_env() -> None:
    wanted = set(re.findall(r"\$\{(\w+)", (COMPOSE / "compose.yml").read_text()))

    assert wanted <= offered().keys()
    assert [name for name, value in offered().items() if value] == ["OTEL_DRIFT_JUDGE__MODEL"], "and no secret has one"


def test_every_variable_that_is_spoken_of_reaches_otel_drift(compose: dict[str, Any]) -> None:
    """Those that ``.env.example`` sets or invites to set, and those that the settings and the guides name."""
    names = offered().keys() | offered(in_comments=True).keys()
    got = in_the_container(compose, dict.fromkeys(names, "x"))
    pages = [
        COMPOSE / "otel-drift.toml",
        COMPOSE / "compose.yml",
        *(GUIDES / f"{one}.md" for one in ("alerts", "langfuse")),
    ]
    told = set(re.findall(r"\b(?:OTEL_DRIFT|LANGFUSE)_[A-Z_]*[A-Z]\b", "\n".join(one.read_text() for one in pages)))

    assert {"LANGFUSE_BASE_URL", "OTEL_DRIFT_WEBHOOK_SECRET", "OTEL_DRIFT_APPRISE_ONCALL", "ANTHROPIC_API_KEY"} <= names
    assert told - {"OTEL_DRIFT_ENDPOINT"} <= got.keys(), "the one left out is the Collector's"
    assert [name for name in names if got[name] != "x"] == ["GRAFANA_PASSWORD"]


def test_the_model_of_the_example_has_its_key_beside_it() -> None:
    provider = offered()["OTEL_DRIFT_JUDGE__MODEL"].partition("/")[0]

    assert f"{provider.upper()}_API_KEY" in offered()


@pytest.mark.parametrize("judge", ["model", "embedded"])
def test_the_service_of_the_compose_file_alerts(judge: str, compose: dict[str, Any], tmp_path: Path) -> None:
    """As shipped with a model; without one by what ``.env.example`` says. Only the addresses are of this machine."""
    chosen = {"OTEL_DRIFT_JUDGE__MODEL": "", **offered(in_comments=True)} if judge == "embedded" else {}
    filled = {name: value or "sk-test-0123456789-0123456789-012345" for name, value in offered().items()}
    with ModelServer([Reply(drifting())]) as model, alert_receiver() as manager:
        here = {
            "OTEL_DRIFT_SERVE__HTTP": "127.0.0.1:0",
            "OTEL_DRIFT_SERVE__ADMIN": "127.0.0.1:0",
            "OTEL_DRIFT_SERVE__SETTLE_MINUTES": "0.01",
            "OTEL_DRIFT_LEDGER__URL": "ledger.db",
            "OTEL_DRIFT_ALERTS__TO": f"alertmanager:{manager.url}",
            "OTEL_DRIFT_ALERTS__GROUP_SECONDS": "0",
            **({"OTEL_DRIFT_JUDGE__API_BASE": model.url} if judge == "model" else {}),
        }
        env = {**in_the_container(compose, {**filled, **chosen}), **here}
        with serving(tmp_path, (COMPOSE / "otel-drift.toml").read_text(), env) as service:
            sent = httpx.post(
                f"{service.addresses['http']}/v1/traces",
                json=request_of(conversation("s1", ends=time.time_ns())),
                headers={"Authorization": f"Bearer {env['OTEL_DRIFT_SERVE_TOKEN']}"},
                timeout=60,
            )
            assert sent.status_code == 200, sent.text
            wait_until(lambda: bool(manager.taken), "Alertmanager is told")
            assert service.stop() == 0
    labels = manager.taken[0].json[0]["labels"]

    assert labels["severity"] == ("critical" if judge == "model" else "major")
    assert len(model.requests) == (judge == "model")


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
