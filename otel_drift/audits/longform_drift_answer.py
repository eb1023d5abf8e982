"""What a judge answers in the audit ``longform_drift``: for every sentence index a status, an excerpt, a reason.

Text and place of a sentence never come from the judge; whether indexes and excerpts hold is the checks' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

GroundingStatus = Literal["fully_grounded", "partially_grounded", "ungrounded", "contradicted"]

STATUSES: tuple[GroundingStatus, ...] = ("fully_grounded", "partially_grounded", "ungrounded", "contradicted")
WEAKNESS: Mapping[str, int] = {status: rank for rank, status in enumerate(STATUSES)}
"""The order of the statuses, the best first."""

Prose = Annotated[str, Field(max_length=4_000)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class SentenceAnswer(_Answer):
    """The verdict on one sentence. `excerpt` is copied from the source: what bears it out, or what it goes against."""

    index: int
    makes_claim: bool = True
    status: GroundingStatus
    excerpt: Annotated[str, Field(max_length=20_000)] | None = None
    explanation: Prose | None = None

    @field_validator("excerpt", "explanation")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value if value and value.strip() else None


class SentencesAnswer(_Answer):
    """The answer of every step: the verdicts on the sentences that were given."""

    sentences: list[SentenceAnswer] = Field(max_length=5_000)
    confidence: Annotated[float, Field(ge=0, le=1)]
    summary: Prose
