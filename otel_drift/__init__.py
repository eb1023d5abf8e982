"""Finds factual drift in the traces of RAG chats."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_drift.citation.cited import CitedAnswer, cite
    from otel_drift.gate import ConflictGate, GateDecision

__all__ = ["CitedAnswer", "ConflictGate", "GateDecision", "__version__", "cite"]

__version__ = "0.1.0"

_HOMES = {
    "CitedAnswer": "otel_drift.citation.cited",
    "ConflictGate": "otel_drift.gate",
    "GateDecision": "otel_drift.gate",
    "cite": "otel_drift.citation.cited",
}
"""Where the public names live: imported when first used, so that ``import otel_drift`` stays quick."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
