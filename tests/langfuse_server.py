"""A strict stand-in for a Langfuse 4.16 server: real HTTP on loopback, judged by Langfuse's own OpenAPI file.

    with langfuse_server(contract_path) as server:
        server.route("POST", "/api/public/ingestion", handler, lenient=True)
        ...   # talk to server.url with server.public_key and server.secret_key

It knows health, projects and the read model (`langfuse_observations`); others register what they need by
``server.route(method, path, handler)``, with the path as the OpenAPI writes it (``/api/public/comments/{commentId}``).
A handler takes a `Request` and returns a `Reply`, or ``(status, body)``. Before it is called the request has passed
the keys and the OpenAPI; ``lenient=True`` also passes on what does not fit, for a route that answers that itself.

Whatever a client does that the OpenAPI does not allow, and each 400, is kept in `Server.complaints`, answered as the
real server does, and fails the test when the server stops; a test that errs on purpose clears the list.

Time passes by `otel_drift.retry.now`, so that under ``retry.testing()`` a client's skipped waits count here too.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from http_serving import served
from langfuse_contract import Problem, contract
from langfuse_observations import Observations
from otel_drift import retry

EVENTS_ONLY = (
    "This endpoint is not available on deployments running in Langfuse v4 events_only mode. "
    "Learn more about Langfuse v4 at: https://langfuse.com/docs/v4"
)
LEGACY = {
    ("GET", "/api/public/traces"),
    ("GET", "/api/public/traces/{traceId}"),
    ("GET", "/api/public/sessions"),
    ("GET", "/api/public/sessions/{sessionId}"),
    ("GET", "/api/public/observations"),
    ("GET", "/api/public/observations/{observationId}"),
    ("GET", "/api/public/scores"),
    ("GET", "/api/public/v2/scores"),
    ("GET", "/api/public/v2/scores/{scoreId}"),
    ("GET", "/api/public/metrics"),
    ("POST", "/api/public/traces"),
    ("POST", "/api/public/spans"),
    ("POST", "/api/public/generations"),
    ("POST", "/api/public/events"),
}
"""Gone in write mode events_only, the default of v4 (recorded/langfuse/errors/404-legacy)."""

LARGEST = {"/api/public/ingestion": 4_500_000, "/api/public/scores": 1_000_000}


@dataclass(frozen=True)
class Request:
    """What a client sent. `query` is decoded, in order; `body` is the parsed JSON, None where there was none."""

    method: str
    path: str
    template: str
    names: dict[str, str]
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: Any
    raw: bytes

    def one(self, name: str) -> str | None:
        """The last value of a query key."""
        return next((value for key, value in reversed(self.query) if key == name), None)

    def all(self, name: str) -> list[str]:
        """Every value of a query key."""
        return [value for key, value in self.query if key == name]


@dataclass(frozen=True)
class Reply:
    """An answer: `body` is sent as JSON, text (as HTML) or bytes. Status 0 cuts the connection instead."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Request], "Reply | tuple[int, Any]"]


@dataclass
class Limit:
    """Requests allowed in a fixed window of seconds, as Langfuse Cloud counts them for each resource."""

    allowed: int
    seconds: float
    began: float = 0.0
    used: int = 0


