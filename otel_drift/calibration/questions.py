"""One labelled item as a question for a model, through the same harness as the audits: ask, check, repair, cache.

The audits judge whole sessions; a labelled item is one answer, one pair of statements or one sentence. So these prompts
measure how well a model tells the labels apart, not the audits' own prompts. Passage conflicts need none of this: there
the audit ``source_conflict`` judges exactly such an item.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from otel_drift.calibration.labels import Case
from otel_drift.model import Finding, Passage, Session, Turn
from otel_drift.protocols import AuditSettings, Eligibility, Step

QuestionKind = Literal["grounding", "contradiction", "qualifier", "certainty"]
PROMPTS: Mapping[QuestionKind, str] = {
    "grounding": "calibration/grounding",
    "contradiction": "calibration/contradiction",
    "qualifier": "calibration/qualifier",
    "certainty": "calibration/certainty",
}
INPUTS: Mapping[QuestionKind, frozenset[str]] = {
    "grounding": frozenset({"conversation", "passages", "answer"}),
    "contradiction": frozenset({"conversation", "statements"}),
    "qualifier": frozenset({"wordings"}),
    "certainty": frozenset({"sentence"}),
}


class _Verdict(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)

    reason: str = Field("", max_length=4_000)
    confidence: float = Field(ge=0, le=1)


class GroundingVerdict(_Verdict):
    """Is the answer borne out by its passages?"""

    verdict: Literal["supported", "unsupported", "contradicted", "no_claim"]


class ContradictionVerdict(_Verdict):
    """Can both statements be true?"""

    verdict: Literal["contradiction", "no_contradiction"]


class QualifierVerdict(_Verdict):
    """Did the later wording lose a qualifier?"""

    verdict: Literal["dropped", "kept"]


class CertaintyVerdict(_Verdict):
    """Is the sentence hedged?"""

    verdict: Literal["assertive", "hedged"]


_ANSWERS: Mapping[QuestionKind, type[_Verdict]] = {
    "grounding": GroundingVerdict,
    "contradiction": ContradictionVerdict,
    "qualifier": QualifierVerdict,
    "certainty": CertaintyVerdict,
}
_BAD = frozenset({"unsupported", "contradicted", "contradiction", "dropped", "assertive"})


class ItemQuestion:
    """Asks a judge one item; the report holds ``verdict``, ``confidence``, ``score`` and ``silent``.

    The score is 0.5 + confidence ÷ 2 for a bad verdict and 0.5 − confidence ÷ 2 for a good one: no confidence is a
    toss-up, and a bad verdict always scores above a good one.
    """

    version = "1"

    def __init__(self, kind: QuestionKind) -> None:
        self.name = f"calibration_{kind}"
        self._kind = kind

    def eligibility(self, session: Session, settings: AuditSettings) -> Eligibility:
        """Every item can be asked."""
        return Eligibility(True)

    def steps(
        self, session: Session, settings: AuditSettings
    ) -> Generator[Sequence[Step], Sequence[BaseModel], dict[str, Any]]:
        """One ask."""
        inputs = _inputs(self._kind, session)
        step = Step("verdict", PROMPTS[self._kind], inputs, _ANSWERS[self._kind], lambda answer: [], max_repairs=2)
        (answer,) = yield [step]
        given = cast("Any", answer)
        sign = 1 if given.verdict in _BAD else -1
        return {
            "verdict": given.verdict,
            "confidence": given.confidence,
            "score": 0.5 + sign * given.confidence / 2,
            "silent": given.verdict == "no_claim",
            "reason": given.reason,
        }

    def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
        """None: a measured item is no finding."""
        return ()

    def prompt_inputs(self, settings: AuditSettings) -> Mapping[str, frozenset[str]]:
        """The one prompt and what it is given."""
        return {PROMPTS[self._kind]: INPUTS[self._kind]}

    def answer_models(self, settings: AuditSettings) -> Mapping[str, type[BaseModel]]:
        """The form of the answer."""
        return {PROMPTS[self._kind]: _ANSWERS[self._kind]}


def kind_of(case: Case) -> QuestionKind:
    """Which question an item is; a qualifier without an earlier wording is one of certainty.

    Raises:
        ValueError: a passage conflict, which is the audit's own question.
    """
    if case.task == "passage_conflict":
        raise ValueError("passage conflicts are judged by source_conflict")
    return "certainty" if case.task == "qualifier" and case.reference is None else case.task


def session_of(case: Case) -> Session:
    """The item as a session, so that redaction and the harness take it like any other.

    The turns of `history` come first; the last turn holds what is judged. Two statements or wordings are the answers of
    the last two turns. Of a passage conflict there is only the one turn, without an answer.
    """
    if case.task == "passage_conflict":
        return _session(case, [_turn(1, case.text, None, case.passages)])
    before, asked = _before(case)
    if case.reference is not None:
        before.append((asked, case.reference))
        asked = None
    turns = [_turn(number, user, answer) for number, (user, answer) in enumerate(before, 1)]
    return _session(case, [*turns, _turn(len(turns) + 1, asked, case.text, case.passages)])


def _session(case: Case, turns: Sequence[Turn]) -> Session:
    return Session(f"calibration/{case.id}", None, tuple(turns), ())


def _turn(number: int, user: str | None, answer: str | None, passages: Sequence[Any] = ()) -> Turn:
    return Turn(
        turn_id=f"item-{number}",
        number=number,
        started=0,
        ended=0,
        user=user,
        answer=answer,
        answer_state="not_captured" if answer is None else "captured",
        retrieval="captured" if passages else "no_retrieval",
        passages=tuple(
            Passage(
                id=one.id,
                text=one.text,
                rank=rank,
                title=one.title,
                source=one.source,
                author=one.author,
                date=one.date,
                document_type=one.document_type,
            )
            for rank, one in enumerate(passages, 1)
        ),
    )


def _before(case: Case) -> tuple[list[tuple[str | None, str | None]], str | None]:
    """The finished turns of the history, and the message that the judged text answers."""
    finished: list[tuple[str | None, str | None]] = []
    asked: str | None = None
    for role, text in case.history:
        if role == "user":
            if asked is not None:
                finished.append((asked, None))
            asked = text
        else:
            finished.append((asked, text))
            asked = None
    return finished, asked


def _inputs(kind: QuestionKind, session: Session) -> dict[str, str]:
    last = session.turns[-1]
    if kind == "certainty":
        return {"sentence": _line({"text": last.answer})}
    if kind == "qualifier":
        return {"wordings": "\n".join(_line({"wording": n, "text": t.answer}) for n, t in _pair(session))}
    if kind == "contradiction":
        said = _conversation(session.turns[:-2], session.turns[-2].user)
        return {
            "conversation": said,
            "statements": "\n".join(_line({"statement": n, "text": t.answer}) for n, t in _pair(session)),
        }
    passages = [_line({"passage": f"p{n}", "title": p.title, "text": p.text}) for n, p in enumerate(last.passages, 1)]
    return {
        "conversation": _conversation(session.turns[:-1], last.user),
        "passages": "\n".join(passages) or "none",
        "answer": _line({"text": last.answer}),
    }


def _pair(session: Session) -> list[tuple[str, Turn]]:
    return list(zip("AB", session.turns[-2:], strict=True))


def _conversation(turns: Sequence[Turn], asked: str | None) -> str:
    lines = [_line({"user": turn.user, "assistant": turn.answer}) for turn in turns]
    return "\n".join([*lines, _line({"user": asked})])


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
