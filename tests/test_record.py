"""The audit record and its deletion over the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from inbox_contract import turn
from model_server import ModelServer
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from scripted import finds_nothing

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def entries(run: subprocess.CompletedProcess[str]) -> list[dict]:
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_the_record_holds_what_was_really_sent_and_answered(otel_drift: Run, examples: Path) -> None:
    with ModelServer(finds_nothing) as server:
        otel_drift(
            "audit", examples / "pension-openinference.json", "--ledger", "l.db", "--sink", "jsonl:out.jsonl",
            "--model", "openai/test-model", "--api-base", server.url,
        )  # fmt: skip
        sent = server.requests[0].messages

    (entry,) = entries(otel_drift("record", "sess-pension-41c8", "--ledger", "l.db"))

    (attempt,) = entry["attempts"]
    assert [(one["role"], one["content"]) for one in attempt["messages"]] == [
        (one["role"], one["content"]) for one in sent
    ]
    assert json.loads(attempt["answer"])["overall_assessment"] == "nothing found"
    assert attempt["model"] == "scripted-2026-01", "the model that the response reports, not the one asked for"
    assert attempt["parameters"]["temperature"] == 0
    assert entry["outcome"] == "clean"
    assert {one["state"] for one in entry["deliveries"]} == {"written"}
    assert "pen-avc-01" in {one["id"] for turn in entry["sources"]["turns"] for one in turn["passages"]}


def test_passes_are_in_the_record_too(otel_drift: Run, examples: Path) -> None:
    otel_drift("audit", examples, "--ledger", "l.db")

    everything = entries(otel_drift("record", "--since", "2020-01-01", "--ledger", "l.db"))

    assert {one["outcome"] for one in everything} == {"findings", "clean"}
    assert len(everything) == 5
    assert all(one["attempts"] for one in everything)
    assert entries(otel_drift("record", "--since", "2200-01-01", "--ledger", "l.db")) == []


def test_forgetting_asks_first_and_says_what_it_did(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    otel_drift("audit", examples, "--ledger", "l.db")
    forget = [sys.executable, "-m", "otel_drift", "forget", "--user", "user-cleo", "--ledger", "l.db"]

    declined = subprocess.run(forget, input="n\n", capture_output=True, text=True, cwd=tmp_path, check=False)
    kept = entries(otel_drift("record", "sess-hr-55ce", "--ledger", "l.db"))[0]
    done = otel_drift(*forget[3:], "--yes", "--format", "json")
    (left,) = entries(otel_drift("record", "sess-hr-55ce", "--ledger", "l.db"))

    assert (declined.returncode, "Erase the texts of 1 result" in declined.stderr) == (1, True)
    assert kept["report"] is not None
    assert json.loads(done.stdout)["results"] == 1
    assert (left["report"], left["user"], left["attempts"][0]["messages"]) == (None, None, None)
    assert left["attempts"][0]["messages_sha256"] == kept["attempts"][0]["messages_sha256"]
    assert "user-cleo" not in json.dumps(left)
    assert otel_drift(*forget[3:], "--yes").stdout == "nothing to erase\n"
    others = entries(otel_drift("record", "--since", "2020-01-01", "--ledger", "l.db"))
    assert sum(one["erased"] is None for one in others) == 4


def test_forgetting_deletes_what_a_service_received(otel_drift: Run, tmp_path: Path) -> None:
    """Also where nothing of it was audited yet; nothing is left in the file."""
    with Ledger.open(tmp_path / "l.db") as ledger:
        Inbox(ledger).add([turn(1, "s", user="cleo"), turn(2, "s"), turn(3, "t", user="dora", answer="It is 30 days.")])
    forget = [sys.executable, "-m", "otel_drift", "forget", "--user", "cleo", "--ledger", "l.db"]

    declined = subprocess.run(forget, input="n\n", capture_output=True, text=True, cwd=tmp_path, check=False)
    done = otel_drift(*forget[3:], "--yes")
    again = otel_drift(*forget[3:], "--yes")

    assert (declined.returncode, "of 0 results and 2 traces received in" in declined.stderr) == (1, True)
    assert done.stdout.endswith(", 2 spans\n")
    assert again.stdout == "nothing to erase\n"
    assert json.loads(otel_drift("forget", "--session", "t", "--yes", "--format", "json", "--ledger", "l.db").stdout)[
        "spans"
    ] == 1  # fmt: skip
    left = b"".join(file.read_bytes() for file in tmp_path.glob("l.db*"))
    assert b"cleo" not in left
    assert b"dora" not in left


def test_a_reviewer_sees_that_texts_were_erased(otel_drift: Run, examples: Path) -> None:
    otel_drift("audit", examples / "pension-openinference.json", "--ledger", "l.db")
    listed = otel_drift("review", "list", "--ledger", "l.db", "--format", "json")
    item = json.loads(listed.stdout.splitlines()[0])
    otel_drift("forget", "--before", "2200-01-01", "--yes", "--ledger", "l.db")
    assert otel_drift("review", "list", "--ledger", "l.db", "--format", "json").stdout == ""

    shown = otel_drift("review", "show", item["item_id"], "--ledger", "l.db")
    resolved = otel_drift(
        "review", "resolve", item["item_id"], "--confirm", "--by", "A", "--why", "w", "--ledger", "l.db"
    )

    assert "its texts were erased" in shown.stdout
    assert (shown.returncode, resolved.returncode) == (0, 0)


def test_mistakes_are_told(otel_drift: Run) -> None:
    for arguments, said in (
        (["record"], "name a SESSION"),
        (["record", "nobody"], "no result of session"),
        (["record", "--since", "soon"], "write a date"),
        (["record", "--since", "9999-01-01"], "dates go from"),
        (["forget"], "say whose texts"),
    ):
        run = otel_drift(*arguments)
        assert (run.returncode, said in run.stderr) == (2, True), run.stderr
