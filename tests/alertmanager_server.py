"""Debian's Prometheus Alertmanager on free loopback ports, telling one webhook receiver."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from free_ports import free_ports

PROGRAM = "prometheus-alertmanager"


@dataclass(frozen=True)
class AlertmanagerServer:
    """A running server."""

    url: str

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds for firing."""
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/api/v2/alerts", timeout=10, trust_env=False).json()
        return found


@contextmanager
def alertmanager_server(hook: str) -> Iterator[AlertmanagerServer]:
    """Start one that tells `hook` of every group at once, and of what is resolved."""
    folder = Path(tempfile.mkdtemp(prefix="otel-drift-alertmanager-"))
    (folder / "alertmanager.yml").write_text(
        f"""
route: {{receiver: hook, group_by: [alertname], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
- name: hook
  webhook_configs: [{{url: "{hook}", send_resolved: true}}]
"""
    )
    (port,) = free_ports(1)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                shutil.which(PROGRAM) or PROGRAM,
                f"--config.file={folder}/alertmanager.yml",
                f"--storage.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        server = AlertmanagerServer(f"http://127.0.0.1:{port}")
        _wait(process, server.url, folder / "log")
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{url}/-/ready", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"Alertmanager does not start: {log.read_text()}")
