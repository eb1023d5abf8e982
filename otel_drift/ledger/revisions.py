"""What units say on platforms: each unit's part, the revisions that come of all parts, and what is owed of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import deliveries, records
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import annotation, contribution, delivery
from otel_drift.model import SEVERITY_SCORES, Annotation

_TOGETHER = 250
"""Annotations looked up by one statement, which names each three times."""

# Statements of every commit, made once: making one takes longer than running it.
_UNIT: sa.BindParameter[str] = sa.bindparam("of_unit")
_KEYS: sa.BindParameter[str] = sa.bindparam("keys", expanding=True)
_STANDS = sa.union(
    sa.select(contribution.c.annotation_id).where(contribution.c.unit_id == _UNIT),
    sa.select(annotation.c.annotation_id).where(
        annotation.c.unit_id == _UNIT, annotation.c.current, annotation.c.withdrawn
    ),
)
_NO_TEXT = sa.cast(sa.null(), sa.Text)
_KNOWN = sa.union_all(
    sa.select(
        sa.literal_column("'part'", sa.Text).label("kind"),
        contribution.c.annotation_id,
        contribution.c.unit_id.label("whose"),
        sa.literal_column("0", sa.Integer).label("revision"),
        sa.literal_column("0", sa.Integer).label("number"),
        _NO_TEXT.label("digest"),
        contribution.c.body,
    ).where(contribution.c.annotation_id.in_(_KEYS)),
    sa.select(
        sa.literal_column("'last'", sa.Text),
        annotation.c.annotation_id,
        annotation.c.unit_id,
        annotation.c.revision,
        sa.case((annotation.c.withdrawn, 1), else_=0),
        annotation.c.content_sha256,
        annotation.c.body,
    ).where(annotation.c.annotation_id.in_(_KEYS), annotation.c.current),
    sa.select(
        sa.literal_column("'owed'", sa.Text),
        delivery.c.annotation_id,
        delivery.c.sink,
        sa.func.max(delivery.c.revision),
        sa.func.max(delivery.c.attempts),
        _NO_TEXT,
        _NO_TEXT,
    )
    .where(delivery.c.annotation_id.in_(_KEYS), delivery.c.sink.in_(sa.bindparam("sinks", expanding=True)))
    .group_by(delivery.c.annotation_id, delivery.c.sink),
)
"""Everything that bears on annotations, in one statement."""
_UNSAY = sa.delete(contribution).where(contribution.c.unit_id == _UNIT, contribution.c.annotation_id.in_(_KEYS))
_REPLACE = (
    sa.update(annotation).where(annotation.c.annotation_id.in_(_KEYS), annotation.c.current).values(current=False)
)


@dataclass(frozen=True, slots=True)
class _Last:
    """The current revision of an annotation."""

    revision: int
    withdrawn: bool
    digest: str
    body: str


@dataclass(slots=True)
class _Known:
    """What the ledger holds of annotations: parts by unit, current revisions, what sinks were owed."""

    parts: dict[str, dict[str, str]] = field(default_factory=dict)
    last: dict[str, _Last] = field(default_factory=dict)
    owed: dict[str, dict[str, deliveries.Owed]] = field(default_factory=dict)


def say(
    connection: Connection,
    unit_id: str,
    says: Mapping[str, Annotation],
    sinks: Iterable[str],
    *,
    keeps: bool = False,
    is_new: bool = False,
) -> None:
    """Replace what a unit says, withdraw what it no longer says, and owe both.

    Args:
        connection: In a transaction.
        unit_id: The unit.
        says: What it says now, by annotation id.
        sinks: Names of the sinks that are to get it.
        keeps: It reached no verdict: nothing said before is taken back; only what is said anew replaces it.
        is_new: It never said anything.
    """
    unit_id = records.column(unit_id)
    sinks = _columns(sinks)
    stands = [] if is_new else list(connection.execute(_STANDS, {"of_unit": unit_id}).scalars())
    known = _known(connection, list(dict.fromkeys([*says, *stands])), sinks)
    said = {key for key in stands if unit_id in known.parts.get(key, ())}
    vanished = [] if keeps else sorted(said - says.keys())
    for chunk in chunks(sorted({*vanished, *(said & says.keys())})):
        connection.execute(_UNSAY, {"of_unit": unit_id, "keys": chunk})
    rows = [
        {"annotation_id": key, "unit_id": unit_id, "body": records.annotation_to_json(one)} for key, one in says.items()
    ]
    records.insert(connection, contribution, rows)
    for key in vanished:
        del known.parts[key][unit_id]
    for row in rows:
        known.parts.setdefault(row["annotation_id"], {})[unit_id] = row["body"]
    touched = [*says, *vanished]
    _revise(connection, unit_id, touched, known)
    _owe(connection, [*touched, *sorted(set(stands) - set(touched))], sinks, known)


def owe(connection: Connection, unit_id: str, sinks: Iterable[str]) -> None:
    """Owe each sink what is current of a unit and was not delivered or owed there yet, withdrawals included."""
    sinks = _columns(sinks)
    stands = sorted(connection.execute(_STANDS, {"of_unit": records.column(unit_id)}).scalars())
    _owe(connection, stands, sinks, _known(connection, stands, sinks))


def sinks_of(connection: Connection, unit_id: str) -> list[str]:
    """The sinks that were ever owed something of a unit."""
    ids = sa.union(
        sa.select(contribution.c.annotation_id).where(contribution.c.unit_id == unit_id),
        sa.select(annotation.c.annotation_id).where(annotation.c.unit_id == unit_id),
    )
    query = sa.select(delivery.c.sink).distinct().where(delivery.c.annotation_id.in_(ids)).order_by(delivery.c.sink)
    return list(connection.execute(query).scalars())


def is_known(connection: Connection, result_id: str) -> bool:
    """Whether an annotation has this id."""
    query = sa.select(annotation.c.revision).where(annotation.c.annotation_id == records.column(result_id)).limit(1)
    return connection.execute(query).first() is not None


def _columns(sinks: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(records.column(sink) for sink in sinks))


def _known(connection: Connection, annotation_ids: Sequence[str], sinks: Sequence[str]) -> _Known:
    known = _Known()
    for start in range(0, len(annotation_ids), _TOGETHER):
        keys = annotation_ids[start : start + _TOGETHER]
        for kind, key, whose, revision, number, digest, body in connection.execute(
            _KNOWN, {"keys": keys, "sinks": sinks}
        ):
            if kind == "part":
                known.parts.setdefault(key, {})[whose] = body
            elif kind == "last":
                known.last[key] = _Last(revision, bool(number), digest, body)
            else:
                known.owed.setdefault(whose, {})[key] = deliveries.Owed(revision, number > 0)
    return known


def _revise(connection: Connection, unit_id: str, annotation_ids: Sequence[str], known: _Known) -> None:
    """Add a revision wherever what all units together say is not what the last revision says."""
    new = [row for key in annotation_ids if (row := _next_revision(key, unit_id, known))]
    for chunk in chunks([row["annotation_id"] for row in new if row["revision"] > 1]):
        connection.execute(_REPLACE, {"keys": chunk})
    records.insert(connection, annotation, new)
    for row in new:
        known.last[row["annotation_id"]] = _Last(row["revision"], row["withdrawn"], row["content_sha256"], row["body"])


def _next_revision(annotation_id: str, unit_id: str, known: _Known) -> dict[str, Any] | None:
    """The row of the next revision; None where nothing changed."""
    last = known.last.get(annotation_id)
    parts = known.parts.get(annotation_id)
    if parts:
        said = [parts[whose] for whose in sorted(parts)]
        body, withdrawn = max(said, key=_weight) if len(said) > 1 else said[0], False
    elif last is None or last.withdrawn:
        return None
    else:
        body, withdrawn = records.withdrawn(last.body), True
    digest = records.sha256(body)
    if last is not None and last.digest == digest:
        return None
    return {
        "annotation_id": annotation_id,
        "revision": 1 if last is None else last.revision + 1,
        "current": True,
        "unit_id": unit_id,
        "withdrawn": withdrawn,
        "content_sha256": digest,
        "body": body,
        "created": time.time_ns(),
    }


def _weight(body: str) -> tuple[float, int]:
    """Which of several units' values stands: the worst; then one that could not be audited, so nothing looks clean."""
    one = records.annotation_from_json(body, 0)
    severity = SEVERITY_SCORES.get(str(one.metadata.get("severity")), 0.0)
    outcome = str(one.metadata.get("outcome"))
    return severity, {"inconclusive": 2, "not_applicable": 0}.get(outcome, 1)


def _owe(connection: Connection, annotation_ids: Sequence[str], sinks: Sequence[str], known: _Known) -> None:
    current = [
        deliveries.Current(key, known.last[key].revision, known.last[key].withdrawn)
        for key in annotation_ids
        if key in known.last
    ]
    for sink in sinks:
        deliveries.owe(connection, current, sink, known.owed.get(sink, {}))
