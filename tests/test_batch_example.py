"""The batch examples: what cron and Kubernetes run is a command there is, with a model, and sees its keys."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from otel_drift.cli import app
from otel_drift.cli import audit as _audit  # noqa: F401 - adds its command

BATCH = Path(__file__).resolve().parents[1] / "examples" / "batch"


def cron_line() -> str:
    """The command of the crontab, as cron gives it to sh."""
    line = (BATCH / "crontab").read_text().splitlines()[-1]
    minute, hour, *_, command = line.split(maxsplit=5)
    assert (minute, hour) == ("30", "2")
    assert "%" not in command, "cron makes it a line break"
    return command


def commands() -> dict[str, str]:
    """What the batch examples run, without what the shell does around it."""
    job = yaml.safe_load((BATCH / "cronjob.yaml").read_text())
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    program = cron_line().split(" && ")[-1].split(" || ")[0]
    return {
        "crontab": re.sub(r' \d?>> "[^"]*"', "", program),
        "cronjob": shlex.join(["otel-drift", *container["args"]]),
    }


def variables(name: str) -> set[str]:
    """The environment variables that the comments of a batch example ask for."""
    comments = re.findall(r"#.*", (BATCH / name).read_text())
    return set(re.findall(r"\b[A-Z]+_[A-Z_]*[A-Z]\b", "\n".join(comments)))


@pytest.mark.parametrize("command", commands().values(), ids=commands())
def test_the_batch_runs_a_command_there_is(command: str) -> None:
    program, *words = shlex.split(command)
    done = CliRunner().invoke(app, [*words, "--help"])

    assert program.rpartition("/")[2] == "otel-drift"
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(("file", "command"), [("crontab", "crontab"), ("cronjob.yaml", "cronjob")])
def test_the_batch_names_a_model_and_asks_for_its_key(file: str, command: str) -> None:
    """The embedded judge costs nothing and never says critical: ``--max-cost`` and ``--fail-on`` would do nothing."""
    words = shlex.split(commands()[command])
    model = words[words.index("--model") + 1]
    langfuse = {"LANGFUSE_BASE_URL", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"}

    assert "--max-cost" in words
    assert variables(file) == {*langfuse, f"{model.partition('/')[0].upper()}_API_KEY", "OTEL_DRIFT_LEDGER__URL"}


@pytest.fixture
def cron(tmp_path: Path) -> Callable[[int], subprocess.CompletedProcess[str]]:
    """Run the crontab's command as cron does; a stand-in for the program keeps its environment and arguments."""
    program = tmp_path / shlex.split(commands()["crontab"])[0].removeprefix("$HOME/")
    program.parent.mkdir(parents=True)

    def run(status: int) -> subprocess.CompletedProcess[str]:
        program.write_text(
            f'#!/bin/sh\nenv > "$HOME/environment"\nprintf "%s\\n" "$@"\necho problem >&2\nexit {status}\n'
        )
        program.chmod(0o700)
        return subprocess.run(
            ["/bin/sh", "-c", cron_line()],
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_cron_gives_the_program_what_the_file_holds(
    cron: Callable[[int], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Plain ``NAME='value'`` lines reach it, and any status but 0 is a line that cron mails."""
    values = {name: f"{name} $x; &" for name in variables("crontab")}
    file = tmp_path / ".config" / "otel-drift" / "env"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))

    well = cron(0)
    seen = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines())
    ill = cron(1)

    assert values.items() <= seen.items()
    assert (well.returncode, well.stdout, well.stderr) == (0, "", "")
    assert (ill.stdout, ill.stderr) == ("otel-drift: exit status 1, see otel-drift.log\n", "")
    told = (tmp_path / "otel-drift.out").read_text().splitlines()
    assert told == 2 * shlex.split(commands()["crontab"])[1:], "both runs are in it"
    assert (tmp_path / "otel-drift.log").read_text() == "problem\n" * 2


def test_cron_runs_nothing_without_its_file(
    cron: Callable[[int], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = cron(0)

    assert done.returncode != 0
    assert ".config/otel-drift/env" in done.stderr
    assert not (tmp_path / "environment").exists()
