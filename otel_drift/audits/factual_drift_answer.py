"""What a judge answers in the audit ``factual_drift``: the models that outside text must pass first.

Keys we do not know are ignored; types, enums and ranges are strict. References are the short ones a judge
sees (``t3``, ``t3.p1``, ``c7``): whether they exist is the business of the semantic checks.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

GroundingStatus = Literal["GROUNDED", "PARTIALLY_GROUNDED", "UNSUPPORTED", "NOT_GROUNDABLE"]

CONTRADICTION = "CONTRADICTION"
UNSUPPORTED_NEW_CLAIM = "UNSUPPORTED_NEW_CLAIM"
DROPPED_QUALIFICATION = "DROPPED_QUALIFICATION"
DRIFT_TYPES: tuple[str, ...] = (CONTRADICTION, UNSUPPORTED_NEW_CLAIM, DROPPED_QUALIFICATION)

Ref = Annotated[str, Field(min_length=1, max_length=40)]
Prose = Annotated[str, Field(max_length=4_000)]
Quote = Annotated[str, Field(min_length=1, max_length=20_000)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class EvidenceAnswer(_Answer):
    """A verbatim piece of one passage of the claim's own turn."""

    passage: Ref
    quote: Quote


class ClaimAnswer(_Answer):
    """A factual claim of one answer and how it is grounded."""

    id: Ref
    turn: Ref
    claim_text: Annotated[str, Field(min_length=1, max_length=4_000)]
    quote: Quote
    grounding_status: GroundingStatus
    evidence: list[EvidenceAnswer] = Field(default_factory=list, max_length=50)
    qualifiers: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(default_factory=list, max_length=50)
    missing_qualifier: Prose | None = None

    @field_validator("missing_qualifier")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value if value and value.strip() else None


class EventAnswer(_Answer):
    """One suspected drift. `answer_models` narrows `drift_type` to the configured taxonomy."""

    turn: Ref
    drift_type: str
    earlier_claim: Ref | None = None
    later_claim: Ref
    description: Annotated[str, Field(min_length=1, max_length=4_000)]
    severity: Literal["CRITICAL", "MAJOR", "MINOR"]
    detection_confidence: Annotated[float, Field(ge=0, le=1)]
    acknowledged_correction: bool = False


class ClaimsAnswer(_Answer):
    """The answer of the step ``claims``: the claims of one group of turns."""

    claims: list[ClaimAnswer] = Field(max_length=5_000)


class CompareAnswer(_Answer):
    """The answer of the step ``compare``: drift between claims of all groups."""

    drift_events: list[EventAnswer] = Field(max_length=2_000)
    overall_assessment: Prose


class SessionAnswer(_Answer):
    """The answer of the step ``session``: claims first, then the drift between them."""

    claims: list[ClaimAnswer] = Field(max_length=5_000)
    drift_events: list[EventAnswer] = Field(max_length=2_000)
    overall_assessment: Prose


@functools.lru_cache(maxsize=32)
def answer_models(types: tuple[str, ...] = DRIFT_TYPES) -> tuple[type[SessionAnswer], type[CompareAnswer]]:
    """The models of the steps ``session`` and ``compare`` with `drift_type` limited to `types`."""
    allowed: Any = Literal.__getitem__(types)
    event = create_model("DriftEvent", __base__=EventAnswer, drift_type=(allowed, ...))
    events: Any = (list[event], Field(max_length=2_000))
    session = create_model("SessionAnswer", __base__=SessionAnswer, drift_events=events)
    compare = create_model("CompareAnswer", __base__=CompareAnswer, drift_events=events)
    return session, compare
