"""Settings: file, environment and command line, in this order of weight."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from otel_drift.config import Settings, default_ledger, load_settings
from otel_drift.errors import ConfigError
from otel_drift.sample_config import sample_config


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_sample_file_holds_every_setting_with_its_default(tmp_path: Path) -> None:
    file = tmp_path / "sample.toml"
    file.write_text(sample_config())

    assert load_settings(file).model_dump() == Settings().model_dump()
    for name, section in Settings.model_fields.items():
        for key in getattr(section.annotation, "model_fields", ()):
            assert f"OTEL_DRIFT_{name.upper()}__{key.upper()}" in sample_config()


def test_the_command_line_wins_over_the_environment_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("otel-drift.toml").write_text('[judge]\nmodel = "file"\nseed = 1\ntimeout = 5\n')
    monkeypatch.setenv("OTEL_DRIFT_JUDGE__MODEL", "environment")
    monkeypatch.setenv("OTEL_DRIFT_JUDGE__SEED", "2")

    judge = load_settings(overrides={"judge": {"model": "command-line", "api_base": None}}).judge

    assert (judge.model, judge.seed, judge.timeout) == ("command-line", 2, 5.0)


def test_a_file_named_by_the_environment_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[run]\nsample = 0.5\n")
    monkeypatch.setenv("OTEL_DRIFT_CONFIG", str(tmp_path / "other.toml"))

    assert load_settings().run.sample == 0.5


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[judge]\nmodle = 'x'\n", "judge.modle"),
        ("[run]\nsample = 7\n", "run.sample"),
        ("[nonsense]\nx = 1\n", "nonsense"),
        ("[judge\n", "otel-drift.toml"),
        ("[audit.severity_rules]\nHUGE = 'x'\n", "HUGE"),
    ],
)
def test_what_is_wrong_is_named(text: str, named: str) -> None:
    Path("otel-drift.toml").write_text(text)

    with pytest.raises(ConfigError, match=named):
        load_settings()


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml.*otel-drift init"):
        load_settings(Path("gone.toml"))


def test_the_default_ledger_is_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert tmp_path / "otel-drift" / "ledger.sqlite3" == default_ledger()


def test_the_sample_is_toml() -> None:
    assert set(Settings.model_fields) == set(tomllib.loads(sample_config()))


def test_a_wrong_value_is_reported_where_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("otel-drift.toml").write_text("[judge]\ntimeout = -1\n")
    monkeypatch.setenv("OTEL_DRIFT_JUDGE__SEED", "x")
    with pytest.raises(ConfigError) as raised:
        load_settings(overrides={"run": {"sample": 2.0}})
    told = dict(part.split(": ", 1) for part in str(raised.value).split("; "))
    assert told["command line"].startswith("run.sample: ")
    assert told["OTEL_DRIFT_JUDGE__SEED"].startswith("judge.seed: ")
    assert told["otel-drift.toml"].startswith("judge.timeout: ")
