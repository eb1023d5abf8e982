"""From settings to the parts of a service."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from otel_drift import retry
from otel_drift.cli import wiring
from otel_drift.cli.serve import opened
from otel_drift.config import Settings

FOLLOWED = "phoenix:http://127.0.0.1:1?project=shop"


@pytest.mark.parametrize(
    ("named", "expected"), [([], [FOLLOWED]), (["none"], []), (["jsonl:findings.jsonl"], ["jsonl:findings.jsonl"])]
)
def test_findings_go_back_to_a_followed_platform_unless_it_is_said_where_they_go(
    named: list[str], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``none`` is nowhere, as for a batch: not even back."""
    monkeypatch.chdir(tmp_path)
    settings = Settings()
    settings.serve.http = settings.serve.grpc = settings.serve.admin = ""
    settings.serve.follow = [FOLLOWED]
    settings.output.sinks = named
    settings.ledger.url = str(tmp_path / "ledger.sqlite3")
    sinks = []
    open_sink = wiring.open_sink
    monkeypatch.setattr(wiring, "open_sink", lambda spec, *rest: (sinks.append(spec), open_sink(spec, *rest))[1])

    with retry.testing(), ExitStack() as stack:
        opened(settings, stack, threading.Event())

    assert sinks == expected
