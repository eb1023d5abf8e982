"""The audit ``longform_drift`` by lexical rules: each sentence held against the whole source by shared words.

What the rules can show is that words, figures and names of a sentence stand nowhere in the source, or that its closest
sentence has another figure. What they cannot tell counts as grounded, and the explanation says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_drift.judges.rules_drift import UnreadableError
from otel_drift.judges.rules_gate import is_claim
from otel_drift.judges.rules_grounding import Evidence, Grounding, ground, read_evidence
from otel_drift.judges.rules_lexicon import rarity
from otel_drift.judges.rules_qualification import lost_qualifier
from otel_drift.judges.rules_statements import read
from otel_drift.text import Date, clauses, content_stems, dates, is_english, qualifiers

if TYPE_CHECKING:
    from otel_drift.audits.longform_drift import LongformMaterial

NOT_TOLD = "Not told by lexical rules; counted as grounded."
CONFIDENCE = 0.5
"""Of an answer in which nothing was found: that words match says little about their meaning."""
LEAST_SHARED = 0.3
"""A clause that shares less of its (rare) words with every sentence of the source is not from it."""

_SEEN = 0.7
"""The probability of what the rules can point at: measured on too few answers to be given more finely."""
_DOUBTS = frozenset({"likelihood", "estimate"})
_EXCEPTION = re.compile(r"\b(?:apart from|except|other than|excluding|but not|only|besides)\b", re.IGNORECASE)


def audit_sentences(material: LongformMaterial) -> dict[str, Any]:
    """Answer ``longform_drift`` for the sentences of an answer, in the audit's answer schema.

    Raises:
        UnreadableError: most sentences, or a passage of the source, are not in English.
    """
    foreign = sum(not is_english(sentence.text) for sentence in material.sentences)
    if 2 * foreign > len(material.sentences) or not all(map(is_english, material.source)):
        raise UnreadableError(f"{foreign} of {len(material.sentences)} sentences, or their source")
    source = _read_source(material)
    found = [{"index": one.index, **_verdict(one.text, source)} for one in material.sentences]
    sure = [one.pop("probability") for one in found]
    weaker = [p for p, one in zip(sure, found, strict=True) if one["status"] != "fully_grounded"]
    return {
        "sentences": found,
        "confidence": round(max(weaker, default=CONFIDENCE), 2),
        "summary": _summary(len(weaker), sum(one["explanation"] == NOT_TOLD for one in found), len(found)),
    }


def _verdict(sentence: str, source: _Source) -> dict[str, Any]:
    judged = ground(sentence, source.evidence, source.question)
    if judged.verdict == "no_claim" or not is_claim(sentence):
        return _grounded(False, None, None)
    if judged.verdict == "unsupported":
        missing = "; ".join(judged.reasons) or "too few of its words stand together in the source"
        return _weaker("ungrounded", None, missing, judged.probability)
    excerpt = source.excerpt(judged)
    if excerpt is None or not is_english(sentence):
        return _grounded(False, None, NOT_TOLD)
    if date := _foreign_date(sentence, source):
        return _weaker("partially_grounded", excerpt, f"a date that is not in the source: {date}", _SEEN)
    if clause := _foreign_clause(sentence, source):
        return _weaker("partially_grounded", excerpt, f"no sentence of the source says “{clause}”", _SEEN)
    if qualifier := _lost_qualifier(sentence, excerpt, source):
        return _weaker("partially_grounded", excerpt, f"the source says “{qualifier}”, the sentence does not", _SEEN)
    return _grounded(True, excerpt, NOT_TOLD if judged.verdict == "unsure" else None)


def _foreign_date(sentence: str, source: _Source) -> str | None:
    """A date with a month that no date of the source agrees with, as far as both are given."""
    for date in dates(sentence):
        if date.month is not None and not any(_agree(date, other) for other in source.dates):
            return date.text
    return None


def _agree(one: Date, other: Date) -> bool:
    pairs = ((one.day, other.day), (one.month, other.month), (one.year, other.year))
    return other.month is not None and all(a is None or b is None or a == b for a, b in pairs)


def _foreign_clause(sentence: str, source: _Source) -> str | None:
    """A clause of three content words or more that shares next to nothing with any one sentence of the source."""
    pieces = clauses(sentence)
    for clause in pieces if len(pieces) > 1 else ():
        wanted = frozenset(content_stems(clause)) - source.asked
        weight = sum(map(rarity, wanted))
        if len(wanted) >= 3 and all(
            sum(map(rarity, wanted & one.content)) < LEAST_SHARED * weight
            for passage in source.evidence.passages
            for one in passage.sentences
        ):
            return clause
    return None


def _lost_qualifier(sentence: str, excerpt: str, source: _Source) -> str | None:
    lost = lost_qualifier(read(excerpt), read(sentence), asked=source.question or "")
    if lost is not None and not (lost.qualifier.kind == "condition" and _EXCEPTION.search(sentence)):
        return lost.qualifier.text
    if {one.kind for one in qualifiers(sentence)} & _DOUBTS:
        return None
    said = [frozenset(content_stems(clause)) for clause in clauses(sentence)]
    for qualifier in qualifiers(excerpt):
        if qualifier.kind in _DOUBTS:
            for clause in clauses(excerpt):
                doubted = frozenset(content_stems(clause)) - frozenset(content_stems(qualifier.text))
                if qualifier.text in clause and len(doubted) >= 2 and any(doubted <= one for one in said):
                    return qualifier.text  # the whole doubted clause comes back without its doubt
    return None


def _weaker(status: str, excerpt: str | None, why: str, probability: float) -> dict[str, Any]:
    return {
        "makes_claim": True,
        "status": status,
        "excerpt": excerpt,
        "explanation": f"Possible drift: {why}.",
        "probability": probability,
    }


def _grounded(claims: bool, excerpt: str | None, explanation: str | None) -> dict[str, Any]:
    return {
        "makes_claim": claims,
        "status": "fully_grounded",
        "excerpt": excerpt,
        "explanation": explanation,
        "probability": 0.0,
    }


@dataclass(frozen=True, slots=True)
class _Source:
    """The source, read once for all sentences."""

    texts: tuple[str, ...]
    question: str | None
    evidence: Evidence
    dates: tuple[Date, ...]
    asked: frozenset[str]

    def excerpt(self, judged: Grounding) -> str | None:
        """The closest sentence, where the audit's own checks take it for an excerpt."""
        from otel_drift.audits.factual_drift_quotes import LEAST_CLAIM_WORDS, find_quote, is_long_enough

        best, index = judged.best_sentence, judged.passage_index
        if best is None or index is None or find_quote(self.texts[index], best) is None:
            return None
        return best if is_long_enough(self.texts[index], best, LEAST_CLAIM_WORDS) else None


def _read_source(material: LongformMaterial) -> _Source:
    return _Source(
        material.source,
        material.question,
        read_evidence(material.source),
        tuple(date for text in material.source for date in dates(text)),
        frozenset(content_stems(material.question or "")),
    )


def _summary(weaker: int, untold: int, total: int) -> str:
    found = f"{weaker} of {total} sentences may leave the source" if weaker else "nothing that words alone can show"
    return f"Lexical heuristics: {found}; {untold} could not be told and count as grounded."
