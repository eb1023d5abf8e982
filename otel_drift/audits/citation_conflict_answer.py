"""What a judge answers in the audit ``citation_conflict`` and in written answers: the models outside text must pass.

Keys we do not know are ignored; types, enums and ranges are strict. Sources are named by the short references a judge
sees (``p1``): whether they exist is the business of the semantic checks.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

ConflictType = Literal[
    "direct_factual", "methodological_difference", "scope_mismatch", "temporal_change", "interpretation_divergence"
]
Resolution = Literal["recency", "authority", "methodology", "corroboration"]

Ref = Annotated[str, Field(min_length=1, max_length=40)]
Quote = Annotated[str, Field(min_length=1, max_length=20_000)]
Prose = Annotated[str, Field(max_length=4_000)]
Confidence = Annotated[float, Field(ge=0, le=1)]


class Answer(BaseModel):
    """Base of all: unknown keys ignored, no coercion."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class SupportAnswer(Answer):
    """A passage that says what the claim says, with its words."""

    source_id: Ref
    quote: Quote
    rationale: Prose = ""


class ContradictionAnswer(SupportAnswer):
    """A passage that says otherwise, and in which way."""

    conflict_type: ConflictType


class ClaimAnswer(Answer):
    """One claim of the answer, with the passages for and against it. `quote` stands in the answer."""

    claim_id: Ref
    claim_text: Annotated[str, Field(min_length=1, max_length=4_000)]
    quote: Quote
    supporting_sources: list[SupportAnswer] = Field(default_factory=list, max_length=100)
    contradicting_sources: list[ContradictionAnswer] = Field(default_factory=list, max_length=100)
    unresolved: bool = False
    resolved_by: Resolution | None = None
    confidence: Confidence = 0.8


class ConflictAnswer(Answer):
    """The answer of the step ``answer``: claims with their sources, the conflict in words, and what went unanswered.

    `voiced_in` is the place of the answer that tells its reader of the disagreement.
    """

    claims: list[ClaimAnswer] = Field(max_length=2_000)
    conflict_summary: Prose | None = None
    voiced_in: Prose | None = None
    abstention_notes: Prose | None = None

    @field_validator("conflict_summary", "voiced_in", "abstention_notes")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value if value and value.strip() else None
