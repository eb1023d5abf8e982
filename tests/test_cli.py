"""The command line as people and scripts use it, in processes of its own."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from model_server import ModelServer
from scripted import finds_nothing

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def units(run: subprocess.CompletedProcess[str]) -> dict[str, dict]:
    """The audited units of a `--format json` run by conversation."""
    return {unit["session_id"].split("-")[1]: unit for unit in map(json.loads, run.stdout.splitlines())}


def test_help_and_import_are_quick() -> None:
    """Half a second is the budget; work is counted, not time, so that a busy machine does not fail it."""

    def work() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def best(*command: str) -> float:
        times = []
        for _ in range(3):
            before = work()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            times.append(work() - before)
        return min(times)

    assert best("-m", "otel_drift", "--help") < 1.0
    assert best("-c", "import otel_drift") < 1.0


@pytest.mark.parametrize(
    "heavy", ["litellm", "langfuse", "opentelemetry.exporter", "sqlalchemy", "alembic", "pydantic"]
)
def test_help_imports_no_heavy_library(heavy: str) -> None:
    code = (
        "import sys; sys.argv = ['otel-drift', '--help']\n"
        "from otel_drift.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"sys.exit({heavy!r} in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_inspect_prints_one_session_a_line(otel_drift: Run, examples: Path) -> None:
    run = otel_drift("inspect", examples, "--format", "json")

    sessions = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, run.stderr
    assert len(sessions) == 5
    assert all(turn["user"] and turn["answer"] for session in sessions for turn in session["turns"])


def test_inspect_shows_people_what_is_there(otel_drift: Run, examples: Path) -> None:
    run = otel_drift("inspect", examples / "pension-openinference.json")

    assert run.returncode == 0
    assert "pen-early-01" in run.stdout
    assert "\x1b" not in run.stdout


def test_the_examples_show_each_type_and_nothing_on_the_clean_session(otel_drift: Run, examples: Path) -> None:
    """What `make demo` promises: verified quotes and span ids, and silence on the clean session."""
    run = otel_drift("audit", examples, "--format", "json")

    assert run.returncode == 0, run.stderr
    found = units(run)
    types = {event["drift_type"] for unit in found.values() for event in unit["report"]["drift_events"]}
    assert types == {"CONTRADICTION", "DROPPED_QUALIFICATION", "UNSUPPORTED_NEW_CLAIM"}
    clean = found["cloud"]
    assert clean["outcome"] == "clean"
    assert clean["report"]["drift_events"] == []
    for unit in found.values():
        assert {
            "session_id",
            "audit",
            "outcome",
            "reason",
            "severity",
            "report",
            "judge",
            "calls",
            "tokens",
            "cost",
        } <= set(unit)


def test_every_quote_and_reference_of_the_examples_holds(otel_drift: Run, examples: Path) -> None:
    sessions = {
        session["session_id"]: session
        for session in map(json.loads, otel_drift("inspect", examples, "--format", "json").stdout.splitlines())
    }
    seen = 0
    for unit in map(json.loads, otel_drift("audit", examples, "--format", "json").stdout.splitlines()):
        turns = {turn["turn"]: turn for turn in sessions[unit["session_id"]]["turns"]}
        for claim in unit["report"]["claims"]:
            turn = turns[claim["turn"]]
            assert claim["quote"] in turn["answer"]
            texts = {passage["id"]: passage["text"] for passage in turn["passages"]}
            for evidence in claim["evidence"]:
                assert evidence["quote"] in texts[evidence["passage_id"]]
        for event in unit["report"]["drift_events"]:
            for side in filter(None, (event["earlier_claim"], event["later_claim"])):
                seen += 1
                assert side["trace_event_ref"] == turns[side["turn"]]["answer_ref"]
                assert side["quote"] in turns[side["turn"]]["answer"]
    assert seen >= 5


def test_fail_on_sets_the_exit_status(otel_drift: Run, examples: Path) -> None:
    pension, clean = examples / "pension-openinference.json", examples / "cloudlimits-haystack.json"

    assert otel_drift("audit", pension, "--fail-on", "major").returncode == 1
    assert otel_drift("audit", pension, "--fail-on", "critical").returncode == 0
    assert otel_drift("audit", clean, "--fail-on", "minor").returncode == 0


def test_sinks_html_and_ledger_are_written_and_a_second_run_doubles_nothing(
    otel_drift: Run, examples: Path, tmp_path: Path
) -> None:
    command = ["audit", examples, "--sink", "jsonl:out.jsonl", "--html", "out.html", "--ledger", "ledger.db"]

    assert otel_drift(*command).returncode == 0
    first = (tmp_path / "out.jsonl").read_text()
    assert otel_drift(*command).returncode == 0

    assert first == (tmp_path / "out.jsonl").read_text()
    assert (tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o600
    assert "Content-Security-Policy" in (tmp_path / "out.html").read_text()
    records = [json.loads(line) for line in first.splitlines()]
    keys = [(record["otel_drift.result.id"], record["revision"]) for record in records]
    assert len(keys) == len(set(keys))


def test_a_model_is_asked_once_a_session_and_never_twice(otel_drift: Run, examples: Path) -> None:
    with ModelServer(finds_nothing) as server:
        command = ["audit", examples / "pension-openinference.json", "--format", "json", "--ledger", "ledger.db"]
        command += ["--model", "openai/test-model", "--api-base", server.url]

        first, second = otel_drift(*command), otel_drift(*command)

        assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
        assert len(server.requests) == 1
        one, two = json.loads(first.stdout), json.loads(second.stdout)
        assert (one["calls"], two["calls"]) == (1, 0)
        assert one["report"] == two["report"]


def test_a_judge_that_is_down_is_inconclusive_and_never_clean(otel_drift: Run, examples: Path) -> None:
    run = otel_drift(
        "audit", examples / "pension-openinference.json", "--format", "json",
        "--model", "openai/x", "--api-base", "http://127.0.0.1:9/v1",
        env={"OTEL_DRIFT_JUDGE__TIMEOUT": "2"},
    )  # fmt: skip

    unit = json.loads(run.stdout)
    assert (run.returncode, unit["outcome"], unit["report"]) == (5, "inconclusive", None)


def test_dry_run_calls_nobody_and_says_what_it_would_cost(otel_drift: Run, examples: Path) -> None:
    with ModelServer(finds_nothing) as server:
        run = otel_drift(
            "audit",
            examples,
            "--dry-run",
            "--format",
            "json",
            "--model",
            "openai/gpt-4o-mini",
            "--api-base",
            server.url,
        )

        assert run.returncode == 0, run.stderr
        assert server.requests == []
        plans = [json.loads(line) for line in run.stdout.splitlines()]
        assert [plan["calls"] for plan in plans] == [1] * 5
        assert all(plan["tokens"]["input"] > 500 and plan["cost"] > 0 for plan in plans)
        assert server.url in run.stderr


def test_max_calls_leaves_the_rest_unaudited_and_says_so(otel_drift: Run, examples: Path) -> None:
    with ModelServer(finds_nothing) as server:
        run = otel_drift(
            "audit", examples, "--format", "json", "--max-calls", "2", "--model", "openai/x", "--api-base", server.url
        )

        outcomes = sorted(json.loads(line)["outcome"] for line in run.stdout.splitlines())
        assert (len(server.requests), run.returncode) == (2, 5)
        assert outcomes == ["clean", "clean", "inconclusive", "inconclusive", "inconclusive"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["audit", "no-such-file.json"], 3, "no-such-file.json"),
        (["inspect", "no*match.json"], 3, "no*match.json"),
        (["audit", "x", "--sink", "jsonk:x"], 2, "no sink called 'jsonk'"),
        (["audit", "x", "--sample", "7"], 2, "sample"),
        (["audit", "x", "--audits", "factual_drift,factual_drift"], 2, "factual_drift is named twice"),
        (["audit", "x", "--audits", "fictual_drift"], 2, "no audit called"),
        (["audit", "x", "--api-base", "http://127.0.0.1:1"], 2, "needs --model"),
        (["audit", "x", "--redact", "fax"], 2, "fax"),
        (["audit", "x", "--config", "gone.toml"], 2, "gone.toml"),
        (["audit", "x", "--ledger", "postgresql://nobody:hunter2@127.0.0.1:9/x"], 3, "127.0.0.1"),
        (["audit"], 2, "PATH"),
    ],
)
def test_what_is_wrong_is_one_clear_line(otel_drift: Run, arguments: list[str], status: int, said: str) -> None:
    run = otel_drift(*arguments)

    assert (run.returncode, run.stdout) == (status, "")
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert "hunter2" not in run.stderr


def test_init_writes_a_file_that_works_and_overwrites_nothing(otel_drift: Run, tmp_path: Path, examples: Path) -> None:
    assert otel_drift("init").returncode == 0
    assert otel_drift("init").returncode == 2
    assert otel_drift("init", "--force").returncode == 0
    assert otel_drift("inspect", examples, "--config", tmp_path / "otel-drift.toml").returncode == 0


def test_a_broken_record_is_named_and_the_rest_goes_on(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    good = json.dumps(json.loads((examples / "pension-openinference.json").read_text()))
    (tmp_path / "mixed.jsonl").write_text(f"{good}\n{{broken\n")

    run = otel_drift("inspect", "mixed.jsonl", "--format", "json")

    assert (run.returncode, len(run.stdout.splitlines())) == (3, 1), "what was passed over is no success"
    assert "mixed.jsonl" in run.stderr


def test_an_audit_of_a_file_that_was_cut_off_is_no_success(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    """What could be read is audited, and --fail-on keeps its status; else 3, and the run's totals say how much."""
    document = json.dumps(json.loads((examples / "pension-openinference.json").read_text()))
    (tmp_path / "cut.json").write_text(document[:-200])

    run = otel_drift("audit", "cut.json", "--format", "json", "--ledger", "cut.db")

    assert (run.returncode, len(run.stdout.splitlines())) == (3, 1), run.stderr
    assert otel_drift("audit", "cut.json", "--fail-on", "minor").returncode == 1
    with sqlite3.connect(tmp_path / "cut.db") as ledger:
        [(totals,)] = ledger.execute("SELECT totals FROM otel_drift_run")
    assert json.loads(totals)["passed_over"] == 1


