"""Every command of the README and the guides does what they say."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from model_server import ModelServer
from otel_drift import cli, plugins
from scripted import finds_nothing

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "examples" / "guides").glob("*.md"))]


def shell_commands() -> dict[str, int]:
    """Every command of the pages with the exit status that its comment promises (``# exit 1: …``), 0 without one."""
    blocks = re.findall(r"```sh\n(.*?)```", "\n".join(page.read_text() for page in PAGES), flags=re.S)
    found = {}
    for line in (line for block in blocks for line in block.splitlines()):
        command, _, comment = line.partition(" #")
        status = re.match(r"\s*exit (\d)\b", comment)
        if command.strip() and not command.startswith("#"):
            found[command.strip()] = int(status[1]) if status else 0
    return found


COMMANDS = {command: status for command, status in shell_commands().items() if command.startswith("otel-drift")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a reader of the README has: the examples, and traces of their own."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "examples" / "traces", tmp_path / "traces")
    return tmp_path


@pytest.mark.parametrize(("command", "promised"), COMMANDS.items())
def test_the_command_works(command: str, promised: int, folder: Path) -> None:
    """Commands that name a model are pointed at a model server on this machine instead of the provider."""
    with ModelServer(finds_nothing) as server:
        command = re.sub(r"http://127\.0\.0\.1:8000/v1", server.url, command)
        env = {**os.environ, "OPENAI_API_KEY": "sk-test", "OPENAI_API_BASE": server.url, "OPENAI_BASE_URL": server.url}
        words = [sys.executable, "-m", "otel_drift", *shlex.split(command)[1:]]
        run = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)

    assert run.returncode in ({0, 1} if "--fail-on" in command else {promised}), run.stderr
    assert "Traceback" not in run.stderr


def console_commands() -> list[str]:
    """Commands shown with a prompt need a server: tests/servers runs their like; here each must be one there is."""
    blocks = re.findall(r"```console\n(.*?)```", "\n".join(page.read_text() for page in PAGES), flags=re.S)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("$ otel-drift ")]
    return sorted({line.removeprefix("$ ").partition(" #")[0].strip() for line in lines})


@pytest.mark.parametrize("command", console_commands())
def test_the_console_command_is_one_there_is(command: str) -> None:
    """``--help`` behind it: typer refuses an unknown command or option first."""
    done = CliRunner().invoke(app_with_all_commands(), [*shlex.split(command)[1:], "--help"])

    assert done.exit_code == 0, done.output
    for source in re.findall(r"(?:audit|inspect|check) ([a-z-]+)(?=[: ]|$)", command):
        assert source in {*plugins.installed("sources"), *plugins.installed("sinks"), "sqlite-traces"}, source


def test_there_are_commands_to_try() -> None:
    assert len(COMMANDS) >= 8


def test_make_targets_and_extras_named_are_real() -> None:
    makefile, pyproject = (ROOT / "Makefile").read_text(), (ROOT / "pyproject.toml").read_text()
    text = "\n".join(page.read_text() for page in PAGES)

    for target in re.findall(r"^make (\w+)", text, flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M), target
    for extra in re.findall(r"otel-drift\[(\w+)\]", text):
        assert re.search(rf"^{extra} = \[", pyproject, flags=re.M), extra


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_exit_statuses_and_options_named_exist() -> None:
    """An option the pages name is one that a command knows."""
    known = options_of(typer.main.get_command(app_with_all_commands()))
    for option in set(re.findall(r"`(--[a-z-]+)", "\n".join(page.read_text() for page in PAGES))):
        assert option in known, option


def app_with_all_commands() -> typer.Typer:
    for module in pkgutil.iter_modules(cli.__path__):
        importlib.import_module(f"otel_drift.cli.{module.name}")
    return cli.app


def options_of(command: Any) -> set[str]:
    """The options of a command and of those below it."""
    own = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return own.union(*(options_of(sub) for sub in getattr(command, "commands", {}).values()))
