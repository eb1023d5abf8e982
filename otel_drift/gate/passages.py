"""What the gate is asked: a question and passages, from Python objects or JSON, made into one turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from otel_drift.errors import ConfigError
from otel_drift.model import Passage, Session, Turn
from otel_drift.passages import as_passages
from otel_drift.redaction import redact_session

PassageLike: TypeAlias = Passage | Mapping[str, Any]
"""A `Passage`, or a mapping with ``id`` and ``text`` and the other fields of `otel_drift.passages`, where known."""

MOST_PASSAGES = 200
LONGEST_TEXT = 1_000_000
"""Characters of all passages together."""


def given_passages(given: Sequence[PassageLike]) -> tuple[Passage, ...]:
    """The passages as given; one that is there twice, word for word, counts once.

    Raises:
        ConfigError: one is malformed, an id is used for two texts, or they are too many; the message says which.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise ConfigError("passages must be a list of objects with id and text")
    if len(given) > MOST_PASSAGES:
        raise ConfigError(f"{len(given)} passages are more than {MOST_PASSAGES}: give the gate what the model sees")
    once = _without_repeats(given)
    if not once:
        return ()
    found = as_passages(once)
    if (size := sum(len(passage.text or "") for passage in found)) > LONGEST_TEXT:
        raise ConfigError(f"the passages have {size:,} characters, more than {LONGEST_TEXT:,}")
    return found


def _without_repeats(given: Sequence[PassageLike]) -> list[PassageLike]:
    once: list[PassageLike] = []
    seen: set[tuple[str, str]] = set()
    for one in given:
        fields = (
            one if isinstance(one, Mapping) else {"id": getattr(one, "id", None), "text": getattr(one, "text", None)}
        )
        key = (repr(fields.get("id")), repr(fields.get("text")))
        if key not in seen:
            seen.add(key)
            once.append(one)
    return once


def gate_session(
    query: str,
    passages: Sequence[Passage],
    decision_id: str,
    *,
    now: int,
    trace: tuple[str, str] | None,
) -> Session:
    """The one turn the audit is given: a question with its passages and no answer yet.

    Args:
        query: the question.
        passages: from `read_passages`.
        decision_id: makes the turn one of its own.
        now: nanoseconds since the Unix epoch.
        trace: trace and span id of the calling span, where there is one.
    """
    root = f"{trace[0]}:{trace[1]}" if trace else None
    turn = Turn(
        turn_id=decision_id,
        number=1,
        started=now,
        ended=now,
        user=query,
        answer=None,
        answer_state="not_captured",
        retrieval="captured",
        passages=tuple(passages),
        root_ref=root,
        trace_ids=(trace[0],) if trace else (),
    )
    return Session(f"gate:{decision_id}", None, (turn,), turn.trace_ids, project="gate")


def redact_gate_session(session: Session, redact: Callable[[str], str]) -> Session:
    """`session` with every text redacted; its key holds nothing private and stays."""
    return replace(redact_session(session, redact), key=session.key)


def differing(passages: Sequence[Passage], fields: Sequence[str]) -> bool:
    """Whether the passages that name one of `fields` (author, date, document type) name different ones."""
    return any(len({value for p in passages if (value := getattr(p, name))}) > 1 for name in fields)
