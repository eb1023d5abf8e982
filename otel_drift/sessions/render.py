"""Sessions: a session as the JSON that ``inspect --format json`` prints."""

from __future__ import annotations

from typing import Any

from otel_drift.model import Passage, Session, Turn


def session_json(session: Session) -> dict[str, Any]:
    """The session as JSON-ready data, one line of ``inspect --format json``."""
    return {
        "session_id": session.session_id,
        "key": session.key,
        "project": session.project,
        "environment": session.environment,
        "user": session.user,
        "tenant": session.tenant,
        "trace_ids": list(session.trace_ids),
        "conventions": list(session.conventions),
        "turns": [_turn(turn) for turn in session.turns],
        "hints": [
            {"code": h.code, "convention": h.convention, "what": h.what, "remedy": h.remedy, "turns": list(h.turns)}
            for h in session.hints
        ],
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "turn": turn.number,
        "turn_id": turn.turn_id,
        "started": turn.started,
        "ended": turn.ended,
        "user": turn.user,
        "answer": turn.answer,
        "answer_state": turn.answer_state,
        "retrieval": turn.retrieval,
        "passages": [_passage(p) for p in turn.passages],
        "tool_calls": [
            {
                "name": c.name,
                "arguments": c.arguments,
                "result": c.result,
                "is_retrieval": c.is_retrieval,
                "span": c.span_ref,
            }
            for c in turn.tool_calls
        ],
        "root_ref": turn.root_ref,
        "answer_ref": turn.answer_ref,
        "trace_ids": list(turn.trace_ids),
        "model": turn.model,
        "app_version": turn.app_version,
        "prompt_name": turn.prompt_name,
        "prompt_version": turn.prompt_version,
        "environment": turn.environment,
        "tags": list(turn.tags),
        "feedback": turn.feedback,
        "error": turn.error,
        "alternatives": [_turn(t) for t in turn.alternatives],
    }


def _passage(passage: Passage) -> dict[str, Any]:
    return {
        "id": passage.id,
        "own_id": passage.own_id,
        "text": passage.text,
        "rank": passage.rank,
        "score": passage.score,
        "title": passage.title,
        "source": passage.source,
        "author": passage.author,
        "date": passage.date,
        "document_type": passage.document_type,
        "read_from": passage.read_from,
        "span": passage.span_ref,
    }
