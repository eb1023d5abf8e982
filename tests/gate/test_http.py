"""The gate over HTTP: who may ask, what is refused, and that nothing of a request gets into a log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from drift_cases import ScriptedJudge
from otel_drift.errors import ConfigError
from otel_drift.gate import ConflictGate, http
from otel_drift.http_server import HttpServer, Impatience
from otel_drift.ledger import Ledger

TOKEN = "0123456789abcdef-token"
DESK = {"id": "desk", "text": "Cameras are lent for seven days at a time. Lenses go back after three days."}
LAB = {"id": "lab", "text": "A borrowed camera has to be returned within 48 hours. Ask the desk."}
ASKED = {"query": "How long may I keep a borrowed camera?", "passages": [DESK, LAB]}
FOUND = {
    "conflicts": [
        {
            "source_a": "t1.p1", "claim_a": "Seven days.", "quote_a": "Cameras are lent for seven days at a time.",
            "source_b": "t1.p2", "claim_b": "48 hours.",
            "quote_b": "A borrowed camera has to be returned within 48 hours.",
            "severity": "MATERIAL", "explanation": "Both cannot hold.", "confidence": 0.9,
        }
    ],
    "conflict_notes": "They disagree.",
}  # fmt: skip


@pytest.fixture(scope="module")
def ledger() -> Iterator[Ledger]:
    with Ledger.open(":memory:") as opened:
        yield opened


def send(
    gate: ConflictGate,
    path: str = "/v1/gate",
    *,
    host: str = "127.0.0.1:8765",
    token: str | None = None,
    method: str = "POST",
    body_seconds: float = 5,
    **request: Any,
) -> httpx.Response:
    async def ask() -> httpx.Response:
        app = http.build_app(gate, token=token, body_seconds=body_seconds)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{host}") as client:
            return await client.request(method, path, **request)

    return asyncio.run(ask())


@pytest.fixture
def gate(ledger: Ledger) -> Iterator[ConflictGate]:
    with ConflictGate(ScriptedJudge([FOUND]), ledger=ledger) as opened:
        yield opened


def test_a_decision_is_200_whatever_it_is(gate: ConflictGate, ledger: Ledger) -> None:
    abstained = send(gate, json=ASKED)
    proceeded = send(gate, json={**ASKED, "passages": [DESK]})

    assert (abstained.status_code, proceeded.status_code) == (200, 200)
    assert abstained.json()["decision"] == "abstain"
    assert abstained.json()["report"]["conflict_count"] == 1
    assert proceeded.json()["reason"] == "single_source"


def test_health(gate: ConflictGate) -> None:
    answer = send(gate, "/healthz", method="GET", token=TOKEN)

    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \u00e9"])
def test_a_token_is_asked_for_where_there_is_one(header: str | None, gate: ConflictGate) -> None:
    headers = {"Authorization": header.encode("latin-1")} if header else {}
    refused = send(gate, json=ASKED, token=TOKEN, headers=headers)

    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json()["error"]["code"] == "unauthorized"


def test_the_right_token_serves_any_host(gate: ConflictGate) -> None:
    served = send(gate, json=ASKED, token=TOKEN, host="gate.example", headers={"Authorization": f"Bearer {TOKEN}"})

    assert served.status_code == 200


def test_without_a_token_only_loopback_is_served(gate: ConflictGate) -> None:
    """A web page that rebinds its name to this machine still sends its own name."""
    assert send(gate, json=ASKED, host="evil.example").status_code == 403
    assert send(gate, json=ASKED, host="localhost:8765").status_code == 200
    assert send(gate, json=ASKED, host="[::1]:8765").status_code == 200


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "invalid_json"),
        ({"content": b"NaN", "headers": {"content-type": "application/json"}}, 400, "invalid_json"),
        ({"content": b"[" * 5000 + b"]" * 5000, "headers": {"content-type": "application/json"}}, 400, "invalid_json"),
        ({"json": []}, 422, "invalid_request"),
        ({"json": {"query": 1, "passages": []}}, 422, "invalid_request"),
        ({"json": {"query": "x", "passages": {}}}, 422, "invalid_request"),
        ({"json": {"query": " ", "passages": [DESK, LAB]}}, 422, "invalid_request"),
        ({"json": {"query": "x", "passages": [{"id": "a"}]}}, 422, "invalid_request"),
        ({"content": b"{}"}, 415, "unsupported_media_type"),
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "unsupported_media_type"),
        ({"json": {}, "headers": {"content-encoding": "gzip"}}, 415, "unsupported_media_type"),
        ({"content": b" " * (http.MOST_BODY + 1), "headers": {"content-type": "application/json"}}, 413, "too_large"),
    ],
)  # fmt: skip
def test_bad_requests_get_a_clear_error(request_: Any, status: int, code: str, gate: ConflictGate) -> None:
    refused = send(gate, **request_)

    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
    assert refused.json()["error"]["message"]


def test_a_body_that_never_ends_is_cut_by_size_and_by_time(gate: ConflictGate) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 100_000

    async def stalls() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(300)

    json_type = {"content-type": "application/json"}
    assert send(gate, content=endless(), headers=json_type).status_code == 413
    began = time.monotonic()
    assert send(gate, content=stalls(), headers=json_type, body_seconds=0.05).status_code == 408
    assert time.monotonic() - began < 60


def test_unknown_paths_and_methods_are_json_too(gate: ConflictGate) -> None:
    assert send(gate, "/v2", json={}).json()["error"]["code"] == "not_found"
    refused = send(gate, method="GET")
    assert (refused.status_code, refused.json()["error"]["code"]) == (405, "method_not_allowed")
    assert refused.headers["allow"]


def test_no_text_of_a_request_is_logged(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ConflictGate):
        def check(self, query: str, passages: Any) -> Any:
            raise RuntimeError(f"{query} {passages}")

    with caplog.at_level(logging.INFO):
        failed = send(Broken(ScriptedJudge([FOUND]), ledger=ledger), json=ASKED)
        send(ConflictGate(ScriptedJudge(["garbage"]), ledger=ledger), json=ASKED)

    assert (failed.status_code, failed.json()["error"]["code"]) == (500, "internal_error")
    for text in ("amera", "garbage"):
        assert text not in caplog.text
        assert text not in failed.text


def test_a_short_token_is_refused(gate: ConflictGate) -> None:
    with pytest.raises(ConfigError, match="at least 16"):
        http.build_app(gate, token="short")


@pytest.mark.parametrize("address", ["0.0.0.0:8765", "gate.example:80", "192.168.1.4:80", "[::]:80"])
def test_off_loopback_needs_a_token(address: str, gate: ConflictGate) -> None:
    with pytest.raises(ConfigError, match="loopback only"):
        http.serve(gate, address)


@pytest.mark.parametrize("address", ["", "8765", "localhost", "localhost:", "localhost:x", "localhost:99999", ":80"])
def test_addresses_that_are_none_are_refused(address: str, gate: ConflictGate) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        http.serve(gate, address)


def test_a_missing_extra_is_named(gate: ConflictGate, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(ConfigError, match=r"otel-drift\[gate\]"):
        http.build_app(gate)


def test_a_taken_port_is_said_clearly(gate: ConflictGate) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken, pytest.raises(ConfigError, match="taken"):
        http.serve(gate, f"127.0.0.1:{taken.getsockname()[1]}")


@contextlib.contextmanager
def served(gate: ConflictGate, header_seconds: float = 10) -> Iterator[int]:
    """The port of the gate served by uvicorn as `serve` does it."""
    patience = Impatience(header_seconds=header_seconds)
    server = HttpServer(http.build_app(gate), "127.0.0.1:0", setting="--serve", extra="gate", patience=patience)
    server.start()
    try:
        yield int(server.url.rpartition(":")[2])
    finally:
        server.stop(10)


def test_connections_that_never_ask_are_dropped_and_keep_nobody_out(gate: ConflictGate) -> None:
    with served(gate, header_seconds=2) as port, contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=10)))
            for _ in range(http.MOST_REQUESTS + 20)
        ]
        for connection in silent:
            connection.sendall(b"POST /v1/gate HTTP/1.1\r\nHost: 127.0")

        answer = httpx.post(f"http://127.0.0.1:{port}/v1/gate", json=ASKED, timeout=30)

        assert (answer.status_code, answer.json()["reason"]) == (200, "conflict")
        assert [connection.recv(1) for connection in silent] == [b""] * len(silent)


def test_served_by_uvicorn_many_callers_get_their_decisions(gate: ConflictGate) -> None:
    async def callers(port: int) -> list[str]:
        async with httpx.AsyncClient(timeout=30) as client:
            url = f"http://127.0.0.1:{port}/v1/gate"
            answers = await asyncio.gather(*(client.post(url, json=ASKED) for _ in range(10)))
            return [answer.json()["reason"] for answer in answers]

    with served(gate) as port:
        assert asyncio.run(callers(port)) == ["conflict"] * 10
