"""Prompts over the command line, pinned versions, the operator's constraints and examples."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ledger_samples import session
from model_server import ModelServer
from otel_drift import prompting, worked_examples
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.cli.prompts import prompt_problems
from otel_drift.errors import ConfigError
from otel_drift.judges.rules import RulesJudge
from otel_drift.protocols import AuditSettings
from otel_drift.validation import unit_fingerprint
from scripted import finds_nothing

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SESSION = "factual_drift/session"
EXAMPLE = {
    "prompt": SESSION,
    "title": "a fee",
    "data": [{"turn": "t1", "answer": "The fee is {{two}} euros a month."}],
    "answer": {
        "claims": [{"id": "c1", "turn": "t1", "claim_text": "The fee.", "quote": "The fee is {{two}} euros a month.",
                    "grounding_status": "UNSUPPORTED", "evidence": [], "qualifiers": [], "missing_qualifier": None}],
        "drift_events": [], "overall_assessment": "none",
    },
}  # fmt: skip


def own_version(folder: Path, version: str = "v2", text: str | None = None) -> Path:
    """A folder with a version of the session prompt of its own."""
    released = (Path(__file__).parents[1] / "prompts" / SESSION / "v1.md").read_text(encoding="utf-8")
    place = folder / SESSION / f"{version}.md"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text((text or released).replace('version = "v1"', f'version = "{version}"'), encoding="utf-8")
    return folder


def test_every_released_prompt_is_listed_and_passes_its_own_check(otel_drift: Run) -> None:
    listed = [json.loads(line) for line in otel_drift("prompts", "list", "--format", "json").stdout.splitlines()]
    check = otel_drift("prompts", "check", "--format", "json")

    assert {f"{one['id']}/{one['version']}": one["sha256"] for one in listed} == prompting.released()
    assert check.returncode == 0, check.stdout
    assert all(json.loads(line)["problems"] == [] for line in check.stdout.splitlines())


def test_a_prompt_is_shown_as_it_is_used(otel_drift: Run, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[audit]\nconstraints = ["Amounts in {{euros}} only."]\n')

    shown = otel_drift("prompts", "show", SESSION, "--config", "c.toml")

    assert "# Drift" in shown.stdout
    assert shown.stdout.rstrip().endswith("- Amounts in { {euros}} only.")
    assert otel_drift("prompts", "show", "nothing/here").returncode == 2


def test_own_versions_are_used_unless_one_is_pinned(otel_drift: Run, tmp_path: Path) -> None:
    own_version(tmp_path / "own")
    (tmp_path / "c.toml").write_text(f'[audit]\nprompts_dir = "own"\nprompt_versions = {{"{SESSION}" = "v1"}}\n')

    def used(*arguments: object) -> list[tuple[str, str]]:
        run = otel_drift("prompts", "list", "--format", "json", *arguments)
        return [
            (one["version"], one["from"])
            for one in map(json.loads, run.stdout.splitlines())
            if one["id"] == SESSION and one["used"]
        ]

    assert used("--prompts-dir", "own") == [("v2", "own")]
    assert used("--config", "c.toml") == [("v1", "released")]


def test_a_pinned_version_is_what_the_judge_is_asked_with(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    own_version(tmp_path / "own")
    common = ["audit", examples / "pension-openinference.json", "--format", "json", "--model", "openai/x"]
    with ModelServer(finds_nothing) as server:
        for pin, expected in (("", "v2"), (f'prompt_versions = {{"{SESSION}" = "v1"}}', "v1")):
            (tmp_path / "c.toml").write_text(f'[audit]\nprompts_dir = "own"\n{pin}\n')
            run = otel_drift(*common, "--api-base", server.url, "--config", "c.toml")
            assert [one["version"] for one in json.loads(run.stdout)["prompts"]] == [expected]
        (tmp_path / "c.toml").write_text(f'[audit]\nprompt_versions = {{"{SESSION}" = "v9"}}\n')
        refused = otel_drift(*common, "--api-base", server.url, "--config", "c.toml")

    assert (refused.returncode, "v9" in refused.stderr) == (2, True)


def test_constraints_and_examples_reach_the_judge(otel_drift: Run, examples: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps(EXAMPLE) + "\n")
    (tmp_path / "c.toml").write_text(
        '[audit]\nconstraints = ["A fee counts as CRITICAL."]\nexamples_file = "mine.jsonl"\n'
    )
    with ModelServer(finds_nothing) as server:
        run = otel_drift(
            "audit", examples / "pension-openinference.json", "--config", "c.toml",
            "--model", "openai/x", "--api-base", server.url,
        )  # fmt: skip
        system = server.requests[0].messages[0]["content"]

    assert run.returncode == 0, run.stderr
    assert "- A fee counts as CRITICAL." in system
    assert "## Example: a fee" in system
    assert "The fee is { {two}} euros a month." in system


def test_constraints_and_examples_make_another_result(tmp_path: Path) -> None:
    """A result judged under other rules is not found again."""
    plain, judge = AuditSettings(), RulesJudge()
    prints = {
        unit_fingerprint(FactualDrift(), session(), judge, told)
        for told in (
            plain,
            replace(plain, constraints=("One.",)),
            replace(plain, constraints=("Two.",)),
            replace(plain, examples={SESSION: ("x",)}),
            replace(plain, prompts_dir=str(own_version(tmp_path))),
        )
    }

    assert len(prints) == 5
    pinned = replace(plain, prompts_dir=str(tmp_path), prompt_versions={SESSION: "v1"})
    assert unit_fingerprint(FactualDrift(), session(), judge, pinned) in {
        unit_fingerprint(FactualDrift(), session(), judge, plain)
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("{{drift_types}}", ""), "no place"),
        (('settings = ["drift_types"', 'settings = ["tone", "drift_types"'), "tone"),
        (('inputs = ["session"]', 'inputs = ["session", "history"]'), "no value for history"),
        (('"quote": "Basic is 12 euros', '"quote": "Basic is 13 euros'), "is not in its data"),
        (('"grounding_status": "GROUNDED"', '"grounding_status": "SURE"'), "grounding_status"),
        (("```answer\n{", "```answer\n{{"), "no JSON"),
    ],
)
def test_what_is_wrong_with_a_prompt_of_ones_own_is_told(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    released = (Path(__file__).parents[1] / "prompts" / SESSION / "v1.md").read_text(encoding="utf-8")
    assert change[0] in released
    folder = own_version(tmp_path, text=released.replace(*change, 1))

    found = prompt_problems(SESSION, "v2", str(folder), AuditSettings())

    assert said in " ".join(found)
    assert prompt_problems(SESSION, "v1", None, AuditSettings()) == []


def test_a_prompt_nobody_asks_is_named(otel_drift: Run, tmp_path: Path) -> None:
    place = tmp_path / "own" / "factual_drift" / "sesion" / "v1.md"
    place.parent.mkdir(parents=True)
    place.write_text('+++\nid = "factual_drift/sesion"\nversion = "v1"\ninputs = ["session"]\n+++\nJudge.\n')

    run = otel_drift("prompts", "check", "--prompts-dir", "own")

    assert run.returncode == 2
    assert "no audit asks a prompt called factual_drift/sesion" in run.stdout
    assert "1 prompt is wrong" in run.stderr
    assert otel_drift("prompts", "check", "--prompts-dir", "gone").returncode == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "no JSON"),
        ("[]", "an example is"),
        (json.dumps({**EXAMPLE, "prompt": "no/prompt"}), "no prompt no/prompt"),
        (json.dumps({**EXAMPLE, "data": "```answer\n{}\n```"}), "without ```"),
        (json.dumps({**EXAMPLE, "data": "Another fee."}), "is not in its data"),
        (json.dumps({**EXAMPLE, "data": "x" * 30_000}), "longer than"),
        ("\n".join([json.dumps(EXAMPLE)] * 21), "at most 20"),
    ],
)
def test_examples_that_do_not_add_up_are_refused(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(line)

    with pytest.raises(ConfigError, match=said):
        worked_examples.load_examples(file)
