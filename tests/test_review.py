"""Review on SQLite: the contract of every ledger, what a file leaves behind, and the commands."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger_desk_contract import SECRET, DeskContract, commit, drifted
from ledger_samples import TASK, finding, unit
from otel_drift import labels
from otel_drift.errors import LedgerError
from otel_drift.ledger import Ledger

Run = Callable[..., "subprocess.CompletedProcess[str]"]


class TestSqlite(DeskContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "ledger.sqlite3")


def test_nothing_of_a_forgotten_text_is_left_in_the_files(tmp_path: Path) -> None:
    """SQLite keeps deleted bytes in free pages and in the write-ahead log unless told otherwise."""
    file = tmp_path / "ledger.sqlite3"
    with Ledger.open(file) as ledger:
        long = drifted(report={"text": f"{SECRET} " * 2000})
        ledger.remember("key-1b", TASK, long.attempts[1].answer)  # type: ignore[arg-type]
        commit(ledger, long)

        def left() -> int:
            return sum(path.read_bytes().count(SECRET.encode()) for path in tmp_path.iterdir())

        assert left() > 2000
        ledger.forget(session="s1")
        assert left() == 0


def test_a_reader_that_keeps_forgotten_texts_in_the_log_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_drift.ledger.database.BUSY_SECONDS", 0.1)
    file = tmp_path / "ledger.sqlite3"
    with Ledger.open(file) as ledger:
        commit(ledger, drifted())
        reader = sqlite3.connect(file, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM otel_drift_unit").fetchall()

        with pytest.raises(LedgerError, match="run the same command again"):
            ledger.forget(session="s1")
        reader.close()
        assert ledger.forget(session="s1")["results"] == 0

        assert sum(path.read_bytes().count(SECRET.encode()) for path in tmp_path.iterdir()) == 0


def test_a_ledger_of_the_first_version_is_brought_up_to_date_and_its_units_can_be_reviewed(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite3"
    with Ledger.open(file) as ledger:
        run = ledger.begin_run({"paths": []})
        commit(ledger, drifted(), run)
    _take_back_to_the_first_version(file)

    with Ledger.open(file) as ledger:
        assert [one["unit_id"] for one in ledger.members(run)] == ["unit-1"]
        assert ledger.review_items() == []
        (entry,) = ledger.record("s1")
        assert (entry["attempts"][1]["messages"], entry["sources"]["turns"]) == (None, None)
        found = ledger.find_unit("unit-1", "fingerprint-1", drifted().session)
        assert found is not None
        commit(ledger, found)
        assert len(list(ledger.record("s1"))) == 1
        assert ledger.review_item("event-1")["passages"][0]["passage_id"] == "leaflet"
        ledger.mute("event-1", why="old leaflet")
        assert [one.muted for one in commit(ledger, found).findings] == ["old leaflet"]


def test_review_over_the_command_line(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    """List, show, reject; the value on the platform follows, and the next audit does not bring it back."""
    audit = ["audit", examples / "pension-openinference.json", "--ledger", "l.db", "--sink", "jsonl:out.jsonl"]
    assert otel_drift(*audit).returncode == 0
    listed = otel_drift("review", "list", "--ledger", "l.db", "--format", "json", "--severity", "major")
    items = [json.loads(line) for line in listed.stdout.splitlines()]
    wrong = next(one for one in items if one["type"] == "CONTRADICTION")
    shown = otel_drift("review", "show", wrong["item_id"], "--ledger", "l.db")
    in_json = otel_drift("review", "show", wrong["event_id"], "--ledger", "l.db", "--format", "json")

    resolved = otel_drift(
        "review", "resolve", wrong["item_id"][:8], "--reject", "--by", "Ada", "--why", "another plan",
        "--ledger", "l.db", "--sink", "jsonl:out.jsonl",
    )  # fmt: skip

    assert {one["severity"] for one in items} == {"MAJOR"}
    packet = json.loads(in_json.stdout)["packet"]
    for quote in json.loads(in_json.stdout)["finding"]["quotes"]:
        assert quote in shown.stdout
        assert any(quote in turn["answer"] for turn in packet["turns"])
    assert wrong["span_ref"] in shown.stdout
    assert (resolved.returncode, resolved.stderr) == (0, "")
    current = _current(tmp_path / "out.jsonl")
    trace_id, span_id = wrong["span_ref"].split(":")
    assert current[trace_id, span_id, "factual_drift.contradiction"]["label"] == "NONE"
    (said,) = current[trace_id, span_id, "factual_drift.review"]["metadata"]["verdicts"]
    assert (said["by"], said["why"]) == ("Ada", "another plan")

    size = (tmp_path / "out.jsonl").stat().st_size
    again = otel_drift(*audit, "--format", "json")
    events = json.loads(again.stdout)["findings"]
    assert [one["status"] for one in events if one["event_id"] == wrong["event_id"]] == ["rejected"]
    assert (tmp_path / "out.jsonl").stat().st_size == size


def test_a_rejected_or_muted_finding_fails_no_build(otel_drift: Run, examples: Path) -> None:
    audit = ["audit", examples / "hrleave-openai-v2*", "--ledger", "l.db", "--fail-on", "minor", "--format", "json"]
    first = otel_drift(*audit)
    events = [one["event_id"] for one in json.loads(first.stdout)["findings"]]
    assert (first.returncode, len(events) >= 2) == (1, True)

    otel_drift("review", "resolve", events[0], "--reject", "--by", "A", "--why", "no", "--ledger", "l.db")
    for event in events[1:]:
        muted = otel_drift("mute", "add", event, "--why", "known", "--until", "2261-12-31", "--ledger", "l.db")
        assert muted.returncode == 0, muted.stderr
    second = otel_drift(*audit)

    assert second.returncode == 0
    assert [one["muted"] for one in json.loads(second.stdout)["findings"]] == [None, *["known"] * (len(events) - 1)]
    assert otel_drift("mute", "remove", "1", "--ledger", "l.db").returncode == 0
    assert otel_drift(*audit).returncode == 1


def test_decisions_are_exported_as_labels(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    otel_drift("audit", examples / "pension-openinference.json", "--ledger", "l.db")
    listed = otel_drift("review", "list", "--ledger", "l.db", "--format", "json")
    for number, item in enumerate(map(json.loads, listed.stdout.splitlines())):
        verdict = "--confirm" if number % 2 else "--reject"
        otel_drift("review", "resolve", item["item_id"], verdict, "--by", "A", "--why", "w", "--ledger", "l.db")

    export = otel_drift("review", "export", "labels.jsonl", "--ledger", "l.db")
    again = otel_drift("review", "export", "labels.jsonl", "--ledger", "l.db")

    assert (export.returncode, again.returncode) == (0, 2)
    labels = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert len(labels) == len(listed.stdout.splitlines())
    for one in labels:
        assert list(one) == [
            "id", "suite", "task", "group", "turn", "history", "passages", "text", "reference", "label", "raw_label",
            "meta",
        ]  # fmt: skip
        assert (one["reference"] is None) == (one["task"] == "grounding")
    assert {one["task"] for one in labels} == {"contradiction", "grounding", "qualifier"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--ledger", "gone.db"], "no such ledger"),
        (["show", "nothing"], "no review item"),
        (["resolve", "x", "--by", "A", "--why", "w"], "--confirm or --reject"),
        (["resolve", "x", "--by", "A", "--why", "w", "--confirm", "--reject"], "--confirm or --reject"),
        (["resolve", "x", "--by", " ", "--why", "w", "--confirm"], "may not be empty"),
        (["export", "x.jsonl", "--as-labels"], "--audit source_conflict"),
        (["export", "no/folder/x.jsonl"], "cannot be written"),
    ],
)
def test_mistakes_are_told(otel_drift: Run, arguments: list[str], said: str) -> None:
    run = otel_drift("review", *arguments)

    assert (run.returncode, said in run.stderr) == (2, True), run.stderr
    assert "Traceback" not in run.stderr


def test_an_item_links_to_the_platform_where_the_settings_say_how(otel_drift: Run, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.db") as ledger:
        commit(ledger, drifted(findings=(finding(3, span_ref="ab/../c&d:e f"),)))
    address = "https://traces.example/t/{trace_id}?span={span_id}"
    (tmp_path / "c.toml").write_text(f'[output]\ntrace_url = "{address}"\n')

    listed = otel_drift("review", "list", "--ledger", "l.db", "--format", "json", "--config", "c.toml")
    shown = otel_drift("review", "show", "event-3", "--ledger", "l.db", "--config", "c.toml")
    wrong = otel_drift("review", "list", env={"OTEL_DRIFT_OUTPUT__TRACE_URL": "javascript:x{trace_id}"})

    expected = "https://traces.example/t/ab%2F..%2Fc%26d?span=e%20f"
    assert json.loads(listed.stdout)["link"] == expected
    assert expected in shown.stdout
    assert (wrong.returncode, "http(s) address" in wrong.stderr) == (2, True)


def test_one_rejected_conflict_of_two_leaves_a_decision_unreviewed() -> None:
    def decision(*verdicts: tuple[str | None, str]) -> dict[str, Any]:
        said = [{"event_id": e, "status": s, "resolved_by": "A", "why": "w", "resolved": 1} for e, s in verdicts]
        report = {"abstain": True, "conflicts": [{"event_id": "a"}, {"event_id": "b"}]}
        made = labels.of_decision(
            {"unit_id": "u", "session_key": "k", "session_id": None, "audit": "source_conflict", "created": 1,
             "judge": "j", "report": report, "packet": {"turns": []}, "verdicts": said}
        )  # fmt: skip
        return {"label": made["label"], "by": made["raw_label"]["labelled_by"]}

    assert decision() == decision(("a", "rejected")) == {"label": "conflict", "by": "machine"}
    assert decision(("a", "rejected"), ("b", "rejected")) == {"label": "no_conflict", "by": "person"}
    assert decision(("a", "rejected"), ("b", "confirmed")) == {"label": "conflict", "by": "person"}
    assert decision(("a", "confirmed"), (None, "rejected")) == {"label": "no_conflict", "by": "person"}


def test_hostile_text_is_shown_safely(otel_drift: Run, tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e[red]x[/red] <script>"
    with Ledger.open(tmp_path / "l.db") as ledger:
        one = drifted(findings=(finding(3, event_id="evil-event", explanation=evil, quotes=(evil, evil)),))
        commit(ledger, one)
        ledger.resolve("evil-event", "confirmed", by=evil, why=evil)
        commit(ledger, unit(finding(2, type=evil, event_id="other"), unit_id="unit-2"))

    for arguments in (["show", "evil-event"], ["list", "--status", "all"]):
        run = otel_drift("review", *arguments, "--ledger", "l.db")
        assert run.returncode == 0, run.stderr
        assert "\x1b" not in run.stdout
        assert "\u202e" not in run.stdout
        assert "[red]x" in run.stdout


def _current(file: Path) -> dict[tuple[str, str, str], dict]:
    """What an append-only file says now: the highest revision of each annotation on a span."""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    return {
        (one["trace_id"], one["span_id"], one["name"]): one
        for one in sorted(records, key=lambda one: one["revision"])
        if one["target"] == "span"
    }


def _take_back_to_the_first_version(file: Path) -> None:
    """What the migrations add is taken out, as if a ledger of 0001 had been filled."""
    first = (
        "run",
        "answer",
        "unit",
        "attempt",
        "finding",
        "contribution",
        "annotation",
        "delivery",
        "cursor",
        "version",
    )
    with sqlite3.connect(file) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'otel_drift_%'")
        for (name,) in tables.fetchall():
            if name.removeprefix("otel_drift_") not in first:
                connection.execute(f"DROP TABLE {name}")
        connection.execute("DROP INDEX otel_drift_unit_created")
        connection.execute("DROP INDEX otel_drift_delivery_settled")
        connection.execute("DROP INDEX ix_otel_drift_finding_fingerprint")
        connection.execute("ALTER TABLE otel_drift_finding DROP COLUMN fingerprint")
        connection.execute("ALTER TABLE otel_drift_attempt DROP COLUMN messages")
        connection.execute("UPDATE otel_drift_version SET version_num = '0001'")
    connection.close()


def test_the_guide_works_from_its_first_line_to_its_last(examples: Path, tmp_path: Path) -> None:
    """Its console blocks are one session at a terminal; what they show is what is printed."""
    guide = (examples.parent / "guides" / "review.md").read_text(encoding="utf-8")
    shutil.copytree(examples, tmp_path / "examples" / "traces")
    lines = [line for block in re.findall(r"```console\n(.*?)```", guide, re.S) for line in block.splitlines()]
    said, commands = "", 0
    for line in lines:
        if line.startswith("$ otel-drift "):
            words = [sys.executable, "-m", "otel_drift", *shlex.split(line)[2:]]
            run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
            assert run.returncode == 0, f"{line}: {run.stderr}"
            said, commands = run.stdout, commands + 1
        elif line != "...":
            assert line in said.splitlines()
    assert commands >= 10
