"""Talking to an observability platform over HTTP: one client with limits, retries and one clear line per failure.

Shared by the connectors. Imports httpx when a client is made.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import orjson

from otel_drift import retry
from otel_drift.errors import AnswerTooLargeError, ConfigError, PlatformError, RetryablePlatformError
from otel_drift.retry import RetryPolicy

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Params = Sequence[tuple[str, str | int | float | bool | None]] | Mapping[str, str | int | float | bool | None]

MIB = 1024 * 1024
RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
POLICY = RetryPolicy(attempts=5, total_seconds=120.0, initial=0.5, maximum=30.0)
_BODY_KEPT = 8_192
_LONGEST = 10
"""Times its time-out an answer may take to come in: a server that sends a byte a minute never times out."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def is_loopback(host: str) -> bool:
    """Whether `host` can only be reached from this machine."""
    host = host.casefold().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Target:
    """What follows ``NAME:`` on the command line: a base URL without its query, and the query's options."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, platform: str, text: str, *, options: Collection[str], default: str = "") -> Target:
        """Read ``http(s)://HOST[:PORT][/BASE][?option=value&…]``.

        Args:
            platform: The connector's name, for messages.
            text: What the user wrote; empty = `default`. A text that begins with ``?`` goes with `default`.
            options: The names that are allowed in the query.
            default: The base URL where none is given.

        Raises:
            ConfigError: no URL, credentials in it, or an option that does not exist or comes twice.
        """
        if not text or text.startswith("?"):
            text = default + text
        if not _is_url(text):
            given_as = shown(text.partition("?")[0])  # a query may hold a key
            raise ConfigError(f"{platform}: {given_as!r} is no URL; write e.g. {platform}:http://localhost:1234")
        parts = urlsplit(text)
        if "@" in parts.netloc:
            raise ConfigError(f"{platform}: put credentials into the environment or the settings, not into the URL")
        if "#" in text:  # what follows it never reaches a server: a page's address from the browser, or part of a name
            raise ConfigError(
                f"{platform}: there is a '#' in its URL; give the server's address alone, and write # in a name as %23"
            )
        given = parse_qsl(parts.query, keep_blank_values=True)
        for name, _value in given:
            if name not in options:
                known = ", ".join(sorted(options)) or "none"
                raise ConfigError(f"{platform}: there is no option {shown(name)!r} in its URL; there are: {known}")
        if doubled := {name for name, _ in given if [other for other, _ in given].count(name) > 1}:
            raise ConfigError(f"{platform}: {', '.join(sorted(doubled))} is given twice in its URL")
        url = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
        return cls(url, dict(given))


def _is_url(text: str) -> bool:
    """Whether a client will take it: what is no host or holds control characters fails only when it is asked."""
    import httpx

    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
        _ = httpx.URL(urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))).host
        host.encode("idna")
    except (ValueError, httpx.InvalidURL):  # ValueError: of ports, IPv6 addresses, IDNA
        return False
    return parts.scheme in ("http", "https") and bool(host) and port != 0 and not _CONTROL.search(text)


def shown(text: str) -> str:
    """A user's text for a message: without what may be a password in a URL, and not endless."""
    head, at, tail = text.rpartition("@")
    safe = f"…@{tail}" if at and "//" in head else text
    return safe if len(safe) <= 200 else safe[:199] + "…"


def fitting(items: Iterable[T], cost: Callable[[T], int], *, largest: int, most: int) -> Iterator[list[T]]:
    """Items in lists that fit into one request: `largest` in all by their `cost`, and at most `most` of them.

    One that is larger alone is a list of its own.
    """
    some: list[T] = []
    total = 0
    for one in items:
        size = cost(one)
        if some and (len(some) >= most or total + size > largest):
            yield some
            some, total = [], 0
        some.append(one)
        total += size
    if some:
        yield some


@dataclass(frozen=True, slots=True)
class Answer:
    """A platform's answer: HTTP status, headers (lower-case names) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    place: str

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            PlatformError: it is none.
        """
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            import json

            try:  # lone surrogates, NaN, huge integers
                return json.loads(self.body)
            except (ValueError, RecursionError):
                kind = self.headers.get("content-type", "no content type")[:60]
                raise PlatformError(
                    f"{self.place} answered with something else than JSON ({kind}); is the URL right?",
                    status=self.status,
                    body=self.body[:_BODY_KEPT],
                ) from None


class _SlowDownError(RetryablePlatformError):
    """A 429."""


