"""Which traces the sessions of a window have, inside it and out, and their spans, each observation once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from otel_drift import retry
from otel_drift.errors import RecordError, RetryablePlatformError
from otel_drift.model import Span
from otel_drift.protocols import Window
from otel_drift.retry import RetryPolicy
from otel_drift_connectors.langfuse import feedback
from otel_drift_connectors.langfuse.connection import Connection
from otel_drift_connectors.langfuse.observations import SESSION_KEYS, session_of, spans_of
from otel_drift_connectors.langfuse.reading import (
    MOST_IDS,
    Filter,
    all_tags,
    any_of,
    in_lists,
    metadata_is,
    observations,
)

if TYPE_CHECKING:
    from langfuse.api.commons.types.observation_v2 import ObservationV2

MERGING = RetryPolicy(attempts=8, total_seconds=90.0, initial=2.0, maximum=15.0)
"""How long an observation that shows once per version is read anew (measured: they are merged after some 15 s)."""

_FIELDS = "core,basic,time,io,metadata,model,prompt,trace_context"
_FULL_PAGE = 950
"""Observations that a page is aimed at: a few more than it takes would cost a second request."""
_PAGES_AT_ONCE = 3
"""Pages of one list of traces, aimed at: they are held in memory until each observation is seen to be unique."""
_BEFORE = timedelta(days=1)
"""How much earlier than its first known observation a trace is looked for: its session may be known from a late one."""
_CUT = 200


class Reading:
    """One reading of a window: which traces and sessions are known, and which are still to be read."""

    def __init__(
        self,
        connection: Connection,
        window: Window,
        history: timedelta | None,
        report: Callable[[RecordError], None],
    ) -> None:
        self._connection = connection
        self._window = window
        self._since, self._until = _time(window.since), _time(window.until)
        self._earliest = self._since - history if history and not window.sessions else None
        self._tell = report
        self._told: set[str] = set()
        self._started: dict[str, datetime] = {}
        """Every trace known so far, with the start of its first known observation."""
        self._sessions: set[str] = set()
        self._doubled: dict[str, None] = {}
        self._said: dict[str, str | None] = {}
        """What was said of sessions as a whole, of each that was asked for."""
        self._rated: dict[str, tuple[str, Span]] = {}
        """Sessions that were rated as a whole: what was said, and the root of the latest trace."""
        self._at_once = MOST_IDS

    def spans(self) -> Iterator[list[Span]]:
        """The spans, trace by trace, some traces at a time."""
        waiting = self._named() if self._window.sessions else self._in_window()
        while waiting:
            marks: dict[tuple[str, str], None] = {}
            for rows in self._traces(sorted(waiting, key=lambda one: (self._started[one], one))):
                marks |= dict.fromkeys(found for row in rows if (found := session_of(row)))
                yield self._finished(rows)
            waiting = self._elsewhere([mark for mark in marks if mark[1] not in self._sessions])
        for some in in_lists(self._doubled):
            yield self._finished(self._merged(some))
        yield [_rated(root, said) for said, root in self._rated.values()]

    def _report(self, problem: RecordError) -> None:
        """Tell of a problem, once, however often its observation is met."""
        if str(problem) not in self._told:
            self._told.add(str(problem))
            self._tell(problem)

    # Which traces

    def _in_window(self) -> list[str]:
        """Traces with a root or a model call in the window.

        Roots alone are not enough: a conversation in one long trace has its root before the window, and one that is
        still running has none yet. Where users or tags are asked for, any observation that has them tells.
        """
        within: dict[str, Any] = {"since": self._since, "until": self._until}
        if self._window.environments:
            within["environment"] = list(self._window.environments)
        filters: list[Filter] = []
        if self._window.users:
            filters.append(any_of("userId", self._window.users))
        if self._window.tags:
            filters.append(all_tags(self._window.tags))
        if filters:
            return self._new(self._observations("core", filters, **within))
        roots = self._new(self._observations("core", is_root_observation=True, **within))
        calls = self._observations("core", is_root_observation=False, type="GENERATION", **within)
        return [*roots, *self._new(calls)]

    def _named(self) -> list[str]:
        """Traces of the sessions named, whenever they were."""
        found: list[str] = []
        for some in in_lists(self._window.sessions):
            missing = set(some)
            for page in self._observations("core,basic", [any_of("sessionId", some)]):
                missing -= {row.session_id for row in page if row.session_id}
                found += self._new([page])
            for session in sorted(missing):
                for key in SESSION_KEYS:
                    if new := self._new(self._by_metadata(key, session)):
                        found += new
                        break
        return found

    def _elsewhere(self, marks: list[tuple[str, str]]) -> list[str]:
        """Traces outside the window of sessions that were found in it."""
        found: list[str] = []
        self._sessions |= {session for _, session in marks}
        for since, until in self._outside():
            for some in in_lists([session for key, session in marks if not key]):
                found += self._new(self._observations("core", [any_of("sessionId", some)], since=since, until=until))
            for key, session in marks:
                if key:
                    found += self._new(self._by_metadata(key, session, since=since, until=until))
        return found

    def _outside(self) -> list[tuple[datetime | None, datetime | None]]:
        if self._window.sessions:
            return []
        after: list[tuple[datetime | None, datetime | None]] = (
            [(self._until, None)] if self._until < datetime.now(UTC) else []
        )
        return [(self._earliest, self._since), *after]

    def _by_metadata(self, key: str, session: str, **within: Any) -> Iterator[list[ObservationV2]]:
        """Observations that name a session under a metadata key.

        What the SDK wrote is stored as JSON, quotes and all, on some servers: it is looked for as a part.
        """
        if key.startswith("attributes."):
            yield from self._observations("core", [metadata_is(key, session)], **within)
            return
        part = [metadata_is(key, session, "contains")]
        for page in self._observations("core,metadata", part, expand_metadata=key, **within):
            yield [row for row in page if str((row.metadata or {}).get(key)) == session]

    def _observations(self, fields: str, filters: Sequence[Filter] = (), **more: Any) -> Iterator[list[ObservationV2]]:
        return observations(self._connection, fields, filters, report=self._report, **more)

    def _new(self, pages: Iterator[list[ObservationV2]] | list[list[ObservationV2]]) -> list[str]:
        """Take note of the traces on some pages; returns those not known before."""
        found: list[str] = []
        for page in pages:
            for row in page:
                if row.trace_id is None:
                    self._report(RecordError("an observation without a trace", record=row.id))
                elif row.trace_id not in self._started:
                    found.append(row.trace_id)
                    self._started[row.trace_id] = row.start_time
                else:
                    self._started[row.trace_id] = min(row.start_time, self._started[row.trace_id])
        return found

    # What is in them

    def _traces(self, trace_ids: list[str]) -> Iterator[list[ObservationV2]]:
        """The observations of traces, some whole traces at a time. Those that show doubled are put off."""
        while trace_ids:
            some = next(in_lists(trace_ids, self._at_once))
            trace_ids = trace_ids[len(some) :]
            rows = self._rows(some)
            self._at_once = _traces_at_once(len(rows) / len(some))
            doubled = _doubled(rows)
            self._doubled |= dict.fromkeys(doubled)
            yield [row for row in rows if row.trace_id not in doubled]

    def _rows(self, trace_ids: list[str]) -> list[ObservationV2]:
        since = min(self._started[one] for one in trace_ids) - _BEFORE
        rows = self._of_traces(trace_ids, since)
        if cut := _cut_keys(rows):
            rows = self._of_traces(trace_ids, since, expand_metadata=",".join(cut))
        return rows

    def _of_traces(self, trace_ids: list[str], since: datetime, **more: Any) -> list[ObservationV2]:
        pages = self._observations(_FIELDS, [any_of("traceId", trace_ids)], since=since, **more)
        return [row for page in pages for row in page]

    def _merged(self, trace_ids: list[str]) -> list[ObservationV2]:
        """Observations that were sent more than once, when each shows once; until then their text is of any version."""
        latest: list[ObservationV2] = []

        def once() -> list[ObservationV2]:
            latest[:] = self._rows(trace_ids)
            if _doubled(latest):
                raise RetryablePlatformError("langfuse: observations that were sent again are still being merged")
            return latest

        try:
            return retry.call(MERGING, once, retry_on=RetryablePlatformError, what="langfuse")
        except RetryablePlatformError:
            doubled = _doubled(latest)
            if not doubled:
                raise
        for trace_id in sorted(doubled):
            reason = "observations sent again are not merged yet; read as they are"
            self._report(RecordError(reason, record=trace_id, lost=False))
        newest: dict[tuple[str | None, str], ObservationV2] = {}
        for row in sorted(latest, key=lambda one: one.updated_at or one.start_time):
            newest[row.trace_id, row.id] = row
        return list(newest.values())

    def _finished(self, rows: list[ObservationV2]) -> list[Span]:
        """Spans with people's feedback on their roots."""
        traces: dict[str, list[ObservationV2]] = {}
        for row in rows:
            if row.trace_id is not None:
                traces.setdefault(row.trace_id, []).append(row)
        on_trace = feedback.of_traces(self._connection, list(traces))
        sessions = {row.session_id for row in rows if row.session_id} - self._said.keys()
        self._said |= dict.fromkeys(sessions) | feedback.of_sessions(self._connection, sorted(sessions))
        made: list[Span] = []
        for trace_id, of_trace in traces.items():
            spans = spans_of(of_trace)
            if trace_id in on_trace:
                spans[0] = _rated(spans[0], on_trace[trace_id])
            for session in {row.session_id for row in of_trace if row.session_id}:
                said, known = self._said[session], self._rated.get(session)
                if said and (known is None or known[1].start <= spans[0].start):
                    self._rated[session] = (said, spans[0])
            made += spans
        return made


