"""A threshold is written into a settings file so that nothing else of it changes, or not at all."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from otel_drift.calibration.settings_file import write_min_confidence
from otel_drift.config import load_settings
from otel_drift.errors import ConfigError
from otel_drift.sample_config import sample_config


def written(tmp_path: Path, before: str | None) -> str:
    path = tmp_path / "otel-drift.toml"
    if before is not None:
        path.write_text(before)
    write_min_confidence(path, 0.62, "measured\non 40 items")
    return path.read_text()


@pytest.mark.parametrize(
    "before",
    [
        None,
        "",
        "[judge]\nmodel = 'x'  # kept",
        "[audit.options.source_conflict]\nmin_confidence = 0.1  # old\npair_threshold = 2\n\n[run]\nmax_calls = 3\n",
        "[audit.options.source_conflict]\n[run]\nmax_calls = 3\n",
        "[audit.options.longform_drift]\nrisk_level = 'high'\n",
        sample_config(),
    ],
)
def test_only_the_one_key_changes(tmp_path: Path, before: str | None) -> None:
    wanted = tomllib.loads(before or "")
    wanted.setdefault("audit", {}).setdefault("options", {}).setdefault("source_conflict", {})["min_confidence"] = 0.62

    after = written(tmp_path, before)

    assert tomllib.loads(after) == wanted
    assert "min_confidence = 0.62  # measured on 40 items" in after
    assert "# kept" in after or "# kept" not in (before or "")
    settings = load_settings(tmp_path / "otel-drift.toml")
    assert settings.audit.options["source_conflict"]["min_confidence"] == 0.62


@pytest.mark.parametrize(
    "before",
    [
        "[audit]\noptions = {source_conflict = {pair_threshold = 2}}\n",
        "[audit]\noptions = 3\n",
        "[audit\n",
    ],
)
def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(tmp_path: Path, before: str) -> None:
    with pytest.raises(ConfigError):
        written(tmp_path, before)

    assert (tmp_path / "otel-drift.toml").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["otel-drift.toml"]


def test_the_mode_of_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "otel-drift.toml"
    path.write_text("")
    path.chmod(0o600)
    write_min_confidence(path, 0.5, "x")

    assert path.stat().st_mode & 0o777 == 0o600
