"""A Phoenix server and one of its projects: where it is, the key, the version, and what every request shares."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from otel_drift.errors import ConfigError, PlatformError
from otel_drift.model import Annotation
from otel_drift.platform import Params, Platform, Target

DEFAULT_URL = "http://localhost:6006"
OLDEST = (20, 11, 0)
"""The first whose lists of sessions and traces take a filter; an older one ignores it and lists everything."""
IDENTIFIER = "otel-drift"
"""Marks our annotations: Phoenix keeps one a target, name and identifier. Without a version, so it never doubles."""
BATCH = 100
"""Annotations in one request. A large synchronous one holds the database: 1,000 took 11 s, others waited (measured)."""

REMEDY = "set PHOENIX_API_KEY to a key of this server (Settings, API Keys)"
_SHOWN = 10
_EMBEDDED_JUDGE = "rules"
_URLS = ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_BASE_URL")
"""As Phoenix's own client reads them (arize-phoenix-client 3.5.0); a collector's may end in the OTLP path."""


class Project(NamedTuple):
    """A project: its `name` and its `id`. The id makes the path, as a name may hold a slash."""

    name: str
    id: str

    @property
    def path(self) -> str:
        """Of the API, under which everything of the project lies."""
        return f"/v1/projects/{quote(self.id, safe='')}"


class Server:
    """One project of one Phoenix server. Asks nothing until it is used; safe to use from threads.

    Args:
        target: ``[URL][?project=NAME]``. Else the URL is ``PHOENIX_ENDPOINT``, ``PHOENIX_COLLECTOR_ENDPOINT`` or
            ``http://localhost:6006``, and the project ``PHOENIX_PROJECT``, ``PHOENIX_PROJECT_NAME`` or ``default``.
        api_key: Else ``PHOENIX_API_KEY``.
        headers: Sent with every request, e.g. for a proxy; else ``PHOENIX_CLIENT_HEADERS`` (``name=value,…``).
        timeout: Seconds for one request.
        allow_plain_http: Let the key travel unencrypted to another machine.

    Raises:
        ConfigError: the URL is none, or an option is wrong.
    """

    def __init__(
        self,
        target: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        allow_plain_http: bool = False,
    ) -> None:
        where = Target.parse("phoenix", target, options=("project",), default=_default_url())
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigError("phoenix: timeout in [connectors.phoenix] is a number of seconds")
        self.wanted = (
            where.options.get("project")
            or os.environ.get("PHOENIX_PROJECT")
            or os.environ.get("PHOENIX_PROJECT_NAME")
            or "default"
        )
        self.http = Platform(
            "phoenix",
            where.url,
            headers=_headers(api_key, headers),
            remedy=REMEDY,
            timeout=float(timeout),
            allow_plain_http=allow_plain_http,
        )

    @property
    def name(self) -> str:
        """Stable identity without secrets."""
        return f"phoenix:{self.http.url}?project={self.wanted}"

    @cached_property
    def version(self) -> tuple[int, ...]:
        """The server's version, e.g. ``(20, 26, 1)``; every answer carries it.

        Raises:
            ConfigError: this is no Phoenix, one too old, or one that does not take the key.
            PlatformError: it cannot be reached.
        """
        answer = self.http.get("/v1/projects", {"limit": 1}, accept=(404, 405))
        said = answer.headers.get("x-phoenix-server-version", "")
        found = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", said)
        if found is None:
            raise ConfigError(
                f"phoenix: {self.http.url} is no Phoenix server (it does not say its version); "
                "give the address of its web interface, e.g. phoenix:http://localhost:6006"
            )
        version = tuple(int(part) for part in found.groups())
        if version < OLDEST:
            raise ConfigError(
                f"phoenix: {self.http.url} is Phoenix {'.'.join(found.groups())}; otel-drift needs "
                f"{'.'.join(map(str, OLDEST))} or later, because older servers cannot list sessions and traces by a "
                "filter: upgrade the server"
            )
        return version

    @cached_property
    def project(self) -> Project:
        """The project wanted, by its name.

        Raises:
            ConfigError: there is none of that name; says which there are. Else as of `version`.
            PlatformError: it cannot be reached.
        """
        _ = self.version
        names = []
        for item in self.pages("/v1/projects", limit=1000):
            if item.get("name") == self.wanted:
                return Project(self.wanted, str(item["id"]))
            names.append(str(item.get("name")))
        known = ", ".join(name[:60] for name in sorted(names)[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        shown = known if len(known) <= 200 else known[:199] + "…"
        raise ConfigError(
            f"phoenix: there is no project {self.wanted[:60]!r} at {self.http.url}; it has: {shown or 'none'}; "
            "check the name, or let the application send its first span: Phoenix makes the project then"
        )

    def verify(self) -> str:
        """Ask for version and project, once; say in a line what is there.

        Raises:
            ConfigError: wrong key, project or URL, or a server too old.
            PlatformError: it cannot be reached.
        """
        project = self.project
        return f"Phoenix {'.'.join(map(str, self.version))} at {self.http.url}, project {project.name!r}"

    def page(
        self, path: str, params: Sequence[tuple[str, str | int]], *, limit: int, cursor: str | None = None
    ) -> tuple[list[Any], str | None, int]:
        """One page of a list: its ``data``, the next cursor, and the bytes of the answer.

        Where ids were asked for and the project has none of them, Phoenix answers 404 instead of an empty list.
        """
        query: Params = [*params, ("limit", limit), ("cursor", cursor)]
        answer = self.http.get(path, query, accept=(404,))
        if answer.status == 404:
            if any(name in ("span_ids", "trace_ids", "session_ids") for name, _ in params):
                return [], None, 0
            raise PlatformError(f"phoenix: {self.http.url} has no {path.rsplit('/', 1)[-1]} (404)", status=404)
        body = answer.json()
        if not isinstance(body, dict) or not isinstance(body.get("data"), list):
            raise PlatformError(f"phoenix: {self.http.url} answered in an unknown form; is the URL right?")
        return body["data"], body.get("next_cursor") or None, len(answer.body)

    def pages(self, path: str, params: Sequence[tuple[str, str | int]] = (), *, limit: int) -> Iterator[Any]:
        """The elements of a list, page by page."""
        cursor: str | None = None
        while True:
            data, cursor, _ = self.page(path, params, limit=limit, cursor=cursor)
            yield from data
            if cursor is None:
                return

    def graphql(self, query: str, **variables: Any) -> Mapping[str, Any]:
        """Ask by GraphQL, which alone reads and marks documents and deletes single annotations.

        Returns the ``data`` of the answer. Sent again where the answer got lost: only for what may be done twice.

        Raises:
            PlatformError: it refuses, or cannot be reached.
        """
        asked = {"query": query, "variables": variables} if variables else {"query": query}
        answer = self.http.post("/graphql", asked).json()
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict) or answer.get("errors"):
            raise PlatformError(f"phoenix: {self.http.url} refused a GraphQL request")
        return data

    def close(self) -> None:
        """Close the connections."""
        self.http.close()


def annotator_kind(annotation: Annotation) -> str:
    """Who spoke, in Phoenix's words: a model, or the embedded judge."""
    return "CODE" if annotation.metadata.get("judge", _EMBEDDED_JUDGE) == _EMBEDDED_JUDGE else "LLM"


