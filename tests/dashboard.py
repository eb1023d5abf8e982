"""The example's Grafana dashboard, its questions as Prometheus and PostgreSQL get them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "examples" / "grafana" / "otel-drift.json"
_TIMES = {"$__rate_interval": "1m", "$__range": "1m", "$__interval": "1m"}


def dashboard() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(FILE.read_text())
    return made


def panels() -> list[dict[str, Any]]:
    """All that ask something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries(panel: dict[str, Any]) -> list[str]:
    """The PromQL of a panel with every variable filled in (all values)."""
    return [_filled(target["expr"]) for target in panel["targets"] if "expr" in target]


def statements() -> list[str]:
    """The SQL of the dashboard, over all time."""
    found = [target["rawSql"] for panel in panels() for target in panel["targets"] if "rawSql" in target]
    return [re.sub(r"\$__timeFilter\((.*)\)$", r"(\1) <= now()", sql, flags=re.M) for sql in found]


def _filled(query: str) -> str:
    for name, value in _TIMES.items():
        query = query.replace(name, value)
    return re.sub(r"\$\{?\w+\}?", ".*", query)
