"""Which findings there can be: a counter that is first seen at 1 has not increased, and fires no alert."""

from __future__ import annotations

from collections.abc import Sequence

from otel_drift import plugins
from otel_drift.protocols import AuditSettings

SEVERITIES = ("CRITICAL", "MAJOR", "MINOR")


def possible_types(taxonomy: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """The types of findings by installed audit; none of an audit that does not say (see `protocols.Audit`).

    Args:
        taxonomy: The operator's further types (``[audit] taxonomy``).

    Raises:
        ConfigError: an audit cannot be loaded, or an entry of the taxonomy is wrong.
    """
    settings = AuditSettings(taxonomy=tuple(taxonomy))
    found = {}
    for name in plugins.installed("audits"):
        audit = plugins.load("audits", name)()
        types = getattr(audit, "finding_types", None)
        found[name] = tuple(types(settings)) if types else ()
    return found
