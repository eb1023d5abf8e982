"""Where a judge's requests go and with which key: checked before anything is sent, and safe to show."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from otel_drift.errors import ConfigError
from otel_drift.platform import is_loopback

KEY_REMOVED = "[key removed]"
_KEY_NAMES = ("_API_KEY", "_ACCESS_KEY", "_SECRET_KEY", "_SESSION_TOKEN", "_AUTH_TOKEN", "_API_TOKEN")
"""How the environment variables end that litellm's providers take credentials from."""
_SHORTEST_KEY = 8


def base_from_environment(provider: str) -> str | None:
    """Where litellm would send the text by its environment variables: `endpoint` has to say so."""
    prefix = provider.upper()
    return os.environ.get(f"{prefix}_BASE_URL") or os.environ.get(f"{prefix}_API_BASE") or None


def base_url(url: str | None) -> str | None:
    """`url`, checked, in the form litellm wants.

    Raises:
        ConfigError: no URL, or one with credentials in it.
    """
    if url is None:
        return None
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none
        usable = False
    if not usable:
        raise ConfigError("judge api_base: must be an http:// or https:// URL, such as http://localhost:8000/v1")
    if parts.username or parts.password:
        raise ConfigError(f"judge api_base {shown(url)!r}: holds credentials; give them as a key")
    return url.strip().rstrip("/").removesuffix("/chat/completions")


def shown(url: str) -> str:
    """`url` without what may be secret: user, password, query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def checked_key(key: str | None) -> str | None:
    """`key`, if it can stand in a header.

    Raises:
        ConfigError: it cannot; the message does not show it.
    """
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError("judge: the key holds characters no key has (a line break, a space?)")
    return key


def without_keys(text: str, keys: Collection[str]) -> str:
    """`text` with ``[key removed]`` for every key in it: a server may say again what it was sent."""
    for key in keys:
        text = text.replace(key, KEY_REMOVED)
    return text


def known_keys(given: Iterable[str | None]) -> tuple[str, ...]:
    """The keys a request may carry: those given, and those litellm finds in the environment; longest first.

    What is shorter than 8 characters is a placeholder ("none", "EMPTY"), and stands in honest answers too.
    """
    found = [value for name, value in os.environ.items() if name.upper().endswith(_KEY_NAMES)]
    keys = {key.strip() for key in (*given, *found) if key and len(key.strip()) >= _SHORTEST_KEY}
    return tuple(sorted(keys, key=lambda key: (-len(key), key)))


def refuse_plain_http(url: str) -> None:
    """Refuse an ``http`` URL of another machine.

    Raises:
        ConfigError: `url` is one.
    """
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ConfigError(
            f"judge api_base {shown(url)!r}: a key would travel unencrypted; use https, unset the key if the server "
            "needs none, or allow it by judge.allow_plain_http = true (OTEL_DRIFT_JUDGE__ALLOW_PLAIN_HTTP=true)"
        )
