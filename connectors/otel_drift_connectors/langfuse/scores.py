"""What an annotation is as a Langfuse score: target, type, value, metadata, id; and when a change needs a new id.

A score's time decides which window of a monitor counts it, and an update never moves it (measured on 4.16). So a value
that got worse is written under a new id, with a time of its own, and the one before it is marked as superseded: a
monitor counts it now, and a filter by severity still finds exactly one current value. Everything else is an update in
place. Ids form a chain that can be looked up without remembering anything: ``ID``, ``ID-1``, ``ID-2``…
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from otel_drift.model import SEVERITY_SCORES, Annotation

NONE = "NONE"
"""The value of what was withdrawn, as of what is clean."""
SUPERSEDED = "SUPERSEDED"
"""The value of a score that a worse one has replaced. Not `NONE`, which is how one filters for clean sessions."""
NO_FINDING = frozenset({NONE, SUPERSEDED, "inconclusive", "not_applicable"})
LONGEST_ENVIRONMENT = 40

Value = str | float


@dataclass(frozen=True, slots=True)
class Standing:
    """A score as the server has it. `timestamp` is that of its first write."""

    id: str
    value: Value | bool
    timestamp: datetime
    comment: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Write:
    """One score to send: its body without time, and the time it keeps if it is there already."""

    body: Mapping[str, Any]
    stands_since: datetime | None = None


def writes(annotation: Annotation, chain: Sequence[Standing]) -> list[Write]:
    """What must be sent so that the annotation is the one current value of its place; nothing if it is already.

    Args:
        annotation: With the ids its target needs (see `subject`).
        chain: The scores of its id that stand, oldest first.
    """
    current = chain[-1] if chain else None
    generation = 0 if current is None else generation_of(current.id)
    if current is None and annotation.withdrawn:
        return []
    if current is not None and is_news(current.value, value(annotation)):
        current, generation = None, generation + 1
    body = _body(annotation, score_id(annotation.id, generation), current)
    made = (
        [] if current is not None and _is_same(current, body) else [Write(body, current.timestamp if current else None)]
    )
    replaced = chain if current is None else chain[:-1]
    made += [_superseded(annotation, one) for one in replaced if one.value != SUPERSEDED]
    return made


def score_id(annotation_id: str, generation: int) -> str:
    """The id of the score of an annotation after it got worse so many times."""
    return f"{annotation_id}-{generation}" if generation else annotation_id


def generation_of(of_score: str) -> int:
    """The inverse of `score_id`."""
    tail = of_score.partition("-")[2]
    return int(tail) if tail else 0


def is_news(before: Value | bool, now: Value) -> bool:
    """Whether somebody who was alerted to `before` would want to be alerted again.

    A severity is news where it is worse; another label (a type) where it is another. A number (a raw score, charted
    as a mean) is none: the severity beside it tells.
    """
    if not isinstance(now, str) or not isinstance(before, str) or now in NO_FINDING:
        return False
    if now in SEVERITY_SCORES:
        return SEVERITY_SCORES[now] > SEVERITY_SCORES.get(before, 0.0)
    return before != now


def value(annotation: Annotation) -> Value:
    """The label; of a raw score (``<audit>.score``) the number. What is withdrawn is `NONE`, or 0."""
    if is_numeric(annotation.name):
        score = annotation.score
        return 0.0 if annotation.withdrawn or score is None or not math.isfinite(score) else float(score)
    return NONE if annotation.withdrawn else _text(annotation.label)


def is_numeric(name: str) -> bool:
    """Whether the scores of this name are NUMERIC; all others are CATEGORICAL, and a name never has both."""
    return name.endswith(".score")


def subject(annotation: Annotation) -> dict[str, str] | None:
    """The one target of a score; None where the annotation lacks an id it needs."""
    if annotation.target == "session":
        return {"sessionId": _text(annotation.session_id)} if annotation.session_id else None
    if not annotation.trace_id:
        return None
    if annotation.target == "trace":
        return {"traceId": annotation.trace_id}
    return {"traceId": annotation.trace_id, "observationId": annotation.span_id} if annotation.span_id else None


def environment(given: str | None) -> str | None:
    """What the server makes of an environment, done here so that both agree; None where it takes its default.

    Lower case, a leading ``langfuse`` taken off, at most 40 characters (measured); another character than letters,
    digits, ``-`` and ``_`` silently makes it ``default``, as it does with the environment of the traces.
    """
    if not given:
        return None
    name = given.lower()
    while name.startswith("langfuse"):
        name = name.removeprefix("langfuse")
    name = name[:LONGEST_ENVIRONMENT]
    return name if re.fullmatch(r"[a-z0-9_-]+", name) else None


def moment(at: datetime) -> str:
    """A time as Langfuse writes it: UTC, milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _body(annotation: Annotation, of_score: str, current: Standing | None) -> dict[str, Any]:
    numeric = is_numeric(annotation.name)
    body: dict[str, Any] = {
        "id": of_score,
        **(subject(annotation) or {}),
        "name": annotation.name,
        "value": value(annotation),
        "dataType": "NUMERIC" if numeric else "CATEGORICAL",
        "comment": _comment(annotation),
        "metadata": _metadata(annotation, current),
    }
    if (known := environment(annotation.environment)) is not None:
        body["environment"] = known
    return body


