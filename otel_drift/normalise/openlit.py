"""Normalise: what is peculiar to OpenLIT: at most three documents of a retrieval, results as Python reprs."""

from __future__ import annotations

from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import Step

REPORTED = 3
"""OpenLIT reports the first three documents of a LangChain retrieval, whatever was found."""


class OpenLIT(Reader):
    """Spans of the `openlit…` scopes; everything else on them follows the GenAI conventions."""

    name = "openlit"

    def incomplete(self, step: Step) -> bool:
        """Whether more documents may have been found than are reported."""
        return step.kind == "retriever" and step.documents is not None and len(step.documents) >= REPORTED
