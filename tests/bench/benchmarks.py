"""The judge benchmarks as they lie beside the checkout: items of one set, and the scores read from them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from otel_drift.calibration import labels, metrics
from otel_drift.model import Passage, Session, Turn

GROUNDING_SETS = ("mtrag_human", "begin_wow", "begin_cmu", "q2_wow", "fever_sym")
BAD = frozenset().union(*labels.BAD.values())


def shared_dir() -> Path | None:
    """Where the benchmarks are: ``OTEL_DRIFT_SHARED``, else ``../shared`` beside the checkout; None if absent."""
    path = Path(os.environ.get("OTEL_DRIFT_SHARED") or Path(__file__).parents[3] / "shared")
    return path if path.is_dir() else None


def items(suite: str) -> list[dict[str, Any]]:
    """The dev items of one set."""
    root = shared_dir()
    if root is None:
        raise SystemExit("benchmarks not found: set OTEL_DRIFT_SHARED")
    with (root / "benchmarks" / suite / "dev.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def is_scored(item: dict[str, Any]) -> bool:
    """Whether an item counts: annotators agree and it makes a claim."""
    return item["label"] not in labels.LEFT_OUT


def question(item: dict[str, Any]) -> str | None:
    """The user's last message."""
    users = [turn["text"] for turn in item["history"] if turn["role"] == "user"]
    return users[-1] if users else None


def auroc(scored: Iterable[tuple[float, bool]]) -> float:
    """Area under the ROC curve; ties count half. `scored`: (score, is bad)."""
    area = metrics.auroc([metrics.Scored(*one) for one in scored])
    assert area is not None, "both classes are needed"
    return area


def balanced_accuracy(scored: Sequence[tuple[float, bool]], threshold: float) -> float:
    """Mean of the two recalls at `threshold` (at or above it: bad)."""
    found = metrics.rates([metrics.Scored(*one) for one in scored], threshold).balanced_accuracy
    assert found is not None, "both classes are needed"
    return found


def labelled_conversations() -> dict[str, dict[str, Any]]:
    """The labelled conversations by name."""
    root = shared_dir()
    if root is None:
        raise SystemExit("labels not found: set OTEL_DRIFT_SHARED")
    files = sorted((root / "traces" / "labels").glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def session_of_labels(label: dict[str, Any]) -> Session:
    """A labelled conversation as the session that perfect capture would give."""
    turns = tuple(
        Turn(
            turn_id=f"turn-{turn['turn']}",
            number=turn["turn"],
            started=0,
            ended=0,
            user=turn["user"],
            answer=turn["answer"],
            answer_state="captured",
            retrieval="captured" if turn["passages"] else "none" if turn.get("retrieval_empty") else "no_retrieval",
            passages=tuple(Passage(p["id"], p["text"], rank) for rank, p in enumerate(turn["passages"], 1)),
        )
        for turn in label["turns"]
    )
    return Session(label["session_id"], label["session_id"], turns, ())
