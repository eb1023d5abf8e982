"""``otel-drift calibrate`` as it is typed: figures, picture, settings file, price, exit statuses, clear errors."""

from __future__ import annotations

import html.parser
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer, Reply, Request
from otel_drift.calibration.plot import page, write_plot
from otel_drift.errors import ConfigError

PSEUDO = Path(__file__).parents[2] / "examples" / "pseudo_conflicts.jsonl"
Run = Callable[..., subprocess.CompletedProcess[str]]

FIGURES = {"n", "auroc", "balanced_accuracy", "threshold", "precision", "recall", "p50_ms", "intervals"}


def sample(shared: Path, suite: str, path: Path, count: int = 60) -> Path:
    """Every n-th line of a set's dev half."""
    lines = (shared / "benchmarks" / suite / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    chosen = lines[:: max(1, len(lines) // count)]
    path.write_text("\n".join(chosen), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("audit", "suite"),
    [
        ("grounding", "begin_wow"),
        ("grounding", "mtrag_human"),
        ("contradiction", "chatprotect"),
        ("passage_conflict", "ramdocs"),
        ("qualifier", "qualifier_pairs"),
        ("qualifier", "certainty"),
    ],
)
def test_the_command_as_written(otel_drift: Run, shared: Path, tmp_path: Path, audit: str, suite: str) -> None:
    file = sample(shared, suite, tmp_path / "dev.jsonl")

    run = otel_drift("calibrate", file, "--audit", audit, "--judge", "rules", "--format", "json")

    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report.keys() >= FIGURES
    assert report["n"] + report["inconclusive"]["n"] + sum(report["left_out"].values()) >= 60
    for name in ("auroc", "balanced_accuracy", "precision", "recall", "threshold"):
        assert 0 <= report[name] <= 1, name
    for name in ("auroc", "balanced_accuracy"):
        low, high = report["intervals"][name]
        assert low <= report[name] <= high, name
    assert report["intervals"]["bootstrap"]["resamples"] == 1000


def test_the_embedded_judge_tells_grounded_from_ungrounded(otel_drift: Run, shared: Path, tmp_path: Path) -> None:
    """A fifth of begin_wow: far above a toss-up, within noise of what the bench measures on all of it (.93)."""
    file = sample(shared, "begin_wow", tmp_path / "dev.jsonl", 90)

    report = json.loads(
        otel_drift("calibrate", file, "--audit", "grounding", "--judge", "rules", "--format", "json").stdout
    )

    assert report["auroc"] > 0.85
    assert report["better_than_chance"] is True


def test_the_gate_on_the_authored_set_has_rates_a_stratum_and_says_what_it_cannot_show(otel_drift: Run) -> None:
    arguments = ("calibrate", PSEUDO, "--audit", "source_conflict", "--judge", "rules")
    report = json.loads(otel_drift(*arguments, "--format", "json").stdout)
    text = otel_drift(*arguments)

    strata = report["strata"]
    assert {name: one["n"] for name, one in strata.items()} == {
        "real": 30, "temporal": 30, "contextual": 30, "consistent": 30, "apparent": 60
    }  # fmt: skip
    assert strata["real"]["missed_conflict_rate"] == report["missed_conflict_rate"]
    alarms = sum(strata[name]["false_alarm_rate"] * 30 for name in ("temporal", "contextual", "consistent"))
    assert alarms / 90 == pytest.approx(report["false_alarm_rate"], abs=1e-3)
    assert [rule["rule"] for rule in report["too_small"]] == ["rule_of_three"]
    assert text.returncode == 0
    assert "too little to decide (rule_of_three)" in text.stdout
    assert "missed conflict rate" in text.stdout


def test_two_runs_say_the_same_but_for_the_time(otel_drift: Run) -> None:
    arguments = ("calibrate", PSEUDO, "--audit", "passage_conflict", "--format", "json")
    first, second = (json.loads(otel_drift(*arguments).stdout) | {"p50_ms": 0} for _ in range(2))

    assert first == second


def conflict_of(request: Request) -> Reply:
    """Reports the first two passages as a conflict, the surer the longer the question: graded, and never the same."""
    data = request.messages[-1]["content"].splitlines()
    shown = [json.loads(line) for line in data if line.startswith('{"ref": "t1.')]
    asked = next(json.loads(line) for line in data if line.startswith('{"question": "'))
    sides = {}
    for side, one in zip("ab", shown[-2:], strict=True):
        quote = one["text"].split(". ")[0]
        sides |= {f"source_{side}": one["ref"], f"claim_{side}": quote, f"quote_{side}": quote}
    sure = min(0.99, len(asked["question"]) / 100)
    conflict = {**sides, "severity": "MATERIAL", "explanation": "They differ.", "confidence": sure}
    return Reply({"conflicts": [conflict], "conflict_notes": "They differ."})


def test_a_models_threshold_for_the_target_reaches_the_gate(otel_drift: Run, tmp_path: Path) -> None:
    """Measured with a model, written to the settings; the same command again costs no call; price is told first."""
    config, ledger, labels = tmp_path / "otel-drift.toml", tmp_path / "ledger.db", tmp_path / "labels.jsonl"
    labels.write_text("\n".join(PSEUDO.read_text(encoding="utf-8").splitlines()[:40]), encoding="utf-8")
    config.write_text("[run]\nmax_calls = 500\n")
    with ModelServer(conflict_of) as server:
        arguments = (
            "calibrate", labels, "--audit", "passage_conflict", "--model", "openai/scripted", "--api-base", server.url,
            "--target-miss-rate", "0.2", "--ledger", ledger, "--format", "json",
        )  # fmt: skip
        env = {"OPENAI_API_KEY": "sk-test"}
        planned = otel_drift(*arguments, "--dry-run", env=env)
        assert server.requests == []
        first = otel_drift(*arguments, "--write-config", config, env=env)
        asked = len(server.requests)
        second = otel_drift(*arguments, "--threshold", "0.4", env=env)
        assert len(server.requests) == asked

    assert (planned.returncode, json.loads(planned.stdout)["calls"]) == (0, 40)
    assert first.returncode == 0, first.stderr
    report = json.loads(first.stdout)
    assert report["n"] == 40
    assert "40 items: 40 calls at first" in first.stderr
    assert "price unknown" in first.stderr
    wanted = report["target"]["threshold"]
    assert report["target"]["miss_rate"] <= 0.2
    assert tomllib.loads(config.read_text()) == {
        "run": {"max_calls": 500}, "audit": {"options": {"source_conflict": {"min_confidence": wanted}}}
    }  # fmt: skip
    again = json.loads(second.stdout)
    assert (again["calls"], again["threshold"], again["auroc"]) == (0, 0.4, report["auroc"])


def test_no_threshold_worth_writing_leaves_the_file_alone(otel_drift: Run, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"

    run = otel_drift("calibrate", PSEUDO, "--audit", "passage_conflict", "--write-config", config)

    assert run.returncode == 5
    assert "is left alone: only flagging everything" in run.stderr
    assert not config.exists()


def test_a_judge_that_never_answers_leaves_nothing_to_measure(otel_drift: Run, tmp_path: Path) -> None:
    labels = tmp_path / "few.jsonl"
    labels.write_text("\n".join(PSEUDO.read_text(encoding="utf-8").splitlines()[:3]), encoding="utf-8")
    with ModelServer([Reply("no JSON at all")]) as server:
        run = otel_drift(
            "calibrate", labels, "--audit", "passage_conflict", "--model", "openai/x", "--api-base", server.url,
            "--format", "json", env={"OPENAI_API_KEY": "k"},
        )  # fmt: skip

    assert run.returncode == 5
    report = json.loads(run.stdout)
    assert (report["n"], report["auroc"], report["inconclusive"]["n"]) == (0, None, 3)
    assert report["inconclusive"]["reasons"] == {"answer_not_json": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--audit", "honesty"), "--audit honesty: use grounding"),
        (("--audit", "passage_conflict", "--judge", "gpt"), "name a model with --model"),
        (("--audit", "passage_conflict", "--judge", "rules", "--model", "x"), "asks no model"),
        (("--audit", "qualifier", "--write-config", "c.toml"), "--write-config is for passage_conflict"),
        (("--audit", "passage_conflict", "--plot", "curve.gif"), "has to end in .html or .png"),
        (("--audit", "passage_conflict", "--plot", "gone/curve.html"), "no such folder"),
        (("--audit", "passage_conflict", "--threshold", "2"), "--threshold"),
    ],
)
def test_usage_errors_are_told_before_anything_is_judged(
    otel_drift: Run, arguments: tuple[str, ...], message: str
) -> None:
    run = otel_drift("calibrate", PSEUDO, *arguments)

    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr


class _Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_self_contained_and_escaped(otel_drift: Run, tmp_path: Path) -> None:
    hostile = '"><script>alert(1)</script>\u202e'
    lines = [json.loads(one) | {"suite": hostile} for one in PSEUDO.read_text(encoding="utf-8").splitlines()[:40]]
    labels, plot = tmp_path / "l.jsonl", tmp_path / "plot.html"
    labels.write_text("\n".join(map(json.dumps, lines)))

    run = otel_drift("calibrate", labels, "--audit", "passage_conflict", "--plot", plot)

    assert run.returncode == 0, run.stderr
    reader = _Reader()
    reader.feed(plot.read_text(encoding="utf-8"))
    assert reader.tags.count("svg") == 2
    assert not {"script", "img", "link", "iframe", "object"} & set(reader.tags)
    assert not {"src", "href", "onload"} & {name for name, _ in reader.attributes}
    assert "url(" not in plot.read_text(encoding="utf-8")
    assert "<script>alert(1)" in reader.text
    assert "\u202e" not in plot.read_text(encoding="utf-8")


def report_of(otel_drift: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        otel_drift("calibrate", PSEUDO, "--audit", "source_conflict", "--format", "json").stdout
    )
    return found


def test_every_point_of_the_curve_is_in_the_picture(otel_drift: Run) -> None:
    report = report_of(otel_drift)
    known = [point for point in report["curve"] if point["threshold"] is not None]

    # Three lines of rates over the thresholds, one ROC line that has the end without a threshold, too.
    assert page(report).count("<circle") == 3 * len(known) + len(report["curve"])


def test_png_is_drawn_by_matplotlib_and_its_absence_is_told(
    otel_drift: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = report_of(otel_drift)
    write_plot(tmp_path / "plot.png", report)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'otel-drift\[calibrate\]'"):
        write_plot(tmp_path / "other.png", report)
