"""What a Langfuse project needs once: score configs for people, a review queue, a dashboard; and how to be alerted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_drift.errors import PlatformError
from otel_drift.model import SEVERITY_SCORES
from otel_drift_connectors.langfuse.connection import Connection
from otel_drift_connectors.langfuse.review_queue import CONFIRMED, LONGEST_NAME, REJECTED, SUFFIX, named
from otel_drift_connectors.langfuse.scores import NONE, SUPERSEDED

SEVERITY, TYPE = "drift_severity", "contradiction_type"
DASHBOARD = "otel-drift"
_CONFIGS = "/api/public/score-configs"
_QUEUES = "/api/public/annotation-queues"
_WIDGETS, _DASHBOARDS = "/api/public/unstable/dashboard-widgets", "/api/public/unstable/dashboards"
_WIDTH, _HEIGHT = 6, 5

MONITOR = f"""\
an alert cannot be made by API; in the web interface, Alerts > New alert:
  source      Scores (categorical), count
  filters     name = {SEVERITY} · value any of CRITICAL (or CRITICAL, MAJOR)
  window      15 minutes, evaluated every minute; threshold >= 1
  automation  Slack, GitHub, or a webhook (port 443 or 80 only)"""


def set_up(
    connection: Connection, audits: Sequence[str], *, queue: str | None = None, dashboard: bool = False
) -> Iterator[str]:
    """Make what is missing; a second time changes nothing.

    Args:
        connection: The project.
        audits: Names of the audits people review.
        queue: The annotation queue to make; None = none.
        dashboard: Whether to make a dashboard (the server's API for it is unstable).

    Yields:
        what was made or was there, and the recipe of a monitor, a line each.

    Raises:
        ConfigError: the keys are refused.
        PlatformError: the server failed. What it may have made unseen is found by the next run.
    """
    yield _config(connection, SEVERITY, SEVERITY_SCORES, "The worst finding of otel-drift here.")[1]
    reviewed = [audit + SUFFIX for audit in audits if len(audit + SUFFIX) <= LONGEST_NAME]
    configs: dict[str, str] = {}
    for name in reviewed if queue else ():
        about = "Is what otel-drift found here so? Confirmed or rejected, for all findings of the audit on it."
        configs[name], said = _config(connection, name, {CONFIRMED: 1, REJECTED: 0}, about)
        yield said
    if queue:
        yield _queue(connection, queue, configs)
    if dashboard:
        yield from _dashboard(connection)
    yield from MONITOR.splitlines()


def _config(connection: Connection, name: str, categories: Mapping[Any, float], about: str) -> tuple[str, str]:
    """Its id and what to say. A second one of a name would be made, and none can be deleted: so it is looked for."""
    found = named(connection, connection.api.score_configs.get, name)
    if found is not None:
        labels = {one.label for one in found.categories or ()}
        odd = "" if labels >= set(categories) else f", but with other values than {', '.join(categories)}"
        return found.id, f"score config {name}: is there{odd}"
    body = {
        "name": name,
        "dataType": "CATEGORICAL",
        "categories": [{"label": label, "value": value} for label, value in categories.items()],
        "description": about,
    }
    return _made(connection, _CONFIGS, body), f"score config {name}: made"


def _queue(connection: Connection, name: str, configs: Mapping[str, str]) -> str:
    found = named(connection, connection.api.annotation_queues.list_queues, name)
    if found is None:
        about = "Findings of otel-drift that a person is to look at: confirm or reject."
        _made(connection, _QUEUES, {"name": name, "description": about, "scoreConfigIds": list(configs.values())})
        return f"annotation queue {name}: made"
    missing = [one for one, of in configs.items() if of not in found.score_config_ids]
    if missing:
        return (
            f"annotation queue {name}: is there, but without the scores {', '.join(missing)}, and the API cannot add "
            "them: add them in the web interface, or name another queue"
        )
    return f"annotation queue {name}: is there"


def _dashboard(connection: Connection) -> Iterator[str]:
    api = connection.api.unstable
    try:
        board = named(connection, api.dashboards.list, DASHBOARD)
        if board is None:
            body = {"name": DASHBOARD, "description": "What otel-drift found."}
            board_id, placed = _made(connection, _DASHBOARDS, body), set()
        else:
            placed = {getattr(one, "widget_id", None) for one in board.definition.widgets}
            board_id = board.id
        yield f"dashboard {DASHBOARD}: {'made' if board is None else 'is there'}"
        for number, widget in enumerate(_widgets()):
            known = named(connection, api.dashboard_widgets.list, widget["name"])
            widget_id = known.id if known is not None else _made(connection, _WIDGETS, widget)
            if widget_id not in placed:
                _place(connection, board_id, widget_id, number)
            yield f"widget {widget['name']}: {'made' if known is None else 'is there'}"
    except PlatformError as error:
        if error.status not in (400, 404, 405):
            raise
        yield (
            f"dashboard: this server's (unstable) API takes none as we make it ({error.status}); make widgets by hand: "
            f"view Scores (categorical), count by value, filter name = {SEVERITY}"
        )


def _place(connection: Connection, board_id: str, widget_id: str, number: int) -> None:
    column, row = number % 2 * _WIDTH, number // 2 * _HEIGHT
    body = {"type": "widget", "widgetId": widget_id, "x": column, "y": row, "width": _WIDTH, "height": _HEIGHT}
    connection.http.request("POST", f"{_DASHBOARDS}/{board_id}/placements", json=body, retried=False)


def _widgets() -> list[dict[str, Any]]:
    """Answers and sessions are counted apart: one finding is a score on its answer, its trace and its session."""
    findings = _filter("stringValue", "none of", [NONE, SUPERSEDED])
    return [
        _widget("otel-drift: answers by severity", "BAR_TIME_SERIES", SEVERITY, "span", findings),
        _widget("otel-drift: answers by type", "HORIZONTAL_BAR", TYPE, "span", findings),
        _widget(
            "otel-drift: audited sessions by severity",
            "BAR_TIME_SERIES",
            SEVERITY,
            "session",
            _filter("stringValue", "none of", [SUPERSEDED]),
        ),
        _widget(
            "otel-drift: critical answers", "NUMBER", SEVERITY, "span", _filter("stringValue", "any of", ["CRITICAL"])
        ),
    ]


def _widget(name: str, chart: str, score: str, target: str, values: dict[str, Any]) -> dict[str, Any]:
    of_target = {"column": "metadata", "type": "stringObject", "key": "target", "operator": "=", "value": target}
    return {
        "name": name,
        "description": f"Count of {score} scores of otel-drift",
        "view": "scores-categorical",
        "dimensions": [] if chart == "NUMBER" else [{"field": "stringValue"}],
        "metrics": [{"measure": "count", "agg": "count"}],
        "filters": [
            {"column": "name", "type": "string", "operator": "=", "value": score},
            values,
            of_target,
        ],
        "chartType": chart,
    }


def _filter(column: str, operator: str, values: list[str]) -> dict[str, Any]:
    return {"column": column, "type": "stringOptions", "operator": operator, "value": values}


def _made(connection: Connection, path: str, body: Mapping[str, Any]) -> str:
    # Not sent again where the answer is lost: it would be made twice, and the next run sees whether it was.
    made: str = connection.http.request("POST", path, json=body, retried=False).json()["id"]
    return made
