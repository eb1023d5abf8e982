"""A stranger's connector: installed beside otel-drift it is found by name, read, written to, and checked."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from otel_drift.model import Span
from otel_drift.testing import conversation
from otel_drift.testing.samples import DRIFTING

EXAMPLE = Path(__file__).parent.parent / "examples" / "custom_connector"
HOUR = 3600 * 10**9

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example is installed, as `pip install` of it would."""
    folder = tmp_path_factory.mktemp("connector")
    source = folder / "source"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(source)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "200"}


@pytest.fixture
def run(installed: dict[str, str], tmp_path: Path) -> Run:
    def run(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from otel_drift.cli import main; main()", *arguments]
        done = subprocess.run(command, env=installed, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


def fill(file: Path, spans: Sequence[Span]) -> None:
    sys.path.insert(0, str(EXAMPLE))
    try:
        from fill import fill as fill_example
    finally:
        sys.path.remove(str(EXAMPLE))
    fill_example(str(file), spans)


def ago(hours: float) -> int:
    return time.time_ns() - int(hours * HOUR)


def scores(file: Path) -> dict[tuple[str, str, str], str]:
    with sqlite3.connect(file) as database:
        rows = database.execute("SELECT target, target_id, name, label FROM score").fetchall()
    assert len({row[:3] for row in rows}) == len(rows)
    return {row[:3]: row[3] for row in rows}


def audited(run: Run, *arguments: str, status: int = 0) -> list[str]:
    lines = run("audit", *arguments, "--format", "json", status=status).stdout.splitlines()
    return [json.loads(line)["session_id"] for line in lines]


def test_its_own_tests_pass(installed: dict[str, str]) -> None:
    pytest_program = str(Path(sys.executable).with_name("pytest"))  # unlike -m, it does not put the folder on the path
    command = [pytest_program, "-q", "-p", "no:cacheprovider", "test_sqlite_traces.py"]
    done = subprocess.run(command, env=installed, cwd=EXAMPLE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_says_what_is_there_and_what_is_wrong(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "t.db", conversation("s1"))

    assert "read   ok  sqlite-traces:t.db: 1 sessions" in run("check", "sqlite-traces:t.db").stdout
    wrong = run("check", "sqlite-traces:nowhere.db", status=2)
    assert wrong.stderr == "otel-drift: sqlite-traces:nowhere.db: there is no such file\n"
    assert "installed: " in run("check", "sqlight:x", status=2).stderr


def test_findings_are_written_back_to_where_the_traces_are_twice_the_same(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.db"
    fill(file, conversation("s1"))

    told = run("audit", "sqlite-traces:t.db", "--since", "24h")

    assert "8 values written to sqlite-traces:t.db" in told.stderr
    first = scores(file)
    assert first["session", "s1", "drift_severity"] == "MAJOR"
    assert [label for (target, _, name), label in first.items() if (target, name) == ("span", "factual_drift")] == [
        "MAJOR"
    ]
    again = run("audit", "sqlite-traces:t.db", "--since", "24h")
    assert again.stdout == told.stdout.replace(" · 1 call", "")
    assert "otel-drift: nothing new to write to sqlite-traces:t.db" in again.stderr.splitlines()
    assert scores(file) == first


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "t.db", conversation("s1"))

    done = run("audit", "sqlite-traces:t.db", "--dry-run")

    assert "would write drift_severity = MAJOR (0.7) on session s1" in done.stdout
    assert "to sqlite-traces:t.db" in done.stderr
    with sqlite3.connect(tmp_path / "t.db") as database:
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'score'").fetchall()


def test_sinks_named_on_the_command_line_replace_writing_back(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "t.db", conversation("s1"))

    run("audit", "sqlite-traces:t.db", "--sink", "none")
    run("audit", "sqlite-traces:t.db", "--sink", "jsonl:out.jsonl")

    assert (tmp_path / "out.jsonl").read_text()
    with sqlite3.connect(tmp_path / "t.db") as database:
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'score'").fetchall()


def test_which_sessions_are_audited(run: Run, tmp_path: Path) -> None:
    """By time, turns, flags, environment, user and tag; flagged ones first; one that is being written waits."""
    file = tmp_path / "t.db"
    short = DRIFTING[:2]
    fill(file, conversation("old", ends=ago(48)))
    fill(file, conversation("short", turns=short, ends=ago(5)))
    fill(file, conversation("hers", ends=ago(4), attributes={"user.id": "ann", "langfuse.trace.tags": ["vip", "beta"]}))
    fill(file, conversation("unhappy", turns=short, ends=ago(3), attributes={"user.feedback": "thumbs: down"}))
    fill(file, conversation("open", ends=ago(0.01)))

    def chosen(*options: str) -> list[str]:
        return audited(run, "sqlite-traces:t.db", "--sink", "none", *options)

    assert chosen("--since", "24h") == ["unhappy", "short", "hers"]
    assert chosen("--since", "3d") == ["unhappy", "old", "short", "hers"]
    assert chosen("--since", "24h", "--settle", "0") == ["unhappy", "short", "hers", "open"]
    assert chosen("--since", "24h", "--min-turns", "3") == ["hers"]
    assert chosen("--since", "24h", "--min-turns", "3", "--flagged", "feedback,error") == ["unhappy", "hers"]
    assert chosen("--since", "24h", "--flagged", "tag:vip") == ["hers"]
    assert chosen("--since", "24h", "--user", "ann", "--tag", "vip") == ["hers"]
    assert chosen("--since", "24h", "--environment", "staging") == []
    assert chosen("--session", "old") == ["old"]
    nowhere = run("audit", "sqlite-traces:t.db", "--sink", "none", "--session", "nowhere")
    assert "there is no session 'nowhere'" in nowhere.stderr
    assert "1 session still being written" in run("audit", "sqlite-traces:t.db", "--sink", "none").stderr


def test_the_next_run_goes_on_where_the_last_one_ended(run: Run, tmp_path: Path) -> None:
    """Without --since: what was read is not read again but for the look-back; what waited is read."""
    file = tmp_path / "t.db"
    fill(file, conversation("first", ends=ago(20)))
    fill(file, conversation("open", ends=ago(0.01)))
    source = "sqlite-traces:t.db"
    (tmp_path / "otel-drift.toml").write_text("[pull]\nlook_back_minutes = 0\n[output]\nsinks = ['none']\n")
    ledger = ["--ledger", "l.db"]

    assert audited(run, source, *ledger) == ["first"]
    assert audited(run, source, "--settle", "0", *ledger) == ["open"]
    fill(file, conversation("late", ends=ago(0)))
    assert audited(run, source, "--settle", "0", *ledger) == ["late"]
    assert audited(run, source, "--settle", "0", "--since", "24h", *ledger) == ["first", "open", "late"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sqlite-traces:t.db", "other"], "one platform a command"),
        (["sqlite-traces:t.db", "--since", "yesterday"], "--since yesterday"),
        (["sqlite-traces:t.db", "--flagged", "sad"], "--flagged sad: use feedback, error or tag:NAME"),
        (["nosuch:http://localhost:1"], "no source called 'nosuch'"),
    ],
)
def test_what_is_wrong_is_said(run: Run, tmp_path: Path, arguments: list[str], words: str) -> None:
    fill(tmp_path / "t.db", conversation("s1"))

    assert words in run("audit", *arguments, status=2).stderr


def test_options_come_from_the_settings(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "t.db", conversation("s1"))
    settings = tmp_path / "otel-drift.toml"

    settings.write_text("[connectors.sqlite-traces]\nhurry = true\n")
    assert "[connectors.sqlite-traces]" in run("audit", "sqlite-traces:t.db", status=2).stderr


def test_broken_spans_are_named_and_the_rest_is_audited(run: Run, tmp_path: Path) -> None:
    file: Any = tmp_path / "t.db"
    fill(file, conversation("s1"))
    with sqlite3.connect(file) as database:
        database.execute("UPDATE span SET attributes = '{' WHERE rowid = 1")

    assert "1 broken records or files were passed over" in run("inspect", "sqlite-traces:t.db", status=3).stderr


def test_inspect_says_why_a_platform_shows_no_session(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "t.db", conversation("s1"))

    for asked, said in {
        ("--session", "s2"): "there is no session 's2'",
        ("--since", "1m"): "no session was active in the time asked for",
        ("--since", "24h", "--environment", "nowhere"): "1 session of other environments",
    }.items():
        told = run("inspect", "sqlite-traces:t.db", *asked).stderr
        assert said in told
        assert "Expected OTLP" not in told
        assert "No chat found" not in told


def test_a_sink_that_is_down_stops_nothing_and_gets_its_due_later(run: Run, tmp_path: Path) -> None:
    """Another sink is written, the reading goes on, and a source that is down stops no delivery."""
    fill(tmp_path / "t.db", conversation("s1"))
    (tmp_path / "later").mkdir()
    sinks = ["--sink", "sqlite-traces:later/t.db", "--sink", "jsonl:out.jsonl", "--ledger", "l.db"]
    (tmp_path / "later" / "t.db").mkdir()

    down = run("audit", "sqlite-traces:t.db", *sinks, status=3)
    assert "sink sqlite-traces:later/t.db" in down.stderr
    assert "stay owed" in down.stderr
    assert (tmp_path / "out.jsonl").read_text()

    (tmp_path / "later" / "t.db").rmdir()
    (tmp_path / "t.db").write_bytes(b"broken " * 1000)
    broken = run("audit", "sqlite-traces:t.db", *sinks, status=3)
    assert broken.stderr.splitlines() == [
        "otel-drift: 8 values written to sqlite-traces:later/t.db",
        "otel-drift: sqlite-traces:t.db cannot be read: file is not a database",
    ]
    assert scores(tmp_path / "later" / "t.db")["session", "s1", "drift_severity"] == "MAJOR"
