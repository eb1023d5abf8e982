"""Source ``jaeger:URL?service=NAME``: chat sessions from Jaeger, read by time and completed session by session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from otel_drift.errors import RecordError
from otel_drift.model import Record, Span
from otel_drift.otlp.limits import ProblemLog, ReadLimits
from otel_drift.platform import shown
from otel_drift.protocols import Window
from otel_drift_connectors.audit_spans import AuditSpanSink
from otel_drift_connectors.jaeger.server import JaegerServer, tenant_header
from otel_drift_connectors.jaeger.server import options as connection_options
from otel_drift_connectors.trace_stores import (
    DAY,
    SECOND,
    SESSION_ATTRIBUTES,
    SessionIds,
    Slices,
    name_of,
    names,
    number,
)

PAGE = 200
"""Records a page."""
SHORTEST = SECOND // 1000
MOST_TRACES = 10_000
LONGEST_SEARCHED = 256
"""Elasticsearch and OpenSearch pass over longer values in searches (characters)."""


class JaegerSource:
    """Reads whole sessions out of Jaeger.

    Args:
        target: ``http(s)://HOST:16686[/BASE]`` with, in its query, `service` (some stores need one), `tenant` and
            `tenant_header` (``x-tenant``). Empty: ``JAEGER_URL``, else ``http://localhost:16686``.
        on_problem: Told of broken spans, and of what could not be read.
        options: The same, and `token`, `user`, `password` (else ``JAEGER_TOKEN``, …: for a proxy; Jaeger has no login),
            `headers`, `timeout` (seconds), `allow_plain_http`, `limit` (traces a search), `slice_minutes` (of the first
            search), `reach_days` (how far around the window the rest of a session is looked for; 0 = nowhere, which
            saves a request a session), `retention_days` (how far back a session named by its id is),
            `session_attributes`.

    Raises:
        ConfigError: an option is wrong, or credentials would travel over plain http off loopback.
    """

    windowed = True
    session_url = ""

    def __init__(
        self, target: str = "", *, on_problem: Callable[[RecordError], None] | None = None, **options: Any
    ) -> None:
        url, given = connection_options(target, options)
        self.name = name_of("jaeger", url, given, "service", "tenant")
        self.trace_url = f"{url}/trace/{{trace_id}}"
        self._log = ProblemLog(ReadLimits(), on_problem, file=self.name)
        self._server = JaegerServer(url, given)
        self._attributes = names(given, "session_attributes", SESSION_ATTRIBUTES)
        self._limit = int(number("jaeger", given, "limit", 100))
        self._slice = int(number("jaeger", given, "slice_minutes", 60) * 60) * SECOND
        self._reach = int(number("jaeger", given, "reach_days", 6, at_least=0) * DAY)
        self._retention = int(number("jaeger", given, "retention_days", 30) * DAY)

    @property
    def problem_count(self) -> int:
        """How many problems there were."""
        return self._log.count

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._server.http.requests

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """Yield the spans of every session that has one in the window, whole traces, each trace once.

        Jaeger searches attributes exactly and on one span, without "or": users, environments and tags narrow nothing
        here, and the rest of each session is a request of its own.

        Raises:
            ConfigError: the store needs a service, or the credentials are refused.
            PlatformError: it cannot be read on.
        """
        now = time.time_ns()
        window = window or Window(now - DAY, now)
        sessions, seen = SessionIds(self._attributes), set[bytes]()
        around = self._reach
        if window.sessions:
            around = self._retention
            for session_id in window.sessions:
                for attribute in self._attributes:
                    sessions.add(attribute, session_id)
        else:
            for traces in self._search({}, window.since, window.until, first=self._slice):
                yield from self._pages(traces, sessions, seen)
        if not around and not window.sessions:
            return
        since, until = max(0, window.since - around), max(window.until, min(now, window.until + around))
        while pairs := sessions.take():
            for attribute, value in pairs:
                if len(str(value)) > LONGEST_SEARCHED:
                    self._log.report(
                        f"a session id is longer than {LONGEST_SEARCHED} characters and cannot be searched; only its "
                        "traces in the window are read",
                        lost=False,
                    )
                    continue
                for traces in self._search({attribute: str(value)}, since, until, first=until - since):
                    yield from self._pages(traces, sessions, seen)

    def check(self) -> str:
        """Ask for the services, and search once.

        Raises:
            ConfigError: wrong URL or credentials, a service that is needed or not there.
            PlatformError: it cannot be reached.
        """
        services, service = self._server.services(), self._server.service
        now = time.time_ns()
        found = self._server.search(now - DAY, now, 1, {}, on_problem=lambda _problem: None)
        way = "api_v3" if self._server.v3 else "its older API"
        what = f"service {shown(service)!r}" if service else f"{len(services)} service{'s' * (len(services) != 1)}"
        missing = " (not known there yet)" if service and service not in services else ""
        seen = "traces of the last 24 hours" if found else "no trace of the last 24 hours"
        return f"Jaeger at {self._server.url} by {way}: {what}{missing}, {seen}"

    def close(self) -> None:
        """Close the connections."""
        self._server.http.close()

    def _search(
        self, attributes: Mapping[str, str], since: int, until: int, *, first: int
    ) -> Iterator[Sequence[list[Span]]]:
        slices = Slices(
            first=first,
            shortest=SHORTEST,
            longest=until - since,
            limit=self._limit,
            highest=MOST_TRACES,
            on_full=lambda start, _end: self._log.report(
                f"more than {MOST_TRACES} traces in the millisecond from {start // SHORTEST}; some were not read"
            ),
        )
        return slices.found(
            lambda at, to, limit: self._server.search(at, to, limit, attributes, on_problem=self._told), since, until
        )

    def _pages(
        self, traces: Sequence[list[Span]], sessions: SessionIds, seen: set[bytes]
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        page: list[Record] = []
        for spans in traces:
            key = bytes.fromhex(spans[0].trace_id)
            if key in seen:
                continue
            seen.add(key)
            sessions.note(spans, every=False)
            page += spans
            while len(page) >= PAGE:
                yield page[:PAGE], None
                page = page[PAGE:]
        if page:
            yield page, None

    def _told(self, problem: RecordError) -> None:
        self._log.report(problem.reason, problem.record, lost=problem.lost)


class JaegerSink(AuditSpanSink):
    """Writes audit spans into the audited traces, by OTLP, to the endpoint that feeds the Jaeger named.

    Takes what `JaegerSource` takes; `otlp`, `logs` and `otlp_headers` are its own (see `AuditSpanSink`).
    """

    def __init__(self, target: str = "", **options: Any) -> None:
        url, given = connection_options(target, options)
        super().__init__("jaeger", name_of("jaeger", url, given, "tenant"), given, tenant_header(given))
