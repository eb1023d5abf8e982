"""Shared by all tests: where the given material is, and a command runner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    """No time limits, so that a busy machine fails no property, and the same examples each time but in a soak."""
    hypothesis.settings.register_profile(
        "otel-drift",
        deadline=None,
        derandomize=not os.environ.get("OTEL_DRIFT_SOAK"),
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("otel-drift")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes run the tests, a file stays whole, and each server is started once, by one of them."""
    for item in items:
        servers = ROOT / "tests" / "servers" in item.path.parents
        item.add_marker(pytest.mark.xdist_group("servers" if servers else str(item.path.relative_to(ROOT))))


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may touch the user's ledger, settings or keys."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    for name in list(os.environ):
        if name.startswith("OTEL_DRIFT_") and name not in ("OTEL_DRIFT_CI", "OTEL_DRIFT_SHARED", "OTEL_DRIFT_SOAK"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def shared() -> Path:
    """The folder with the given captures, labels and benchmarks."""
    folder = Path(os.environ.get("OTEL_DRIFT_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the shared material is not beside this checkout (set OTEL_DRIFT_SHARED)")
    return folder


@pytest.fixture
def examples() -> Path:
    """The project's own example traces."""
    return ROOT / "examples" / "traces"


@pytest.fixture
def otel_drift(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a process of its own, in an empty folder."""

    def run(
        *arguments: object, env: dict[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "otel_drift", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            timeout=timeout,
            check=False,
        )

    return run
