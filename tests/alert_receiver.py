"""A web server on loopback that keeps what is posted to it, and answers as told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from http_serving import served


@dataclass(frozen=True)
class Posted:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class AlertReceiver:
    """Requests that were taken; `answers` are statuses and headers for the next ones, then `status`."""

    url: str = ""
    taken: list[Posted] = field(default_factory=list)
    requests: int = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    get_body: bytes = b"{}"

    @contextmanager
    def failing(self, status: int, **headers: str) -> Iterator[None]:
        self.status, self.headers = status, headers
        try:
            yield
        finally:
            self.status, self.headers = 200, {}


@contextmanager
def alert_receiver() -> Iterator[AlertReceiver]:
    """Listen on a free loopback port."""
    receiver = AlertReceiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            receiver.requests += 1
            if 200 <= receiver.status < 300:
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.taken.append(Posted(self.path, headers, body))
            self._answer(b"ok")

        def do_GET(self) -> None:
            self._answer(receiver.get_body)

        def _answer(self, content: bytes) -> None:
            self.send_response(receiver.status)
            for name, value in {**receiver.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None: ...

    with served(Handler) as receiver.url:
        yield receiver
