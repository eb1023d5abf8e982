"""The embedded judge: lexical heuristics that need no key, no network and no model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from otel_drift.errors import PermanentJudgeError
from otel_drift.judges.rules_drift import UnreadableError, audit_session
from otel_drift.judges.rules_grounding import Grounding, grounding
from otel_drift.judges.rules_lexicon import grounding_model
from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask

__all__ = ["Grounding", "RulesJudge", "grounding"]

RULES_VERSION = "2"
"""Raised whenever the same session may get another answer: part of the cache key."""


class RulesJudge:
    """A deterministic judge in this process, the default when no model is named.

    It compares words, numbers, dates and qualifiers; it does not understand a sentence. Events are worded "Possible",
    at most MAJOR, and only raised where the reason can be shown.
    """

    name = "rules"
    embedded = True
    endpoint = "this process"
    note = (
        "lexical heuristics, no language understanding; measured balanced accuracy .82 to .92 on claims about other "
        "things than the passages, .65 to .72 on claims that re-use their words; finds only contradictions that a "
        "number, date, price or opposite word shows; use an LLM judge for verdicts that matter"
    )

    def parameters(self) -> Mapping[str, Any]:
        """Version of the rules, and version and thresholds of the fitted model."""
        model = grounding_model()
        return {"rules": RULES_VERSION, "model": model.version, "flag": model.flag, "accept": model.accept}

    def limits(self) -> JudgeLimits:
        """No limits, no price."""
        return JudgeLimits(input_tokens=None, output_tokens=None, input_price=0.0, output_price=0.0)

    def count_tokens(self, text: str) -> int:
        """Four characters a token, as there is no tokenizer."""
        return (len(text) + 3) // 4

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        """Answer from `task.material`.

        Raises:
            PermanentJudgeError: an audit, a step of it, or a language that these rules do not cover.
        """
        answers = _ANSWERS.get(type(task.material).__name__)
        if answers is None:
            raise PermanentJudgeError(
                f"the embedded judge cannot answer {task.audit}/{task.step}: name a model with --model",
                reason="unsupported_task",
            )
        started = time.perf_counter()
        try:
            answer = answers(task)
        except UnreadableError as error:
            limit = "reads English only" if error.reason == "language_not_supported" else "cannot read this"
            raise PermanentJudgeError(
                f"the embedded judge {limit} ({error}): name a model with --model", reason=error.reason
            ) from error
        return JudgeAnswer(
            text=orjson.dumps(answer).decode(),
            model=self.name,
            cost=0.0,
            seconds=time.perf_counter() - started,
            finish_reason="stop",
            parameters=dict(self.parameters()),
        )


def _factual_drift(task: JudgeTask) -> dict[str, Any]:
    return _verified(audit_session(task.material), task)


def _longform_drift(task: JudgeTask) -> dict[str, Any]:
    from otel_drift.judges.rules_longform import audit_sentences

    return audit_sentences(task.material)


def _source_conflict(task: JudgeTask) -> dict[str, Any]:
    from otel_drift.judges import rules_source_conflict

    return rules_source_conflict.answer(task)


def _citation(task: JudgeTask) -> dict[str, Any]:
    from otel_drift.judges import rules_citation

    return rules_citation.answer(task)


def _extract(task: JudgeTask) -> dict[str, Any]:
    from otel_drift.judges import rules_extract

    return rules_extract.answer(task)


_ANSWERS: Mapping[str, Callable[[JudgeTask], dict[str, Any]]] = {
    "Session": _factual_drift,
    "LongformMaterial": _longform_drift,
    "ConflictMaterial": _source_conflict,
    "CitedTurn": _citation,
    "WritingCase": _extract,
}
"""Who answers, by the type of a step's material: an audit may have steps of another one."""


def _verified(answer: dict[str, Any], task: JudgeTask) -> dict[str, Any]:
    """Leave out what the audit's own checks would refuse, and types the configured taxonomy does not have.

    A rule that went too far costs one claim or event, not the session: there is nothing a repair ask could mend.
    """
    from otel_drift.audits.factual_drift_answer import ClaimAnswer, EventAnswer
    from otel_drift.audits.factual_drift_checks import check_claims, check_events, refs

    known = refs(task.material)
    parsed = [ClaimAnswer.model_validate(claim) for claim in answer["claims"]]
    claims = {claim.id: claim for claim in parsed if not check_claims([claim], known)}
    types = _drift_types(task.schema)
    events = [
        event
        for event in answer["drift_events"]
        if (types is None or event["drift_type"] in types)
        and not check_events([EventAnswer.model_validate(event)], claims, known)
    ]
    return {**answer, "claims": [c for c in answer["claims"] if c["id"] in claims], "drift_events": events}


def _drift_types(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """The types the answer schema allows, None where it names none."""
    for definition in schema.get("$defs", {}).values():
        allowed = definition.get("properties", {}).get("drift_type", {})
        if "enum" in allowed or "const" in allowed:
            return frozenset(allowed.get("enum", [allowed.get("const")]))
    return None
