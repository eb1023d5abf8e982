"""Model objects to JSON text and back, for the ledger's columns; and rows into its tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.model import Annotation, Attempt, Finding, JudgeAnswer, PromptRef, Session, Unit
from otel_drift.passage_mark import PassageMark

T = TypeVar("T")

_MOST_VARIABLES = 500
_UNIT_KEPT = (
    "outcome",
    "reason",
    "severity",
    "report",
    "judge",
    "judge_note",
)


def to_json(value: Any) -> str:
    """Canonical JSON: sorted keys, ASCII only (NUL and lone surrogates become escapes)."""
    return _ENCODER.encode(value)


def from_json(text: str) -> Any:
    """The inverse of `to_json`."""
    return json.loads(text)


def sha256(text: str) -> str:
    """Hex digest of a text that `to_json` made."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """`values` in pieces: SQLite and PostgreSQL both limit the variables of one statement."""
    return (values[start : start + _MOST_VARIABLES] for start in range(0, len(values), _MOST_VARIABLES))


def insert(connection: Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows that name the same columns, if there are any; the statement is made once a table."""
    if rows:
        connection.execute(_insertion(table), rows)


@cache
def _insertion(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


def column(text: str) -> str:
    """`text` as any database takes it in a text column: NUL and lone surrogates written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def answer_to_json(answer: JudgeAnswer) -> str:
    """A judge's answer as JSON."""
    return to_json(_shallow(answer))


def answer_from_json(text: str) -> JudgeAnswer:
    """The inverse of `answer_to_json`."""
    return JudgeAnswer(**from_json(text))


def unit_to_json(unit: Unit) -> str:
    """A unit's verdict as JSON: without session, attempts and findings (kept apart), nor what it cost to reach."""
    kept: dict[str, Any] = {name: getattr(unit, name) for name in _UNIT_KEPT}
    kept["prompts"] = [_shallow(prompt) for prompt in unit.prompts]
    return to_json(kept)


def unit_from_json(
    text: str, *, unit_id: str, audit: str, fingerprint: str, session: Session, findings: tuple[Finding, ...]
) -> Unit:
    """A committed unit with the session given. It cost nothing in this run: no calls, no tokens, no attempts."""
    kept = from_json(text)
    prompts = tuple(PromptRef(**prompt) for prompt in kept.pop("prompts"))
    return Unit(
        unit_id=unit_id,
        audit=audit,
        session=session,
        findings=findings,
        prompts=prompts,
        content_sha256=fingerprint,
        cost=0.0,
        **kept,
    )


def finding_to_json(finding: Finding) -> str:
    """A finding as JSON, as it was judged: who muted it is kept elsewhere."""
    kept = _shallow(finding)
    del kept["muted"]
    return to_json(kept)


def finding_from_json(text: str) -> Finding:
    """The inverse of `finding_to_json`."""
    kept = from_json(text)
    return Finding(**{**kept, "quotes": tuple(kept["quotes"])})


def annotation_to_json(annotation: Annotation) -> str:
    """An annotation as JSON, without its revision: equal text means nothing changed."""
    kept = _shallow(annotation)
    del kept["revision"], kept["passages"]
    if annotation.passages:  # else it is what it was before there were any: nothing new, no new revision
        kept["passages"] = [_shallow(one) for one in annotation.passages]
    return to_json(kept)


def annotation_from_json(text: str, revision: int) -> Annotation:
    """The inverse of `annotation_to_json`."""
    kept = from_json(text)
    passages = tuple(PassageMark(**one) for one in kept.pop("passages", ()))
    return Annotation(**{**kept, "revision": revision, "links": tuple(kept["links"]), "passages": passages})


def withdrawn(text: str) -> str:
    """The JSON of an annotation, turned into the one that takes it back, also from the passages it was about."""
    kept = from_json(text)
    kept.update(withdrawn=True, label="withdrawn", score=None, explanation=None, error_type=None, links=[], metadata={})
    return to_json(kept)


def messages_sha256(attempt: Attempt) -> str:
    """What was sent, as a hash: what a privacy deletion leaves of it."""
    return sha256(to_json([[message.role, message.content] for message in attempt.messages]))


def messages_to_json(attempt: Attempt) -> tuple[str, dict[str, str]]:
    """What was sent as JSON, system messages by hash; and those by their hash, as they are the same in every ask."""
    instructions: dict[str, str] = {}
    sent = []
    for message in attempt.messages:
        if message.role == "system":
            body = to_json(message.content)
            digest = sha256(body)
            instructions[digest] = body
            sent.append({"role": message.role, "sha256": digest})
        else:
            sent.append({"role": message.role, "content": message.content})
    return to_json(sent), instructions


def _shallow(record: Any) -> dict[str, Any]:
    # Not `asdict`: it deep-copies, which read-only mappings refuse.
    kind = type(record)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind))
    return {name: getattr(record, name) for name in names}


_NAMES: dict[type[Any], tuple[str, ...]] = {}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


_ENCODER = json.JSONEncoder(default=_plain, sort_keys=True, separators=(",", ":"))
