"""Alerts in the ledger: what was found since the last look, who is to be told of what, and who was told."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from otel_drift.ledger import mutes, records
from otel_drift.ledger.alert_erasure import ENDED, reduce_bodies
from otel_drift.ledger.alert_rows import AlerterState, AlertRow, Found, Watched
from otel_drift.ledger.database import Database
from otel_drift.ledger.locking import delivery_lock
from otel_drift.ledger.records import chunks
from otel_drift.ledger.schema import alert, alerter, evidence, finding, mute, review, unit
from otel_drift.times import HOUR

LOOKED_AT = 500
"""Results looked at in one transaction."""
PUT_OFF = HOUR
"""How long one alert waits that its alerter refuses, so that others come before it."""

_CURRENT = unit.alias("current_unit")
_ALERTED = unit.alias("alerted_unit")
_LATER = unit.alias("later_unit")
_WHOLE = review.alias("whole_unit")
_COLUMNS = [alert.c[field.name] for field in fields(AlertRow)]
_RANGE: sa.Select[Any] = sa.select(sa.func.max(sa.column("result_id"))).select_from(
    sa.select(unit.c.result_id)
    .where(unit.c.result_id > sa.bindparam("seen"))
    .order_by(unit.c.result_id)
    .limit(sa.bindparam("most"))
    .subquery()
)
_IS_CURRENT = sa.text("current_unit.current")
"""As the index has it; see `schema.unit_is_current`."""


def _verdict_after(result_id: sa.ColumnElement[int]) -> sa.Exists:
    """Whether the current unit has a result after this one that is a verdict; found by the index of sessions."""
    return sa.exists().where(
        _LATER.c.session_key == _CURRENT.c.session_key,
        _LATER.c.unit_id == _CURRENT.c.unit_id,
        _LATER.c.result_id > result_id,
        _LATER.c.outcome != "inconclusive",
    )


_FOUND: sa.Select[Any] = (
    sa.select(
        unit.c.result_id,
        unit.c.unit_id,
        unit.c.created,
        unit.c.session_key,
        unit.c.session_id,
        unit.c.audit,
        unit.c.body.label("unit_body"),
        finding.c.body,
        finding.c.fingerprint,
        evidence.c.frame,
    )
    .select_from(
        unit.join(finding, finding.c.result_id == unit.c.result_id)
        .join(evidence, evidence.c.result_id == unit.c.result_id)
        .join(_CURRENT, sa.and_(_CURRENT.c.unit_id == unit.c.unit_id, _IS_CURRENT))
    )
    .where(
        unit.c.result_id > sa.bindparam("seen"),
        unit.c.result_id <= sa.bindparam("upto"),
        finding.c.body.is_not(None),
        sa.or_(
            _CURRENT.c.result_id == unit.c.result_id,
            sa.and_(_CURRENT.c.outcome == "inconclusive", sa.not_(_verdict_after(unit.c.result_id))),
        ),
    )
    .order_by(unit.c.result_id, finding.c.position)
)
_NO_VERDICT = sa.and_(_CURRENT.c.outcome == "inconclusive", sa.not_(_verdict_after(alert.c.result_id)))
_REJECTED = (
    sa.func.coalesce(sa.case((review.c.status.in_(("confirmed", "rejected")), review.c.status)), _WHOLE.c.status, "")
    == "rejected"
)
_MUTED = sa.exists().where(mute.c.fingerprint == alert.c.fingerprint, mutes.in_force(sa.bindparam("today")))
_WITHDRAWN = sa.or_(
    _CURRENT.c.result_id.is_(None),
    sa.and_(
        _CURRENT.c.result_id != alert.c.result_id,
        _CURRENT.c.result_id <= sa.bindparam("seen"),
        sa.not_(_NO_VERDICT),
    ),
)
_ERASED = _ALERTED.c.erased.is_not(None)
_CHANGING: sa.Select[Any] = (
    sa.select(
        *_COLUMNS,
        _CURRENT.c.result_id.label("current_id"),
        _NO_VERDICT.label("no_verdict"),
        _REJECTED.label("rejected"),
        _MUTED.label("muted"),
        _ERASED.label("erased"),
    )
    .select_from(
        alert.outerjoin(_CURRENT, sa.and_(_CURRENT.c.unit_id == alert.c.unit_id, _IS_CURRENT))
        .outerjoin(_ALERTED, _ALERTED.c.result_id == alert.c.result_id)
        .outerjoin(review, review.c.item_id == alert.c.item_id)
        .outerjoin(_WHOLE, sa.and_(_WHOLE.c.unit_id == alert.c.unit_id, _WHOLE.c.event_id.is_(None)))
    )
    .where(
        alert.c.alerter == sa.bindparam("to"),
        alert.c.state.in_(("firing", "held")),
        sa.or_(
            _WITHDRAWN,
            sa.and_(_ERASED, _CURRENT.c.result_id <= sa.bindparam("seen")),
            alert.c.started < sa.bindparam("expired"),
            sa.and_(alert.c.state == "firing", sa.or_(_REJECTED, _MUTED)),
            sa.and_(alert.c.state == "held", sa.not_(sa.or_(_REJECTED, _MUTED))),
        ),
    )
    .order_by(alert.c.alert_key)
)
_DUE = (
    sa.select(*_COLUMNS)
    .where(
        alert.c.alerter == sa.bindparam("to"),
        alert.c.due.is_not(None),
        sa.or_(alert.c.due <= sa.bindparam("now"), alert.c.due > sa.bindparam("ahead")),  # ahead: a clock set back
    )
    .order_by(alert.c.due, alert.c.alert_key)
)
_REPEATED = (
    sa.select(*_COLUMNS)
    .where(
        alert.c.alerter == sa.bindparam("to"),
        alert.c.state == "firing",
        alert.c.due.is_(None),
        sa.or_(alert.c.told <= sa.bindparam("before"), alert.c.told > sa.bindparam("now")),  # a clock set back
    )
    .order_by(alert.c.told, alert.c.alert_key)
)


class AlertBook:
    """The tables of alerts. Every method is one transaction and may raise LedgerError; names are the alerters'."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether this process may tell an alerter now; no other one may meanwhile."""
        with delivery_lock(self._database, f"alerts: {name}", wait=False) as held:
            yield held

    def enter(self, name: str, now: int) -> None:
        """Note an alerter, if it is new: it will not be told of what the ledger holds already."""
        with self._database.reading() as connection:
            if _state(connection, name) is not None:
                return
        with self._database.writing() as connection:
            if _state(connection, name) is None:
                newest = connection.execute(sa.select(sa.func.max(unit.c.result_id))).scalar() or 0
                values = {"alerter": name, "since": now, "seen": newest, "sent": "[]", "failures": 0, "refusals": 0}
                connection.execute(sa.insert(alerter).values(values))

    def state(self, name: str) -> AlerterState:
        """How an alerter that was entered is doing."""
        with self._database.reading() as connection:
            found = _state(connection, name)
        return found or AlerterState(0)

    def set_state(self, name: str, **changes: Any) -> None:
        """Change some of what `AlerterState` holds."""
        with self._database.writing() as connection:
            _change(connection, name, changes)

    def found_since(
        self, seen: int, *, severities: Collection[str] = (), audit: str | None = None
    ) -> tuple[list[Found], int]:
        """Findings that stand of results after `seen`, of some severities or of one audit, and how far that looked.

        They stand in a unit's newest result that is a verdict: an inconclusive one takes nothing back. Results come in
        the order they were committed, `LOOKED_AT` at a time; no more are left where it looked no further than `seen`.
        Reports are read where an audit is named.
        """
        with self._database.reading() as connection:
            upto = connection.execute(_RANGE, {"seen": seen, "most": LOOKED_AT}).scalar()
            if upto is None:
                return [], seen
            query = _FOUND if audit is None else _FOUND.where(unit.c.audit == audit)
            if severities:
                query = query.where(finding.c.severity.in_(severities))
            rows = connection.execute(query, {"seen": seen, "upto": upto}).all()
        return [_found(row, with_report=audit is not None) for row in rows], upto

    def known(self, name: str, keys: Collection[str]) -> dict[str, AlertRow]:
        """The alerts there are of these keys."""
        found = {}
        with self._database.reading() as connection:
            for chunk in chunks(list(keys)):
                query: sa.Select[Any] = sa.select(*_COLUMNS)
                query = query.where(alert.c.alerter == name, alert.c.alert_key.in_(chunk))
                found.update({row.alert_key: _row(row) for row in connection.execute(query)})
        return found

    def changing(self, name: str, *, seen: int, expired: int) -> list[Watched]:
        """The alerts that fire or are held back while their findings stand otherwise, or that began before `expired`.

        `seen`: findings of results up to this one were taken up.
        """
        values = {"to": name, "seen": seen, "expired": expired, "today": time.time_ns()}
        with self._database.reading() as connection:
            rows = connection.execute(_CHANGING, values).all()
        return [
            Watched(
                _row(row),
                row.current_id,
                no_verdict=bool(row.no_verdict),
                rejected=bool(row.rejected),
                muted=bool(row.muted),
                erased=bool(row.erased),
            )
            for row in rows
        ]

    def note(self, name: str, rows: Collection[AlertRow], seen: int) -> None:
        """Keep alerts as they now are, and how far was looked."""
        with self._database.writing() as connection:
            for row in rows:
                values = {field.name: getattr(row, field.name) for field in fields(AlertRow)}
                values["body"] = records.to_json(row.body)
                here = sa.and_(alert.c.alerter == name, alert.c.alert_key == row.alert_key)
                if not connection.execute(sa.update(alert).where(here).values(values)).rowcount:
                    connection.execute(sa.insert(alert).values({"alerter": name, **values}))
            _reduce(connection, name, rows)
            _change(connection, name, {"seen": seen})

    def due(self, name: str, now: int, limit: int) -> list[AlertRow]:
        """What an alerter is to be told, oldest first."""
        with self._database.reading() as connection:
            values = {"to": name, "now": now, "ahead": now + 2 * PUT_OFF}
            return [_row(row) for row in connection.execute(_DUE.limit(limit), values)]

    def to_repeat(self, name: str, before: int, now: int, limit: int) -> list[AlertRow]:
        """What fires and was last told at `before` or earlier, longest ago first."""
        with self._database.reading() as connection:
            values = {"to": name, "before": before, "now": now}
            return [_row(row) for row in connection.execute(_REPEATED.limit(limit), values)]

    def attempt(self, name: str, rows: Sequence[AlertRow], sent: Sequence[int]) -> None:
        """Note, before an alerter is told, that it may have been."""
        with self._database.writing() as connection:
            _update(connection, name, rows, {"told_state": "unsure"})
            _change(connection, name, {"sent": sent})

    def told(self, name: str, rows: Sequence[AlertRow], now: int, **changes: Any) -> None:
        """Note that an alerter was told of alerts as they are given; and what else changed of it."""
        firing = [row for row in rows if row.state == "firing"]
        ended = [row for row in rows if row.state != "firing"]
        with self._database.writing() as connection:
            _update(connection, name, firing, {"told": now, "told_state": "firing", "due": None})
            _update(connection, name, ended, {"told": now, "told_state": "resolved", "due": None})
            _reduce(connection, name, ended)
            if changes:
                _change(connection, name, changes)

    def called(self, name: str, rows: Sequence[AlertRow], now: int, **changes: Any) -> None:
        """Note that actions were called for, so that they never are again; and what else changed of the alerter."""
        done = {"state": "done", "told": now, "told_state": "firing", "due": None, "ended": now}
        with self._database.writing() as connection:
            _update(connection, name, rows, done)
            _reduce(connection, name, rows)
            _change(connection, name, changes)

    def put_off(self, name: str, row: AlertRow, now: int) -> None:
        """Let one alert wait for `PUT_OFF`."""
        with self._database.writing() as connection:
            _update(connection, name, [row], {"due": now + PUT_OFF})

    def forget_ended(self, name: str, before: int) -> int:
        """Delete alerts that ended before a time and leave nothing to tell."""
        gone = sa.delete(alert).where(
            alert.c.alerter == name,
            alert.c.state.in_(ENDED),
            alert.c.ended < before,
            alert.c.due.is_(None),
        )
        with self._database.writing() as connection:
            return connection.execute(gone).rowcount

    def quotes(self, rows: Sequence[AlertRow]) -> dict[str, tuple[str, ...]]:
        """The quotes of the findings of alerts by key, as far as they were not erased."""
        found: dict[tuple[int, str], tuple[str, ...]] = {}
        with self._database.reading() as connection:
            for chunk in chunks(list({row.result_id for row in rows})):
                query = sa.select(finding.c.result_id, finding.c.event_id, finding.c.body).where(
                    finding.c.result_id.in_(chunk), finding.c.body.is_not(None)
                )
                for result_id, event_id, body in connection.execute(query):
                    found[result_id, event_id] = records.finding_from_json(body).quotes
        return {row.alert_key: found.get((row.result_id, row.event_id or ""), ()) for row in rows}

    def summary(self) -> dict[str, dict[str, Any]]:
        """By alerter: alerts firing and held, how many it is to be told yet (`waiting`), failures in a row and why."""
        with self._database.reading() as connection:
            made: dict[str, dict[str, Any]] = {
                row.alerter: {"since": row.since, "failures": row.failures, "reason": row.reason, "waiting": 0}
                | {"waiting_since": None}
                for row in connection.execute(sa.select(alerter).order_by(alerter.c.alerter))
            }
            ours = alert.c.alerter.in_(list(made))
            open_now = sa.select(alert.c.alerter, alert.c.state, sa.func.count()).where(
                ours, alert.c.state.in_(("firing", "held"))
            )
            for name, state, number in connection.execute(open_now.group_by(alert.c.alerter, alert.c.state)):
                made[name][state] = number
            waiting = sa.select(alert.c.alerter, sa.func.count(), sa.func.min(alert.c.due)).where(
                ours, alert.c.due.is_not(None)
            )
            for name, number, oldest in connection.execute(waiting.group_by(alert.c.alerter)):
                made[name] |= {"waiting": number, "waiting_since": oldest}
        return made