def _comment(annotation: Annotation) -> str:
    """Never empty: a comment that is left out keeps the old one."""
    if annotation.withdrawn:
        return "Withdrawn: it is no longer found."
    return _text(annotation.explanation or "") or "No explanation."


def _metadata(annotation: Annotation, current: Standing | None) -> dict[str, Any]:
    """Metadata are merged on the server and no key ever goes: keys that this value has not are set to null.

    Values are plain, so that the scores table can filter by them.
    """
    said = {
        **annotation.metadata,
        "written_by": "otel-drift",
        "audit": annotation.audit,
        "target": annotation.target,
        "score": annotation.score,
        "error_type": annotation.error_type,
        "withdrawn": annotation.withdrawn,
        "turn_started": _time_of(annotation.start),
        "turn_ended": _time_of(annotation.end),
    }
    stale = dict.fromkeys(current.metadata) if current is not None else {}
    stale.pop(WRITTEN_AT, None)
    return {**stale, **{_text(str(key)): _plain(one) for key, one in said.items()}}


WRITTEN_AT = "written_at"
"""Metadata key: when a value was sent. A reader sees by it which write it sees, and a writer whose clock is behind
that of the one before sends a later time, or else its value would be accepted and lose."""


def _superseded(annotation: Annotation, one: Standing) -> Write:
    body = {
        "id": one.id,
        **(subject(annotation) or {}),
        "name": annotation.name,
        "value": SUPERSEDED,
        "dataType": "CATEGORICAL",
        "comment": "Superseded: it got worse, and the worse value is a score of its own.",
        "metadata": {"superseded": True},
    }
    if (known := environment(annotation.environment)) is not None:
        body["environment"] = known
    return Write(body, one.timestamp)


def _is_same(one: Standing, body: Mapping[str, Any]) -> bool:
    stored = {key: value for key, value in one.metadata.items() if key != WRITTEN_AT and value is not None}
    wanted = {key: value for key, value in body["metadata"].items() if value is not None}
    return one.value == body["value"] and one.comment == body["comment"] and stored == wanted


def _time_of(nanoseconds: int) -> str | None:
    if nanoseconds <= 0:
        return None
    try:
        return moment(datetime.fromtimestamp(nanoseconds / 1e9, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _plain(given: Any) -> Any:
    """JSON that any server takes: no NaN, no lone surrogates, no NUL."""
    if isinstance(given, str):
        return _text(given)
    if isinstance(given, float):
        return given if math.isfinite(given) else None
    if isinstance(given, Mapping):
        return {_text(str(key)): _plain(one) for key, one in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return [_plain(one) for one in given]
    return given if given is None or isinstance(given, bool | int) else _text(str(given))


def _text(given: str | None) -> str:
    return (given or "").encode("utf-8", "replace").decode().replace("\x00", "")
