"""What a judge answers when it writes an answer from passages: the models that outside text must pass first."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from otel_drift.audits.citation_conflict_answer import (
    Answer,
    ClaimAnswer,
    Confidence,
    ConflictAnswer,
    ContradictionAnswer,
    Prose,
    Quote,
    Ref,
    Resolution,
    SupportAnswer,
)

Written = Annotated[str, Field(max_length=100_000)]


class WrittenAnswer(ConflictAnswer):
    """The answer of the step ``cite``: the text with its marks, its claims with their sources, the conflicts."""

    answer: Written | None = None


class SynthesisClaim(Answer):
    """A claim of the first of two steps: what supports it."""

    claim_id: Ref
    claim_text: Annotated[str, Field(min_length=1, max_length=4_000)]
    quote: Quote
    supporting_sources: list[SupportAnswer] = Field(default_factory=list, max_length=100)
    confidence: Confidence = 0.8


class SynthesisAnswer(Answer):
    """The answer of the step ``synthesis``: the text with its marks, and what supports each of its claims."""

    answer: Written | None = None
    claims: list[SynthesisClaim] = Field(max_length=500)
    abstention_notes: Prose | None = None

    @field_validator("abstention_notes")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value if value and value.strip() else None

    def written(self) -> WrittenAnswer:
        """The same with no conflict found yet."""
        claims = [ClaimAnswer.model_validate(claim.model_dump()) for claim in self.claims]
        return WrittenAnswer(answer=self.answer, claims=claims, abstention_notes=self.abstention_notes)


class ClaimConflict(Answer):
    """What contradicts one claim of the first step, and whether that is settled."""

    claim_id: Ref
    contradicting_sources: list[ContradictionAnswer] = Field(default_factory=list, max_length=100)
    unresolved: bool = False
    resolved_by: Resolution | None = None


class ConflictsAnswer(Answer):
    """The answer of the step ``conflict``: the claims that sources contradict, and the words that tell the reader."""

    conflicts: list[ClaimConflict] = Field(max_length=500)
    conflict_summary: Prose | None = None
    disclosure: Prose | None = None

    @field_validator("conflict_summary", "disclosure")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value if value and value.strip() else None

    def joined(self, first: WrittenAnswer) -> WrittenAnswer:
        """The answer of the first step with these conflicts, the disclosure added at its end."""
        by_id = {one.claim_id: one for one in self.conflicts}
        claims = [
            claim.model_copy(
                update={
                    "contradicting_sources": by_id[claim.claim_id].contradicting_sources,
                    "unresolved": by_id[claim.claim_id].unresolved,
                    "resolved_by": by_id[claim.claim_id].resolved_by,
                }
            )
            if claim.claim_id in by_id
            else claim
            for claim in first.claims
        ]
        disclosure = self.disclosure.strip() if self.disclosure else None
        told = f"{(first.answer or '').rstrip()}\n\n{disclosure}" if disclosure else first.answer
        update = {
            "answer": told,
            "claims": claims,
            "conflict_summary": self.conflict_summary,
            "voiced_in": disclosure,
        }
        return first.model_copy(update=update)
