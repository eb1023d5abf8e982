"""Plugins: explicit names; an unknown or doubled one is an error that lists what is installed."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from otel_drift import plugins
from otel_drift.errors import ConfigError


@pytest.mark.parametrize("kind", plugins.KINDS)
def test_everything_declared_loads(kind: str) -> None:
    for name in plugins.installed(kind):
        assert callable(plugins.load(kind, name))


def test_an_unknown_name_lists_what_is_installed() -> None:
    with pytest.raises(ConfigError, match=r"no sink called 'jsonk'.*jsonl.*otlp"):
        plugins.load("sinks", "jsonk")


def test_a_doubled_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("x", "one:A", "otel_drift.sinks"), EntryPoint("x", "two:B", "otel_drift.sinks")]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)

    with pytest.raises(ConfigError, match="called 'x'"):
        plugins.installed("sinks")


def test_a_plugin_that_cannot_be_imported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("x", "no_such_module_at_all:A", "otel_drift.sinks")]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)

    with pytest.raises(ConfigError, match="'x' cannot be loaded: No module named"):
        plugins.load("sinks", "x")
