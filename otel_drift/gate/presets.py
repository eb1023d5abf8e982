"""The gate's presets: from which severity conflicts count, how many pairs are too many, and what is at stake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from otel_drift.audits.source_conflict_answer import ConflictSeverity
from otel_drift.errors import ConfigError


@dataclass(frozen=True, slots=True)
class GatePreset:
    """Abstain from `pair_threshold` pairs of sources whose conflict is `severity_threshold` or worse.

    `high_stakes`: the embedded judge is never allowed, and every abstention goes to review.
    """

    severity_threshold: ConflictSeverity
    pair_threshold: int
    high_stakes: bool = False
    domain: str | None = None
    """Named to the judge, which weighs severity accordingly."""


PRESETS: Mapping[str, GatePreset] = MappingProxyType(
    {
        "clinical": GatePreset("MATERIAL", 1, high_stakes=True, domain="clinical: decisions about patients"),
        "legal": GatePreset("MATERIAL", 1, high_stakes=True, domain="legal: rights, duties and deadlines"),
        "finance": GatePreset("MATERIAL", 1, high_stakes=True, domain="finance: money and contracts"),
        "support": GatePreset("MATERIAL", 2, domain="customer support"),
        "research": GatePreset("CRITICAL", 3, domain="research: sources are expected to differ"),
    }
)
"""By name. Without a preset: MATERIAL, 1 pair, not high stakes."""

STANDARD = GatePreset("MATERIAL", 1)


def preset_called(name: str | None) -> GatePreset:
    """The preset of a name, `STANDARD` for None.

    Raises:
        ConfigError: no such preset.
    """
    if name is None:
        return STANDARD
    if name not in PRESETS:
        raise ConfigError(f"gate preset {name!r}: use {', '.join(PRESETS)}")
    return PRESETS[name]