def test_a_record_that_was_only_put_right_is_not_passed_over(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    document = json.loads((examples / "pension-openinference.json").read_text())
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["endTimeUnixNano"] = "1"
    (tmp_path / "odd.json").write_text(json.dumps(document))

    run = otel_drift("inspect", "odd.json", "--format", "json")

    assert run.returncode == 0
    assert "odd.json" in run.stderr
    assert "passed over" not in run.stderr
    assert "ends before it starts" in run.stderr


def test_other_files_in_a_folder_are_no_loss_but_a_named_one_is(
    otel_drift: Run, examples: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(examples / "pension-openinference.json", folder)
    (folder / "labels.json").write_text('{"labels": [1, 2]}')

    assert otel_drift("inspect", "folder").returncode == 0
    assert otel_drift("inspect", "folder/labels.json", "folder").returncode == 3


def test_redaction_reaches_judge_and_output(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    (tmp_path / "mask.py").write_text("def mask(text):\n    return text.replace('Brazil', '[private]')\n")
    with ModelServer(finds_nothing) as server:
        run = otel_drift(
            "audit", examples / "pension-openinference.json", "--redact", "mask:mask", "--html", "out.html",
            "--model", "openai/x", "--api-base", server.url, env={"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip

        assert run.returncode == 0, run.stderr
        data = server.requests[0].messages[-1]["content"]
        assert "[private]" in data
        assert "Brazil" not in data + run.stdout + (tmp_path / "out.html").read_text()


def test_a_reader_that_goes_away_costs_no_output(examples: Path, tmp_path: Path) -> None:
    """`| head -1` must not lose the page, the sink or the exit status of the run."""
    run = subprocess.run(
        f"{sys.executable} -m otel_drift audit {examples} --sink jsonl:out.jsonl --html out.html --format json |"
        ' head -1; exit "${PIPESTATUS[0]}"',
        shell=True, executable="/bin/bash", cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (run.returncode, len(run.stdout.splitlines())) == (0, 1), run.stderr
    assert (tmp_path / "out.jsonl").stat().st_size > 0
    assert "</html>" in (tmp_path / "out.html").read_text()


def test_a_full_stdout_is_a_clear_failure(examples: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "otel_drift", "audit", examples, "--format", "json"],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip

    assert (run.returncode, run.stderr.count("Traceback")) == (3, 0)
    assert "No space left on device" in run.stderr


def test_ctrl_c_says_that_nothing_is_lost(examples: Path, tmp_path: Path) -> None:
    with ModelServer(partial(finds_nothing, delay=5)) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "otel_drift", "audit", examples, "--model", "openai/x", "--api-base", server.url],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]

    assert (process.returncode, "the same command goes on" in said) == (130, True), said


def test_nothing_readable_is_a_failure(otel_drift: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# no trace\n")

    for command in ("inspect", "audit"):
        run = otel_drift(command, "notes.md")
        assert (run.returncode, "notes.md" in run.stderr) == (3, True)


def test_lists_in_the_environment_are_separated_by_commas(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    run = otel_drift("audit", examples, env={"OTEL_DRIFT_OUTPUT__SINKS": "jsonl:a.jsonl, jsonl:b.jsonl"})

    assert run.returncode == 0, run.stderr
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
