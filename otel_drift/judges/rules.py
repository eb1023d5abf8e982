"""The embedded judge: lexical heuristics that need no key, no network and no model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson

from otel_drift.errors import PermanentJudgeError
from otel_drift.judges.rules_drift import audit_session
from otel_drift.judges.rules_grounding import Grounding, grounding
from otel_drift.judges.rules_lexicon import grounding_model
from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask, Session

__all__ = ["Grounding", "RulesJudge", "grounding"]

RULES_VERSION = "1"
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
        "lexical heuristics, no language understanding; measured balanced accuracy .83 to .93 on claims that talk of "
        "other things than the passages, .64 to .73 on claims that re-use their words, and it finds about a third of "
        "contradictions; use an LLM judge for verdicts that matter"
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
            PermanentJudgeError: an audit, or a step of it, that these rules do not cover.
        """
        if task.audit != "factual_drift" or not isinstance(task.material, Session):
            raise PermanentJudgeError(
                f"the embedded judge cannot answer {task.audit}/{task.step}: name a model with --model",
                reason="unsupported_task",
            )
        started = time.perf_counter()
        answer = audit_session(task.material)
        return JudgeAnswer(
            text=orjson.dumps(answer).decode(),
            model=self.name,
            cost=0.0,
            seconds=time.perf_counter() - started,
            finish_reason="stop",
            parameters=dict(self.parameters()),
        )