def _traces_at_once(observations_each: float) -> int:
    """How many traces of such a size fill some pages, and nearly nothing of a further one."""
    pages = min(max(int(MOST_IDS * observations_each / _FULL_PAGE), 1), _PAGES_AT_ONCE)
    return min(max(int(pages * _FULL_PAGE / max(observations_each, 1)), 1), MOST_IDS)


def _rated(root: Span, said: str) -> Span:
    known = root.attributes.get("user.feedback")
    lines = f"{known}\n{said}" if known else said
    return replace(root, attributes={**root.attributes, "user.feedback": lines})


def _doubled(rows: list[ObservationV2]) -> set[str]:
    """Traces of which an observation comes more than once."""
    seen: set[tuple[str | None, str]] = set()
    found: set[str] = set()
    for row in rows:
        key = row.trace_id, row.id
        if key in seen and row.trace_id is not None:
            found.add(row.trace_id)
        seen.add(key)
    return found


def _cut_keys(rows: list[ObservationV2]) -> list[str]:
    """Metadata keys that the server cut to 200 characters; none where it shows that it leaves longer ones."""
    lengths: dict[str, int] = {}
    for row in rows:
        for key, value in (row.metadata or {}).items():
            if isinstance(value, str) and len(value) >= _CUT:
                lengths[key] = max(len(value), lengths.get(key, 0))
            elif isinstance(value, dict | list) and len(str(value)) > 2 * _CUT:
                return []
    return [] if any(length > _CUT for length in lengths.values()) else sorted(lengths)


def _time(nanoseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
