"""Source ``tempo:URL``: chat sessions from Grafana Tempo, found by TraceQL search, each trace read by its id."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from otel_drift.errors import ConfigError, RecordError
from otel_drift.model import Record, Span
from otel_drift.otlp.limits import ProblemLog, ReadLimits
from otel_drift.otlp.values import TRUNCATED
from otel_drift.platform import shown
from otel_drift.protocols import Window
from otel_drift_connectors.audit_spans import AuditSpanSink
from otel_drift_connectors.tempo import traceql
from otel_drift_connectors.tempo.answers import TraceAnswer, marked
from otel_drift_connectors.tempo.server import OLDEST, TempoServer, tenant_header, trace_url
from otel_drift_connectors.tempo.server import options as connection_options
from otel_drift_connectors.trace_stores import (
    DAY,
    LONGEST_ID,
    SECOND,
    SESSION_ATTRIBUTES,
    SessionIds,
    Slices,
    TooMuchError,
    mapping,
    name_of,
    names,
    number,
)

HOUR = DAY // 24
PAGE = 200
"""Records a page."""
FETCHED_AT_ONCE = 4
LONGEST_SEARCH = 168 * 3600 * SECOND
"""Tempo's default ``max_duration``; a server that allows less says so, and is asked for less."""
MOST_TRACES = 262_144
"""Tempo's highest ``limit``."""
LONGEST_QUERY = 6_000
"""Characters of a query; proxies take 8 KB of request line."""


