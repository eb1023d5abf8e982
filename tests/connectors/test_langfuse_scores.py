"""The fake's scores behave as the recorded server did: which write wins, what an update keeps, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from langfuse_observations import recorded
from langfuse_scores import Scores
from langfuse_server import Server, langfuse_server
from otel_drift import retry

OPENAPI = "contracts/langfuse-openapi-4.16.yml"
FOLDER = "recorded/langfuse/scores"
SHOWN = ("id", "name", "source", "value", "dataType", "environment", "comment", "metadata", "subject", "configId")
FILES = (
    "event-time-order",
    "changed-name-or-type",
    "ingestion-ok-read-update",
    "ingestion-details",
    "ingestion-invalid",
    "ingestion-odd",
    "ingestion-with-config",
    "scores-endpoint",
)


@pytest.fixture
def server(shared: Path) -> Iterator[Server]:
    with retry.testing(), langfuse_server(shared / OPENAPI) as server:
        yield server
        server.complaints.clear()  # much of what was recorded errs on purpose


@pytest.mark.parametrize("name", FILES)
def test_recorded_exchanges_are_answered_alike(name: str, server: Server, shared: Path) -> None:
    """Statuses, what was accepted and refused of a batch, and every row read later."""
    scores = Scores(server)
    config = {"id": "7585b263-3fc7-4764-9d03-25145b68cc5b", "name": "otel-drift.severity", "dataType": "CATEGORICAL"}
    labels = ("none", "low", "medium", "high", "critical")
    scores.configs[config["id"]] = {**config, "categories": [{"label": label} for label in labels]}
    for exchange in recorded(shared / FOLDER / f"{name}.json")["exchanges"]:
        request, expected = exchange["request"], exchange["response"]
        if isinstance(request["body"], str) or request.get("headers") or request.get("auth"):
            continue  # bodies that were not kept; keys are a test of their own
        if "at once" not in exchange.get("about", "") and request["method"] == "GET":
            scores.settle()
        query = [tuple(one) for one in request["query"]]
        auth = (server.public_key, server.secret_key)
        url = server.url + request["path"]
        given = httpx.request(request["method"], url, params=query, json=request["body"], auth=auth, timeout=60)
        about = (name, exchange.get("about"))
        assert given.status_code == expected["status"], about
        if request["method"] == "GET":
            rows = _rows(given.json())
            if name == "scores-endpoint":  # recorded before the last write could be read
                rows = [row for row in rows if row["name"] != "otel-drift.orphan"]
            assert rows == _rows(expected["body"]), about
        elif expected["status"] == 207:
            assert _fates(given.json()) == _fates(expected["body"]), about


def _rows(body: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [{key: row[key] for key in (*SHOWN, "timestamp") if key in row} for row in body["data"]]
    for row in rows:
        if row["id"] == "od-6505f2-single":
            row["timestamp"] = "the time of receipt"
    return sorted(rows, key=lambda row: (row["id"], row["name"]))


def _fates(body: dict[str, Any]) -> tuple[set[tuple[str, int]], set[tuple[str, int, str]]]:
    accepted = {(one["id"], one["status"]) for one in body["successes"]}
    return accepted, {(one["id"], one["status"], one["message"]) for one in body["errors"]}
