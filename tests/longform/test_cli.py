"""``otel-drift longform`` as a gate: formats, exit statuses, bad input."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from model_server import ModelServer, Reply, Request
from otel_drift.cli import app, longform
from otel_drift.longform.layout import read_layout

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "longform"
OUTPUT, SOURCE = str(EXAMPLES / "summary.md"), str(EXAMPLES / "inspection.md")

assert longform, "importing it registers the command"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command in this process, in an empty folder with a ledger of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
        told = ["longform", *arguments, "--ledger", str(tmp_path / "ledger.db")]
        return CliRunner().invoke(app, told, input=stdin, env={"OPENAI_API_KEY": "sk-test"})

    return run


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ([], 0),
        (["--fail-on", "minor"], 1),
        (["--fail-on", "severe"], 1),
        (["--fail-on", "critical"], 0),
        (["--regulated"], 4),
        (["--regulated", "--fail-on", "critical"], 4),
        (["--regulated", "--fail-on", "moderate"], 1),
        (["--risk-level", "critical"], 0),
    ],
)
def test_exit_statuses_of_a_text_that_drifts(gate: Callable[..., Result], options: list[str], status: int) -> None:
    run = gate(OUTPUT, "--source", SOURCE, "--format", "json", *options)
    assert run.exit_code == status, run.output
    record = json.loads(run.stdout)
    assert record["report"]["drift_severity"] == "severe", "the embedded judge says at most this"
    assert record["report"]["drift_start_sentence_index"] == 9
    assert record["report"]["review"]["awaiting_sign_off"] == ("--regulated" in options)
    assert record["severity"] == "MAJOR"


def test_each_format_is_what_it_says(gate: Callable[..., Result]) -> None:
    assert "drift starts here" in gate(OUTPUT, "--source", SOURCE).stdout
    assert json.loads(gate(OUTPUT, "--source", SOURCE, "--format", "json").stdout)["audit"] == "longform_drift"
    sarif = json.loads(gate(OUTPUT, "--source", SOURCE, "--format", "sarif").stdout)
    assert sarif["version"] == "2.1.0"
    assert len(sarif["runs"][0]["results"]) == 5
    gate(OUTPUT, "--source", SOURCE, "--html", "page.html")
    assert '"longform":{' in Path("page.html").read_text()


def test_the_text_may_come_from_stdin(gate: Callable[..., Result]) -> None:
    run = gate("-", "--source", SOURCE, "--format", "json", stdin=Path(OUTPUT).read_bytes())
    assert json.loads(run.stdout)["report"]["drift_start_sentence_index"] == 9


def test_a_clean_text_and_a_short_one_pass(gate: Callable[..., Result]) -> None:
    run = gate(SOURCE, "--source", SOURCE, "--fail-on", "minor", "--format", "json")
    assert (run.exit_code, json.loads(run.stdout)["outcome"]) == (0, "clean")
    run = gate("-", "--source", SOURCE, "--fail-on", "minor", "--format", "json", stdin="The bridge is sound.")
    assert (run.exit_code, json.loads(run.stdout)["reason"]) == (0, "short_form")
    assert "not audited (not applicable): short_form" in run.stderr


def test_a_result_is_kept_and_found_again(gate: Callable[..., Result]) -> None:
    first = json.loads(gate(OUTPUT, "--source", SOURCE, "--format", "json").stdout)
    again = json.loads(gate(OUTPUT, "--source", SOURCE, "--format", "json").stdout)
    assert (first["calls"], again["calls"]) == (1, 0)
    assert first["report"] == again["report"]
    risky = json.loads(gate(OUTPUT, "--source", SOURCE, "--format", "json", "--risk-level", "high").stdout)
    assert risky["report"]["risk_level"] == "high", "another option is another result"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "cannot be read"),
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"\xff\xfe\x00", "byte 0 is no UTF-8"),
        (b"a\x00b", "NUL"),
        (b"x" * 2_000_001, "larger than 2 MB"),
    ],
)
def test_bad_input_is_a_clear_error(gate: Callable[..., Result], data: bytes | None, message: str) -> None:
    if data is not None:
        Path("bad.md").write_bytes(data)
    for arguments in (["bad.md", "--source", SOURCE], [OUTPUT, "--source", "bad.md"]):
        run = gate(*arguments)
        assert run.exit_code == 2, run.output
        assert message in run.output
        assert "bad.md" in run.output


def test_bad_input_is_status_two(otel_drift: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    run = otel_drift("longform", "missing.md", "--source", SOURCE)
    assert run.returncode == 2
    assert "otel-drift: missing.md: cannot be read (No such file or directory)" in run.stderr
    assert otel_drift("longform", OUTPUT, "--source", "-").returncode == 2
    assert otel_drift("longform", OUTPUT).returncode == 2


def test_a_byte_order_mark_is_no_text(gate: Callable[..., Result]) -> None:
    Path("bom.md").write_bytes(b"\xef\xbb\xbf" + Path(OUTPUT).read_bytes())
    report = json.loads(gate("bom.md", "--source", SOURCE, "--format", "json").stdout)["report"]
    assert Path(OUTPUT).read_text()[report["drift_start_char"] :].startswith("Surface rust")


# --- with models --------------------------------------------------------------------------------------------------


def reading(request: Request, weaker: dict[int, str]) -> Reply:
    """Verdicts on the sentences of the example."""
    excerpt = "The main girders are sound."
    verdicts = []
    for sentence in read_layout(Path(OUTPUT).read_text()).sentences:
        status = weaker.get(sentence.index, "fully_grounded")
        verdicts.append(
            {
                "index": sentence.index,
                "makes_claim": True,
                "status": status,
                "excerpt": None if status == "ungrounded" else excerpt,
                "explanation": None if status == "fully_grounded" else "Not so.",
            }
        )
    return Reply({"sentences": verdicts, "confidence": 0.9, "summary": "Read."})


def test_a_second_model_reads_again_and_a_difference_is_adjudicated(gate: Callable[..., Result]) -> None:
    def script(request: Request) -> Reply:
        return reading(request, {4: "contradicted"} if request.body["model"] == "strict" else {})

    with ModelServer(script) as server:
        told = ["--model", "openai/kind", "--second-model", "openai/strict", "--api-base", server.url]
        run = gate(OUTPUT, "--source", SOURCE, *told, "--risk-level", "high", "--format", "json")
        assert [request.body["model"] for request in server.requests] == ["kind", "strict"]
    record: dict[str, Any] = json.loads(run.stdout)
    assert record["report"]["recommended_action"] == "adjudication"
    assert record["report"]["review"]["reasons"] == ["judges_differ"]
    assert record["report"]["second_judge"]["difference"] > 0.2
    assert record["judge"] == "openai/kind + openai/strict"


def test_a_second_model_needs_a_first(gate: Callable[..., Result]) -> None:
    run = gate(OUTPUT, "--source", SOURCE, "--second-model", "openai/strict", "--risk-level", "high")
    assert run.exit_code == 2


def test_a_judge_that_cannot_be_had_is_status_five(gate: Callable[..., Result]) -> None:
    with ModelServer([Reply("no json")]) as server:
        told = ["--model", "openai/kind", "--api-base", server.url, "--format", "json", "--fail-on", "minor"]
        run = gate(OUTPUT, "--source", SOURCE, *told)
    assert run.exit_code == 5
    assert json.loads(run.stdout)["reason"] == "answer_not_json"


def test_sources_that_contradict_each_other_are_status_five(gate: Callable[..., Result]) -> None:
    Path("other.md").write_text(Path(SOURCE).read_text().replace("spans 38 m", "spans 83 m"))

    def script(request: Request) -> Reply:
        sides = {"quote_a": "It was built in 1974, spans 38 m", "quote_b": "It was built in 1974, spans 83 m"}
        found = {
            "source_a": "t1.p1", "claim_a": "It spans 38 m.", "source_b": "t1.p2", "claim_b": "It spans 83 m.",
            "severity": "MATERIAL", "confidence": 0.9, "explanation": "Two spans.", "disclosed": False, **sides,
        }  # fmt: skip
        return Reply({"conflicts": [found], "conflict_notes": "Two spans."})

    with ModelServer(script) as server:
        told = ["--model", "openai/kind", "--api-base", server.url, "--format", "json"]
        run = gate(OUTPUT, "--source", SOURCE, "--source", "other.md", *told)
    assert json.loads(run.stdout)["reason"] == "conflicting_sources"
    assert run.exit_code == 5


# --- on traces ----------------------------------------------------------------------------------------------------


def test_regulated_answers_on_traces_await_a_sign_off(
    otel_drift: Callable[..., subprocess.CompletedProcess[str]], shared: Path
) -> None:
    capture = shared / "traces" / "openinference-openai" / "labreport-turns.json"
    told = {"OTEL_DRIFT_AUDIT__OPTIONS": '{"longform_drift": {"regulated": true}}', "OTEL_DRIFT_LEDGER__URL": "l.db"}
    command = ("audit", capture, "--audits", "longform_drift", "--format", "json")
    run = otel_drift(*command, env=told)
    assert run.returncode == 4, run.stderr
    assert [json.loads(line)["outcome"] for line in run.stdout.splitlines()] == ["findings", "clean"]
    assert otel_drift(*command, "--fail-on", "major", env=told).returncode == 1

    wrong = {**told, "OTEL_DRIFT_AUDIT__OPTIONS": '{"longform_drift": {"risk_level": "huge"}}'}
    refused = otel_drift(*command, env=wrong)
    assert refused.returncode == 2
    assert "options of longform_drift: risk_level" in refused.stderr
