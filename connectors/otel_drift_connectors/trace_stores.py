"""What reading Tempo and Jaeger has in common: options, slices of time that fit into one answer, session ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from otel_drift.errors import ConfigError, PlatformError
from otel_drift.model import Span
from otel_drift.platform import Platform, Target

T = TypeVar("T")

SECOND = 1_000_000_000
DAY = 24 * 3600 * SECOND

SESSION_ATTRIBUTES = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "langfuse.trace.session_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.session_id",
    "ai.settings.context.sessionId",
    "ai.settings.runtimeContext.sessionId",
    "mlflow.trace.session",
    "langsmith.metadata.session_id",
    "langsmith.metadata.conversation_id",
    "langsmith.metadata.thread_id",
    "gcp.vertex.agent.session_id",
)
"""Span attributes that name a session, the most deliberate first."""

LONGEST_ID = 512
"""Characters of a session id that is searched for."""

SINK_OPTIONS = frozenset({"otlp", "logs", "otlp_headers"})
"""Options of the sink; source and sink are given the same ones."""


class TooMuchError(PlatformError):
    """The store refuses a search over so long a time, or an answer so large: ask for less."""


def options_of(
    platform: str,
    target: str,
    settings: Mapping[str, Any],
    *,
    in_url: Collection[str],
    known: Collection[str],
    default: str,
) -> tuple[str, dict[str, Any]]:
    """The base URL, and the options of the target's query and of the settings; the query counts first.

    Args:
        platform: The connector's name.
        target: What follows ``NAME:``.
        settings: Of ``[connectors.NAME]``.
        in_url: Options the query may have.
        known: Those that only the settings may have.
        default: The URL where the target has none.

    Raises:
        ConfigError: no URL, or an option that does not exist.
    """
    where = Target.parse(platform, target, options=in_url, default=default.rstrip("/"))
    allowed = {*in_url, *known}
    for name in settings:
        if name not in allowed:
            raise ConfigError(
                f"[connectors.{platform}]: there is no option {name!r}; there are: {', '.join(sorted(allowed))}"
            )
    given = {name: value for name, value in settings.items() if value is not None}
    return where.url, {**given, **where.options}


def name_of(platform: str, url: str, options: Mapping[str, Any], *shown: str) -> str:
    """The stable name of a source or sink: its URL and those of its options that choose what is there."""
    chosen = {key: str(options[key]) for key in shown if options.get(key)}
    return f"{platform}:{url}" + (f"?{urlencode(chosen)}" if chosen else "")


def number(platform: str, options: Mapping[str, Any], name: str, default: float, *, at_least: float = 1) -> float:
    """An option that is a number.

    Raises:
        ConfigError: it is none, or too small.
    """
    value = options.get(name, default)
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(value, bool) or not found >= at_least or found == float("inf"):
        raise ConfigError(f"{platform}: {name} is a number of at least {at_least:g}, not {str(value)[:40]!r}")
    return found


def names(options: Mapping[str, Any], name: str, default: Sequence[str]) -> tuple[str, ...]:
    """An option that lists names, as a list or with commas."""
    value = options.get(name)
    if value is None:
        return tuple(default)
    listed = value.split(",") if isinstance(value, str) else value
    return tuple(text for one in listed if (text := str(one).strip()))


def text_headers(platform: str, options: Mapping[str, Any], name: str) -> dict[str, str]:
    """An option that is a table of headers.

    Raises:
        ConfigError: it is none.
    """
    value = options.get(name, {})
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value.values()):
        raise ConfigError(f"{platform}: {name} is a table of texts: {name} = {{ NAME = 'value' }}")
    return dict(value)


def client_of(
    platform: str, url: str, options: Mapping[str, Any], *, public_headers: Mapping[str, str], remedy: str
) -> Platform:
    """The HTTP client: credentials from the options, else from ``PLATFORM_TOKEN``, ``_USER`` and ``_PASSWORD``.

    A token is sent as a bearer token, or, with a user, in the password's place (as Grafana Cloud wants it).

    Raises:
        ConfigError: an option is wrong, or credentials would travel over plain http off loopback.
    """
    token, user, password = (
        str(options.get(name) or os.environ.get(f"{platform.upper()}_{name.upper()}") or "")
        for name in ("token", "user", "password")
    )
    headers = text_headers(platform, options, "headers")
    if token and not user:
        headers["authorization"] = f"Bearer {token}"
    return Platform(
        platform,
        url,
        headers=headers,
        public_headers=public_headers,
        auth=(user, password or token) if user else None,
        remedy=remedy,
        timeout=number(platform, options, "timeout", 60),
        allow_plain_http=options.get("allow_plain_http") is True,
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """A JSON object; an empty one where it is something else."""
    return value if isinstance(value, Mapping) else {}


class Slices:
    """Cuts a span of time so that each search is answered whole, for stores without paging.

    A slice that comes back full, or that the store refuses as too much, is halved; after one with plenty of room the
    next is twice as long.

    Args:
        first: Length of the first slice. All times in nanoseconds.
        shortest: No slice is cut below this; there the limit is raised instead.
        longest: No slice is longer.
        limit: How many hits are asked for.
        highest: How many may be asked for at the most.
        on_full: Told start and end of a shortest slice that is full at the highest limit: hits are missing there.
    """

    def __init__(
        self,
        *,
        first: int,
        shortest: int,
        longest: int,
        limit: int,
        highest: int,
        on_full: Callable[[int, int], None],
    ) -> None:
        self._step = max(min(first, longest), shortest)
        self._shortest = shortest
        self._longest = longest
        self._limit = limit
        self._highest = max(highest, limit)
        self._on_full = on_full

    def found(self, search: Callable[[int, int, int], Sequence[T]], since: int, until: int) -> Iterator[Sequence[T]]:
        """Yield what `search` (start, end, limit) finds in each slice of [since, until).

        Raises:
            TooMuchError: even the shortest slice is too much.
        """
        at, limit = since, self._limit
        while at < until:
            end = min(at + self._step, until)
            smallest = end - at <= self._shortest
            try:
                hits = search(at, end, limit)
            except TooMuchError:
                if smallest:
                    raise
                self._longest = self._step = max((end - at) // 2, self._shortest)
                continue
            if len(hits) >= limit:
                if not smallest:
                    self._step = max((end - at) // 2, self._shortest)
                    continue
                if limit < self._highest:
                    limit = min(limit * 8, self._highest)
                    continue
                self._on_full(at, end)
            yield hits
            at, limit = end, self._limit
            if len(hits) * 4 <= limit:
                self._step = min(self._step * 2, self._longest)


class SessionIds:
    """The sessions that what was read belongs to: (attribute, id) pairs, each handed out once."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = attributes
        self._new: dict[tuple[str, str | int], None] = {}
        self._known: set[tuple[str, str | int]] = set()

    def note(self, spans: Iterable[Span], *, every: bool) -> None:
        """Take in the spans of a trace: under `every` attribute that names a session, or the first that does."""
        found: dict[str, dict[str | int, None]] = {}
        for span in spans:
            for attribute in self.attributes:
                value = span.attributes.get(attribute)
                if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
                    found.setdefault(attribute, {})[value] = None
        for attribute in self.attributes:
            for value in found.get(attribute, ()):
                self.add(attribute, value)
            if attribute in found and not every:
                break

    def add(self, attribute: str, value: str | int) -> None:
        """Take in one."""
        if (attribute, value) not in self._known:
            self._known.add((attribute, value))
            self._new[attribute, value] = None

    def take(self) -> list[tuple[str, str | int]]:
        """Those that were not handed out yet."""
        new, self._new = list(self._new), {}
        return new
