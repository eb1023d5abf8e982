"""Connecting to Langfuse: credentials, which server and project, and the SDK's API client over our own HTTP."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from otel_drift.errors import ConfigError, PlatformError
from otel_drift.platform import Platform, Target

if TYPE_CHECKING:
    import httpx
    from langfuse.api.client import LangfuseAPI

T = TypeVar("T")

CLOUD = "https://cloud.langfuse.com"
OLDEST = (4, 0, 0)
"""v4 made the observation the read model; what we read and write came with it."""

REMEDY = (
    "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY to the project's keys, and LANGFUSE_BASE_URL to the server "
    "(or region) they were made on"
)
_MIN_TIMEOUT = 60.0
_SHOWN = 3


class UnreadableAnswerError(PlatformError):
    """The server answered in a form that the SDK does not know."""


class Project(NamedTuple):
    """The project that the keys belong to."""

    id: str
    name: str


class Connection:
    """One Langfuse project. Made by `open`; asks the server nothing until it is used. Safe to use from threads."""

    base_url: str
    http: Platform
    """For routes the SDK does not have or gets wrong: Basic auth, retries, one clear line per failure."""

    def __init__(self, http: Platform, keys: tuple[str, str], project: str | None) -> None:
        self.base_url = http.url
        self.http = http
        self._keys = keys
        self._wanted = project

    @classmethod
    def open(
        cls,
        target: str = "",
        *,
        public_key: str | None = None,
        secret_key: str | None = None,
        base_url: str | None = None,
        timeout: float = _MIN_TIMEOUT,
        allow_plain_http: bool = False,
    ) -> Connection:
        """Take what is needed to connect from the arguments, else from ``LANGFUSE_*``. No request is sent.

        Args:
            target: ``[URL][?project=NAME]``. `project` says which project (name or id) the keys must belong to.
            public_key: Else ``LANGFUSE_PUBLIC_KEY``.
            secret_key: Else ``LANGFUSE_SECRET_KEY``.
            base_url: Where `target` has no URL; else ``LANGFUSE_BASE_URL``, ``LANGFUSE_HOST``, Langfuse Cloud (EU).
            timeout: Seconds for one request. Less than 60 is not enough on a busy server (measured).
            allow_plain_http: Let the keys travel unencrypted to another machine.

        Raises:
            ConfigError: a key is missing, the URL is none, or an option is wrong.
        """
        env = os.environ
        default = base_url or env.get("LANGFUSE_BASE_URL") or env.get("LANGFUSE_HOST") or CLOUD
        where = Target.parse("langfuse", target, options=("project",), default=default.rstrip("/"))
        keys = (
            _key("public_key", public_key, "pk-"),
            _key("secret_key", secret_key, "sk-"),
        )
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigError("langfuse: timeout in [connectors.langfuse] is a number of seconds, at least 60")
        http = Platform(
            "langfuse",
            where.url,
            auth=keys,
            remedy=REMEDY,
            timeout=max(float(timeout), _MIN_TIMEOUT),
            allow_plain_http=allow_plain_http,
        )
        return cls(http, keys, where.options.get("project") or None)

    @property
    def name(self) -> str:
        """Stable identity without secrets: the URL, and the project named or a short hash of the public key.

        One ledger may serve two projects of one server, and keys belong to one project.
        """
        if self._wanted:
            return f"langfuse:{self.base_url}?project={self._wanted}"
        return f"langfuse:{self.base_url}?key={hashlib.sha256(self._keys[0].encode()).hexdigest()[:8]}"

    @cached_property
    def api(self) -> LangfuseAPI:
        """The SDK's API client. It sends through `http`, so its own retries never begin. Call it by `ask`."""
        import httpx
        from langfuse.api.client import LangfuseAPI

        client = httpx.Client(transport=_through(self.http), trust_env=False)
        return LangfuseAPI(base_url=self.base_url, httpx_client=client)

    def ask(self, route: Callable[..., T], /, **parameters: object) -> T:
        """Call a route of `api`: ``ask(connection.api.observations.get_many, limit=1000)``.

        Raises:
            ConfigError: the credentials are refused.
            PlatformError: the server cannot be reached, refuses (`status`), or answers with what the SDK cannot read.
        """
        from langfuse.api.core.api_error import ApiError
        from pydantic import ValidationError

        try:
            return route(**parameters)
        except ApiError as error:
            raise PlatformError(
                f"langfuse: {self.base_url} answered with something else than JSON; is the URL right?",
                status=error.status_code,
            ) from None
        except ValidationError as error:
            places = ", ".join(".".join(map(str, one["loc"])) for one in error.errors(include_input=False)[:_SHOWN])
            raise UnreadableAnswerError(
                f"langfuse: {self.base_url} answered in a form that this version of the langfuse package cannot read "
                f"(at {places[:200] or 'the top'}); upgrade otel-drift, langfuse or the server"
            ) from None

    @cached_property
    def version(self) -> tuple[int, ...]:
        """The server's version, e.g. ``(4, 16, 0)``; empty where it does not say one in numbers."""
        try:
            said = self.ask(self.api.health.health).version
        except PlatformError as error:
            if error.status != 404:
                raise
            raise ConfigError(
                f"langfuse: {self.base_url} is no Langfuse server (it has no /api/public/health); "
                "set LANGFUSE_BASE_URL to the address of its web interface"
            ) from None
        found = re.match(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})", said)
        return tuple(int(part) for part in found.groups()) if found else ()

    @cached_property
    def project(self) -> Project:
        """The project the keys belong to.

        Raises:
            ConfigError: the keys are refused, or they belong to another project than the one named in the target.
        """
        found = [Project(one.id, one.name) for one in self.ask(self.api.projects.get).data]
        if not found:
            raise ConfigError(f"langfuse: the keys belong to no project; {REMEDY}")
        if self._wanted and self._wanted not in found[0]:
            raise ConfigError(
                f"langfuse: the keys belong to project {found[0].name!r}, not to {self._wanted!r}; {REMEDY}"
            )
        return found[0]

    def verify(self) -> str:
        """Ask for version and project, once; say in a line what is there.

        Raises:
            ConfigError: wrong keys, project or URL, or a server too old.
            PlatformError: it cannot be reached.
        """
        shown = ".".join(map(str, self.version)) or "of unknown version"
        if self.version and self.version < OLDEST:
            raise ConfigError(
                f"langfuse: {self.base_url} is Langfuse {shown}; otel-drift needs 4.0 or later, "
                "because older servers lack the v2 observations API: upgrade the server"
            )
        return f"Langfuse {shown} at {self.base_url}, project {self.project.name!r}"

    def close(self) -> None:
        """Close the connections."""
        self.http.close()


def _key(option: str, given: str | None, prefix: str) -> str:
    variable = f"LANGFUSE_{option.upper()}"
    key = (given or os.environ.get(variable) or "").strip()
    if not key:
        raise ConfigError(f"langfuse: {variable} is not set; {REMEDY}")
    if not key.startswith(prefix) or not key.isascii():
        raise ConfigError(f"langfuse: {variable} is no such key: it begins with {prefix}lf-; {REMEDY}")
    return key


def _through(http: Platform) -> httpx.BaseTransport:
    """A transport for the SDK's client: errors become ours before the SDK sees them; retries happen in one place."""
    import httpx

    base = httpx.URL(http.url).raw_path.decode().rstrip("/")

    class Through(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            path = request.url.raw_path.decode().removeprefix(base)
            kind = request.headers.get("content-type")
            answer = http.request(
                request.method, path, content=request.read() or None, headers={"content-type": kind} if kind else None
            )
            headers = {"content-type": answer.headers.get("content-type", "application/json")}
            return httpx.Response(answer.status, headers=headers, content=answer.body, request=request)

    return Through()
