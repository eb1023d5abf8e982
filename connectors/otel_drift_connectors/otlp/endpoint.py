"""Where the OTLP sink sends to: options and ``OTEL_EXPORTER_OTLP_*`` resolved, and checked before anything is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

from otel_drift.errors import ConfigError
from otel_drift.platform import is_loopback

Protocol = Literal["http/protobuf", "grpc"]
Signal = Literal["logs", "traces"]

_DEFAULTS: Mapping[str, str] = {"http/protobuf": "http://localhost:4318", "grpc": "http://localhost:4317"}
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|passw|credential|signature", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(bearer|basic|token|apikey)\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL of one signal, its protocol and the headers that go with every request."""

    signal: Signal
    protocol: Protocol
    url: str
    headers: Mapping[str, str]

    @property
    def public(self) -> str:
        """The URL without its query, for messages and names."""
        return urlunsplit(urlsplit(self.url)._replace(query="", fragment=""))


def resolve(signal: Signal, target: str, protocol: str | None, headers: Mapping[str, str] | None) -> Endpoint:
    """Resolve a signal's endpoint: an option before the signal's variable before the general variable.

    Args:
        signal: ``logs`` or ``traces``.
        target: Base URL (``http://collector:4318``, ``grpc://…``, ``grpcs://…``) or empty for the environment's.
        protocol: ``http/protobuf``, ``grpc``, or None for what the URL or the environment says.
        headers: Added to those of the environment.

    Raises:
        ConfigError: no usable URL, an unknown protocol, or credentials that would travel unencrypted.
    """
    if target.startswith(("grpc://", "grpcs://")):
        protocol = protocol or "grpc"
        target = "http" + target.removeprefix("grpc")
    chosen = _protocol(protocol or _variable(signal, "PROTOCOL") or "http/protobuf")
    url = _url(signal, target, chosen)
    sent = {**_environment_headers(signal), **(headers or {})}
    parts = urlsplit(url)
    if parts.username or parts.password or "@" in parts.netloc:
        raise ConfigError("sink otlp: put credentials into headers (OTEL_EXPORTER_OTLP_HEADERS), not into the URL")
    if parts.scheme not in ("http", "https") or not parts.hostname or not _port_is_valid(parts):
        raise ConfigError(f"sink otlp: {parts.scheme}://{parts.netloc} is no URL such as http://collector:4318")
    if parts.scheme == "http" and not is_loopback(parts.hostname) and (_names_secrets(sent) or parts.query):
        raise ConfigError(
            f"sink otlp: {parts.hostname} would get credentials over plain http; use https, or send no credentials"
        )
    return Endpoint(signal, chosen, url, sent)


def _protocol(name: str) -> Protocol:
    if name == "http/protobuf":
        return "http/protobuf"
    if name == "grpc":
        return "grpc"
    raise ConfigError(f"sink otlp: protocol {name!r} is not supported; use http/protobuf or grpc")


def _url(signal: Signal, target: str, protocol: Protocol) -> str:
    path = f"/v1/{signal}"
    own = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "")
    if not target and own:
        return own if protocol == "http/protobuf" else _with_scheme(signal, own)
    base = target or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "") or _DEFAULTS[protocol]
    if protocol == "grpc":
        return _with_scheme(signal, base)
    parts = urlsplit(base)
    root = re.sub(r"/v1/(logs|traces)$", "", parts.path.rstrip("/"))
    return urlunsplit(parts._replace(path=root + path))


def _with_scheme(signal: Signal, url: str) -> str:
    """An endpoint of gRPC may come without a scheme; then ``…_INSECURE`` decides, and TLS is the default."""
    if "://" in url:
        return url
    return ("http://" if (_variable(signal, "INSECURE") or "").lower() == "true" else "https://") + url


def _variable(signal: Signal, name: str) -> str | None:
    return os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}") or os.environ.get(f"OTEL_EXPORTER_OTLP_{name}")


def _environment_headers(signal: Signal) -> dict[str, str]:
    from opentelemetry.util.re import parse_env_headers

    return dict(parse_env_headers(_variable(signal, "HEADERS") or "", liberal=True))


def _names_secrets(headers: Mapping[str, str]) -> bool:
    return any(_SECRET_NAME.search(name) or _SECRET_VALUE.match(value) for name, value in headers.items())


def _port_is_valid(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False