class Platform:
    """An HTTP client for one platform. Safe to use from threads.

    Args:
        name: The platform, for messages.
        url: Base URL; paths are appended to it.
        headers: Sent with every request, never shown.
        public_headers: Sent too, and no secrets (a tenant's name): they may travel over plain http.
        auth: User and password, never shown.
        remedy: What to set where the credentials are refused, e.g. ``set PHOENIX_API_KEY``.
        timeout: Seconds for one request.
        policy: Retries on transport faults, 408, 425, 429 and 5xx; a ``Retry-After`` is honoured.
        max_bytes: Of one answer.
        allow_plain_http: Let credentials travel unencrypted to another machine.

    Raises:
        ConfigError: credentials would travel over plain http off loopback.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        public_headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        remedy: str = "",
        timeout: float = 60.0,
        policy: RetryPolicy = POLICY,
        max_bytes: int = 256 * MIB,
        allow_plain_http: bool = False,
    ) -> None:
        import httpx

        self.name = name
        self.url = url
        self.requests = 0
        """Requests sent so far, retries among them."""
        self._remedy = remedy
        self._policy = policy
        self._max_bytes = max_bytes
        parts = urlsplit(url)
        if (
            parts.scheme == "http"
            and (headers or auth)
            and not allow_plain_http
            and not is_loopback(parts.hostname or "")
        ):
            raise ConfigError(
                f"{name}: {parts.hostname} would get credentials over plain http; use https, or allow it by "
                f"allow_plain_http = true in [connectors.{name}]"
            )
        self._timeout = timeout
        try:
            self._client = httpx.Client(
                headers={"user-agent": "otel-drift", **(public_headers or {}), **(headers or {})},
                auth=auth,
                timeout=timeout,
                follow_redirects=False,
                verify=httpx.create_ssl_context(),
                # A proxy named for other machines would get what must not leave this one, and cannot reach it.
                trust_env=not is_loopback(parts.hostname or ""),
            )
        except (ValueError, ImportError, httpx.InvalidURL) as error:  # never its words: a proxy's may hold a password
            raise ConfigError(
                f"{name}: the proxy of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be used "
                f"({type(error).__name__}); set it to http://HOST:PORT, or NO_PROXY to {parts.hostname}"
            ) from None

    def get(self, path: str, params: Params | None = None, *, accept: Collection[int] = ()) -> Answer:
        """Send a GET; see `request`."""
        return self.request("GET", path, params=params, accept=accept)

    def post(self, path: str, json: Any, *, params: Params | None = None, accept: Collection[int] = ()) -> Answer:
        """Send a POST with a JSON body; see `request`. Retried: only for writes that may arrive twice."""
        return self.request("POST", path, params=params, json=json, accept=accept)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        accept: Collection[int] = (),
        retried: bool = True,
        timeout: float | None = None,
    ) -> Answer:
        """Send one request and return its answer.

        Args:
            method: HTTP method.
            path: Appended to the base URL; its parts already quoted.
            params: The query; None values are left out.
            json: Sent as JSON.
            content: Sent as it is.
            headers: Besides the client's.
            accept: Statuses besides 2xx that are answers and no errors.
            retried: Whether it may be sent again when it is not known to have failed. If not, only a 429 is retried:
                what was refused for its rate was not done.
            timeout: Seconds, where this request takes longer than others.

        Raises:
            ConfigError: the credentials are refused (401, 403).
            PlatformError: it cannot be reached, or answers with an error.
        """
        body = orjson.dumps(json, option=orjson.OPT_NON_STR_KEYS) if json is not None else content
        sent = dict(headers or {})
        if json is not None:
            sent.setdefault("content-type", "application/json")
        pairs = [(k, v) for k, v in (params.items() if isinstance(params, Mapping) else params or ()) if v is not None]

        def once() -> Answer:
            return self._checked(self._send(method, path, pairs, body, sent, timeout), accept)

        retry_on = RetryablePlatformError if retried else _SlowDownError
        return retry.call(self._policy, once, retry_on=retry_on, what=self.name)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(
        self,
        method: str,
        path: str,
        params: list[tuple[str, Any]],
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float | None,
    ) -> Answer:
        import httpx

        self.requests += 1
        extra: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        try:
            with self._client.stream(
                method, self.url + path, params=params or None, content=body, headers=headers, **extra
            ) as response:
                body_read = self._read(response, _LONGEST * (timeout or self._timeout))
                return Answer(response.status_code, response.headers, body_read, f"{self.name} at {self.url}")
        except httpx.TimeoutException:
            raise RetryablePlatformError(f"{self.name}: {self.url} did not answer in time") from None
        except httpx.TransportError as error:
            raise RetryablePlatformError(
                f"{self.name}: {self.url} cannot be reached ({_reason(error)}); is it running, is the URL right?"
            ) from None
        except httpx.HTTPError as error:
            raise PlatformError(f"{self.name}: {self.url}: {type(error).__name__}") from None

    def _read(self, response: httpx.Response, seconds: float) -> bytes:
        chunks, size, end = [], 0, time.monotonic() + seconds
        for chunk in response.iter_bytes():
            size += len(chunk)
            if size > self._max_bytes:
                raise AnswerTooLargeError(
                    f"{self.name}: an answer of {self.url} is larger than {self._max_bytes // MIB} MiB; "
                    "read a shorter time"
                )
            if time.monotonic() > end:
                raise PlatformError(f"{self.name}: an answer of {self.url} does not come to an end in {seconds:.0f} s")
            chunks.append(chunk)
        return b"".join(chunks)

    def _checked(self, answer: Answer, accept: Collection[int]) -> Answer:
        status, body = answer.status, answer.body[:_BODY_KEPT]
        if 200 <= status < 300 or status in accept:
            return answer
        where = f"{self.name}: {self.url}"
        if status in (401, 403):
            raise ConfigError(
                f"{where} refused the credentials ({status})" + (f"; {self._remedy}" * bool(self._remedy))
            )
        if status in RETRYABLE:
            wait = retry.parse_retry_after(answer.headers.get("retry-after"))
            kind, words = (_SlowDownError, "asks to slow down") if status == 429 else (RetryablePlatformError, "failed")
            if wait is not None and wait > self._policy.total_seconds:  # a quota of the hour or the day
                words += f" for {wait / 60:.0f} minutes"
            raise kind(f"{where} {words} ({status})", status=status, body=body, retry_after=wait)
        if 300 <= status < 400:
            raise PlatformError(f"{where} redirects ({status}); name the URL it redirects to", status=status)
        raise PlatformError(f"{where} refused a request ({status})", status=status, body=body)


def _reason(error: Exception) -> str:
    text = str(error).split("\n", 1)[0].strip()
    return (text or type(error).__name__)[:200]
