"""From settings to the parts of a service."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from otel_drift import plugins, retry
from otel_drift.cli import wiring
from otel_drift.cli.serve import opened
from otel_drift.config import Settings

FOLLOWED = "phoenix:http://127.0.0.1:1?project=shop"


def sinks_of(named: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sinks that are opened where Phoenix is followed."""
    monkeypatch.chdir(folder)
    settings = Settings()
    settings.serve.http = settings.serve.grpc = settings.serve.admin = ""
    settings.serve.follow = [FOLLOWED]
    settings.output.sinks = named
    settings.ledger.url = str(folder / "ledger.sqlite3")
    sinks = []
    open_sink = wiring.open_sink
    monkeypatch.setattr(wiring, "open_sink", lambda spec, *rest: (sinks.append(spec), open_sink(spec, *rest))[1])
    with retry.testing(), ExitStack() as stack:
        opened(settings, stack, threading.Event())
    return sinks


@pytest.mark.parametrize(
    ("named", "expected"), [([], [FOLLOWED]), (["none"], []), (["jsonl:findings.jsonl"], ["jsonl:findings.jsonl"])]
)
def test_findings_go_back_to_a_followed_platform_unless_it_is_said_where_they_go(
    named: list[str], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``none`` is nowhere, as for a batch: not even back."""
    assert sinks_of(named, tmp_path, monkeypatch) == expected


def test_a_platform_that_takes_no_findings_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = plugins.installed
    monkeypatch.setattr(plugins, "installed", lambda kind: [] if kind == "sinks" else installed(kind))
    assert sinks_of([], tmp_path, monkeypatch) == []
