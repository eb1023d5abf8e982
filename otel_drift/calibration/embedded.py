"""What the embedded judge says of one item, as a score: its own probability or overlap where it has one.

Passage conflicts are not here: they are judged by the audit ``source_conflict`` itself (`judging`).
"""

from __future__ import annotations

from dataclasses import dataclass

from otel_drift.calibration.labels import Case
from otel_drift.errors import UnitError
from otel_drift.judges.rules_contradiction import Said, contradiction
from otel_drift.judges.rules_grounding import grounding
from otel_drift.judges.rules_lexicon import grounding_model
from otel_drift.judges.rules_qualification import lost_qualifier
from otel_drift.judges.rules_statements import read
from otel_drift.text import QualifierClass, content_words, keeps, qualifiers

_CLASSES: tuple[QualifierClass, ...] = (
    "likelihood", "frequency", "time_scope", "condition", "approximation", "estimate",
)  # fmt: skip
_UNCERTAIN: tuple[QualifierClass, ...] = ("likelihood", "estimate")
NOT_RAISED = 0.5
"""A lost qualifier that the audit would raise scores above it (its overlap, 0.5..1), other signs of loss below."""


@dataclass(frozen=True, slots=True)
class Said01:
    """A score 0..1, higher is worse. `silent`: the judge would raise nothing whatever the score, as nothing is claimed.

    `unread`: it found no statement at all (a refusal, a greeting), so that the score is no verdict.
    """

    score: float
    silent: bool = False
    unread: bool = False


def embedded_score(case: Case) -> Said01:
    """The embedded judge's score of a grounding, contradiction or qualifier item.

    * grounding: the probability of *unsupported* (`rules_grounding.grounding`); 0 where there is no statement.
    * contradiction: the probability of a contradiction that can be shown (0.7..0.95), 0 where none can.
    * qualifier with an earlier wording: the overlap of the two wordings (0.5..1) where an explicit qualifier was lost,
      else under `NOT_RAISED` the share of the earlier wording's classes of marker of which the later has none.
    * qualifier of one sentence: 1 without any marker, lower the plainer it hedges; 0 with an explicit hedge.

    Raises:
        UnitError: `unsupported_task` for passage conflicts.
    """
    if case.task == "grounding":
        return _grounding(case)
    if case.task == "contradiction":
        before, after = case.reference or "", case.text
        found = contradiction(Said(read(before), before, (before,), (before,)), Said(read(after), after, (), ()))
        return Said01(found.probability if found else 0.0)
    if case.task == "qualifier":
        return Said01(_plainness(case.text) if case.reference is None else _loss(case.reference, case.text))
    raise UnitError("passage conflicts are judged by source_conflict", reason="unsupported_task")


def _grounding(case: Case) -> Said01:
    found = grounding(case.text, [passage.text for passage in case.passages], case.question)
    claims_nothing = found.verdict == "no_claim"
    # Sure enough to be flagged, and not: there are no passages, or the rules cannot read the language.
    held_back = found.verdict == "unsure" and found.probability >= grounding_model().flag
    return Said01(found.probability, claims_nothing or held_back, unread=claims_nothing and found.probability == 0.0)


def _loss(before: str, after: str) -> float:
    found = lost_qualifier(read(before), read(after))
    if found is not None:
        return max(NOT_RAISED, found.alike)
    had = [kind for kind in _CLASSES if keeps(before, kind)]
    lost = [kind for kind in had if not keeps(after, kind)]
    return 0.9 * NOT_RAISED * len(lost) / len(had) if had else 0.0


def _plainness(sentence: str) -> float:
    if not content_words(sentence):
        return 0.0
    explicit = any(found.kind in _UNCERTAIN for found in qualifiers(sentence))
    soft = any(keeps(sentence, kind) for kind in _UNCERTAIN)
    other = any(keeps(sentence, kind) for kind in _CLASSES)
    return 1 - (2 * explicit + soft + 0.25 * other) / 3.25
