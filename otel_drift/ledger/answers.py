"""Judge answers by cache key: nothing is asked twice."""

from __future__ import annotations

import time

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import records
from otel_drift.ledger.schema import answer
from otel_drift.model import JudgeAnswer, JudgeTask

_BODY = sa.select(answer.c.body).where(answer.c.cache_key == sa.bindparam("key"))
_KNOWN = sa.select(answer.c.cache_key).where(answer.c.cache_key == sa.bindparam("key"))


def find(connection: Connection, cache_key: str) -> JudgeAnswer | None:
    """The answer stored for a key, unless it was erased."""
    body = connection.execute(_BODY, {"key": cache_key}).scalar()
    return None if body is None else records.answer_from_json(body)


def keep(connection: Connection, cache_key: str, task: JudgeTask, given: JudgeAnswer, *, instead: bool = False) -> None:
    """Store an answer; where a key has one, that stays (two threads may have asked the same), but for `instead`.

    The attempts of results hold their answers themselves: what was once said stays on record.
    """
    if instead:
        connection.execute(sa.delete(answer).where(answer.c.cache_key == cache_key))
    elif connection.execute(_KNOWN, {"key": cache_key}).first():
        return
    connection.execute(
        sa.insert(answer),
        {
            "cache_key": cache_key,
            "audit": records.column(task.audit),
            "step": records.column(task.step),
            "prompt_id": task.prompt.id,
            "prompt_version": task.prompt.version,
            "prompt_sha256": task.prompt.sha256,
            "model": records.column(given.model),
            "body": records.answer_to_json(given),
            "created": time.time_ns(),
        },
    )
