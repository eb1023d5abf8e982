"""From checked answers to the report of ``longform_drift``: merged statuses, start, score, sections, action, review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from otel_drift.audits.longform_drift_answer import WEAKNESS, SentenceAnswer, SentencesAnswer
from otel_drift.audits.longform_drift_checks import excerpt_place
from otel_drift.audits.longform_drift_options import ADJUDICATION, DIFFERENCE, LongformOptions
from otel_drift.audits.longform_drift_score import EMBEDDED_MOST, drift_score, severity_of, trajectory
from otel_drift.longform.layout import Layout
from otel_drift.model import Passage


@dataclass(frozen=True, slots=True)
class Reading:
    """What one judge said of the whole answer: its answers chunk by chunk, and the verdicts merged by sentence."""

    parts: tuple[range, ...]
    answers: tuple[SentencesAnswer, ...]
    merged: tuple[SentenceAnswer, ...]
    most: float = 1.0

    @property
    def statuses(self) -> list[str]:
        """The merged status of every sentence."""
        return [one.status for one in self.merged]

    @property
    def score(self) -> float:
        """The score of the answer."""
        return min(self.most, drift_score(self.statuses, len(self.merged)))

    @property
    def start(self) -> int | None:
        """The first sentence that is weaker than fully grounded."""
        return next((one.index for one in self.merged if one.status != "fully_grounded"), None)


def merge(parts: Sequence[range], answers: Sequence[SentencesAnswer], *, embedded: bool) -> Reading:
    """Put the chunks' verdicts together by global index; where two chunks judge a sentence, the weaker status wins."""
    best: dict[int, SentenceAnswer] = {}
    for answer in answers:
        for one in answer.sentences:
            known = best.get(one.index)
            if known is None or WEAKNESS[one.status] > WEAKNESS[known.status]:
                best[one.index] = one
    merged = tuple(best[index] for index in sorted(best))
    return Reading(tuple(parts), tuple(answers), merged, EMBEDDED_MOST if embedded else 1.0)


def build_report(
    layout: Layout,
    source: Sequence[Passage],
    first: Reading,
    second: Reading | None,
    options: LongformOptions,
    *,
    embedded: bool,
) -> dict[str, Any]:
    """The JSON-ready report.

    Where two judges differ by more than `DIFFERENCE`, the figures are those of the graver one, so that a disagreement
    never looks clean, and the action is to have a person decide.
    """
    differ = second is not None and round(abs(first.score - second.score), 4) > DIFFERENCE
    told = max((first, second), key=lambda one: one.score) if differ and second is not None else first
    score, start = told.score, told.start
    severity = severity_of(score)
    action = ADJUDICATION if differ else options.action(severity)
    placed = layout.sentences[start] if start is not None else None
    return {
        "drift_detected": start is not None,
        "drift_start_sentence_index": start,
        "drift_start_sentence_text": placed.text if placed else None,
        "drift_start_char": placed.start if placed else None,
        "drift_severity": severity,
        "drift_severity_score": score,
        "sentence_by_sentence_analysis": [
            _sentence(layout, one, [passage.text or "" for passage in source], source) for one in told.merged
        ],
        "sections": [
            {
                "title": section.title,
                "first": section.first,
                "last": section.last,
                "score": min(
                    told.most,
                    drift_score(told.statuses[section.first : section.last + 1], section.last - section.first + 1),
                ),
            }
            for section in layout.sections
        ],
        "trajectory": [min(told.most, one) for one in trajectory(told.statuses)],
        "cumulative_drift_summary": _summary(told),
        "recommended_action": action,
        "risk_level": options.risk_level,
        "regulated": options.regulated,
        "detection_confidence": min(answer.confidence for answer in told.answers),
        "source_ids": [passage.id for passage in source],
        "chunks": [_chunk(part, answer, told) for part, answer in zip(told.parts, told.answers, strict=True)],
        "second_judge": _second(first, second, options, embedded=embedded),
        "review": _review(score, action, options, differ=differ, unconfirmed=options.asks_twice and second is None),
    }


def _sentence(layout: Layout, one: SentenceAnswer, texts: Sequence[str], source: Sequence[Passage]) -> dict[str, Any]:
    placed = layout.sentences[one.index]
    at = excerpt_place(one.excerpt, texts) if one.excerpt is not None else None
    return {
        "sentence_index": one.index,
        "sentence_text": placed.text,
        "grounding_status": one.status,
        "supporting_source_excerpt": texts[at[0]][at[1] : at[2]] if at else None,
        "drift_explanation": one.explanation,
        "makes_claim": one.makes_claim,
        "start": placed.start,
        "end": placed.end,
        "source_id": source[at[0]].id if at else None,
    }


def _summary(told: Reading) -> str:
    """The judge's own words; with several chunks those of each one, in order."""
    said = [" ".join(answer.summary.split()) for answer in told.answers]
    return " ".join(dict.fromkeys(filter(None, said)))


def _chunk(part: range, answer: SentencesAnswer, told: Reading) -> dict[str, Any]:
    statuses = {one.index: one.status for one in answer.sentences}
    weaker = sorted(index for index, status in statuses.items() if status != "fully_grounded")
    return {
        "first": part.start,
        "last": part.stop - 1,
        "drift_start_sentence_index": weaker[0] if weaker else None,
        "score": min(told.most, drift_score(statuses.values(), len(told.merged))),
        "statuses": [statuses[index] for index in sorted(statuses)],
        "confidence": answer.confidence,
        "summary": answer.summary,
    }


def _second(
    first: Reading, second: Reading | None, options: LongformOptions, *, embedded: bool
) -> dict[str, Any] | None:
    """What the second judge said beside the first; None where none is asked for."""
    if not options.asks_twice:
        return None
    if second is None:
        assert embedded, "only the embedded judge is not asked twice"
        return {"asked": False, "why": "the embedded judge would only repeat itself: name a model with --model"}
    return {
        "asked": True,
        "first_score": first.score,
        "score": second.score,
        "difference": round(abs(first.score - second.score), 4),
        "drift_start_sentence_index": second.start,
        "drift_severity": severity_of(second.score),
        "disagreements": [
            {"sentence_index": one.index, "first": one.status, "second": other.status}
            for one, other in zip(first.merged, second.merged, strict=True)
            if one.status != other.status
        ],
    }


def _review(score: float, action: str, options: LongformOptions, *, differ: bool, unconfirmed: bool) -> dict[str, Any]:
    """Whether a person has to look, why, and whether nothing may go out before they sign it off."""
    due = score >= options.review_score
    reasons = [
        *(["judges_differ"] if differ else []),
        *(["no_second_judge"] if unconfirmed else []),
        *(["score_at_review_threshold"] if due else []),
        *(["action_asks_for_review"] if action == "flag_for_review" else []),
    ]
    return {"needed": bool(reasons), "reasons": reasons, "awaiting_sign_off": options.regulated and due}


def counts_in_words(statuses: Sequence[str]) -> str:
    """``2 contradicted, 1 ungrounded``: the weaker sentences, the weakest first."""
    counted = Counter(statuses)
    weaker = sorted((name for name in counted if WEAKNESS[name]), key=lambda name: -WEAKNESS[name])
    return ", ".join(f"{counted[name]} {name.replace('_', ' ')}" for name in weaker)
