"""What the gate is asked: a question and passages, from Python objects or JSON, made into one turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from otel_drift.errors import ConfigError
from otel_drift.model import Passage, Session, Turn
from otel_drift.redaction import redact_session

PassageLike: TypeAlias = Passage | Mapping[str, Any]
"""A `Passage`, or a mapping with ``id`` and ``text`` and, where known, the other fields of `FIELDS`."""

FIELDS = ("title", "source", "author", "date", "document_type")
MOST_PASSAGES = 200
LONGEST_TEXT = 1_000_000
"""Characters of all passages together."""
_LONGEST_FIELD = 2_000


def read_passages(given: Sequence[PassageLike]) -> tuple[Passage, ...]:
    """The passages, ranked as given; a passage that is there twice, word for word, counts once.

    Raises:
        ConfigError: one is malformed, or an id is used for two texts; the message says which.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise ConfigError("passages must be a list of objects with id and text")
    if len(given) > MOST_PASSAGES:
        raise ConfigError(
            f"{len(given)} passages are more than {MOST_PASSAGES}; give the gate what the model would see"
        )
    found: dict[str, Passage] = {}
    for number, one in enumerate(given, 1):
        passage = read_passage(one, number)
        known = found.setdefault(passage.id, passage)
        if known.text != passage.text:
            raise ConfigError(f"passage {number}: the id {passage.id!r} is used for another text already")
    if (size := sum(len(passage.text or "") for passage in found.values())) > LONGEST_TEXT:
        raise ConfigError(f"the passages have {size:,} characters, more than {LONGEST_TEXT:,}")
    return tuple(found.values())


def read_passage(given: PassageLike, number: int, *, where: str | None = None) -> Passage:
    """One passage.

    Args:
        given: what was given.
        number: its rank, from 1.
        where: how an error names its place; by default ``passage N``.

    Raises:
        ConfigError: it is malformed.
    """
    where = where or f"passage {number}"
    fields = _fields(given) if isinstance(given, Passage) else given
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{where}: an object with id and text is needed, not {type(given).__name__}")
    own_id, text = fields.get("id"), fields.get("text")
    if isinstance(own_id, int) and not isinstance(own_id, bool):
        own_id = str(own_id)
    if not isinstance(own_id, str) or not own_id.strip() or len(own_id) > _LONGEST_FIELD:
        raise ConfigError(f"{where}: id must be a short text")
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{where}: text must be a text that is not empty")
    about: dict[str, Any] = {}
    for name in FIELDS:
        value = fields.get(name)
        if value is not None and not isinstance(value, str | int | float):
            raise ConfigError(f"{where}: {name} must be a text")
        about[name] = None if value is None else str(value)[:_LONGEST_FIELD]
    return Passage(id=own_id, text=text, rank=number, **about)


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


def _fields(passage: Passage) -> dict[str, Any]:
    return {"id": passage.id, "text": passage.text, **{name: getattr(passage, name) for name in FIELDS}}
