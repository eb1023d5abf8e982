"""Labels as answers of ``citation_conflict``: a judge that reads sources off the labels of the given conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_drift.audits.citation_conflict_layout import CitedTurn
from otel_drift.audits.factual_drift_quotes import stem_set
from otel_drift.citation.scope import scopes
from otel_drift.model import JudgeTask
from otel_drift.text import fold, statements
from scripted_labels import ANSWERS, LabelledTurn


def sources_from_labels(task: JudgeTask, turns: Mapping[int, LabelledTurn]) -> dict[str, Any]:
    """What a careful reader would list: the cited passages support, but for planted mismatches and conflicts."""
    case: CitedTurn = task.material
    (labelled,) = turns.values()
    refs = {passage.id: f"p{rank}" for rank, passage in enumerate(case.turn.passages, 1)}
    texts = {ref: passage.text or "" for ref, passage in case.sources.items()}
    cited = _cited(case)
    claims = []
    voiced = None
    for number, sentence in enumerate(statements(case.shown.text), 1):
        own = fold(sentence.text)
        support = cited.get(number - 1) or _closest(sentence.text, texts)
        for planted in labelled.events("citation_mismatch", event=True):
            if fold(planted["answer_span"].split(" [")[0]) in own:
                support = [_ref(labelled, passage) for passage in planted["passages"]]
        against = []
        for planted in labelled.events("conflicting_passages", event=True):
            sides = [_ref(labelled, passage) for passage in planted["passages"]]
            quotes = dict(zip(sides, (planted.get("quote_a"), planted.get("quote_b")), strict=True))
            if planted.get("disclosed") and fold(planted["answer_span"]) in own:
                voiced = sentence.text
            if len(support) == 1 and support[0] in sides and _about(sentence.text, quotes[support[0]] or ""):
                other = sides[1 - sides.index(support[0])]
                against = [piece(other, quotes[other] or _closest_sentence(sentence.text, texts[other]))]
        claims.append(
            {
                "claim_id": f"c{number}",
                "claim_text": sentence.text,
                "quote": sentence.text,
                "supporting_sources": [piece(ref, _closest_sentence(sentence.text, texts[ref])) for ref in support],
                "contradicting_sources": [{**one, "conflict_type": "direct_factual"} for one in against],
                "unresolved": bool(support and against),
                "resolved_by": None,
                "confidence": 0.9,
            }
        )
    conflict = any(claim["contradicting_sources"] for claim in claims)
    assert refs
    return {
        "claims": claims,
        "conflict_summary": "Two passages disagree." if conflict else None,
        "voiced_in": voiced if conflict else None,
        "abstention_notes": None,
    }


def piece(ref: str, quote: str) -> dict[str, Any]:
    return {"source_id": ref, "quote": quote, "rationale": "As labelled."}


def _ref(labelled: LabelledTurn, passage: str) -> str:
    """``t3.p2`` → ``p2``."""
    return (labelled.ref(passage) or "").split(".")[1]


def _cited(case: CitedTurn) -> dict[int, list[str]]:
    """Which passages the marks in each sentence of the answer without marks name."""
    found: dict[int, list[str]] = {}
    spans = [case.shown.original(s.start, s.end) for s in statements(case.shown.text)]
    for scope in scopes(case.answer, case.marks):
        for index, (start, end) in enumerate(spans):
            if start < scope.near[1] and scope.near[0] < end:
                refs = [f"p{place + 1}" for target in scope.mark.targets for place in target.passages]
                found.setdefault(index, []).extend(refs)
    return found


def _closest(sentence: str, texts: Mapping[str, str]) -> list[str]:
    """The passage that holds most of a sentence, for conversations without marks."""
    wanted = stem_set(sentence)
    shares = {ref: len(wanted & stem_set(text)) / max(1, len(wanted)) for ref, text in texts.items()}
    best = max(shares, key=lambda ref: shares[ref])
    return [best] if shares[best] >= 0.6 else []


def _closest_sentence(sentence: str, text: str) -> str:
    wanted = stem_set(sentence)
    return max((s.text for s in statements(text)), key=lambda one: len(wanted & stem_set(one)))


def _about(sentence: str, quote: str) -> bool:
    return len(stem_set(sentence) & stem_set(quote)) >= 4


ANSWERS["citation_conflict"] = sources_from_labels
