"""Source ``langfuse``: sessions of a time window, each whole, from the observations of a Langfuse project.

roots and model calls of the window ─▶ their traces, many a request ─▶ their sessions' traces outside the window ─▶ …
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from otel_drift.errors import ConfigError, RecordError
from otel_drift.model import Record
from otel_drift.protocols import Window
from otel_drift_connectors.langfuse.connection import Connection
from otel_drift_connectors.langfuse.sessions import Reading

PAGE = 500
"""Most spans in a page that is passed on."""


class LangfuseSource:
    """Reads from a Langfuse project, self-hosted v4 or Cloud, through the SDK's API client.

    Args:
        target: What follows ``langfuse:``, see `Connection.open`.
        on_problem: Told of each observation that could not be read.
        public_key: Else ``LANGFUSE_PUBLIC_KEY``.
        secret_key: Else ``LANGFUSE_SECRET_KEY``.
        base_url: Else ``LANGFUSE_BASE_URL``.
        timeout: Seconds for one request.
        allow_plain_http: Let the keys travel unencrypted to another machine.
        history_days: How long before the window a session's earlier traces are looked for; 0 = without end, which is
            a heavy query on a large project.

    Raises:
        ConfigError: a key is missing or an option is wrong.
    """

    windowed = True

    def __init__(
        self,
        target: str = "",
        *,
        on_problem: Callable[[RecordError], None] | None = None,
        public_key: str | None = None,
        secret_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
        allow_plain_http: bool = False,
        history_days: float = 30.0,
    ) -> None:
        if isinstance(history_days, bool) or not isinstance(history_days, int | float) or not 0 <= history_days < 36500:
            raise ConfigError("langfuse: history_days in [connectors.langfuse] is a number of days, 0 or more")
        self.connection = Connection.open(
            target,
            public_key=public_key,
            secret_key=secret_key,
            base_url=base_url,
            timeout=timeout,
            allow_plain_http=allow_plain_http,
        )
        self.name = self.connection.name
        self.problem_count = 0
        self._on_problem = on_problem
        self._history = timedelta(days=history_days) if history_days else None

    def check(self) -> str:
        """Say which server and project there is.

        Raises:
            ConfigError: wrong keys, project or URL, or a server too old.
            PlatformError: it cannot be reached.
        """
        return self.connection.verify()

    @property
    def trace_url(self) -> str:
        """Where a person sees a span."""
        return self._page("traces/{trace_id}?observation={span_id}")

    @property
    def session_url(self) -> str:
        """Where a person sees a session."""
        return self._page("sessions/{session_id}")

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """Yield the spans of every session of the window. There are no cursors: a reading begins anew.

        Raises:
            ConfigError: no window, or wrong keys.
            SourceError: the server cannot be read on.
        """
        if window is None:
            raise ConfigError("langfuse: it holds more than one reads at once; say since when, by --since")
        self.connection.verify()
        for spans in Reading(self.connection, window, self._history, self._report).spans():
            for place in range(0, len(spans), PAGE):
                yield spans[place : place + PAGE], None

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def _page(self, path: str) -> str:
        project = self.connection.project.id.replace("{", "{{").replace("}", "}}")
        return f"{self.connection.base_url}/project/{project}/{path}"

    def _report(self, problem: RecordError) -> None:
        self.problem_count += 1
        if self._on_problem is not None:
            self._on_problem(problem)
