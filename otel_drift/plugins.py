"""Sources, sinks, judges, audits and alerters are found by entry points, under explicit names."""

from __future__ import annotations

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
