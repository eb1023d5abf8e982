"""MLflow: reading sessions whole, from the traces of a time window or by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from otel_drift.errors import AnswerTooLargeError, RecordError
from otel_drift.model import Record
from otel_drift.otlp import ProblemLog, ReadLimits
from otel_drift.otlp.values import Decoding
from otel_drift.protocols import Window
from otel_drift_connectors.mlflow.server import V3, MlflowServer, milliseconds, session_of
from otel_drift_connectors.mlflow.traces import spans_of

TRACES_A_REQUEST = 50
"""Traces with their spans asked for at once: the ids go into the URL, and an answer is held in memory."""


class MlflowSource:
    """The traces of an MLflow tracking server; see `MlflowServer` for target and options.

    A window is searched by when traces ran; the sessions found there are searched by name, all at once, so that each
    is whole. Traces without a session come alone. MLflow has no search for environment, user or tags that would not
    lose sessions whose instrumentation names them otherwise, so these narrow nothing here.
    """

    windowed = True

    def __init__(self, target: str, *, on_problem: Callable[[RecordError], None] | None = None, **options: Any) -> None:
        self._server = MlflowServer(target, **options)
        self._limits = ReadLimits()
        self._log = ProblemLog(self._limits, on_problem)
        self.name = self._server.name

    @property
    def problem_count(self) -> int:
        """How many broken records there were."""
        return self._log.count

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._server.http.requests

    @property
    def trace_url(self) -> str:
        """Where a person sees a trace, with ``{trace_id}``; empty before `check` or `read`."""
        return self._server.trace_url

    @property
    def session_url(self) -> str:
        """Where a person sees a session, with ``{session_id}``; likewise."""
        return self._server.session_url

    def check(self) -> str:
        """Say in a line what is there; see `MlflowServer.check`."""
        said = self._server.check()
        self._server.experiments()
        return said

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """Yield pages of spans; a page is a few dozen traces.

        The cursor is the time up to which a window was searched. See `otel_drift.protocols.Source`.

        Raises:
            PlatformError: the server cannot be read on.
            ConfigError: the experiment does not exist, or the credentials are refused.
        """
        self._log.file = self.name
        sessions: set[str] = set()
        traces: set[str] = set()
        if window is not None and window.sessions:
            for page in self._server.of_sessions(list(dict.fromkeys(window.sessions))):
                yield from ((records, None) for records in self._records(page, traces))
            return
        for found in self._server.infos(_within(window), int(cursor or 0)):
            new = [name for name in dict.fromkeys(map(session_of, found)) if name and name not in sessions]
            sessions.update(new)
            alone = [info for info in found if not session_of(info)]
            for page in chain(self._server.of_sessions(new), [alone]):
                for records in self._records(page, traces):
                    yield records, cursor
            if found:
                cursor = str(milliseconds(found[-1]))
                yield (), cursor

    def close(self) -> None:
        """Close the connections."""
        self._server.http.close()

    def _records(self, infos: Sequence[Mapping[str, Any]], done: set[str]) -> Iterator[list[Record]]:
        """The spans of traces that are not in `done`, a request's worth at a time."""
        wanted = [info for info in infos if info["trace_id"] not in done]
        done.update(info["trace_id"] for info in wanted)
        for first in range(0, len(wanted), TRACES_A_REQUEST):
            some = wanted[first : first + TRACES_A_REQUEST]
            page: list[Record] = []
            for trace in self._traces(some):
                page += spans_of(trace, self._project(trace), Decoding(self._limits, self._log))
            if page:
                yield page

    def _traces(self, infos: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        ids = [("trace_ids", info["trace_id"]) for info in infos]
        try:
            found = self._server.http.get(f"{V3}/traces/batchGet", ids).json().get("traces", [])
        except AnswerTooLargeError as error:
            if len(infos) == 1:
                self._log.report(f"the trace is passed over: {error}", infos[0]["trace_id"])
                return
            middle = len(infos) // 2
            yield from self._traces(infos[:middle])
            yield from self._traces(infos[middle:])
            return
        yield from found
        there = {trace.get("trace_info", {}).get("trace_id") for trace in found}
        for info in infos:
            if info["trace_id"] not in there:  # the batch leaves out traces that lack spans
                yield from self._partial(info)

    def _partial(self, info: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        query = {"trace_id": info["trace_id"], "allow_partial": "true"}
        answer = self._server.http.get(f"{V3}/traces/get", query, accept=(404,))
        if answer.status == 404:
            return  # deleted meanwhile
        trace = answer.json().get("trace") or {}
        if trace.get("spans"):
            yield trace
        elif info.get("state") != "IN_PROGRESS":
            self._log.report("MLflow holds no spans of this trace", info["trace_id"])

    def _project(self, trace: Mapping[str, Any]) -> str:
        location = (trace.get("trace_info") or {}).get("trace_location") or {}
        id_ = (location.get("mlflow_experiment") or {}).get("experiment_id")
        return next((one.name for one in self._server.experiments() if one.id == id_), "")


def _within(window: Window | None) -> str:
    if window is None:
        return ""
    # MLflow counts whole milliseconds, start and duration each cut: a trace may end up to two later than it says.
    since, until = window.since // 1_000_000 - 2, -(-window.until // 1_000_000)
    return f"trace.end_time_ms >= {max(since, 0)} AND trace.timestamp_ms < {min(until, 2**53)}"
