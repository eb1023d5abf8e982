"""Writing an answer from passages: what is asked, in one step or in two, and the report of what passed the checks.

It has the form of an audit, so that it runs in the same harness: repair asks, cache, budget and record. It is asked
over a session of one turn that has a question and passages and no answer yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from otel_drift import prompting
from otel_drift.audits.citation_conflict_layout import CitedTurn, source_lines
from otel_drift.audits.citation_conflict_report import claim_record, origin_notes
from otel_drift.citation.constraints import Constraints
from otel_drift.citation.origins import origins
from otel_drift.citation.written_answer import ConflictsAnswer, SynthesisAnswer, WrittenAnswer
from otel_drift.citation.written_checks import WritingCase, check_written, drafted
from otel_drift.errors import UnitError
from otel_drift.model import Finding, Session
from otel_drift.protocols import AuditSettings, Eligibility, Step

CITE_PROMPT = "citation_conflict/cite"
SYNTHESIS_PROMPT = "citation_conflict/synthesis"
CONFLICT_PROMPT = "citation_conflict/conflict"

LOW_CONFIDENCE = 0.7
_REPAIR_TOKENS = 1_500


@dataclass(slots=True)
class Writing:
    """How an answer is to be written. `examples` are further worked examples, as text for the prompt."""

    told: Constraints
    two_steps: bool = False
    examples: str = ""
    confidence: bool = False
    human_review: bool = False
    name: str = "cite"
    version: str = "1"

    def eligibility(self, session: Session, settings: AuditSettings) -> Eligibility:
        """Always: what a caller gives was checked before."""
        return Eligibility(True)

    def steps(
        self, session: Session, settings: AuditSettings
    ) -> Generator[Sequence[Step], Sequence[BaseModel], dict[str, Any]]:
        """One step, or synthesis and then conflict.

        Raises:
            UnitError: the passages do not fit the judge; they are never cut.
        """
        case = writing_case(session, self.told)
        if settings.embedded_judge or not self.two_steps:
            (written,) = cast("Sequence[WrittenAnswer]", (yield [self._cite_step(case, settings)]))
            return self._report(case, written, embedded=settings.embedded_judge)
        (synthesis,) = cast("Sequence[SynthesisAnswer]", (yield [self._synthesis_step(case, settings)]))
        first = synthesis.written()
        if first.abstention_notes:
            return self._report(case, first, embedded=False)
        (found,) = cast("Sequence[ConflictsAnswer]", (yield [self._conflict_step(case, first, settings)]))
        return self._report(case, found.joined(first), embedded=False)

    def prompt_inputs(self, settings: AuditSettings) -> Mapping[str, frozenset[str]]:
        """The prompts of a written answer and what each is given."""
        if self.two_steps:
            return {
                SYNTHESIS_PROMPT: frozenset({"constraints", "more_examples", "case"}),
                CONFLICT_PROMPT: frozenset({"constraints", "draft"}),
            }
        return {CITE_PROMPT: frozenset({"constraints", "more_examples", "case"})}

    def answer_models(self, settings: AuditSettings) -> Mapping[str, type[BaseModel]]:
        """The form of the answer to each prompt."""
        return {CITE_PROMPT: WrittenAnswer, SYNTHESIS_PROMPT: SynthesisAnswer, CONFLICT_PROMPT: ConflictsAnswer}

    def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
        """None: what does not hold is no answer at all."""
        return ()

    def _cite_step(self, case: WritingCase, settings: AuditSettings) -> Step:
        def check(answer: BaseModel) -> list[str]:
            return check_written(case, cast("WrittenAnswer", answer))

        inputs = {**self._told(), "case": "\n".join(source_lines(case.question, case.sources))}
        return _fitting(Step("cite", CITE_PROMPT, inputs, WrittenAnswer, check, case, max_repairs=2), settings)

    def _synthesis_step(self, case: WritingCase, settings: AuditSettings) -> Step:
        def check(answer: BaseModel) -> list[str]:
            return check_written(case, cast("SynthesisAnswer", answer).written())

        inputs = {**self._told(), "case": "\n".join(source_lines(case.question, case.sources))}
        step = Step("synthesis", SYNTHESIS_PROMPT, inputs, SynthesisAnswer, check, None, max_repairs=2)
        return _fitting(step, settings)

    def _conflict_step(self, case: WritingCase, first: WrittenAnswer, settings: AuditSettings) -> Step:
        known = {claim.claim_id for claim in first.claims}

        def check(answer: BaseModel) -> list[str]:
            found = cast("ConflictsAnswer", answer)
            ids = [one.claim_id for one in found.conflicts]
            unknown = [f"There is no claim “{one[:40]}”." for one in ids if one not in known]
            twice = [f"Claim “{one[:40]}” is listed twice." for one in sorted({i for i in ids if ids.count(i) > 1})]
            return [*unknown, *twice] or check_written(case, found.joined(first))

        draft = {
            "draft": first.answer,
            "claims": [
                {
                    "claim_id": claim.claim_id,
                    "claim_text": claim.claim_text,
                    "supported_by": [piece.source_id for piece in claim.supporting_sources],
                }
                for claim in first.claims
            ],
        }
        lines = source_lines(case.question, case.sources)
        lines.append(json.dumps(draft, ensure_ascii=False).encode("utf-8", "backslashreplace").decode())
        inputs = {"constraints": self.told.in_words(), "draft": "\n".join(lines)}
        step = Step("conflict", CONFLICT_PROMPT, inputs, ConflictsAnswer, check, None, max_repairs=2)
        return _fitting(step, settings)

    def _told(self) -> dict[str, str]:
        return {"constraints": self.told.in_words(), "more_examples": self.examples or "None beyond these."}

    def _report(self, case: WritingCase, written: WrittenAnswer, *, embedded: bool) -> dict[str, Any]:
        ids = {ref: passage.id for ref, passage in case.sources.items()}
        if written.abstention_notes:
            return {
                "answer": None,
                "claims": [],
                "conflict_summary": None,
                "abstention_notes": written.abstention_notes,
                "citations": [],
                "notes": [],
            }
        draft, bare = drafted(case, written)
        text, citations = _numbered(draft, ids)
        notes = origin_notes(bare.claims, case.origin, ids)
        claims = []
        for claim in bare.claims:
            record = claim_record(claim, case.sources, ids)
            if self.confidence:
                record["confidence"] = claim.confidence
            if self.human_review:
                origin = {case.origin[piece.source_id] for piece in claim.supporting_sources}
                record["human_review"] = _review(record, claim.confidence, len(origin), embedded)
            claims.append(record)
        return {
            "answer": text,
            "claims": claims,
            "conflict_summary": bare.conflict_summary,
            "abstention_notes": None,
            "citations": citations,
            "notes": notes,
        }


def writing_case(session: Session, told: Constraints) -> WritingCase:
    """The one turn of a session as a case to be written from."""
    turn = session.turns[0]
    sources = {f"p{rank}": passage for rank, passage in enumerate(turn.passages, 1)}
    refs = list(sources)
    same = origins([passage.text or "" for passage in sources.values()])
    origin = {ref: refs[first] for ref, first in zip(refs, same, strict=True)}
    return WritingCase(session, turn.user or "", sources, origin, told)


def _numbered(draft: CitedTurn, ids: Mapping[str, str]) -> tuple[str, list[dict[str, Any]]]:
    """The answer with its marks as ``[n]``, n counting the passages as given, and where each mark points."""
    pieces, citations = [], []
    position = length = 0
    for mark in draft.marks.marks:
        pieces.append(draft.answer[position : mark.start])
        length += mark.start - position
        for target in mark.targets:
            written = f"[{target.passages[0] + 1}]"
            source = ids[f"p{target.passages[0] + 1}"]
            citations.append({"marker": written, "span": [length, length + len(written)], "source_id": source})
            pieces.append(written)
            length += len(written)
        position = mark.end
    pieces.append(draft.answer[position:])
    return "".join(pieces).strip(), citations


def _review(record: Mapping[str, Any], confidence: float, origins_of_it: int, embedded: bool) -> dict[str, Any]:
    """Whether a person should look at a claim before it is relied on, and why."""
    reasons = []
    if record["unresolved"]:
        reasons.append("unresolved_conflict")
    if record.get("resolved_by"):
        reasons.append(f"resolved_by_{record['resolved_by']}")
    if confidence < LOW_CONFIDENCE:
        reasons.append("low_confidence")
    if origins_of_it == 1 and len(record["supporting_sources"]) > 1:
        reasons.append("copies_of_one_source")
    if embedded:
        reasons.append("judged_by_words")
    return {"needed": bool(reasons), "reasons": reasons}


def _fitting(step: Step, settings: AuditSettings) -> Step:
    """The step, if it fits what the judge reads; passages are never cut silently."""
    limit = settings.limits.input_tokens
    if settings.embedded_judge or limit is None:
        return step
    counter: Callable[[str], int] = settings.count_tokens or (lambda words: len(words) // 4 + 1)
    prompt = prompting.chosen(step.prompt_id, settings)
    size = counter(prompt.text) + sum(map(counter, step.inputs.values())) + _REPAIR_TOKENS
    if size > limit:
        raise UnitError(f"cite: {size} tokens are more than the judge reads ({limit})", reason="turn_exceeds_window")
    return step
