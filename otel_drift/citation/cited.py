"""``otel_drift.cite``: an answer written from passages, every claim of it with checked quotes, or none at all."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import ValidationError

from otel_drift import validation
from otel_drift.budget import Budget
from otel_drift.citation.constraints import Constraints, constraints
from otel_drift.citation.writing import Writing, writing_case
from otel_drift.citation.written_answer import SynthesisAnswer, WrittenAnswer
from otel_drift.citation.written_checks import check_written
from otel_drift.errors import ConfigError
from otel_drift.model import Passage, Session, Turn, Unit
from otel_drift.passages import as_passages
from otel_drift.protocols import AnswerCache, AuditSettings, Judge
from otel_drift.reasons import explain
from otel_drift.redaction import redact_session

Status = Literal["answered", "abstained", "inconclusive"]
LONGEST_QUESTION = 50_000
EXTRACTIVE = "the answer consists of sentences of the passages, chosen by shared words alone"
"""Said of every answer of the embedded judge, which cannot write."""
FIELDS = frozenset({"confidence", "human_review"})
"""What a claim may hold besides the fixed fields."""


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """What came of writing an answer.

    Attributes:
        status: ``answered``: `answer` holds checked text. ``abstained``: the passages do not answer, `abstention_notes`
            says what is missing. ``inconclusive``: nothing that the judge wrote passed the checks; there is no answer.
        reason: why it is inconclusive, a short code (see `otel_drift.reasons`), else None.
        answer: the answer with marks ``[n]``, n counting the passages as they were given; None unless answered.
        claims: one record a claim: ``claim_id, claim_text, supporting_sources, contradicting_sources, unresolved``,
            ``resolved_by`` where a conflict was resolved, and the fields asked for.
        conflict_summary: in plain words, where sources contradict a claim.
        abstention_notes: in plain words, where the passages do not answer.
        citations: one record a mark: ``marker, span, source_id``.
        notes: near-identical sources that count as one.
        judge: who wrote it; `judge_note` is what to keep in mind about that judge.
        extractive: whether the answer is made of sentences of the passages, by the embedded judge.
        unit: everything besides: attempts, tokens, cost, prompts, for the record.
    """

    status: Status
    reason: str | None
    answer: str | None
    claims: tuple[Mapping[str, Any], ...]
    conflict_summary: str | None
    abstention_notes: str | None
    citations: tuple[Mapping[str, Any], ...]
    notes: tuple[Mapping[str, Any], ...]
    judge: str
    judge_note: str
    extractive: bool
    unit: Unit

    def record(self) -> dict[str, Any]:
        """The JSON-ready record, as ``otel-drift cite --format json`` prints it."""
        unit = self.unit
        return {
            "status": self.status,
            "reason": self.reason,
            "answer": self.answer,
            "claims": [dict(claim) for claim in self.claims],
            "conflict_summary": self.conflict_summary,
            "abstention_notes": self.abstention_notes,
            "citations": [dict(one) for one in self.citations],
            "notes": [dict(note) for note in self.notes],
            "judge": self.judge,
            "judge_note": self.judge_note,
            "extractive": self.extractive,
            "prompts": [{"id": one.id, "version": one.version, "sha256": one.sha256} for one in unit.prompts],
            "calls": unit.calls,
            "tokens": {"input": unit.input_tokens, "output": unit.output_tokens},
            "cost": unit.cost,
        }


def cite(
    question: str,
    passages: Iterable[Passage | Mapping[str, Any]],
    *,
    judge: Judge,
    steps: Literal[1, 2] = 1,
    recency: str | datetime.date | None = None,
    authority: str | Iterable[str] = (),
    max_words: int | None = None,
    fields: Collection[str] = (),
    human_review: bool = False,
    examples: Sequence[Mapping[str, Any]] = (),
    cache: AnswerCache | None = None,
    budget: Budget | None = None,
    settings: AuditSettings | None = None,
    redact: Callable[[str], str] | None = None,
) -> CitedAnswer:
    """Write an answer to `question` from `passages`, with citations that were checked.

    Every sentence belongs to a claim, every claim has a verbatim quote from a passage its mark points at, and where
    passages contradict a claim the answer says so. What cannot be brought to that is no answer: `status` is then
    ``inconclusive``. With the embedded judge the answer is made of sentences of the passages, word for word.

    Args:
        question: what is asked.
        passages: what may be used: `Passage`, or mappings with ``id``, ``text`` and, where known, ``title``,
            ``author``, ``date``, ``document_type``, ``source``.
        judge: who writes.
        steps: 2 asks for the answer first and for its conflicts afterwards: easier for small models, twice the price.
        recency: passages dated before it (a date, ``2024``, ``2024-06``) may not support a claim.
        authority: authors or kinds of documents, the highest first, by which conflicts may be resolved.
        max_words: of the answer, marks not counted.
        fields: more for each claim: ``confidence`` (0..1, the judge's), ``human_review``.
        human_review: the same as ``fields=["human_review"]``: whether a person should look at a claim, and why.
        examples: further worked examples, each ``{"question", "passages", "answer"}`` with the answer as a judge
            gives it; they are checked like any answer.
        cache: answers already paid for.
        budget: limits of calls and cost, shared between calls.
        settings: prompt folder and limits of the judge.
        redact: applied to question and passages before anything is sent.

    Raises:
        ConfigError: an argument is wrong. Nothing else is raised: a judge that fails makes the answer inconclusive.
    """
    if not question.strip() or len(question) > LONGEST_QUESTION:
        raise ConfigError(f"the question must have 1 to {LONGEST_QUESTION} characters")
    if steps not in (1, 2):
        raise ConfigError(f"steps {steps}: write an answer in 1 or 2 steps")
    wanted = {*fields, *(["human_review"] if human_review else [])}
    if unknown := sorted(wanted - FIELDS):
        raise ConfigError(f"field {unknown[0]!r} is unknown: use {', '.join(sorted(FIELDS))}")
    told = constraints(recency, authority, max_words)
    writing = Writing(
        told=told,
        two_steps=steps == 2,
        examples=_examples(examples, told, two_steps=steps == 2),
        confidence="confidence" in wanted,
        human_review="human_review" in wanted,
    )
    session = _session(question, as_passages(passages))
    if redact is not None:
        try:
            session = redact_session(session, redact)
        except Exception as error:  # a caller's callable: nothing may go out
            return _cited(validation.unredacted(writing, session, judge, error), judge)
    unit = validation.audit_session(writing, session, judge, cache=cache, settings=settings, budget=budget)
    return _cited(unit, judge)


def _session(question: str, passages: Sequence[Passage]) -> Session:
    ranked = tuple(replace(passage, rank=rank) for rank, passage in enumerate(passages, 1))
    turn = Turn(
        turn_id="cite",
        number=1,
        started=0,
        ended=0,
        user=question,
        answer=None,
        answer_state="not_captured",
        retrieval="captured",
        passages=ranked,
    )
    key = hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Session(f"cite/{key}", None, (turn,), ())


def _cited(unit: Unit, judge: Judge) -> CitedAnswer:
    report = unit.report or {}
    status: Status = "inconclusive"
    if unit.report is not None:
        status = "abstained" if report["abstention_notes"] else "answered"
    return CitedAnswer(
        status=status,
        reason=unit.reason,
        answer=report.get("answer"),
        claims=tuple(report.get("claims", ())),
        conflict_summary=report.get("conflict_summary"),
        abstention_notes=report.get("abstention_notes"),
        citations=tuple(report.get("citations", ())),
        notes=tuple(report.get("notes", ())),
        judge=unit.judge,
        judge_note=f"{EXTRACTIVE}; {unit.judge_note}" if judge.embedded else unit.judge_note,
        extractive=judge.embedded,
        unit=unit,
    )


def why(cited: CitedAnswer) -> str:
    """The reason of an inconclusive answer in words."""
    return explain(cited.reason or "")


def _examples(examples: Sequence[Mapping[str, Any]], told: Constraints, *, two_steps: bool) -> str:
    """A caller's examples as text for the prompt, each checked as an answer would be.

    Raises:
        ConfigError: one of them would not pass.
    """
    model = SynthesisAnswer if two_steps else WrittenAnswer
    written = []
    for number, example in enumerate(examples, 1):
        where = f"example {number}"
        try:
            question, answer = str(example["question"]), example["answer"]
            case = writing_case(_session(question, as_passages(example["passages"], where)), Constraints())
            parsed = model.model_validate(answer)
        except (KeyError, TypeError) as error:
            raise ConfigError(f"{where}: needs question, passages and answer ({error})") from error
        except ValidationError as error:
            detail = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, detail["loc"]))
            raise ConfigError(f"{where}: its answer has not the form asked for: {place}: {detail['msg']}") from error
        errors = check_written(case, parsed.written() if isinstance(parsed, SynthesisAnswer) else parsed)
        if errors:
            raise ConfigError(f"{where}: its answer would not pass: {errors[0]}")
        written.append(_example(number, case.question, case.sources, answer))
    return "\n\n".join(written)


def _example(number: int, question: str, sources: Mapping[str, Passage], answer: Any) -> str:
    from otel_drift.audits.citation_conflict_layout import source_lines

    data = "\n".join(source_lines(question, sources))
    told = json.dumps(answer, ensure_ascii=False)
    return f"## Further example {number}\n```data\n{data}\n```\n```answer\n{told}\n```"