def detail(error: PlatformError) -> str:
    """The server's own words on a refusal, one line, not endless; never shown where it may hold trace text."""
    return " ".join(error.body.decode("utf-8", "replace").split())[:300]


def _default_url() -> str:
    given = next((value for name in _URLS if (value := os.environ.get(name, "").strip())), DEFAULT_URL)
    return re.sub(r"/+v1/traces/?\Z", "", given)


def _headers(api_key: str | None, given: Mapping[str, str] | None) -> dict[str, str]:
    if given is not None and not (
        isinstance(given, Mapping) and all(isinstance(value, str) for value in given.values())
    ):
        raise ConfigError("phoenix: headers in [connectors.phoenix] is a table of names and texts")
    headers = {name.lower(): value for name, value in (_from_environment() if given is None else given).items()}
    key = (api_key or os.environ.get("PHOENIX_API_KEY") or "").strip()
    if key and "authorization" not in headers:
        headers["authorization"] = f"Bearer {key}"
    if not all((name + value).isascii() and (name + value).isprintable() for name, value in headers.items()):
        raise ConfigError(f"phoenix: the API key or a header is no plain text; {REMEDY}")
    return headers


def _from_environment() -> dict[str, str]:
    pairs = (part.partition("=") for part in os.environ.get("PHOENIX_CLIENT_HEADERS", "").split(","))
    return {unquote(name.strip()): unquote(value.strip()) for name, equals, value in pairs if equals and name.strip()}
