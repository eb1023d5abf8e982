"""The sdist makes a wheel that holds everything, it works in a venv of its own, and an image holds nothing more.

What needs the checkout's own source is here: these tests are not run on an installed wheel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = ROOT / "examples" / "docker-compose"
BUILD = [sys.executable, "-m", "build", "--no-isolation"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the sdist, as a release is, with the build backend of this environment: no download."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([*BUILD, "--outdir", str(out), str(ROOT)], check=True, capture_output=True, text=True)
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


def test_the_image_takes_only_what_the_wheel_is_made_of(tmp_path: Path) -> None:
    """No ``.env``, no ``.git``, no virtual environment: folders by name, and the wheel from them is whole."""
    stage = (COMPOSE / "Dockerfile").read_text().split("\nFROM ")[1]
    copied = [line.split()[1:] for line in stage.splitlines() if line.startswith(("COPY", "ADD"))]
    whole, build = tmp_path / "whole", tmp_path / "build"
    build.mkdir()
    for *sources, target in copied:
        for source in sources:
            assert re.fullmatch(r"\w+(\.\w+)?", source), source
            if (ROOT / source).is_dir():
                assert target == source
                shutil.copytree(ROOT / source, build / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, build)
    assert {file.name for file in build.iterdir()} == {
        *("pyproject.toml", "README.md", "LICENSE", "otel_drift", "connectors", "prompts")
    }
    made = subprocess.run(
        [*BUILD, "--wheel", "--outdir", whole, build],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = whole.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, top in (("otel_drift", ROOT), ("otel_drift_connectors", ROOT / "connectors")):
        modules = {file.relative_to(top).as_posix() for file in (top / folder).rglob("*.py")}
        assert modules
        assert modules <= names
    assert {f"otel_drift/{file.relative_to(ROOT)}" for file in (ROOT / "prompts").rglob("*.md")} <= names


def test_git_leaves_a_filled_in_env_alone() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no checkout")

    def ignored(name: str) -> bool:
        done = subprocess.run([git, "-C", ROOT, "check-ignore", "--no-index", "-q", COMPOSE / name], check=False)
        return done.returncode == 0

    assert ignored(".env")
    assert not ignored(".env.example")
