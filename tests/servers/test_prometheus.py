"""The real Prometheus and Alertmanager: a critical finding reaches a webhook, the dashboard gets answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboard import panels, queries
from ledger_samples import finding, unit
from metrics_samples import count_everything, everything
from otel_drift.config import Settings
from otel_drift.service.admin import Admin
from otel_drift.telemetry import Telemetry
from servers.program_server import started

pytestmark = pytest.mark.server("prometheus")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RULES = EXAMPLES / "prometheus" / "otel-drift.rules.yml"
EVALUATION_SECONDS = 5
FINDINGS = 'otel_drift_findings_total{type="CONTRADICTION",severity="CRITICAL"}'


@pytest.fixture
def programs(require: Callable[[str | None, str], str]) -> tuple[str, str]:
    hint = "is not installed (Debian: prometheus, prometheus-alertmanager)"
    return (
        require(shutil.which("prometheus"), f"prometheus {hint}"),
        require(shutil.which("prometheus-alertmanager"), f"prometheus-alertmanager {hint}"),
    )


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    opened = Telemetry.open(Settings())
    yield opened
    opened.close()


@contextmanager
def metrics_of(telemetry: Telemetry) -> Iterator[str]:
    """Serve the metrics; yields ``HOST:PORT``."""
    admin = Admin("127.0.0.1:0", metrics=telemetry.page, health=lambda: (True, {}), ready=lambda: (True, {}))
    admin.start()
    try:
        yield admin.url.removeprefix("http://")
    finally:
        admin.stop()


@contextmanager
def prometheus(program: str, target: str, alertmanager: str = "127.0.0.1:1") -> Iterator[httpx.Client]:
    """Prometheus with the example's rules and short intervals."""

    def command(folder: Path, ports: Any) -> tuple[list[str], dict[str, str]]:
        config = {
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": f"{EVALUATION_SECONDS}s",
            },
            "rule_files": [str(RULES)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
            "scrape_configs": [{"job_name": "otel-drift", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        words = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        return [*words, f"--web.listen-address=127.0.0.1:{ports[0]}"], {}

    with started("Prometheus", command, ports=1, health="/-/ready", hidden=[]) as http:
        yield http


@contextmanager
def alertmanager(program: str, hook: str) -> Iterator[httpx.Client]:
    def command(folder: Path, ports: Any) -> tuple[list[str], dict[str, str]]:
        config = {
            "route": {"receiver": "hook", "group_wait": "0s", "group_interval": "1s", "group_by": ["alertname"]},
            "receivers": [{"name": "hook", "webhook_configs": [{"url": hook}]}],
        }
        (folder / "alertmanager.yml").write_text(json.dumps(config))
        words = [program, "--config.file=alertmanager.yml", "--storage.path=data", "--cluster.listen-address="]
        return [*words, f"--web.listen-address=127.0.0.1:{ports[0]}"], {}

    with started("Alertmanager", command, ports=1, health="/-/ready", hidden=[]) as http:
        yield http


class Hook:
    """A webhook that keeps what it is told."""

    def __init__(self) -> None:
        self.url = ""
        self.told: list[tuple[float, dict[str, Any]]] = []
        self._changed = threading.Condition()

    def take(self, body: bytes) -> None:
        with self._changed:
            self.told.append((time.monotonic(), json.loads(body)))
            self._changed.notify_all()

    def wait_for(self, alertname: str) -> tuple[float, dict[str, Any]]:
        """When an alert of that name arrived, and the alert."""

        def found() -> tuple[float, dict[str, Any]] | None:
            alerts = [(at, alert) for at, body in self.told for alert in body["alerts"]]
            return next((one for one in alerts if one[1]["labels"]["alertname"] == alertname), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() is not None, 60), self.told
            told = found()
            assert told is not None
            return told


@pytest.fixture
def hook() -> Iterator[Hook]:
    kept = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        kept.url = f"http://127.0.0.1:{server.server_address[1]}/"
        yield kept
        server.shutdown()
        thread.join()


def ask(http: httpx.Client, query: str) -> list[Any]:
    """What Prometheus answers to a question."""
    answer = http.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", f"{query}: {answer.get('error')}"
    result: list[Any] = answer["data"]["result"]
    return result


def until(http: httpx.Client, query: str) -> None:
    """Wait until a question has an answer."""
    ends = time.monotonic() + 60
    while not ask(http, query):
        assert time.monotonic() < ends, f"no answer to {query}"
        threading.Event().wait(0.1)


def test_a_critical_finding_reaches_a_webhook_within_two_evaluations(
    programs: tuple[str, str], telemetry: Telemetry, hook: Hook
) -> None:
    """The first one of its type since the start, the case in which a counter that begins at 1 raises no alarm."""
    with (
        metrics_of(telemetry) as target,
        alertmanager(programs[1], hook.url) as manager,
        prometheus(programs[0], target, manager.base_url.netloc.decode()) as http,
    ):
        until(http, f"{FINDINGS} == 0")
        assert not ask(http, "ALERTS"), "nothing fires before"
        counted = time.monotonic()
        telemetry.unit(unit(finding(3, severity="CRITICAL")))
        told, alert = hook.wait_for("OtelDriftCriticalFinding")

    assert told - counted <= 2 * EVALUATION_SECONDS
    assert alert["status"] == "firing"
    assert (alert["labels"]["type"], alert["labels"]["severity"]) == ("CONTRADICTION", "critical")
    assert "Critical drift found: CONTRADICTION" in alert["annotations"]["summary"]


def test_a_finding_before_the_first_scrape_is_not_missed(programs: tuple[str, str], telemetry: Telemetry) -> None:
    telemetry.unit(unit(finding(3, severity="CRITICAL")))
    with metrics_of(telemetry) as target, prometheus(programs[0], target) as http:
        until(http, 'ALERTS{alertname="OtelDriftCriticalFinding", alertstate="firing"}')


def test_every_question_of_the_dashboard_has_an_answer(programs: tuple[str, str], telemetry: Telemetry) -> None:
    """With everything counted at least once, no panel is empty: names, labels and functions are right."""
    everything(telemetry)
    with metrics_of(telemetry) as target, prometheus(programs[0], target) as http:
        until(http, FINDINGS)
        count_everything(telemetry, "second")
        until(http, f"increase({FINDINGS}[1m]) > 0")
        empty = [query for panel in panels() for query in queries(panel) if not ask(http, query)]

    assert not empty


@pytest.mark.parametrize("arguments", [("check", "rules", RULES.name), ("check", "config", "prometheus.yml"),
                                       ("test", "rules", "otel-drift.rules.test.yml")])  # fmt: skip
def test_promtool_finds_nothing_wrong(require: Callable[[str | None, str], str], arguments: tuple[str, ...]) -> None:
    program = require(shutil.which("promtool"), "promtool is not installed (Debian: prometheus)")
    done = subprocess.run(
        [program, *arguments], cwd=RULES.parent, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_alertmanager_accepts_the_example(require: Callable[[str | None, str], str]) -> None:
    program = require(shutil.which("amtool"), "amtool is not installed (Debian: prometheus-alertmanager)")
    file = EXAMPLES / "docker-compose" / "alertmanager.yml"
    done = subprocess.run([program, "check-config", file], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
