"""Prometheus and Alertmanager for tests, with the rules of the example, and a webhook that keeps what it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx

from http_serving import served
from servers.program_server import started

RULES = Path(__file__).resolve().parents[2] / "examples" / "prometheus" / "otel-drift.rules.yml"
EVALUATION_SECONDS = 10


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

    def wait(self) -> dict[str, Any]:
        """The first body told."""
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self.told), 180)
            return self.told[0][1]

    def wait_for(self, alertname: str) -> tuple[float, dict[str, Any]]:
        """When an alert of that name arrived, and the alert."""

        def found() -> tuple[float, dict[str, Any]] | None:
            alerts = [(at, alert) for at, body in self.told for alert in body["alerts"]]
            return next((one for one in alerts if one[1]["labels"]["alertname"] == alertname), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() is not None, 180), self.told
            told = found()
            assert told is not None
            return told


@contextmanager
def webhook() -> Iterator[Hook]:
    """Listen on a free loopback port."""
    kept = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with served(Handler) as kept.url:
        yield kept


def ask(http: httpx.Client, query: str) -> list[Any]:
    """What Prometheus answers to a question."""
    answer = http.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", f"{query}: {answer.get('error')}"
    result: list[Any] = answer["data"]["result"]
    return result


def until(http: httpx.Client, query: str) -> None:
    """Wait until a question has an answer."""
    ends = time.monotonic() + 180
    while not ask(http, query):
        assert time.monotonic() < ends, f"no answer to {query}"
        threading.Event().wait(0.1)
