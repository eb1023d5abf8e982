"""A Jaeger server: how it is reached, and searches by api_v3, or by the older API where the server has no api_v3."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from otel_drift.errors import ConfigError, PlatformError, RecordError
from otel_drift.model import Span
from otel_drift.otlp import OnProblem, decode_traces_json
from otel_drift.platform import Answer, shown
from otel_drift_connectors.jaeger.ui_json import spans_of
from otel_drift_connectors.trace_stores import SECOND, SINK_OPTIONS, client_of, mapping, options_of

_IN_URL = frozenset({"service", "tenant", "tenant_header", "otlp", "logs"})
_IN_SETTINGS = SINK_OPTIONS | {
    "token", "user", "password", "headers", "timeout", "allow_plain_http", "limit", "slice_minutes", "reach_days",
    "retention_days", "session_attributes",
}  # fmt: skip
_REMEDY = "set JAEGER_TOKEN, or JAEGER_USER and JAEGER_PASSWORD; with tenancy, tenant"
_SERVICES = 20
_LARGEST = 100
"""Services and the characters of one that are named in a message."""


class JaegerServer:
    """Asks one server. Safe to use from threads.

    Args:
        url: Base URL, with the base path an operator set.
        options: As of `JaegerSource`.

    Raises:
        ConfigError: an option is wrong, or credentials would travel over plain http off loopback.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self.service = str(options.get("service", ""))
        self.http = client_of("jaeger", url, options, public_headers=tenant_header(options), remedy=_REMEDY)
        self._v3: bool | None = None
        self._services: list[str] | None = None

    @property
    def v3(self) -> bool:
        """Whether the server has api_v3."""
        self.services()
        return self._v3 is not False

    def services(self) -> list[str]:
        """The services there are; asked once.

        Raises:
            ConfigError: the credentials are refused, or it is no Jaeger.
            PlatformError: it cannot be reached, or fails.
        """
        if self._services is None:
            answer = self.http.get("/api/v3/services", accept=(404,))
            self._v3 = answer.status != 404
            key = "services"
            if answer.status == 404:
                answer, key = self.http.get("/api/services", accept=(404,)), "data"
            if answer.status == 404:
                raise ConfigError(
                    f"jaeger: {self.url} is no Jaeger query service (neither /api/v3/services nor /api/services); "
                    "its port is 16686, and a base path (--query.base-path) belongs to the URL"
                )
            found = mapping(answer.json()).get(key)
            self._services = [str(one) for one in found] if isinstance(found, list) else []
        return self._services

    def search(
        self, since: int, until: int, limit: int, attributes: Mapping[str, str], *, on_problem: OnProblem
    ) -> list[list[Span]]:
        """Whole traces with a span in [since, until) (nanoseconds) that has all the attributes, in no order.

        Raises:
            ConfigError: the store needs a service, or the query or the credentials are refused.
            PlatformError: it cannot be reached, or fails.
        """
        if self.v3:
            return self._by_v3(since, until, limit, attributes, on_problem)
        return self._by_ui(since, until, limit, attributes, on_problem)

    def _by_v3(
        self, since: int, until: int, limit: int, attributes: Mapping[str, str], on_problem: OnProblem
    ) -> list[list[Span]]:
        answer = self.http.get(
            "/api/v3/traces",
            {
                "query.startTimeMin": rfc3339(since),
                "query.startTimeMax": rfc3339(until),
                "query.serviceName": self.service or None,
                "query.attributes": _json(attributes),
                "query.searchDepth": limit,
                "query.rawTraces": "true",
            },
            accept=(400, 404),
        )
        if answer.status == 404:
            return []  # no hit
        if answer.status == 400:
            raise self._refusal(_said(answer, "error", "message"))
        spans: list[Span] = []
        for document in _sequence(answer):
            if "error" in document:
                raise PlatformError(f"jaeger: {self.url} broke off in the middle of an answer", body=answer.body[:1000])
            result = mapping(document.get("result", document))
            if not result.get("resourceSpans"):
                continue
            try:
                spans += decode_traces_json(result, on_problem=on_problem)
            except RecordError:  # nothing but problems, each of which was told
                continue
        return _by_trace(spans)

    def _by_ui(
        self, since: int, until: int, limit: int, attributes: Mapping[str, str], on_problem: OnProblem
    ) -> list[list[Span]]:
        if not self.service:
            raise self._refusal("it needs a service")
        answer = self.http.get(
            "/api/traces",
            {
                "service": self.service,
                "start": since // 1000,
                "end": -(-until // 1000),
                "limit": limit,
                "tags": _json(attributes),
                "raw": "true",
            },
            accept=(400, 404),
        )
        if answer.status == 404:
            return []
        if answer.status == 400:
            raise self._refusal(_said(answer, "errors", "msg"))
        found = mapping(answer.json()).get("data")
        traces = [spans_of(trace, on_problem=on_problem) for trace in found] if isinstance(found, list) else []
        return [spans for spans in traces if spans]

    def _refusal(self, said: str) -> ConfigError:
        if self.service:
            known = self.service in self.services()
            hint = "" if known else f"; there is no service {shown(self.service)!r}, there are: {self._listed()}"
            return ConfigError(f"jaeger: {self.url} refused the search ({said}){hint}")
        return ConfigError(
            f"jaeger: {self.url} cannot search without a service ({said}); add ?service=NAME, there are: "
            f"{self._listed()}"
        )

    def _listed(self) -> str:
        names = [name[:_LARGEST] for name in self.services() if name != "otel-drift"]
        text = ", ".join(ascii(name)[1:-1] for name in names[:_SERVICES])[:200]
        return (text or "none") + (f" and {len(names) - _SERVICES} more" if len(names) > _SERVICES else "")


def rfc3339(nanoseconds: int) -> str:
    """A time as api_v3 takes it, with its nanoseconds."""
    whole = datetime.fromtimestamp(nanoseconds // SECOND, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{nanoseconds % SECOND:09d}Z"


def options(target: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The base URL and the options of target and settings.

    Raises:
        ConfigError: an option does not exist, or the URL is none.
    """
    default = os.environ.get("JAEGER_URL") or "http://localhost:16686"
    return options_of("jaeger", target, given, in_url=_IN_URL, known=_IN_SETTINGS, default=default)


def tenant_header(given: Mapping[str, Any]) -> dict[str, str]:
    """The header that names the tenant, where there is one."""
    tenant = str(given.get("tenant", ""))
    return {str(given.get("tenant_header", "x-tenant")): tenant} if tenant else {}


def _sequence(answer: Answer) -> list[Mapping[str, Any]]:
    """The JSON objects of an answer: one, or several one after another.

    Raises:
        PlatformError: it is none.
    """
    try:
        return [mapping(answer.json())]
    except PlatformError:
        text = answer.body.decode("utf-8", "replace").strip()
        found, at, decoder = [], 0, json.JSONDecoder()
        while at < len(text):
            try:
                document, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                raise PlatformError(
                    f"{answer.place} answered with something else than JSON; is the URL right?", status=answer.status
                ) from None
            found.append(mapping(document))
            while end < len(text) and text[end] in " \t\r\n,":
                end += 1
            at = end
        return found


def _by_trace(spans: Sequence[Span]) -> list[list[Span]]:
    """The answer merges all traces into one."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return list(traces.values())


def _said(answer: Answer, key: str, message: str) -> str:
    """What an error answer says, for people."""
    try:
        told = mapping(answer.json()).get(key)
        text = str(mapping(told[0] if isinstance(told, list) and told else told).get(message) or "")
    except PlatformError:
        text = answer.body.decode("utf-8", "replace")
    return " ".join(ascii(text[:120])[1:-1].split()) or "400"


def _json(attributes: Mapping[str, str]) -> str | None:
    return json.dumps(dict(attributes), ensure_ascii=False, separators=(",", ":")) if attributes else None