def _state(connection: Connection, name: str) -> AlerterState | None:
    row = connection.execute(sa.select(alerter).where(alerter.c.alerter == name)).one_or_none()
    if row is None:
        return None
    sent = tuple(records.from_json(row.sent))
    return AlerterState(row.seen, sent, row.failures, row.refusals, row.retry_at, row.reason)


def _change(connection: Connection, name: str, changes: Mapping[str, Any]) -> None:
    values = dict(changes)
    if "sent" in values:
        values["sent"] = records.to_json(list(values["sent"]))
    if values.get("reason"):
        values["reason"] = records.column(values["reason"])
    connection.execute(sa.update(alerter).where(alerter.c.alerter == name).values(values))


def _update(connection: Connection, name: str, rows: Sequence[AlertRow], values: Mapping[str, Any]) -> None:
    for chunk in chunks([row.alert_key for row in rows]):
        here = sa.and_(alert.c.alerter == name, alert.c.alert_key.in_(chunk))
        connection.execute(sa.update(alert).where(here).values(values))


def _reduce(connection: Connection, name: str, rows: Collection[AlertRow]) -> None:
    for chunk in chunks([row.alert_key for row in rows]):
        reduce_bodies(connection, sa.and_(alert.c.alerter == name, alert.c.alert_key.in_(chunk)))


def _row(row: Any) -> AlertRow:
    values = {field.name: getattr(row, field.name) for field in fields(AlertRow)}
    return AlertRow(**{**values, "body": records.from_json(row.body)})


def _found(row: sa.Row[Any], *, with_report: bool) -> Found:
    frame = records.from_json(row.frame)
    report = records.from_json(row.unit_body).get("report") if with_report and row.unit_body else None
    return Found(
        result_id=row.result_id,
        unit_id=row.unit_id,
        created=row.created,
        session_key=row.session_key,
        session_id=row.session_id,
        project=frame["project"],
        environment=frame["environment"],
        judge=frame["judge"],
        finding=records.finding_from_json(row.body),
        fingerprint=row.fingerprint,
        report=report,
    )
