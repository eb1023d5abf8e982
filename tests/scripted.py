"""A judge for the example conversations, scripted from their labels: it finds nothing, but does list a claim."""

from __future__ import annotations

import json
from pathlib import Path

from model_server import Reply, Request

LABELS = Path(__file__).resolve().parents[1] / "examples" / "labels"


def finds_nothing(request: Request, *, delay: float = 0.0) -> Reply:
    """Answer with the opening claim of the conversation that the request is about, and no event."""
    for file in sorted(LABELS.glob("*.json")):
        turn = json.loads(file.read_text(encoding="utf-8"))["turns"][0]
        if turn["answer"] in request.text:
            claim = {
                "id": "c1",
                "turn": "t1",
                "claim_text": turn["answer"],
                "quote": turn["answer"],
                "grounding_status": "UNSUPPORTED",
                "evidence": [],
                "qualifiers": [],
                "missing_qualifier": None,
            }
            answer = {"claims": [claim], "drift_events": [], "overall_assessment": "nothing found"}
            return Reply(answer, delay=delay)
    return Reply("no such conversation")
