"""Inbox: deletion by age, session or user, a few traces a transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.inbox.arrival import Facts, written
from otel_drift.inbox.settling import recount
from otel_drift.inbox.tables import chunk, group, member, tally, trace
from otel_drift.ledger import records as columns
from otel_drift.ledger.database import Database
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import erasure
from otel_drift.normalise.owners import USERS
from otel_drift.sessions.facts import hash_of
from otel_drift.sessions.owners import Owners, parted

_AT_ONCE = 500
"""Traces one transaction deletes; a person's are mostly fewer."""
_PAGE = 5000


def of_age(connection: Connection, before: int, *, unaudited_before: int, most: int | None = None) -> list[int]:
    """Traces whose last records came before a time, the oldest first; those that wait to be audited, before another."""
    waits = sa.exists(
        sa.select(member.c.trace_number)
        .join(group, group.c.group_id == member.c.group_id)
        .where(
            member.c.trace_number == trace.c.trace_number,
            member.c.open_since.is_not(None),
            group.c.open_since.is_not(None),
        )
    )
    query = sa.select(trace.c.trace_number).where(trace.c.received < before)
    query = query.where(sa.or_(trace.c.received < unaudited_before, ~waits))
    return list(connection.execute(query.order_by(trace.c.received).limit(most)).scalars())


def of_session(connection: Connection, session: str) -> set[int]:
    """The traces of a session, by its id or its key."""
    query = sa.select(member.c.trace_number, member.c.audited_hash).join(group, group.c.group_id == member.c.group_id)
    rows = connection.execute(query.where(group.c.session_id == written(session))).all()
    hashes = {row.audited_hash for row in rows if row.audited_hash is not None} | {hash_of(session)}
    return {row.trace_number for row in rows} | _audited_as(connection, hashes)


def of_user(connection: Connection, user: str) -> set[int]:
    """The traces of a user: that name the user, or are of a session in which others do."""
    found: set[int] = set()
    hashes: set[int] = set()
    groups: set[str] = set()
    for numbers in _pages(_naming(connection, user)):
        found.update(numbers)
        query = sa.select(member.c.group_id, member.c.audited_hash, group.c.session_id)
        query = query.join(group, group.c.group_id == member.c.group_id).where(member.c.trace_number.in_(numbers))
        for row in connection.execute(query):
            if row.audited_hash is not None:
                hashes.add(row.audited_hash)
            if row.session_id is not None:
                groups.add(row.group_id)
    for its_group in sorted(groups):
        found |= _of_customer(connection, its_group, user)
    return found | _audited_as(connection, hashes)


def delete(database: Database, numbers: Sequence[int], selector: dict[str, Any] | None) -> int:
    """Delete traces.

    Args:
        database: The ledger's.
        numbers: Of the traces.
        selector: For a privacy deletion, by what it was chosen: then nothing is left of them in the file either, and
            a tombstone says how much was deleted.

    Returns:
        How many spans were deleted.
    """
    deleted = 0
    for start in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[start : start + _AT_ONCE])
        with database.writing() if selector is None else database.overwriting() as connection:
            spans = _delete(connection, some)
            deleted += spans
            if selector is not None and spans:
                row = {"at": time.time_ns(), "selector": columns.to_json(selector)}
                connection.execute(sa.insert(erasure).values(**row, counts=columns.to_json({"spans": spans})))
    return deleted


def _delete(connection: Connection, numbers: list[int]) -> int:
    of_trace = trace.c.trace_number.in_(numbers)
    totals = sa.select(sa.func.coalesce(sa.func.sum(trace.c.spans), 0), sa.func.coalesce(sa.func.sum(trace.c.bytes), 0))
    spans, size = map(int, connection.execute(totals.where(of_trace)).one())
    of_member = member.c.trace_number.in_(numbers)
    groups = set(connection.execute(sa.select(member.c.group_id).where(of_member).distinct()).scalars())
    connection.execute(sa.delete(chunk).where(chunk.c.trace_number.in_(numbers)))
    connection.execute(sa.delete(member).where(of_member))
    connection.execute(sa.delete(trace).where(of_trace))
    connection.execute(sa.update(tally).values(spans=tally.c.spans - spans, bytes=tally.c.bytes - size))
    for some in chunks(sorted(groups)):
        alive = sa.exists(sa.select(member.c.trace_number).where(member.c.group_id == group.c.group_id))
        connection.execute(sa.delete(group).where(group.c.group_id.in_(some), ~alive))
    recount(connection, groups)
    return spans


def _audited_as(connection: Connection, hashes: set[int]) -> set[int]:
    found: set[int] = set()
    for some in chunks(sorted(hashes)):
        query = sa.select(member.c.trace_number).where(member.c.audited_hash.in_(some))
        found.update(connection.execute(query).scalars())
    return found


def _naming(connection: Connection, user: str) -> Iterator[int]:
    """The traces that name a user. All are looked through: it is asked for rarely."""
    needle = columns.to_json(user)
    after = 0
    while True:
        query = sa.select(trace.c.trace_number, trace.c.facts).where(trace.c.trace_number > after)
        rows = connection.execute(query.order_by(trace.c.trace_number).limit(_PAGE)).all()
        for row in rows:
            if needle in row.facts and _names(Facts.from_json(row.facts, 0, 0, False).whose.owners, user):
                yield row.trace_number
        if not rows:
            return
        after = rows[-1].trace_number


def _of_customer(connection: Connection, its_group: str, user: str) -> set[int]:
    """The traces of a session id that are of the user, also those that only reconstruction knows to be."""
    query = sa.select(trace.c.trace_number, trace.c.facts).join(member, member.c.trace_number == trace.c.trace_number)
    rows = connection.execute(query.where(member.c.group_id == its_group)).all()
    owners = {row.trace_number: Facts.from_json(row.facts, 0, 0, False).whose.owners for row in rows}
    customers = parted(set(owners.values()))
    return {number for number, own in owners.items() if _names(customers[own], user)}


def _names(owners: Owners, user: str) -> bool:
    return any(kind in USERS and value == user for kind, value in owners)


def _pages(numbers: Iterator[int]) -> Iterator[list[int]]:
    page: list[int] = []
    for number in numbers:
        page.append(number)
        if len(page) == _AT_ONCE:
            yield page
            page = []
    if page:
        yield page
