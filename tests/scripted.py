"""A judge that reads the conversation it is given: it finds nothing, but does list the opening claim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from model_server import Reply, Request


def turns_of(request: Request) -> Iterator[dict[str, Any]]:
    """The turns in the data of a factual_drift request: one JSON line each."""
    for line in request.messages[-1]["content"].splitlines():
        if line.startswith('{"turn"'):
            yield json.loads(line)


def finds_nothing(request: Request, *, delay: float = 0.0) -> Reply:
    """Answer with the first answer as one unsupported claim, and no event."""
    turn = next(turn for turn in turns_of(request) if turn["answer"])
    claim = {
        "id": "c1",
        "turn": turn["turn"],
        "claim_text": turn["answer"],
        "quote": turn["answer"],
        "grounding_status": "UNSUPPORTED",
        "evidence": [],
        "qualifiers": [],
        "missing_qualifier": None,
    }
    return Reply({"claims": [claim], "drift_events": [], "overall_assessment": "nothing found"}, delay=delay)
