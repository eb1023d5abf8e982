"""What our HTTP servers share: impatience with connections, starting and stopping, bearer tokens."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from otel_drift.errors import ConfigError
from otel_drift.http_server import HttpServer, Impatience, check_token, is_bearer
from otel_drift.tls import Tls
from receiver_desk import certificate

TOKEN = "0123456789abcdef-token"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def served(
    patience: Impatience, hold: threading.Event | None = None, asked: threading.Event | None = None, **options: Any
) -> Iterator[HttpServer]:
    async def answer(request: Request) -> Response:
        if asked is not None:
            asked.set()
        if hold is not None:
            await asyncio.get_running_loop().run_in_executor(None, hold.wait, 30)
        return PlainTextResponse("here")

    app = Starlette(routes=[Route("/", answer)])
    server = HttpServer(app, "127.0.0.1:0", setting="--serve", extra="serve", patience=patience, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop(5)


def connected(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 30)


def answered(connection: socket.socket) -> bool:
    """Whether a request on it is answered in full."""
    connection.sendall(REQUEST)
    got = b""
    while not got.endswith(b"here"):
        part = connection.recv(1000)
        if not part:
            return False
        got += part
    return True


@pytest.mark.parametrize("begun", [b"", b"GET", REQUEST[:-2]])
def test_headers_that_do_not_come_end_the_connection(begun: bytes) -> None:
    with served(Impatience(header_seconds=0.2)) as server, closing(connected(server)) as connection:
        connection.sendall(begun)
        assert connection.recv(1) == b""


def test_a_later_request_has_no_more_time_than_the_first() -> None:
    with served(Impatience(header_seconds=1, idle_seconds=60)) as server, closing(connected(server)) as connection:
        assert answered(connection)
        connection.sendall(REQUEST[:-2])
        assert connection.recv(1) == b""


def test_between_requests_a_connection_may_rest() -> None:
    with served(Impatience(header_seconds=1, idle_seconds=60)) as server, closing(connected(server)) as connection:
        assert answered(connection)
        threading.Event().wait(1.5)
        assert answered(connection)


def test_a_connection_that_rests_too_long_is_closed() -> None:
    with served(Impatience(idle_seconds=1)) as server, closing(connected(server)) as connection:
        assert answered(connection)
        assert connection.recv(1) == b""


def test_an_answer_that_takes_long_is_no_silence() -> None:
    hold = threading.Event()
    with served(Impatience(header_seconds=1), hold) as server, closing(connected(server)) as connection:
        threading.Timer(1.5, hold.set).start()
        assert answered(connection)


def test_the_longest_idle_connection_makes_room() -> None:
    with served(Impatience(most_connections=3, idle_seconds=60)) as server, ExitStack() as stack:
        first, second, third = (stack.enter_context(closing(connected(server))) for _ in range(3))
        assert all(map(answered, (second, third, first)))
        fourth = stack.enter_context(closing(connected(server)))
        assert second.recv(1) == b""
        assert all(map(answered, (third, first, fourth)))


def test_a_handshake_that_does_not_come_ends_the_connection(tmp_path: Path) -> None:
    tls = Tls(*map(str, certificate(tmp_path)))
    with served(Impatience(header_seconds=2), tls=tls) as server, closing(connected(server)) as silent:
        assert server.url.startswith("https://")
        assert (
            httpx.get(server.url, verify=ssl.create_default_context(cafile=tls.certificate), timeout=60).text == "here"
        )
        assert silent.recv(1) == b""


def test_a_stop_waits_for_what_is_under_way_and_ends_the_thread() -> None:
    hold, asked = threading.Event(), threading.Event()
    with served(Impatience(), hold, asked) as server, closing(connected(server)) as connection:
        connection.sendall(REQUEST)
        assert asked.wait(30)
        stop = threading.Thread(target=server.stop, args=[30])
        threading.Timer(0.3, hold.set).start()
        stop.start()
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        stop.join(30)
        assert not stop.is_alive()


def test_a_server_that_was_not_started_gives_its_port_back() -> None:
    server = HttpServer(Starlette(), "127.0.0.1:0", setting="--serve", extra="serve")
    place = server.url.rpartition("/")[2]
    with pytest.raises(ConfigError, match="taken"):
        HttpServer(Starlette(), place, setting="--serve", extra="serve")
    server.stop(0)
    HttpServer(Starlette(), place, setting="--serve", extra="serve").stop(0)


@pytest.mark.parametrize(
    ("header", "held"),
    [
        (f"Bearer {TOKEN}", True), (f"bearer  {TOKEN} ", True), (f"BEARER {TOKEN}", True), (TOKEN, False),
        (f"Basic {TOKEN}", False), (f"Bearer {TOKEN}x", False), ("Bearer ", False), ("", False),
        ("Bearer \u00e9", False), ("Bearer \udce9", False),
    ],
)  # fmt: skip
def test_bearer_tokens(header: str, held: bool) -> None:
    assert is_bearer(header, TOKEN) is held


def test_tokens_that_can_be_sent_are_taken() -> None:
    check_token(None, "TOKEN")
    check_token(TOKEN, "TOKEN")
    check_token("a+/=-._~" * 8, "TOKEN")
