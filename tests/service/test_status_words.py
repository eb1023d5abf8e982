"""What `otel-drift status` says to people is in their words."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from otel_drift.cli.status import _lines


def test_results_of_the_day_are_named_as_the_audit_names_them() -> None:
    outcomes = {"clean": 1, "findings": 4, "not_applicable": 5}
    process: dict[str, Any] = {
        "process_id": "box-1",
        "state": "running",
        "started": "2026-11-30",
        "stopped": None,
        "done": outcomes,
    }
    process["heard_seconds_ago"] = 1.0
    told: dict[str, Any] = {
        "ledger": "l.db",
        "processes": [process],
        "sessions": {"oldest_due_seconds": 0, "open": 0, "due": 0, "held": 0, "put_off": {}},
        "kept": {"spans": 0, "bytes": 0},
        "today": {"results": 10, "outcomes": outcomes},
        "budget": {"cost": 0.0, "tokens": 0, "calls": 0, "limits": {}},
    }
    lines = list(_lines(defaultdict(dict, told)))
    assert "          sessions it audited: 1 clean, 4 with findings, 5 not applicable" in lines
    assert "today     10 results: 1 clean, 4 with findings, 5 not applicable" in lines