class Server:
    """What the fake holds and how it is told to behave."""

    public_key = "pk-lf-PUBLIC"
    secret_key = "sk-lf-SECRET"

    def __init__(self, openapi: Path) -> None:
        self.url = ""
        self.version: str | None = "4.16.0"
        """What health says; None: there is no such route, as on a server that is no Langfuse."""
        self.project = {"id": "lf-project", "name": "lf-project"}
        self.requests: list[Request] = []
        self.complaints: list[tuple[str, str, list[Problem]]] = []
        self.fault: Callable[[Request], Reply | None] = lambda _request: None
        """Asked before each request that has passed the keys; may answer in its place."""
        self.limits: dict[str, Limit] = {}
        """Template of a path → limit. Several may share one `Limit`."""
        self.observations = Observations()
        self.lock = threading.RLock()
        """Held while a request is answered: handlers need none of their own."""
        self._contract = contract(openapi)
        self._routes: dict[tuple[str, str], tuple[Handler, bool]] = {}
        self.route("GET", "/api/public/health", self._health)
        self.route("GET", "/api/public/projects", self._projects)
        self.route("GET", "/api/public/v2/observations", self.observations.answer, lenient=True)

    def route(self, method: str, path: str, handler: Handler, *, lenient: bool = False) -> None:
        """Register who answers an operation of the OpenAPI. A second registration replaces the first."""
        assert method in self._contract.methods(path), f"the OpenAPI has no {method} {path}"
        self._routes[method, path] = (handler, lenient)

    def count(self, path: str, method: str = "GET") -> int:
        """How many requests a path got (by its template)."""
        return sum(one.template == path and one.method == method for one in self.requests)

    def answer(self, method: str, target: str, headers: dict[str, str], raw: bytes) -> Reply:
        """Answer a request."""
        parts = urlsplit(target)
        found = self._contract.match(parts.path)
        template, names = found if found else (parts.path, {})
        body, readable = _parsed(raw, headers)
        query = parse_qsl(parts.query, keep_blank_values=True)
        names = {key: unquote(value) for key, value in names.items()}
        request = Request(method, parts.path, template, names, query, headers, body, raw)
        with self.lock:
            self.requests.append(request)
            return self._reply(request, known=found is not None, readable=readable)

    def _reply(self, request: Request, *, known: bool, readable: bool) -> Reply:
        refused = None if request.path == "/api/public/health" else self._refused(request.headers.get("authorization"))
        early = refused or self.fault(request) or self._limited(request)
        if early is not None:
            return early
        if (request.method, request.template) in LEGACY:
            return Reply(404, {"message": EVENTS_ONLY})
        if not known:
            self._complain(request, [Problem("unknown", request.path)])
            return Reply(404, "<!DOCTYPE html><html><body>404</body></html>")
        if request.method not in self._contract.methods(request.template):
            self._complain(request, [Problem("unknown", request.method)])
            return Reply(405, {"message": "Method not allowed", "error": "MethodNotAllowedError"})
        if len(request.raw) > LARGEST.get(request.template, len(request.raw)):
            return Reply(413, "Body exceeded 4.5mb limit" if "ingestion" in request.path else "Body exceeded 1mb limit")
        if not readable:
            self._complain(request, [Problem("body", "", "no JSON")])
            return Reply(400, {"message": "Invalid JSON", "error": "InvalidRequestError"})
        handler, lenient = self._routes.get((request.method, request.template), (None, False))
        assert handler is not None, f"nobody answers {request.method} {request.template} here"
        if problems := self._contract.request_problems(request.template, request.method, request.query, request.body):
            self._complain(request, problems)
            if not lenient:
                issues = [{"code": kind, "path": [place], "message": why or kind} for kind, place, why in problems]
                return Reply(400, {"message": "Invalid request data", "error": issues})
        given = handler(request)
        reply = given if isinstance(given, Reply) else Reply(*given)
        if reply.status == 400:
            self._complain(request, [Problem("refused", "", json.dumps(reply.body)[:300])])
        self._check(request, reply)
        return reply

    def _refused(self, given: str | None) -> Reply | None:
        if given is None:
            return Reply(401, {"message": "No authorization header"})
        expected = base64.b64encode(f"{self.public_key}:{self.secret_key}".encode()).decode()
        if given != f"Basic {expected}":
            return Reply(401, {"message": "Invalid credentials. Confirm that you've configured the correct host."})
        return None

    def _limited(self, request: Request) -> Reply | None:
        limit = self.limits.get(request.template)
        if limit is None:
            return None
        now = retry.now()
        if now >= limit.began + limit.seconds:
            limit.began, limit.used = now, 0
        limit.used += 1
        if limit.used <= limit.allowed:
            return None
        return rate_limited(limit.began + limit.seconds - now, limit.allowed)

    def _complain(self, request: Request, problems: list[Problem]) -> None:
        self.complaints.append((request.method, request.path, problems))

    def _check(self, request: Request, reply: Reply) -> None:
        """Our own answers have to fit the OpenAPI as well (of a long list, the first rows)."""
        body = reply.body
        if isinstance(body, dict) and isinstance(body.get("data"), list):
            body = {**body, "data": body["data"][:3]}
        if 200 <= reply.status < 300:
            problems = self._contract.answer_problems(request.template, request.method, reply.status, body)
            assert not problems, f"the fake answers {request.method} {request.template} badly: {problems}"

    def _health(self, _request: Request) -> tuple[int, Any]:
        if self.version is None:
            return 404, "<!DOCTYPE html><html></html>"
        return 200, {"status": "OK", "version": self.version}

    def _projects(self, _request: Request) -> tuple[int, Any]:
        organisation = {"id": "lf-org", "name": "lf-org"}
        return 200, {"data": [{**self.project, "organization": organisation, "metadata": {}}]}


def rate_limited(seconds: float, allowed: int = 30) -> Reply:
    """Langfuse Cloud's 429: whole seconds, and a reset time that is a JavaScript date string."""
    wait = max(1, round(seconds))
    headers = {
        "Retry-After": str(wait),
        "X-RateLimit-Limit": str(allowed),
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": "Mon Nov 30 2026 06:00:00 GMT+0000 (Coordinated Universal Time)",
    }
    details = {"retryAfterSeconds": wait, "limit": allowed, "remaining": 0, "resetAt": "2026-11-30T06:00:00.000Z"}
    return Reply(429, {"message": "Rate limit exceeded", "code": "rate_limited", "details": details}, headers)


@contextmanager
def langfuse_server(openapi: Path) -> Iterator[Server]:
    """Serve on a free loopback port until the block ends; then nobody may have broken the contract."""
    server = Server(openapi)
    with served(_handler(server)) as server.url:
        yield server
    assert not server.complaints, server.complaints


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handling(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body leave together, or the client's delayed acknowledgement costs 40 ms

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                reply = server.answer(self.command, self.path, headers, raw)
            except Exception as error:  # a fault of the fake: the test must see it, not only the client
                server.complaints.append((self.command, self.path, [Problem("fake", "", repr(error))]))
                reply = Reply(500, {"message": "Internal Server Error"})
            if reply.status == 0:
                self.close_connection = True
                return
            content, kind = _content(reply.body)
            self.send_response(reply.status)
            for name, value in {"Content-Type": kind, **reply.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, *_: Any) -> None: ...

    return Handling


def _parsed(raw: bytes, headers: dict[str, str]) -> tuple[Any, bool]:
    """The body as JSON, and whether it could be read; a compressed one cannot (measured on ingestion)."""
    if not raw:
        return None, True
    try:
        return (None, False) if "content-encoding" in headers else (json.loads(raw), True)
    except ValueError:
        return None, False


def _content(body: Any) -> tuple[bytes, str]:
    if isinstance(body, bytes):
        return body, "application/octet-stream"
    if isinstance(body, str):
        return body.encode(), "text/html; charset=utf-8"
    return json.dumps(body).encode(), "application/json; charset=utf-8"
