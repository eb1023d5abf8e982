"""The real Prometheus and Alertmanager: a critical finding reaches a webhook, the dashboard gets answers."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dashboard import panels, queries
from ledger_samples import finding, unit
from metrics_samples import count_everything, everything
from otel_drift.config import Settings
from otel_drift.service.admin import Admin
from otel_drift.telemetry import Telemetry
from servers.monitoring import EVALUATION_SECONDS, RULES, Hook, alertmanager, ask, prometheus, until, webhook

pytestmark = pytest.mark.server("prometheus")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
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


@pytest.fixture
def hook() -> Iterator[Hook]:
    with webhook() as kept:
        yield kept


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
