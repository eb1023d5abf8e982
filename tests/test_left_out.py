"""Sessions that an audit leaves out, and inputs that hold none, are told with the reason: never silently clean."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_spans_without_a_chat_are_said_to_hold_none(more: tuple[str, ...], otel_drift: Run, tmp_path: Path) -> None:
    span = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "GET /cart",
            "startTimeUnixNano": "1764500000000000000", "endTimeUnixNano": "1764500000100000000"}  # fmt: skip
    (tmp_path / "http.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    run = otel_drift("audit", "http.json", "--ledger", "l.db", *more)
    assert run.returncode == 0
    assert "otel-drift: no chat found in 1 span; `otel-drift inspect` says what is looked for" in run.stderr


def test_a_sample_and_a_time_without_sessions_are_named(otel_drift: Run, examples: Path) -> None:
    sampled = otel_drift("audit", examples, "--ledger", "l.db", "--sample", "0.000001")
    assert "0 sessions audited" in sampled.stderr
    assert "otel-drift: 5 sessions outside the share of --sample" in sampled.stderr
    early = otel_drift("audit", examples, "--ledger", "l.db", "--since", "1999-01-01", "--until", "1999-01-02")
    assert "otel-drift: no session was active in the time asked for" in early.stderr
