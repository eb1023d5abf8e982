"""A model server on loopback that speaks the OpenAI chat-completions protocol and misbehaves on demand.

In a test::

    with ModelServer([Reply(status=429, headers={"Retry-After": "1"}), Reply(content=answer)]) as server:
        judge = LiteLLMJudge("openai/scripted", api_base=server.url)

From a shell, as a slow judge for runs that are killed::

    python tests/model_server.py --port 8099 --script replies.json --delay 0.5 --log requests.jsonl

where the script is a JSON list of replies (the fields of `Reply`; ``content`` may be a JSON object). The replies are
given in order; the last one is given for ever after.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

USAGE = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server does with one request."""

    content: Any = ""
    """The assistant's text; anything but a string is sent as its JSON."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    refusal: str | None = None
    model: str = "scripted-2026-01"
    usage: Mapping[str, Any] | None = field(default_factory=lambda: dict(USAGE))
    body: str | None = None
    """The whole body, instead of a chat completion."""
    content_type: str = "application/json"
    delay: float = 0.0
    """Seconds before the first byte."""
    drip: float | None = None
    """Seconds between single bytes of the body."""
    drip_headers: bool = False
    """Drip the status line and headers, too."""
    cut_after: int | None = None
    """Bytes of the body after which the connection is reset."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the server saw."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: Mapping[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages", []))

    @property
    def text(self) -> str:
        """All message contents, in order."""
        return "\n".join(str(message.get("content")) for message in self.messages)


Script = Sequence[Reply] | Callable[[Request], Reply]


class ModelServer:
    """The server; `requests` grows as they come in, `in_work` counts those being answered, `peak` its highest."""

    def __init__(self, script: Script, *, port: int = 0, log: Path | None = None) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.peak = 0
        self.in_work = 0
        self._log = log
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._http = _Server(("127.0.0.1", port), _Exchange)
        self._http.model = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def serve_forever(self) -> None:
        self._http.serve_forever()

    def answer(self, request: Request) -> Reply:
        """Record a request and choose its reply."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as file:
                    digest = hashlib.sha256(request.text.encode()).hexdigest()
                    file.write(json.dumps({"number": number, "sha256": digest, "path": request.path}) + "\n")
        if callable(self.script):
            return self.script(request)
        return self.script[min(number, len(self.script) - 1)]

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        with self._lock:
            self.in_work += 1
            self.peak = max(self.peak, self.in_work)
        try:
            yield
        finally:
            with self._lock:
                self.in_work -= 1

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the server's own end."""
        if self._stopping.wait(seconds):
            raise ConnectionAbortedError


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64
    model: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what many tests are about."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        with self.server.model.busy():
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length))
            reply = self.server.model.answer(
                Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            )
            if reply.delay:
                self.server.model.pause(reply.delay)
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        body = _body(reply).encode("utf-8", "surrogatepass")
        lines = [f"HTTP/1.1 {reply.status} Scripted", f"Content-Type: {reply.content_type}"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        lines.append(f"Content-Length: {len(body)}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode()
        self._write(head, reply.drip if reply.drip_headers else None)
        if reply.cut_after is not None:
            self.wfile.write(body[: reply.cut_after])
            self._reset()
            return
        self._write(body, reply.drip)

    def _write(self, data: bytes, drip: float | None) -> None:
        if drip is None:
            self.wfile.write(data)
            return
        for byte in data:
            self.wfile.write(bytes([byte]))
            self.server.model.pause(drip)

    def _reset(self) -> None:
        """Close with a TCP reset, as a crashed server or a proxy does."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output quiet."""


def _body(reply: Reply) -> str:
    if reply.body is not None:
        return reply.body
    if reply.status != 200:
        return json.dumps({"error": {"message": f"scripted {reply.status}", "type": "server_error", "code": None}})
    text = reply.content if isinstance(reply.content, str | None) else json.dumps(reply.content)
    message = {"role": "assistant", "content": text, "refusal": reply.refusal}
    completion: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1767225600,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason, "logprobs": None}],
    }
    if reply.usage is not None:
        completion["usage"] = dict(reply.usage)
    return json.dumps(completion)


def main() -> None:
    """Serve a script until killed."""
    parser = argparse.ArgumentParser(description="scripted OpenAI-compatible model server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True, help="JSON list of replies")
    parser.add_argument("--delay", type=float, default=None, help="seconds before every answer")
    parser.add_argument("--log", type=Path, default=None, help="append one JSON line a request")
    options = parser.parse_args()
    replies = []
    for fields in json.loads(options.script.read_text(encoding="utf-8")):
        if options.delay is not None:
            fields["delay"] = options.delay
        replies.append(Reply(**fields))
    server = ModelServer(replies, port=options.port, log=options.log)
    print(server.url, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
