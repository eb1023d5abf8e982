"""What ``longform_drift`` may be told: how much is at stake, and what is to be done at which severity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from otel_drift.errors import ConfigError
from otel_drift.protocols import AuditSettings

RiskLevel = Literal["low", "medium", "high", "critical"]
DriftSeverity = Literal["none", "minor", "moderate", "severe", "critical"]
Action = Literal["pass", "flag_for_review", "regenerate_from_drift_point", "reject"]

RISK_LEVELS: tuple[RiskLevel, ...] = ("low", "medium", "high", "critical")
SEVERITIES: tuple[DriftSeverity, ...] = ("none", "minor", "moderate", "severe", "critical")

ADJUDICATION = "adjudication"
"""The action where two judges differ by more than `DIFFERENCE`: a person decides, nothing happens by itself."""
DIFFERENCE = 0.2
REVIEW_SCORE = 0.7
REGULATED_REVIEW_SCORE = 0.4

_BAD: Mapping[RiskLevel, Action] = {
    "low": "regenerate_from_drift_point",
    "medium": "regenerate_from_drift_point",
    "high": "reject",
    "critical": "reject",
}
DEFAULT_ACTIONS: Mapping[DriftSeverity, Mapping[RiskLevel, Action]] = {
    "none": dict.fromkeys(RISK_LEVELS, "pass"),
    "minor": {"low": "pass", "medium": "pass", "high": "flag_for_review", "critical": "flag_for_review"},
    "moderate": {**dict.fromkeys(RISK_LEVELS, "flag_for_review"), "critical": "reject"},
    "severe": _BAD,
    "critical": _BAD,
}
"""Severity → risk level → action, as DESIGN sets them."""


class LongformOptions(BaseModel):
    """The options of the audit. `actions` replaces single entries of `DEFAULT_ACTIONS`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    risk_level: RiskLevel = "medium"
    regulated: bool = False
    actions: Mapping[DriftSeverity, Mapping[RiskLevel, Action]] = Field(default_factory=dict)

    @property
    def asks_twice(self) -> bool:
        """Whether a second judge has to confirm the first: at risk high and above."""
        return self.risk_level in ("high", "critical")

    @property
    def review_score(self) -> float:
        """The score from which a person has to look."""
        return REGULATED_REVIEW_SCORE if self.regulated else REVIEW_SCORE

    def action(self, severity: DriftSeverity) -> Action:
        """What is recommended at `severity`."""
        own = self.actions.get(severity, {})
        return own.get(self.risk_level, DEFAULT_ACTIONS[severity][self.risk_level])


def read_options(settings: AuditSettings) -> LongformOptions:
    """The options among `settings`.

    Raises:
        ConfigError: an option is unknown or has a value it cannot have.
    """
    try:
        return LongformOptions.model_validate(settings.options.get("longform_drift", {}))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in one['loc']) or 'options'}: {one['msg']}" for one in error.errors()
        )
        raise ConfigError(f"options of longform_drift: {problems}") from None
