"""Sources, sinks, judges, audits and alerters are found by entry points, under explicit names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from otel_drift.errors import ConfigError

KINDS = ("sources", "sinks", "judges", "audits", "alerters")


def installed(kind: str) -> dict[str, EntryPoint]:
    """Return the plugins of one kind by name.

    Raises:
        ConfigError: two installed packages use one name.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"otel_drift.{kind}"):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            packages = sorted({p.dist.name if p.dist else "?" for p in (other, point)})
            raise ConfigError(
                f"two plugins in otel_drift.{kind} are called {point.name!r} ({', '.join(packages)}): uninstall one"
            )
    return found


def load(kind: str, name: str) -> Any:
    """Import and return the plugin `name` of a kind (``sources``, ``sinks``, …).

    Raises:
        ConfigError: no such plugin, or it cannot be imported.
    """
    known = installed(kind)
    if name not in known:
        raise ConfigError(f"no {kind[:-1]} called {name!r}; installed: {', '.join(sorted(known)) or 'none'}")
    try:
        return known[name].load()
    except ImportError as error:
        raise ConfigError(f"{kind[:-1]} {name!r} cannot be loaded: {error}") from error


def opened(kind: str, name: str, target: str, options_of: Mapping[str, Mapping[str, Any]], **extra: Any) -> Any:
    """A connector's source, sink or alerter.

    Args:
        kind: As of `load`.
        name: As of `load`.
        target: What follows its name and a colon where it is named.
        options_of: The options of each connector by name: the settings' ``[connectors.NAME]``.
        extra: Further keywords.

    Raises:
        ConfigError: no such connector, or options it does not have.
    """
    connector = load(kind, name)
    options = dict(options_of.get(name, {}))
    other = {"sources": "sinks", "sinks": "sources"}.get(kind, kind)
    if options and name in installed(other):
        # One table for both: what only the other one knows is not for this one.
        mine, theirs = (inspect.signature(one).parameters for one in (connector, load(other, name)))
        if not any(one.kind is one.VAR_KEYWORD for one in mine.values()):
            options = {key: value for key, value in options.items() if key in mine or key not in theirs}
    try:
        return connector(target, **extra, **options)
    except TypeError as error:
        if not options:
            raise
        raise ConfigError(f"[connectors.{name}]: {error}") from None
