"""The fake Langfuse server answers as the real one did when it was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from langfuse_contract import contract
from langfuse_observations import recorded
from langfuse_server import Server, langfuse_server

RECORDED = "recorded/langfuse"
OPENAPI = "contracts/langfuse-openapi-4.16.yml"
KNOWN = ("/api/public/v2/observations", "/api/public/health", "/api/public/projects")


@pytest.fixture
def server(shared: Path) -> Iterator[Server]:
    with langfuse_server(shared / OPENAPI) as server:
        server.observations.add_recorded(shared / RECORDED / "sessions-all-fields")
        yield server


def exchanges(shared: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((shared / RECORDED).rglob("*.json*")):
        file = recorded(path)
        for exchange in file.get("exchanges", [file]):
            yield path.name, exchange


def test_recorded_successes_satisfy_the_openapi(shared: Path) -> None:
    """What judges our requests must find nothing wrong with what a real server accepted."""
    judge = contract(shared / OPENAPI)
    judged = 0
    for name, exchange in exchanges(shared):
        request, response = exchange["request"], exchange["response"]
        match = judge.match(request["path"])
        body = response["body"]
        if match is None or response["status"] != 200 or request["method"] not in judge.methods(match[0]):
            continue
        if isinstance(body, dict) and isinstance(body.get("data"), list):
            body = {**body, "data": body["data"][:5]}
        judged += 1
        assert not judge.answer_problems(match[0], request["method"], 200, body), (name, request)
        if "errors" not in name and "v3-filters" not in name:  # a time without a zone is no date-time, and accepted
            query = [(key, value) for key, value in request["query"] if key not in ("bogus", "page")]
            assert not judge.request_problems(match[0], request["method"], query, request["body"]), (name, request)
    assert judged > 250


def test_every_recorded_read_is_answered_alike(shared: Path, server: Server) -> None:
    """Pages, cursors, cuts, filters, refusals, missing keys and gone endpoints: status and body."""
    asked = 0
    client = httpx.Client(base_url=server.url, timeout=60)
    for name, exchange in exchanges(shared):
        request, response = exchange["request"], exchange["response"]
        gone = response["status"] == 404 and name == "404-legacy.json"
        if (request["path"] not in KNOWN and not gone) or name.startswith("resent-span"):
            continue
        keys = {"none": None, "wrong": ("pk-lf-x", "sk-lf-y")}.get(
            request.get("auth", "right"), (server.public_key, server.secret_key)
        )
        got = client.request(
            request["method"], request["path"], params=request["query"], json=request["body"], auth=keys
        )
        asked += 1
        assert got.status_code == response["status"], (name, request)
        if response["body"] == "(an HTML page)":
            assert got.headers["content-type"].startswith("text/html")
        elif response["status"] == 400:
            assert got.json()["message"] == response["body"]["message"]
        elif response["status"] == 200:
            assert plain(got.json()) == plain(response["body"]), (name, request)
        else:
            assert got.json() == response["body"]
    client.close()
    server.complaints.clear()
    assert asked > 200


def plain(body: dict[str, Any]) -> Any:
    """A body without `latency`: of an observation without duration it is 0 or null, by field groups."""
    if not isinstance(body.get("data"), list):
        return body
    return {**body, "data": [{key: value for key, value in row.items() if key != "latency"} for row in body["data"]]}
