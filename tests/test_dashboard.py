"""The Grafana dashboard of the examples: no server for it here, so its structure and every name in it are checked."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboard import dashboard, panels, queries, statements
from otel_drift.ledger import schema
from otel_drift.telemetry.instruments import INSTRUMENTS

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NAMES = {one.prometheus: one for one in INSTRUMENTS.values()}
_SELECTOR = re.compile(r"\b(otel_drift_\w+)(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|on|without) ?\(([^)]*)\)")
_TARGET_LABELS = {"job", "instance"}


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((EXAMPLES / "prometheus" / "otel-drift.rules.yml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def expressions() -> dict[str, str]:
    asked = {f"{panel['title']} {number}": one for panel in panels() for number, one in enumerate(queries(panel))}
    asked |= {rule["alert"]: rule["expr"] for rule in rules()}
    variables = [one for one in dashboard()["templating"]["list"] if one["type"] == "query"]
    return asked | {one["name"]: one["query"]["query"] for one in variables}


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    all_panels = dashboard()["panels"]

    assert len({panel["id"] for panel in all_panels}) == len(all_panels)
    for panel in all_panels:
        at = panel["gridPos"]
        assert at["x"] >= 0, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
    for one, other in combinations(all_panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"{one['title']} and {other['title']}"


def test_every_data_source_is_chosen_by_a_variable() -> None:
    """An id of somebody's own Grafana would be found in no other."""
    variables = {one["name"]: one for one in dashboard()["templating"]["list"]}
    kinds = {f"${{{name}}}": one["query"] for name, one in variables.items() if one["type"] == "datasource"}

    asked = [panel["datasource"] for panel in panels()]
    asked += [target["datasource"] for panel in panels() for target in panel["targets"]]
    asked += [one["datasource"] for one in variables.values() if "datasource" in one]
    for source in asked:
        assert kinds[source["uid"]] == source["type"]


def test_every_panel_asks_and_no_question_is_named_twice() -> None:
    for panel in panels():
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(set(references)) == len(references), panel["title"]


def test_every_variable_used_is_one_there_is() -> None:
    variables = {one["name"] for one in dashboard()["templating"]["list"]}
    for panel in panels():
        for target in panel["targets"]:
            used = set(re.findall(r"\$\{?(\w+)", target.get("expr", "") + target.get("rawSql", "")))
            assert used <= variables | {"__rate_interval", "__range", "__timeFilter"}, panel["title"]


@pytest.mark.parametrize("expression", expressions().values(), ids=expressions())
def test_metrics_and_labels_asked_for_exist(expression: str) -> None:
    labels = set()
    for name, selector in _SELECTOR.findall(expression):
        histogram = NAMES.get(re.sub(r"_(bucket|sum|count)$", "", name))
        one = NAMES.get(name) or histogram
        assert one is not None, name
        labels |= set(one.labels) | ({"le"} if name.endswith("_bucket") else set())
        matched = set(re.findall(r"(\w+) ?(?:=~|!~|!=|=)", selector))
        assert matched <= set(one.labels) | _TARGET_LABELS, name
    for grouping in _GROUPING.findall(expression):
        assert {part.strip() for part in grouping.split(",")} <= labels | _TARGET_LABELS, grouping


def test_every_legend_names_labels_that_its_question_keeps() -> None:
    for panel in panels():
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
            kept = {
                part.strip()
                for group in re.findall(r"by ?\(([^)]*)\)", target.get("expr", ""))
                for part in group.split(",")
            }
            assert named <= kept | _TARGET_LABELS, panel["title"]


def test_all_metrics_are_shown_or_watched() -> None:
    shown = " ".join(expressions().values())
    missing = {name for name in NAMES if not re.search(rf"\b{name}(_bucket)?\b", shown)}

    assert missing <= {"otel_drift_turns_total", "otel_drift_degraded", "otel_drift_inbox_spans"}


def test_sql_asks_tables_there_are() -> None:
    (statement,) = statements()
    tables = set(re.findall(r"\b(otel_drift_\w+)\b", statement))

    assert tables <= schema.metadata.tables.keys()


def test_every_alert_says_what_it_is_about() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}
