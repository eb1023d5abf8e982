"""What the gate is asked: a question and passages, from Python objects or JSON, made into one turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from otel_drift.errors import ConfigError
from otel_drift.model import Passage, Session, Turn
from otel_drift.passages import as_passages, is_blank
from otel_drift.redaction import redact_session

PassageLike: TypeAlias = Passage | Mapping[str, Any]
"""A `Passage`, or a mapping with ``id`` and ``text`` and the other fields of `otel_drift.passages`, where known."""

MOST_PASSAGES = 200
LONGEST_TEXT = 1_000_000
"""Characters of all passages together. Over either limit the gate abstains: nobody compared them all."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A passage that was given and not looked at: its number in the list, from 1, and why."""

    number: int
    reason: Literal["empty", "repeated"]


@dataclass(frozen=True, slots=True)
class Given:
    """The passages to decide about, and those of the caller's list that add nothing to them."""

    passages: tuple[Passage, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def over_limit(self) -> str | None:
        """The code of the limit that the passages are over, None within both."""
        if len(self.passages) > MOST_PASSAGES:
            return "too_many_passages"
        return "passages_too_long" if sum(len(p.text or "") for p in self.passages) > LONGEST_TEXT else None


def given_passages(given: Sequence[PassageLike]) -> Given:
    """The passages as given, without empty ones; one that is there twice, word for word, counts once.

    Raises:
        ConfigError: one is malformed, an id is used for two texts, or all of them are empty; the message says which.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise ConfigError("passages must be a list of objects with id and text")
    kept: list[Passage] = []
    left_out: list[LeftOut] = []
    seen: set[str] = set()
    for number, passage in enumerate(as_passages(given, lenient=True), 1):
        if is_blank(passage.text):
            left_out.append(LeftOut(number, "empty"))
        elif passage.id in seen:
            left_out.append(LeftOut(number, "repeated"))
        else:
            seen.add(passage.id)
            kept.append(passage)
    if left_out and not kept:
        raise ConfigError(
            f"no passage is left, the text of all {len(left_out)} is empty: pass on the texts that were retrieved, or "
            "an empty list where nothing was found"
        )
    return Given(tuple(kept), tuple(left_out))


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
        passages: from `given_passages`.
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
