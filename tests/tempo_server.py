"""A strict Tempo: what its HTTP API demands and answers (search, trace by id v1 and v2), on loopback."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

import traceql_subset
from http_serving import served
from trace_store import Stored, TraceStore

KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
CODES = ("UNSET", "OK", "ERROR")
SEARCH = {"q", "tags", "start", "end", "limit", "spss", "minDuration", "maxDuration"}
Reply = tuple[int, str, bytes]


@dataclass
class Tempo:
    """A server; its fields say how it is set up, and what was asked."""

    url: str = ""
    store: TraceStore = field(default_factory=TraceStore)
    version: str = "3.0.3"
    has_v2: bool = True
    tenant: str = ""
    authorization: str = ""
    max_seconds: int = 168 * 3600
    partial: dict[str, str] = field(default_factory=dict)
    too_large: set[str] = field(default_factory=set)
    vanished: set[str] = field(default_factory=set)
    faults: list[Reply] = field(default_factory=list)
    faults_from: int | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    seed: int = 0

    @property
    def searches(self) -> list[dict[str, str]]:
        return [params for path, params in self.asked if path == "/api/search"]

    def answer(self, path: str, params: dict[str, str], headers: Any) -> Reply:
        """What a request gets."""
        self.asked.append((path, params))
        if self.faults:
            return self.faults.pop(0)
        if self.faults_from is not None and len(self.asked) > self.faults_from:
            return _text(500, "internal error")
        if self.authorization and headers.get("Authorization") != self.authorization:
            return _text(401, "unauthorized")
        if self.tenant and headers.get("X-Scope-OrgID") != self.tenant:
            return _text(401, "no org id")
        if path == "/api/status/buildinfo":
            return _json({"version": self.version})
        if path == "/api/search":
            return self.search(params)
        accept = headers.get("Accept", "")
        if path.startswith("/api/v2/traces/") and self.has_v2:
            return self.trace_v2(path.rpartition("/")[2], params, accept)
        if path.startswith("/api/traces/"):
            return self.trace_v1(path.rpartition("/")[2], params, accept)
        return _text(404, "404 page not found")

    def search(self, params: dict[str, str]) -> Reply:
        if unknown := set(params) - SEARCH:
            raise AssertionError(f"no parameters of a search: {unknown}")
        if "start" not in params or "end" not in params:
            raise AssertionError("without start and end only recent data is searched")
        start, end = int(params["start"]), int(params["end"])
        if end <= start:
            return _text(400, "http parameter start must be before end")
        if end - start > self.max_seconds:
            return _text(
                400,
                f"range specified by start and end exceeds {self.max_seconds // 3600}h0m0s. "
                f"received start={start} end={end}",
            )
        limit = int(params.get("limit", 20))
        if not 0 < limit <= 262144:
            return _text(400, f"limit {limit} is out of range")
        if not 0 <= int(params.get("spss", 3)) <= 100:
            return _text(400, "spss exceeds 100")
        try:
            query = traceql_subset.parse(params["q"])
        except ValueError as error:
            return _text(400, f"invalid TraceQL query: parse error: {error}")
        hits = []
        for trace_id, spans in self.store.traces.items():
            matching = query.matches([span for span in spans if start * 10**9 <= span.start < end * 10**9])
            if matching:
                hits.append(self._hit(trace_id, spans, matching, query))
        self.seed += 1
        random.Random(self.seed).shuffle(hits)
        return _json({"traces": hits[:limit], "metrics": {"inspectedBytes": "1234", "totalBlocks": 2}})

    def _hit(
        self, trace_id: str, spans: list[Stored], matching: list[Stored], query: traceql_subset.Query
    ) -> dict[str, Any]:
        root = next((one for one in spans if not one.span.get("parentSpanId")), None)
        selected = [
            {
                "spanID": one.span["spanId"],
                "startTimeUnixNano": one.span["startTimeUnixNano"],
                "attributes": [
                    item
                    for scope, name in query.selected
                    for item in (one.span if scope == "span" else one.resource).get("attributes", [])
                    if item["key"] == name
                ],
            }
            for one in matching[:3]
        ]
        found = {"spans": selected, "matched": len(matching)}
        hit = {
            "traceID": trace_id.lstrip("0"),
            "rootServiceName": root.value("service.name") if root else "<root span not yet received>",
            "startTimeUnixNano": str(min(one.start for one in spans)),
            "durationMs": 5,
            "spanSets": [found],
            "spanSet": found,
        }
        return {key: value for key, value in hit.items() if value is not None}

    def trace_v2(self, trace_id: str, params: dict[str, str], accept: str) -> Reply:
        assert not set(params) - {"start", "end", "span_pruning"}, params
        assert params.get("span_pruning", "false") == "false", "spans would be missing"
        found = self._found(trace_id)
        if found is None:
            return _json({"trace": {}, "metrics": {}})
        if "protobuf" in accept:
            trace = _protobuf(found)
            body = b"\x0a" + _varint(len(trace)) + trace + b"\x12\x02\x08\x05"
            if trace_id in self.partial:
                reason = self.partial[trace_id].encode()
                body += b"\x18\x01\x22" + _varint(len(reason)) + reason
            return 200, "application/protobuf", body
        answer: dict[str, Any] = {"trace": {"resourceSpans": _tempo_json(found)}, "metrics": {"inspectedBytes": "1"}}
        if trace_id in self.partial:
            answer |= {"status": "PARTIAL", "message": self.partial[trace_id]}
        return _json(answer)

    def trace_v1(self, trace_id: str, params: dict[str, str], accept: str) -> Reply:
        assert not set(params) - {"start", "end"}, params
        if trace_id in self.too_large:
            return _text(422, "trace exceeds max size (max bytes: 5000000)")
        found = self._found(trace_id)
        if found is None:
            return 404, "text/plain", b""
        if "protobuf" in accept:
            return 200, "application/protobuf", _protobuf(found)
        return _json({"batches": _tempo_json(found)})

    def _found(self, trace_id: str) -> list[Stored] | None:
        assert len(trace_id) == 32, f"{trace_id} was not padded"
        return None if trace_id in self.vanished else self.store.traces.get(trace_id)


def _tempo_json(spans: list[Stored]) -> list[dict[str, Any]]:
    """Almost OTLP JSON: ids in base64, kinds and status codes by name."""
    entries = []
    for one in spans:
        span = dict(one.span)
        for key in ("traceId", "spanId", "parentSpanId"):
            if span.get(key):
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
            else:
                span.pop(key, None)
        if isinstance(span.get("kind"), int):
            span["kind"] = f"SPAN_KIND_{KINDS[span['kind']]}"
        status = dict(span.get("status") or {})
        if isinstance(status.get("code"), int):
            status["code"] = f"STATUS_CODE_{CODES[status['code']]}"
        span["status"] = status
        span.pop("links", None)
        entries.append({"resource": one.resource, "scopeSpans": [{"scope": one.scope, "spans": [span]}]})
    return entries


def _protobuf(spans: list[Stored]) -> bytes:
    return ParseDict(
        {"resourceSpans": _tempo_json(spans)}, TracesData(), ignore_unknown_fields=True
    ).SerializeToString()


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _text(status: int, text: str) -> Reply:
    return status, "text/plain; charset=utf-8", text.encode()


def _json(value: Any) -> Reply:
    return 200, "application/json", json.dumps(value, ensure_ascii=False).encode()


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """Listen on a free loopback port; a request the server asserts against gets 599, which nothing expects."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            pairs = parse_qsl(parts.query, keep_blank_values=True)
            params = dict(pairs)
            try:
                assert len(params) == len(pairs), "a parameter comes twice"
                status, kind, body = server.answer(parts.path, params, self.headers)
            except AssertionError as error:
                status, kind, body = 599, "text/plain", str(error).encode()
                refused.append(str(error))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    refused: list[str] = []
    with served(Handler) as server.url:
        yield server
    assert not refused, refused


@contextmanager
def clients_closed(monkeypatch: Any) -> Iterator[None]:
    """Close every HTTP client made meanwhile, so that a test need not name each source it opens."""
    from otel_drift.platform import Platform

    made: list[Platform] = []
    original = Platform.__init__

    def remembered(self: Platform, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(Platform, "__init__", remembered)
    yield
    for one in made:
        one.close()
