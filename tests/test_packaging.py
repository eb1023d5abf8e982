"""The sdist makes a wheel that holds everything, and the wheel works in a venv of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the sdist, as a release is."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, capture_output=True, text=True
    )
    return next(out.glob("*.whl"))


def test_the_wheel_holds_prompts_migrations_pages_and_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    for needed in (
        "otel_drift/py.typed",
        "otel_drift_connectors/py.typed",
        "otel_drift/prompts/repair/v1.md",
        "otel_drift/migrations/env.py",
    ):
        assert needed in names, needed
    shipped = {name.removeprefix("otel_drift/") for name in names if name.startswith("otel_drift/prompts/")}
    assert {str(p.relative_to(ROOT)) for p in (ROOT / "prompts").rglob("*.md")} <= shipped
    assert not [name for name in names if name.startswith(("tests/", "examples/"))]


def test_the_wheel_audits_in_a_clean_venv(wheel: Path, tmp_path: Path) -> None:
    """The dependencies come from this environment (a path file), the package itself only from the wheel."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    site = next(home.glob("lib/python*/site-packages"))
    zipfile.ZipFile(wheel).extractall(site)
    ours = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    (site / "_dependencies.pth").write_text(f"import sys; sys.path.append({str(ours)!r})\n")
    python = home / "bin" / "python"

    run = subprocess.run(
        [python, "-m", "otel_drift", "audit", ROOT / "examples" / "traces", "--format", "json", "--html", "page.html"],
        cwd=tmp_path, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    where = subprocess.run(
        [python, "-c", "import otel_drift, otel_drift_connectors as c; print(otel_drift.__file__, c.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert run.returncode == 0, run.stderr
    assert len([json.loads(line) for line in run.stdout.splitlines()]) == 5
    assert where.stdout.count(str(home)) == 2
