"""Source ``phoenix``: sessions of a project, whole, by lists of sessions and traces and then their spans in bulk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otel_drift.errors import AnswerTooLargeError, RecordError
from otel_drift.model import Record, Span
from otel_drift.otlp.limits import ProblemLog, ReadLimits
from otel_drift.otlp.values import Decoding
from otel_drift.protocols import Window
from otel_drift_connectors.phoenix import feedback
from otel_drift_connectors.phoenix.filters import LATEST, active, chunks, has_value, overlaps
from otel_drift_connectors.phoenix.server import Server
from otel_drift_connectors.phoenix.spans import nanoseconds, span_of

SESSIONS_PAGE = 100
TRACES_PAGE = 1_000
TRACES_ASKED = 120
"""Trace ids in one request for spans: a URL of 5 KB."""
FIRST_PAGE, LARGEST_PAGE = 300, 1_000
"""Spans in one answer: at first, and the most that the API gives."""
ANSWER = 24 * 1024 * 1024
"""Bytes an answer should have at most: the next is asked for so many spans as come near it."""
PAGE = 250
"""Records yielded at once."""

NAMED_BY = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "mlflow.trace.session",
    "traceloop.association.properties.session_id",
    "langsmith.trace.session_id",
    "session_id",
    "conversation_id",
    "thread_id",
)
"""Attributes by which a session that is asked for by its id is looked for besides."""
_NAMES_SESSION = re.compile(
    r"(?:^|[._])(?:session|conversation|thread|chat)[._]?id\Z|\.trace\.session\Z", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Group:
    """Traces that are read together. `cursor` leads to them again; `last_traces` is the last trace by session id."""

    traces: Sequence[str]
    began: int
    ended: int
    cursor: str | None = None
    last_traces: Mapping[str, str] = field(default_factory=dict)


class PhoenixSource:
    """Reads the sessions of a project that were active in a window, each whole.

    Args:
        target: ``[URL][?project=NAME]``; see `Server`.
        on_problem: Told of every broken record.
        options: ``api_key``, ``headers``, ``timeout``, ``allow_plain_http``; see `Server`.

    Raises:
        ConfigError: the URL is none, or an option is wrong.
    """

    windowed = True

    def __init__(self, target: str, *, on_problem: Callable[[RecordError], None] | None = None, **options: Any) -> None:
        self._server = Server(target, **options)
        self.name = self._server.name
        url = self._server.http.url
        self.trace_url = f"{url}/redirects/spans/{{span_id}}"
        self.session_url = f"{url}/redirects/sessions/{{session_id}}"
        limits = ReadLimits()
        self._log = ProblemLog(limits, on_problem, file=self.name)
        self._decoding = Decoding(limits, self._log)
        self._limit = FIRST_PAGE

    @property
    def problem_count(self) -> int:
        """How many records were broken or cut."""
        return self._log.count

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._server.http.requests

    def check(self) -> str:
        """What is there; see `Server.verify`."""
        return self._server.verify()

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """Yield pages of spans.

        First come the sessions that Phoenix knows, then the traces of the window that are in none of these, and last
        the further traces of sessions that only attributes name: Phoenix makes sessions of ``session.id``, and gives a
        session to the project that had its id first. A cursor leads to the beginning of the list it came with.
        Environments, users and tags cannot be asked for: Phoenix keeps no resource, matches no lists, and looks for a
        user on the first span of a session alone.

        Raises:
            ConfigError: wrong key, project or URL, or a server too old.
            PlatformError: the server cannot be read on.
        """
        window = window or Window(0, LATEST)
        seen: set[str] = set()
        if window.sessions:
            for group in self._named(window.sessions, seen):
                for page in self._read(group):
                    yield page, group.cursor
            return
        stage, _, at = (cursor or "sessions:").partition(":")
        for group in self._sessions(window, at if stage == "sessions" else "", seen):
            if stage == "sessions":
                for page in self._read(group):
                    yield page, group.cursor
        nameless: dict[str, dict[str, None]] = {}
        for group in self._traces([("filter", overlaps(window.since, window.until))], seen):
            for page in self._read(group):
                _note_sessions(page, nameless)
                yield page, "traces:"
        for key, ids in nameless.items():
            for group in self._by_attribute((key,), ids, seen):
                for page in self._read(group):
                    yield page, "traces:"

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _sessions(self, window: Window, at: str, seen: set[str]) -> Iterator[_Group]:
        params = [("filter", active(window.since, window.until))]
        cursor: str | None = at or None
        while True:
            found, after, _ = self._server.page(self._path("sessions"), params, limit=SESSIONS_PAGE, cursor=cursor)
            traces: list[dict[str, Any]] = []
            last_traces = {}
            for session in found:
                of_session = session.get("traces") or []
                traces += of_session
                if of_session:
                    last_traces[str(session.get("session_id"))] = str(of_session[-1].get("trace_id"))
            if group := _group(traces, seen, f"sessions:{cursor or ''}", last_traces):
                yield group
            if after is None:
                return
            cursor = after

    def _traces(self, params: Sequence[tuple[str, str | int]], seen: set[str]) -> Iterator[_Group]:
        """The traces of a list that were not seen yet."""
        cursor = None
        while True:
            found, cursor, _ = self._server.page(
                self._path("traces"), [*params, ("order", "asc")], limit=TRACES_PAGE, cursor=cursor
            )
            if group := _group(found, seen):
                yield group
            if cursor is None:
                return

    def _named(self, session_ids: Iterable[str], seen: set[str]) -> Iterator[_Group]:
        for some in chunks(session_ids, overhead=len("session_identifier") + 2):
            yield from self._traces([("session_identifier", one) for one in some], seen)
        yield from self._by_attribute(NAMED_BY, session_ids, seen)

    def _by_attribute(self, keys: Sequence[str], session_ids: Iterable[str], seen: set[str]) -> Iterator[_Group]:
        for some in chunks(session_ids, overhead=10, most=200 // len(keys)):
            wanted = " or ".join(has_value(key, some) for key in keys)
            yield from self._traces([("filter", wanted)], seen)

    def _read(self, group: _Group) -> Iterator[list[Span]]:
        """The spans of a group, page by page; traces on which people commented come whole, after the others."""
        of_sessions = feedback.of_sessions(self._server, group.last_traces) if group.last_traces else {}
        said = {group.last_traces[session_id]: lines for session_id, lines in of_sessions.items()}
        commented = feedback.annotated(self._server, group.began, group.ended) | said.keys()
        for traces in chunks(group.traces, overhead=len("trace_id") + 2, most=TRACES_ASKED):
            held: list[Span] = []
            for spans in self._spans(traces):
                held += [span for span in spans if span.trace_id in commented]
                yield from _pages([span for span in spans if span.trace_id not in commented])
            if held:
                lines = feedback.of_traces(self._server, held)
                for trace_id in said.keys() & {span.trace_id for span in held}:
                    lines.setdefault(trace_id, []).extend(said[trace_id])
                yield from _pages(feedback.with_feedback(held, lines))

    def _spans(self, traces: Sequence[str]) -> Iterator[list[Span]]:
        params: list[tuple[str, str | int]] = [("trace_id", one) for one in traces]
        params += [("sort", "id"), ("order", "asc")]
        cursor = None
        while True:
            try:
                items, cursor, size = self._server.page(self._path("spans"), params, limit=self._limit, cursor=cursor)
            except AnswerTooLargeError:
                if self._limit == 1:
                    raise
                self._limit //= 2
                continue
            if items:
                self._limit = max(1, min(LARGEST_PAGE, ANSWER * len(items) // max(1, size)))
            yield [span for item in items if (span := self._restored(item)) is not None]
            if cursor is None:
                return

    def _restored(self, item: Any) -> Span | None:
        context = item.get("context") if isinstance(item, dict) else None
        self._decoding.where = str(context.get("span_id"))[:40] if isinstance(context, dict) else ""
        try:
            return span_of(item, self._server.project.name, self._decoding)
        except RecordError as problem:
            self._decoding.report(problem.reason, lost=True)
            return None

    def _path(self, what: str) -> str:
        return f"{self._server.project.path}/{what}"


def _group(
    traces: Sequence[Any], seen: set[str], cursor: str | None = None, last_traces: Mapping[str, str] | None = None
) -> _Group | None:
    """The traces of a list that are new, as a group; None where there is none."""
    new = {
        str(trace.get("trace_id")): nanoseconds(trace.get("start_time"))
        for trace in traces
        if str(trace.get("trace_id")) not in seen
    }
    if not new:
        return None
    seen.update(new)
    return _Group(tuple(new), min(new.values()), max(new.values()), cursor, last_traces or {})


def _note_sessions(spans: Iterable[Span], nameless: dict[str, dict[str, None]]) -> None:
    """Remember by which attribute these spans name a session, and which."""
    for span in spans:
        for key, value in span.attributes.items():
            if isinstance(value, str) and 0 < len(value) <= 200 and _NAMES_SESSION.search(key):
                nameless.setdefault(key, {})[value] = None


def _pages(spans: Sequence[Span]) -> Iterator[list[Span]]:
    for at in range(0, len(spans), PAGE):
        yield list(spans[at : at + PAGE])
