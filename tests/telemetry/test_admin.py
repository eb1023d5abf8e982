"""Health, readiness and metrics over HTTP: for probes and Prometheus, without private text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from otel_drift.config import Settings
from otel_drift.errors import ConfigError
from otel_drift.service.admin import Admin
from otel_drift.telemetry import Telemetry

ILL = (False, {"blocking": ["disk"], "conditions": {"disk": "120 MB free of 500 at /var/lib/otel-drift"}})
WELL: tuple[bool, dict[str, Any]] = (True, {"blocking": [], "conditions": {}})


@contextmanager
def serving(ready: Any = lambda: WELL, health: Any = lambda: WELL, address: str = "127.0.0.1:0") -> Iterator[str]:
    telemetry = Telemetry.open(Settings())
    admin = Admin(address, metrics=telemetry.page, health=health, ready=ready)
    admin.start()
    try:
        yield admin.url
    finally:
        admin.stop()
        telemetry.close()


def test_what_is_well_answers_200_and_what_is_not_503_with_why() -> None:
    with serving(ready=lambda: ILL) as url:
        healthy, ready = httpx.get(f"{url}/healthz", timeout=60), httpx.get(f"{url}/readyz", timeout=60)

    assert (healthy.status_code, healthy.json()["healthy"]) == (200, True)
    assert ready.status_code == 503
    assert ready.json() == {"ready": False, **ILL[1]}


def test_metrics_are_what_prometheus_reads() -> None:
    with serving() as url:
        page = httpx.get(
            f"{url}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}, timeout=60
        )

    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert page.headers["content-encoding"] == "gzip"
    assert 'otel_drift_findings_total{severity="CRITICAL",type="CONTRADICTION"} 0.0' in page.text


def test_a_question_that_fails_is_an_error_without_its_words() -> None:
    def broken() -> Any:
        raise RuntimeError("text of a trace")

    with serving(health=broken) as url:
        answer = httpx.get(f"{url}/healthz", timeout=60)

    assert answer.status_code == 500
    assert "text of a trace" not in answer.text


def test_a_page_that_rebinds_its_name_to_this_machine_reads_nothing() -> None:
    with serving() as url:
        for path in ("/metrics", "/readyz", "/healthz"):
            assert httpx.get(url + path, headers={"Host": "evil.example"}, timeout=60).status_code == 403


def test_other_paths_and_methods_are_refused() -> None:
    with serving() as url:
        assert httpx.get(f"{url}/debug", timeout=60).status_code == 404
        assert httpx.post(f"{url}/metrics", content=b"x", timeout=60).status_code == 405


def test_off_loopback_probes_are_served_and_messages_stay_inside() -> None:
    """A pod is asked by its own address; messages name hosts and paths."""
    with serving(ready=lambda: ILL, address="0.0.0.0:0") as url:
        at = url.replace("0.0.0.0", "127.0.0.1")
        ready = httpx.get(f"{at}/readyz", headers={"Host": "10.1.2.3:9464"}, timeout=60)
        page = httpx.get(f"{at}/metrics", headers={"Host": "otel-drift.monitoring.svc"}, timeout=60)

    assert ready.status_code == 503
    assert ready.json() == {"ready": False, "blocking": ["disk"]}
    assert page.status_code == 200


def test_a_taken_port_and_no_address_are_told() -> None:
    with serving() as url, pytest.raises(ConfigError, match="is the port taken"):
        Admin(url.removeprefix("http://"), metrics=bytes, health=lambda: WELL, ready=lambda: WELL)
    with pytest.raises(ConfigError, match=r"serve\.admin"):
        Admin("9464", metrics=bytes, health=lambda: WELL, ready=lambda: WELL)
