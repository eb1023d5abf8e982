"""What a judge answers in the audit ``source_conflict``: the models that outside text must pass first.

Counts and verdicts are not asked for: code counts. References are the short ones a judge sees (``t3.p1``).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

MOST_LISTED = 500
"""The most conflicts an answer may list. Pairs are counted from the list: it holds far more than any threshold."""

ConflictSeverity = Literal["CRITICAL", "MATERIAL", "MINOR"]

Ref = Annotated[str, Field(min_length=1, max_length=40)]
Prose = Annotated[str, Field(max_length=4_000)]
Sentence = Annotated[str, Field(min_length=1, max_length=4_000)]
Quote = Annotated[str, Field(min_length=1, max_length=20_000)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class ConflictAnswer(_Answer):
    """Two passages that cannot both be right, each with its own words."""

    source_a: Ref
    claim_a: Sentence
    quote_a: Quote
    source_b: Ref
    claim_b: Sentence
    quote_b: Quote
    severity: ConflictSeverity
    explanation: Sentence
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.8
    disclosed: bool = False
    disclosure_quote: Annotated[str, Field(max_length=20_000)] | None = None

    @field_validator("disclosure_quote")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value if value and value.strip() else None


class ConflictsAnswer(_Answer):
    """The answer of the step ``conflicts``."""

    conflicts: list[ConflictAnswer] = Field(max_length=MOST_LISTED)
    conflict_notes: Prose = ""


class WrittenAnswer(_Answer):
    """The answer of the step ``answer``: a text with markers such as ``[t1.p2]``."""

    answer: Annotated[str, Field(min_length=1, max_length=40_000)]
