"""Normalise: Cohere's reranking as OpenLLMetry records it: passages as prompts, `Doc 2, Score: 0.9` as answers."""

from __future__ import annotations

import re
from typing import ClassVar

from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import Document, Step
from otel_drift.normalise.values import number

SCOPE = "opentelemetry.instrumentation.cohere"
_RANKED = re.compile(r"Doc (?P<place>\d{1,4}), Score: (?P<score>[-+.\deE]+)")


class CohereRerank(Reader):
    """Spans of OpenLLMetry's Cohere instrumentation; its chats follow the GenAI conventions."""

    name = "cohere"
    needs: ClassVar = {"candidates": "gen_ai.prompt.", "query": "gen_ai.prompt."}

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """The passages that came out, in their new order; None where that was not recorded (the call failed)."""
        given = self.candidates(step)
        if given is None:
            return None
        ranked = []
        for answer in step.numbered("gen_ai.completion."):
            said = _RANKED.fullmatch(str(answer.get("content")))
            if said is not None and int(said["place"]) < len(given):
                ranked.append(given[int(said["place"])].with_score(number(said["score"])))
        return tuple(ranked) or None

    def candidates(self, step: Step) -> tuple[Document, ...] | None:
        """The passages that went in."""
        if step.kind != "reranker":
            return None
        prompts = [p for p in step.numbered("gen_ai.prompt.") if p.get("role") == "system"]
        return tuple(Document(None, p["content"]) for p in prompts if isinstance(p.get("content"), str)) or None

    def query(self, step: Step) -> str | None:
        """What they were ranked for."""
        if step.kind != "reranker":
            return None
        prompts = [p.get("content") for p in step.numbered("gen_ai.prompt.") if p.get("role") == "user"]
        return prompts[0] if prompts and isinstance(prompts[0], str) else None
