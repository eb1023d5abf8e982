"""``otel-drift serve`` as a process of its own: started, sent spans, killed, stopped, and asked for its status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from model_server import ModelServer
from otel_drift.model import Span
from otel_drift.testing.samples import DRIFTING
from otlp_json import request_of

QUICK = """
[serve]
http = "127.0.0.1:0"
grpc = ""
admin = "127.0.0.1:0"
settle_minutes = 0.01
lease_seconds = 5
stop_seconds = 20
"""
"""Settings of a service that audits at once."""
MODEL = {"OPENAI_API_KEY": "sk-test"}
"""The environment of a service that is `judged_by` a model server."""
_LISTENS = re.compile(r"listening: (\w+) (\S+)")


class Serving:
    """A service in `folder`, with its ledger there; `start` it as often as it was killed or stopped."""

    def __init__(self, folder: Path, config: str = QUICK, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.file = folder / "otel-drift.toml"
        self.file.write_text(config + ('\n[ledger]\nurl = "ledger.db"\n' if "[ledger]" not in config else ""))
        self.log = folder / "serve.log"
        self.addresses: dict[str, str] = {}
        self._env = {**os.environ, **(env or {})}
        self.preexec: Callable[[], None] | None = None
        """Runs in the process before the program does: limits."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "otel_drift", "serve", "--config", self.file.name],
                cwd=self.folder,
                env=self._env,
                stdout=log,
                stderr=log,
                preexec_fn=self.preexec,
            )

        def said() -> str:
            return self.log.read_bytes()[begin:].decode(errors="replace")

        wait_until(lambda: "working" in said() or self._process.poll() is not None, "it listens", 120)  # type: ignore[union-attr]
        assert self._process.poll() is None, said()
        self.addresses = dict(_LISTENS.findall(said()))

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """``kill -9``."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, seconds: float = 40) -> int:
        """Ask it to stop, as Kubernetes or systemd do; its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(seconds)

    def send(self, spans: Iterable[Span], timeout: float = 30) -> httpx.Response:
        """Send spans in one request of OTLP/JSON."""
        return httpx.post(f"{self.addresses['http']}/v1/traces", json=request_of(spans), timeout=timeout)

    def get(self, path: str) -> httpx.Response:
        """What ``/healthz``, ``/readyz`` or ``/metrics`` say."""
        return httpx.get(f"{self.addresses['admin']}{path}", timeout=30)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Another command on the same settings."""
        return subprocess.run(
            [sys.executable, "-m", "otel_drift", *words],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        """What ``otel-drift status --format json`` says."""
        done = self.command("status", "--format", "json")
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told


@contextmanager
def serving(folder: Path, config: str = QUICK, env: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """A service that runs, and does no longer afterwards."""
    service = Serving(folder, config, env)
    service.start()
    try:
        yield service
    finally:
        if service._process is not None and service._process.poll() is None:
            service.kill()


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Wait for something another process does."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def judged_by(model: ModelServer) -> str:
    """Settings of a service whose judge is a model server."""
    return (
        f'\n[judge]\nmodel = "openai/scripted"\napi_base = "{model.url}"\n'
        "input_window = 100000\noutput_limit = 8000\ninput_price = 1.0\noutput_price = 1.0\n"
    )


def asked_by(who: object) -> list[tuple[str, str, str]]:
    """The sample's turns with questions of their own, so that no judge's answer is found again."""
    return [(f"{question} ({who})", passage, answer) for question, passage, answer in DRIFTING]
