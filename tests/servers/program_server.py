"""A server program run for tests: private, in a temporary folder, on free loopback ports, stopped in the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from free_ports import free_ports

LONGEST_START = 300


@contextmanager
def started(
    name: str,
    command: Callable[[Path, Sequence[int]], tuple[Sequence[str], Mapping[str, str]]],
    *,
    ports: int,
    health: str,
    hidden: Sequence[str],
) -> Iterator[httpx.Client]:
    """Start a server and stop it, with everything it started, in the end.

    Args:
        name: What it is called in messages.
        command: From its folder and its ports to its command line and environment.
        ports: How many it needs; the first serves HTTP.
        health: The path that answers 200 once it is up.
        hidden: Beginnings of the variables of this process that it must not see.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"otel-drift-{name.lower()}-"))
    chosen = free_ports(ports)
    words, settings = command(folder, chosen)
    seen = {key: value for key, value in os.environ.items() if not key.startswith(tuple(hidden))}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, env=seen | settings, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{chosen[0]}", timeout=60) as http:
            _wait(name, http, health, process, log)
            yield http
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(name: str, http: httpx.Client, health: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(LONGEST_START * 4):
        try:
            if http.get(health).status_code == 200:
                return
        except httpx.TransportError:
            pass
        try:
            process.wait(0.25)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"{name} ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}")
    pytest.fail(f"{name} is not up after {LONGEST_START} s: {log.read_text(errors='replace')[-2000:]}")
