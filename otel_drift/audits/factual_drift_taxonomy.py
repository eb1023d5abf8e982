"""The types of drift and the severities, as the prompt names them: ours, and what the operator adds."""

from __future__ import annotations

import re
from collections.abc import Mapping

from otel_drift.audits.factual_drift_answer import (
    CONTRADICTION,
    DRIFT_TYPES,
    DROPPED_QUALIFICATION,
    UNSUPPORTED_NEW_CLAIM,
)
from otel_drift.errors import ConfigError
from otel_drift.protocols import AuditSettings

LONGEST_TYPE = 21
"""``factual_drift.`` and a type make a score name of at most 35 characters, the limit of a platform."""

_MEANINGS: Mapping[str, str] = {
    CONTRADICTION: "a later answer says something that cannot be true together with what an earlier answer said.",
    UNSUPPORTED_NEW_CLAIM: "an answer states a new fact that its own passages do not support.",
    DROPPED_QUALIFICATION: "a later answer repeats an earlier claim without the limit, condition or doubt it had.",
}
_SEVERITIES: Mapping[str, str] = {
    "CRITICAL": "somebody acting on it may come to harm, break the law or lose money: safety, legal or financial.",
    "MAJOR": "a factual error that leads the user to a wrong action or belief.",
    "MINOR": "imprecise, but not misleading.",
}


def drift_types(settings: AuditSettings) -> dict[str, str]:
    """The types that may be reported, each with its meaning: the standard three, then `settings.taxonomy`.

    An entry is a name (``entity shift``) or ``name: what it means``; names become upper-case words.

    Raises:
        ConfigError: an entry makes no name, or one too long for a platform's score names.
    """
    types = dict(_MEANINGS)
    for entry in settings.taxonomy:
        name, _, meaning = entry.partition(":")
        slug = re.sub(r"[^A-Z0-9]+", "_", name.strip().upper()).strip("_")
        if not re.fullmatch(rf"[A-Z][A-Z0-9_]{{0,{LONGEST_TYPE - 1}}}", slug):
            raise ConfigError(f"drift type {name!r}: use one to {LONGEST_TYPE} letters, digits and blanks")
        types[slug] = _one_line(meaning) or types.get(slug) or f"a later claim shows {name.strip().lower()}."
    return types


def drift_types_text(settings: AuditSettings) -> str:
    """The types as a list for the prompt."""
    return "\n".join(f"- {name}: {meaning}" for name, meaning in drift_types(settings).items())


def severity_text(settings: AuditSettings) -> str:
    """The severity guide for the prompt, with the operator's rules in place of ours where given."""
    unknown = sorted(set(settings.severity_rules) - set(_SEVERITIES))
    if unknown:
        raise ConfigError(f"severity {unknown[0]!r} is unknown: use {', '.join(_SEVERITIES)}")
    rules = {**_SEVERITIES, **{name: _one_line(rule) for name, rule in settings.severity_rules.items()}}
    lines = [f"  - {name}: {rule}" for name, rule in rules.items()]
    if settings.domain:
        lines.append(f"  The assistant works in this domain: {_one_line(settings.domain)}. Weigh severity accordingly.")
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


assert tuple(_MEANINGS) == DRIFT_TYPES
