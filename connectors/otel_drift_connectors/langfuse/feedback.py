"""What people said of traces and sessions, from Langfuse's scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from otel_drift_connectors.langfuse.connection import Connection
from otel_drift_connectors.langfuse.reading import in_lists, scores

if TYPE_CHECKING:
    from langfuse.api.scores.types.score_v3 import ScoreV3

SOURCES = "ANNOTATION,API"
"""People in the interface, and applications that pass on their users' feedback; EVAL is what models said."""
_COMMENT = 500
"""Characters of a comment that are kept."""


def of_traces(connection: Connection, trace_ids: Collection[str]) -> dict[str, str]:
    """Feedback on traces and what is in them: trace id → lines ``name: value``."""
    found: dict[str, list[ScoreV3]] = {}
    for some in in_lists(trace_ids):
        for score in _said(scores(connection, trace_id=",".join(some), source=SOURCES)):
            subject = score.subject
            if subject is not None and subject.kind in ("trace", "observation"):
                trace_id = subject.id if subject.kind == "trace" else getattr(subject, "trace_id", None)
                found.setdefault(trace_id or "", []).append(score)
    return {trace_id: _lines(said) for trace_id, said in found.items()}


def of_sessions(connection: Connection, session_ids: Iterable[str]) -> dict[str, str]:
    """Feedback on whole sessions: session id → lines ``name: value``."""
    found: dict[str, list[ScoreV3]] = {}
    # The parameter is a list with commas: an id with one in it cannot be asked for.
    for some in in_lists(one for one in session_ids if "," not in one):
        for score in _said(scores(connection, session_id=",".join(some), source=SOURCES)):
            if score.subject is not None and score.subject.kind == "session":
                found.setdefault(score.subject.id, []).append(score)
    return {session_id: _lines(said) for session_id, said in found.items()}


def _said(found: Iterable[ScoreV3]) -> Iterator[ScoreV3]:
    """Without what we wrote, corrections (a better answer, no judgement), and verdicts of reviewers in a queue."""
    for score in found:
        ours = (score.metadata or {}).get("written_by") == "otel-drift"
        if not ours and score.data_type != "CORRECTION" and not score.queue_id:
            yield score


def _lines(said: list[ScoreV3]) -> str:
    """Oldest first; a comment is a line of its own, so that the value before it is read as one."""
    lines = []
    for score in sorted(said, key=lambda one: (one.timestamp, one.name, one.id)):
        value = score.value
        shown = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else value
        lines.append(f"{_flat(score.name)}: {_flat(str(shown))}")
        if score.comment and score.comment.strip():
            lines.append(f"{_flat(score.name)} comment: {_flat(score.comment)}")
    return "\n".join(lines)


def _flat(text: str) -> str:
    return " ".join(text.split())[:_COMMENT]
