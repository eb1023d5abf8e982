"""A strict Jaeger on loopback: api_v3, checked against its published OpenAPI, and the older API."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from trace_store import Stored, TraceStore, plain

Reply = tuple[int, str, bytes]
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUS = ("", "OK", "ERROR")
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)\Z")


@cache
def openapi(shared: Path) -> dict[str, Any]:
    path = shared / "contracts" / "jaeger-idl" / "swagger" / "api_v3" / "query_service.openapi.yaml"
    return yaml.safe_load(path.read_text())  # type: ignore[no-any-return]


@dataclass
class Jaeger:
    """A server; its fields say how it is set up, and what was asked."""

    contract: dict[str, Any]
    url: str = ""
    store: TraceStore = field(default_factory=TraceStore)
    v3: bool = True
    base: str = ""
    needs_service: bool = False
    in_messages: bool = False
    authorization: str = ""
    tenant: tuple[str, str] | None = None
    faults_from: int | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def searches(self) -> list[dict[str, str]]:
        return [params for path, params in self.asked if path.endswith("/traces")]

    def answer(self, path: str, params: dict[str, str], headers: Any) -> Reply:
        """What a request gets."""
        if not path.startswith(self.base):
            return 404, "text/plain", b"404 page not found"
        path = path.removeprefix(self.base)
        self.asked.append((path, params))
        if self.faults_from is not None and len(self.asked) > self.faults_from:
            return 500, "text/plain", b""
        if self.authorization and headers.get("Authorization") != self.authorization:
            return 401, "text/plain", b"no"
        if self.tenant and headers.get(self.tenant[0]) != self.tenant[1]:
            return 401, "text/plain", b"missing tenant header"
        if self.v3 and path in ("/api/v3/services", "/api/v3/traces"):
            self._check_request(path, params)
            status, document = self._services() if path.endswith("services") else self._find(params)
            if status == 200:
                self._check_answer(path, document)
                return 200, "application/json", self._wrapped(path, document)
            return status, "text/plain; charset=utf-8", json.dumps(document).encode()
        if not self.v3 and path == "/api/services":
            return _json({"data": self._names(), "total": 1, "limit": 0, "offset": 0, "errors": None})
        if not self.v3 and path == "/api/traces":
            return self._find_old(params)
        return 404, "text/plain", b"404 page not found"

    def _check_request(self, path: str, params: dict[str, str]) -> None:
        described = {one["name"]: one["schema"] for one in self.contract["paths"][path]["get"].get("parameters", [])}
        query = self.contract["components"]["schemas"]["jaeger.api_v3.TraceQueryParameters"]["properties"]
        for name, text in params.items():
            schema = described.get(name) or query.get(name.removeprefix("query."))
            assert schema is not None, f"{path} has no parameter {name}"
            kind = schema["type"]
            value: Any = text
            if kind == "integer":
                value = int(text)
                assert 0 < value < 2**31, f"{name} is no int32"
            elif kind == "boolean":
                assert text in ("true", "false"), f"{name}: {text}"
                value = text == "true"
            jsonschema.validate(value, {key: schema[key] for key in ("type", "pattern") if key in schema})
            if schema.get("format") == "date-time":
                assert RFC3339.match(text), f"{name}: {text} is no RFC 3339 time"

    def _check_answer(self, path: str, document: Any) -> None:
        reference = self.contract["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(document, {**reference, "components": self.contract["components"]})

    def _wrapped(self, path: str, document: Any) -> bytes:
        if path.endswith("services"):
            return json.dumps(document).encode()
        parts = [{"resourceSpans": [one]} for one in document["resourceSpans"]] if self.in_messages else [document]
        return b"\n".join(json.dumps({"result": part}, ensure_ascii=False).encode() for part in parts)

    def _names(self) -> list[str]:
        return sorted({str(one.value("service.name", "resource")) for one in self.store.spans()})

    def _services(self) -> tuple[int, Any]:
        return 200, {"services": self._names()}

    def _find(self, params: dict[str, str]) -> tuple[int, Any]:
        if "query.startTimeMin" not in params or "query.startTimeMax" not in params:
            return 400, _error(400, "malformed parameter query.startTimeMin is required")
        if self.needs_service and "query.serviceName" not in params:
            return 400, _error(400, "service name is required")
        assert params.get("query.rawTraces") == "true", "clock skew is corrected, times move"
        since, until = (_nanoseconds(params[f"query.startTime{end}"]) for end in ("Min", "Max"))
        if since >= until:
            return 400, _error(400, "query.startTimeMin must be before query.startTimeMax")
        hits = self._matching(
            params.get("query.serviceName"), since, until, json.loads(params.get("query.attributes", "{}"))
        )
        hits = hits[: int(params.get("query.searchDepth", 100))]
        if not hits:
            return 404, _error(404, "No traces found")
        return 200, {"resourceSpans": [_otlp(span) for spans in hits for span in spans]}

    def _matching(self, service: str | None, since: int, until: int, attributes: dict[str, str]) -> list[list[Stored]]:
        assert all(isinstance(value, str) for value in attributes.values()), "a JSON object of text to text"
        hits = [
            spans
            for spans in self.store.traces.values()
            if any(
                since <= one.start < until
                and (service is None or one.value("service.name", "resource") == service)
                and all(str(one.value(key)) == value for key, value in attributes.items())
                for one in spans
            )
        ]
        random.Random(len(self.asked)).shuffle(hits)
        return hits

    def _find_old(self, params: dict[str, str]) -> Reply:
        known = {"service", "start", "end", "limit", "operation", "tags", "minDuration", "maxDuration", "raw"}
        assert not set(params) - known, params
        if not params.get("service"):
            body = {"data": None, "errors": [{"code": 400, "msg": "parameter 'service' is required"}]}
            return 400, "application/json", json.dumps(body).encode()
        assert params.get("raw") == "true"
        since, until = int(params["start"]) * 1000, int(params["end"]) * 1000
        assert 10**18 < until < 10**19, "start and end are microseconds"
        hits = self._matching(params["service"], since, until, json.loads(params.get("tags", "{}")))
        data = [_old(spans) for spans in hits[: int(params.get("limit", 100))]]
        return _json({"data": data, "total": 0, "limit": 0, "offset": 0, "errors": None})


def _nanoseconds(text: str) -> int:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole + "+00:00").timestamp())
    return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)


def _otlp(one: Stored) -> dict[str, Any]:
    """True OTLP JSON: zero and empty fields left out."""
    span = {key: value for key, value in one.span.items() if value not in ("", 0, [], {}, None) and key != "links"}
    return {"resource": one.resource, "scopeSpans": [{"scope": one.scope, "spans": [span]}]}


def _old(spans: list[Stored]) -> dict[str, Any]:
    """Jaeger's own JSON, with ids that lack leading zeros."""
    processes: dict[str, Any] = {}
    out = []
    for number, one in enumerate(spans):
        span, process = one.span, f"p{number}"
        processes[process] = {
            "serviceName": str(one.value("service.name", "resource")),
            "tags": [_tag(item) for item in one.resource["attributes"] if item["key"] != "service.name"],
        }
        tags = [_tag(item) for item in span.get("attributes", [])]
        tags.append(_text("span.kind", KINDS[span.get("kind", 0)]))
        tags.append(_text("otel.scope.name", one.scope.get("name", "")))
        status = span.get("status") or {}
        if status.get("code"):
            tags.append(_text("otel.status_code", STATUS[status["code"]]))
        if status.get("code") == 2:
            tags.append({"key": "error", "type": "bool", "value": True})
        if status.get("message"):
            tags.append(_text("otel.status_description", status["message"]))
        ids = {"traceID": span["traceId"].lstrip("0")}
        references = [{"refType": "FOLLOWS_FROM", "traceID": "1" * 32, "spanID": "2" * 16}]
        if span.get("parentSpanId"):
            references.append({"refType": "CHILD_OF", **ids, "spanID": span["parentSpanId"].lstrip("0")})
        out.append(
            {
                **ids,
                "spanID": span["spanId"].lstrip("0"),
                "operationName": span["name"],
                "references": references,
                "startTime": one.start // 1000,
                "duration": int(span["endTimeUnixNano"]) // 1000 - one.start // 1000,
                "tags": tags,
                "logs": [
                    {
                        "timestamp": int(event["timeUnixNano"]) // 1000,
                        "fields": [_text("event", event["name"]), *map(_tag, event.get("attributes", []))],
                    }
                    for event in span.get("events", [])
                ],
                "processID": process,
                "warnings": None,
            }
        )
    return {"traceID": spans[0].span["traceId"].lstrip("0"), "spans": out, "processes": processes, "warnings": None}


def _tag(item: dict[str, Any]) -> dict[str, Any]:
    value = plain(item["value"])
    if isinstance(value, bool):
        return {"key": item["key"], "type": "bool", "value": value}
    if isinstance(value, int):
        return {"key": item["key"], "type": "int64", "value": value if abs(value) < 2**53 else str(value)}
    if isinstance(value, float):
        return {"key": item["key"], "type": "float64", "value": value}
    return _text(item["key"], value if isinstance(value, str) else json.dumps(value))


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "type": "string", "value": value}


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"httpCode": code, "message": message}}


def _json(value: Any) -> Reply:
    return 200, "application/json", json.dumps(value, ensure_ascii=False).encode()