class TempoSource:
    """Reads whole sessions out of Tempo.

    Args:
        target: ``http(s)://HOST:3200[/PREFIX]`` with, in its query, `service` (of the application), `tenant`
            (``X-Scope-OrgID``), `query` (a further TraceQL condition, ``span.a = "b"`` or ``{ … }``), `condition` (in
            place of the one that finds chat traces), `grafana` (URL, for links, with `datasource`, the uid of the Tempo
            data source there). Empty: ``TEMPO_URL``, else ``http://localhost:3200``.
        on_problem: Told of broken spans, traces that are not whole or gone, and texts that were cut.
        options: The same, and `token`, `user`, `password` (else ``TEMPO_TOKEN``, ``TEMPO_USER``, ``TEMPO_PASSWORD``),
            `headers`, `timeout` (seconds), `allow_plain_http`, `limit` (traces a search), `slice_minutes` (of the first
            search), `reach_days` (how far around the window the rest of a session is looked for), `retention_days` (how
            far back a session named by its id is), `session_attributes`, `max_attribute_bytes` (of the server),
            `protobuf` (ask for traces in it).

    Raises:
        ConfigError: an option is wrong, or credentials would travel over plain http off loopback.
    """

    windowed = True
    session_url = ""

    def __init__(
        self, target: str = "", *, on_problem: Callable[[RecordError], None] | None = None, **options: Any
    ) -> None:
        url, given = connection_options(target, options)
        self.name = name_of("tempo", url, given, "service", "tenant")
        self.trace_url = trace_url(given)
        self._log = ProblemLog(ReadLimits(), on_problem, file=self.name)
        self._server = TempoServer(url, given)
        self._service = str(given.get("service", ""))
        self._attributes = names(given, "session_attributes", SESSION_ATTRIBUTES)
        self._condition = str(given.get("condition", "")) or traceql.exists(
            (*self._attributes, *traceql.CHAT_ATTRIBUTES)
        )
        self._query = str(given.get("query", ""))
        self._limit = int(number("tempo", given, "limit", 500))
        self._slice = int(number("tempo", given, "slice_minutes", 60) * 60) * SECOND
        self._reach = int(number("tempo", given, "reach_days", 6, at_least=0) * DAY)
        self._retention = int(number("tempo", given, "retention_days", 30) * DAY)
        self._attribute_bytes = int(number("tempo", given, "max_attribute_bytes", 2048))
        self._longest = LONGEST_SEARCH

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

        Raises:
            ConfigError: the server refuses the query or the credentials.
            PlatformError: it cannot be read on.
        """
        now = time.time_ns()
        window = window or Window(now - DAY, now)
        reading = _Reading(SessionIds(self._attributes))
        around = self._reach
        if window.sessions:
            around = self._retention
            for session_id in window.sessions:
                for attribute in self._attributes:
                    reading.sessions.add(attribute, session_id)
        else:
            for hits in self._search(self._chats(window), window.since, window.until):
                yield from self._traces(hits, reading)
        since, until = max(0, window.since - around), max(window.until, min(now, window.until + around))
        while pairs := reading.sessions.take():
            for batch in self._batches(pairs, reading):
                query = traceql.search([traceql.equals(batch), *self._of_service()], self._attributes)
                for hits in self._search(query, since, until, first=until - since):
                    yield from self._traces(hits, reading)
        if reading.cut:
            self._log.report(
                f"texts of {reading.cut} spans end at {self._attribute_bytes} bytes: cut by the store, passages count "
                "as partly captured; raise max_attribute_bytes in Tempo's distributor (per tenant: ingestion)",
                lost=False,
            )

    def check(self) -> str:
        """Ask for the version, and search once.

        Raises:
            ConfigError: wrong URL, credentials, tenant or query, or a server without TraceQL.
            PlatformError: it cannot be reached.
        """
        version = self._server.version()
        if version and tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
            raise ConfigError(
                f"tempo: {self._server.url} is Tempo {version}; TraceQL came with 2.0: upgrade the server"
            )
        found, back = self._latest(time.time_ns())
        seen = f"has {'chat traces' if found else 'no chat trace'} of the last {back / HOUR:g} hours"
        of_service = f", service {shown(self._service)!r}" * bool(self._service)
        return f"Tempo{f' {version}' * bool(version)} at {self._server.url}{of_service} {seen}"

    def close(self) -> None:
        """Close the connections."""
        self._server.http.close()

    # Searching

    def _latest(self, now: int) -> tuple[bool, int]:
        """Whether there are chats of the last day, or of as much as the server searches at once; and of how much."""
        back = DAY
        while True:
            window = Window(now - back, now)
            try:
                return bool(self._server.search(self._chats(window), window.since, now, 1)), back
            except TooMuchError:
                if back <= HOUR // 4:
                    raise
                back //= 2

    def _chats(self, window: Window) -> str:
        """The query for traces of conversations in a window; what narrows them may hold on any span of a trace."""
        own = self._condition.strip()
        if self._service and not own.startswith("{"):
            own = f"({own}) && {traceql.equals([('service.name', self._service)], 'resource')}"
            conditions = [own]
        else:
            conditions = [own, *self._of_service()]
        if self._query:
            conditions.append(self._query)
        if window.environments:
            conditions.append(traceql.one_of(traceql.ENVIRONMENT_ATTRIBUTES, window.environments))
        if window.users:
            conditions.append(traceql.one_of(traceql.USER_ATTRIBUTES, window.users))
        conditions += [traceql.one_of(traceql.TAG_ATTRIBUTES, [tag]) for tag in window.tags]
        return traceql.search(conditions, self._attributes)

    def _of_service(self) -> list[str]:
        return [traceql.equals([("service.name", self._service)], "resource")] if self._service else []

    def _batches(
        self, pairs: Sequence[tuple[str, str | int]], reading: _Reading
    ) -> Iterator[list[tuple[str, str | int]]]:
        """As many ids a query as fit."""
        batch: list[tuple[str, str | int]] = []
        size = 0
        for name, value in pairs:
            if len(str(value)) > LONGEST_ID:
                reading.long_ids += 1
                if reading.long_ids == 1:
                    self._log.report(f"a session id is longer than {LONGEST_ID} characters; only its traces in the "
                                  "window are read", lost=False)  # fmt: skip
                continue
            cost = len(quote(traceql.equals([(name, value)]))) + 10
            if batch and size + cost > LONGEST_QUERY:
                yield batch
                batch, size = [], 0
            batch.append((name, value))
            size += cost
        if batch:
            yield batch

    def _search(self, query: str, since: int, until: int, *, first: int = 0) -> Iterator[Sequence[dict[str, Any]]]:
        slices = Slices(
            first=first or self._slice,
            shortest=SECOND,
            longest=self._longest,
            limit=self._limit,
            highest=MOST_TRACES,
            on_full=lambda start, _end: self._log.report(
                f"more than {MOST_TRACES} traces in the second from {start // SECOND}; some were not read"
            ),
        )
        begin, end = since // SECOND * SECOND, -(-until // SECOND) * SECOND
        return slices.found(lambda at, to, limit: self._server.search(query, at, to, limit), begin, end)

    # Traces

    def _traces(
        self, hits: Sequence[dict[str, Any]], reading: _Reading
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        wanted = []
        for hit in hits:
            reading.note(hit)
            trace_id = str(hit.get("traceID", "")).lower().rjust(32, "0")
            if not re.fullmatch("[0-9a-f]{32}", trace_id):
                self._log.report("a search hit without a trace id")
            elif reading.is_new(trace_id):
                wanted.append(trace_id)
        with ThreadPoolExecutor(FETCHED_AT_ONCE, thread_name_prefix="tempo") as pool:
            for at in range(0, len(wanted), FETCHED_AT_ONCE):
                for trace_id, (trace, problems) in zip(
                    wanted[at : at + FETCHED_AT_ONCE],
                    pool.map(self._server.trace, wanted[at : at + FETCHED_AT_ONCE]),
                    strict=True,
                ):
                    for problem in problems:
                        self._log.report(problem.reason, trace_id, lost=problem.lost)
                    spans = [self._marked(span, trace, reading) for span in trace.spans]
                    reading.sessions.note(spans, every=True)
                    for begin in range(0, len(spans), PAGE):
                        yield spans[begin : begin + PAGE], None

    def _marked(self, span: Span, trace: TraceAnswer, reading: _Reading) -> Span:
        result = marked(span, self._attribute_bytes, partial=bool(trace.partial))
        reading.cut += result is not span and TRUNCATED in result.attributes
        return result


class TempoSink(AuditSpanSink):
    """Writes audit spans into the audited traces, by OTLP, to the endpoint that feeds the Tempo named.

    Takes what `TempoSource` takes; `otlp`, `logs` and `otlp_headers` are its own (see `AuditSpanSink`).
    """

    def __init__(self, target: str = "", **options: Any) -> None:
        url, given = connection_options(target, options)
        super().__init__("tempo", name_of("tempo", url, given, "tenant"), given, tenant_header(given))


@dataclass(slots=True)
class _Reading:
    """What one reading remembers: ids only."""

    sessions: SessionIds
    seen: set[bytes] = field(default_factory=set)
    cut: int = 0
    long_ids: int = 0

    def is_new(self, trace_id: str) -> bool:
        key = bytes.fromhex(trace_id)
        if key in self.seen:
            return False
        self.seen.add(key)
        return True

    def note(self, hit: Mapping[str, Any]) -> None:
        """Take the session ids of a search hit's selected attributes."""
        sets = hit.get("spanSets") or [hit.get("spanSet")]
        for found in sets if isinstance(sets, list) else []:
            for span in mapping(found).get("spans") or []:
                for attribute in mapping(span).get("attributes") or []:
                    name = str(mapping(attribute).get("key", ""))
                    value = mapping(mapping(attribute).get("value"))
                    if name in self.sessions.attributes:
                        text, whole = value.get("stringValue"), value.get("intValue")
                        if isinstance(text, str) and text:
                            self.sessions.add(name, text)
                        elif whole is not None and re.fullmatch(r"-?\d{1,19}", str(whole)):
                            self.sessions.add(name, int(whole))
