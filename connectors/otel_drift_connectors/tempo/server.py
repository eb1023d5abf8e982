"""A Tempo server: how it is reached, its search, and one trace by its id in whatever form the server has."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from otel_drift.errors import ConfigError, PlatformError, RecordError
from otel_drift.platform import Answer
from otel_drift_connectors.tempo.answers import PROTOBUF, TraceAnswer, trace_in
from otel_drift_connectors.trace_stores import (
    SECOND,
    SINK_OPTIONS,
    TooMuchError,
    client_of,
    mapping,
    options_of,
)

_IN_URL = frozenset({"service", "tenant", "query", "condition", "grafana", "datasource", "otlp", "logs"})
_IN_SETTINGS = SINK_OPTIONS | {
    "token", "user", "password", "headers", "timeout", "allow_plain_http", "limit", "slice_minutes", "reach_days",
    "retention_days", "session_attributes", "max_attribute_bytes", "protobuf",
}  # fmt: skip
OLDEST = (2, 0)
"""TraceQL came with it."""

_REMEDY = "set TEMPO_TOKEN, or TEMPO_USER and TEMPO_PASSWORD, and the tenant if the server has several"


class TempoServer:
    """Asks one server. Safe to use from threads.

    Args:
        url: Base URL of the query frontend.
        options: As of `TempoSource`.

    Raises:
        ConfigError: an option is wrong, or credentials would travel over plain http off loopback.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self.http = client_of("tempo", url, options, public_headers=tenant_header(options), remedy=_REMEDY)
        self._protobuf = options.get("protobuf") in (True, "true", "1")
        self._v2: bool | None = None

    def search(self, query: str, since: int, until: int, limit: int) -> list[dict[str, Any]]:
        """The hits of a TraceQL query in [since, until) (nanoseconds), in no order, `limit` traces at the most.

        Raises:
            TooMuchError: the time is too long, or the answer too large, for this server.
            ConfigError: the query or the credentials are refused, or it is no Tempo.
            PlatformError: it cannot be reached, or fails.
        """
        start = since // SECOND
        params: dict[str, str | int] = {
            "q": query,
            "start": start,
            "end": max(start + 1, -(-until // SECOND)),
            "limit": limit,
        }
        answer = self.http.get("/api/search", params, accept=(400, 404, 422, 500))
        if answer.status == 500 and not _is_too_much(answer):
            answer = self.http.get("/api/search", params, accept=(400, 404, 422))
        if answer.status != 200:
            raise self._refusal(answer)
        found = mapping(answer.json()).get("traces")
        return [hit for hit in found if isinstance(hit, dict)] if isinstance(found, list) else []

    def _refusal(self, answer: Answer) -> Exception:
        said = " ".join(ascii(answer.body[:160].decode("utf-8", "replace"))[1:-1].split())
        if answer.status in (422, 500) or _is_too_much(answer):
            return TooMuchError(
                f"tempo: {self.url} refuses even the shortest search ({answer.status}: {said})",
                status=answer.status,
                body=answer.body[:1000],
            )
        if answer.status == 404:
            return ConfigError(f"tempo: {self.url} is no Tempo: it has no /api/search; is a path prefix missing?")
        return ConfigError(f"tempo: {self.url} refused the search ({said}); check query and condition")

    def version(self) -> str:
        """The server's version, e.g. ``3.0.3``; empty where it (or a gateway before it) does not say."""
        answer = self.http.get("/api/status/buildinfo", accept=(400, 404, 405, 501))
        version = ""
        if answer.status == 200:
            try:
                version = str(mapping(answer.json()).get("version", ""))
            except PlatformError:  # a gateway that answers with something of its own
                version = ""
        found = re.match(r"[vr]?(\d+\.\d+(?:\.\d+)?)", version)
        return found[1] if found else ""

    def trace(self, trace_id: str) -> tuple[TraceAnswer, list[RecordError]]:
        """A trace, and what is wrong with it."""
        problems: list[RecordError] = []
        answer, enveloped = self._fetched(trace_id, PROTOBUF if self._protobuf else "application/json")
        if answer is None:
            return TraceAnswer(()), [_young("not by its id")]
        if answer.status in (422, 500):
            return TraceAnswer(()), [RecordError("too large to be read; raise max_bytes_per_trace in Tempo")]
        trace = trace_in(answer, enveloped=enveloped, on_problem=problems.append)
        if problems and "protobuf" in answer.headers.get("content-type", ""):
            # A text cut in the middle of a character is no valid protobuf; JSON shows replacement characters there.
            answer, enveloped = self._fetched(trace_id, "application/json")
            problems = []
            if answer is not None and answer.status == 200:
                trace = trace_in(answer, enveloped=enveloped, on_problem=problems.append)
        if trace.partial:
            why = " ".join(ascii(trace.partial)[1:-1].split())
            part = f"only a part of the trace came ({why}); its passages count as partly captured"
            problems.append(RecordError(part, lost=False))
        elif not trace.spans and not problems:
            problems.append(_young("empty by its id"))
        return trace, problems

    def _fetched(self, trace_id: str, accept: str) -> tuple[Answer | None, bool]:
        """The answer for a trace by v2, or by v1 where the server has no v2; whether it is v2's."""
        headers = {"accept": accept}
        if self._v2 is not False:
            # Pruning leaves spans out; servers that do not know it pass over the parameter.
            answer = self._asked(f"/api/v2/traces/{trace_id}", headers, {"span_pruning": "false"})
            if answer.status != 404:
                self._v2 = True
                return answer, True
            if self._v2:
                return None, True
        answer = self._asked(f"/api/traces/{trace_id}", headers, {})
        if answer.status == 404:
            return None, False
        self._v2 = False
        return answer, False

    def _asked(self, path: str, headers: Mapping[str, str], params: Mapping[str, str]) -> Answer:
        answer = self.http.request("GET", path, params=params, headers=headers, accept=(404, 422, 500))
        if answer.status == 500 and not _is_too_much(answer):
            answer = self.http.request("GET", path, params=params, headers=headers, accept=(404, 422))
        return answer


def options(target: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The base URL and the options of target and settings.

    Raises:
        ConfigError: an option does not exist, or the URL is none.
    """
    default = os.environ.get("TEMPO_URL") or "http://localhost:3200"
    return options_of("tempo", target, options, in_url=_IN_URL, known=_IN_SETTINGS, default=default)


def tenant_header(given: Mapping[str, Any]) -> dict[str, str]:
    """The header that names the tenant, where there is one."""
    tenant = str(given.get("tenant", ""))
    return {"X-Scope-OrgID": tenant} if tenant else {}


def trace_url(given: Mapping[str, Any]) -> str:
    """The address of a trace in Grafana Explore; a `grafana` that has ``{trace_id}`` in it is taken as it is."""
    grafana = str(given.get("grafana", "")).rstrip("/")
    if not grafana or "{trace_id}" in grafana:
        return grafana
    source = {"type": "tempo", "uid": str(given.get("datasource", "tempo"))}
    query = {"refId": "A", "queryType": "traceql", "query": "{trace_id}", "datasource": source}
    pane = {"datasource": source["uid"], "queries": [query], "range": {"from": "now-30d", "to": "now"}}
    panes = quote(json.dumps({"a": pane}, separators=(",", ":")), safe="").replace("%7Btrace_id%7D", "{trace_id}")
    return f"{grafana}/explore?schemaVersion=1&panes={panes}&orgId=1"


def _is_too_much(answer: Answer) -> bool:
    said = answer.body[:2000].decode("utf-8", "replace").lower()
    return answer.status != 200 and (
        "larger than the max" in said or ("exceeds" in said and ("range" in said or "duration" in said))
    )


def _young(how: str) -> RecordError:
    return RecordError(f"found by the search, but {how}; is it younger than the settle time?", lost=False)
