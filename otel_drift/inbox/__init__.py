"""The inbox: records received, durable, by trace; the sessions they open; who audits which, and until when.

A group is what is claimed: a session id of a place (origin, project and environment), or a place's traces that name
none. A group is open while it has records that were not audited. SQLAlchemy is imported when an inbox is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from otel_drift.inbox.claim import Claim, InboxCounts, TraceState
from otel_drift.inbox.commits import GroupCommit
from otel_drift.model import Record

if TYPE_CHECKING:
    from pathlib import Path

    from otel_drift.inbox.arrival import Part
    from otel_drift.ledger import Ledger

__all__ = ["RECEIVED", "Claim", "Inbox", "InboxCounts", "TraceState"]

RECEIVED = "receiver"
"""The origin of what was sent to us; what was fetched has the name of its source."""

AT_ONCE = 20_000
"""Traces that retention picks out before it deletes them."""


class Inbox:
    """Received records in the ledger's database; safe to use from threads and several processes.

    Times are nanoseconds since the epoch. Every method may raise LedgerError: the database failed, nothing of the call
    was kept, and the message says where and what to do; the next call may work again.

    Args:
        ledger: Whose database it is in.
        session_attributes: As in `ReconstructOptions`: attribute names that hold the session id.
        clock: The time now.
    """

    def __init__(
        self, ledger: Ledger, *, session_attributes: Sequence[str] = (), clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._database = ledger.database
        self._session_attributes = tuple(session_attributes)
        self._clock = clock
        self._commits: GroupCommit[Sequence[Part]] = GroupCommit(self._store)

    @property
    def file(self) -> Path | None:
        """The SQLite file it is in; None where it is in memory or on a server."""
        return self._database.file

    def add(self, records: Sequence[Record], origin: str = RECEIVED, *, only_new: bool = False) -> int:
        """Keep records: durable once this returns.

        Threads that call it at the same time share a transaction.

        Args:
            records: Of any traces.
            origin: Where they are from: `RECEIVED`, or the name of a followed source.
            only_new: Leave out records that equal one kept already: a follower reads the same again.

        Returns:
            How many were kept.
        """
        from otel_drift.inbox.arrival import parts_of

        if not records:
            return 0
        parts = parts_of(records, origin, self._session_attributes, only_new=only_new)
        kept = self._commits.submit(parts, sum(len(part.payload) for part in parts))
        return kept if only_new else len(records)

    def claim(
        self, owner: str, *, now: int, settle: int, cap: int, cap_spans: int, lease: int, limit: int
    ) -> list[Claim]:
        """Hand out groups that are due and that nobody holds: the highest priority first, then the longest idle.

        Due: open, and nothing came for `settle`, or the first record that was not audited came `cap` ago, or
        `cap_spans` spans were not audited; of traces without a session id: where one of them is. And not put off.

        Args:
            owner: Who asks; distinct among processes.
            now: The time; one stored by a clock that was set back since makes nothing wait.
            settle: Nanoseconds.
            cap: Nanoseconds.
            cap_spans: Spans.
            lease: Nanoseconds until others may have it, unless renewed.
            limit: At most so many.
        """
        from otel_drift.inbox import claiming

        times = {"now": now, "settle": settle, "cap": cap, "cap_spans": cap_spans, "lease": lease}
        with self._database.reading() as connection:
            if not claiming.anything_due(connection, **times):
                return []
        with self._database.writing() as connection:
            return claiming.claim(connection, owner, **times, limit=limit)

    def renew(self, claims: Iterable[Claim], owner: str, until: int) -> set[str]:
        """Hold claims until a time; returns the groups among them that are not held by `owner` any more."""
        from otel_drift.inbox import claiming

        with self._database.writing() as connection:
            return claiming.renew(connection, claims, owner, until)

    def records(self, claim: Claim, gap: int) -> Iterator[Record]:
        """The records of a claim as they were when it was made, whole traces, for `sessions.stream`.

        With them come neighbours that only reconstruction can tell apart, the nearest in time up to a bound
        (`reading.PLACE_SPANS`, `NEAR_SPANS`). To traces without a session id: all of the place within `gap`, and what
        was audited together with them before. To a session id: where traces without one are near (`digests.ID_GAP`),
        these and others' there. What is further away comes by `finish` (`elsewhere`).
        Memory holds a few hundred spans. `claim.traces` knows all traces once the first record is out.
        """
        from otel_drift.inbox import reading

        return reading.records(self._database, claim, gap)

    def finish(
        self, claim: Claim, audited: Mapping[str, str | None], *, elsewhere: Mapping[str, str] | None = None
    ) -> None:
        """Note what was audited, and give the claim back.

        Records that came meanwhile keep their traces open; traces that are not mentioned stay as they were, and are
        handed out again after a while. After a lease that was lost, what was audited counts all the same, and the
        claim stays with its new owner.

        Args:
            claim: Whose records were all read.
            audited: Trace id → key of the session it was audited in, None where it is of no interest (for a claim of a
                session id: no session of that id has it): these traces, as they were when claimed, are done.
            elsewhere: Trace id → session id, for traces that name none, but were reconstructed into a session that has
                an id: done here, and that session is opened where it was not audited with them.
        """
        from otel_drift.inbox import claiming

        with self._database.writing() as connection:
            claiming.finish(connection, claim, audited, elsewhere or {}, self._clock())

    def put_off(
        self,
        claim: Claim,
        *,
        reason: str,
        retry_at: int,
        priority: float | None = None,
        audited: Mapping[str, str | None] | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        """Note that a claim is not audited now, or only the traces `audited`, and give it back.

        Args:
            claim: What is put off.
            reason: A short word for counts: budget, judge, error, …
            retry_at: When it may be handed out again.
            priority: In which order then: the highest first. As before if None. New records make it 0 again.
            audited: As in `finish`.
            elsewhere: As in `finish`.
        """
        from otel_drift.inbox import claiming, settling

        with self._database.writing() as connection:
            if audited or elsewhere:
                settling.note_audited(connection, claim, audited or {}, elsewhere or {})
            claiming.put_off(connection, claim, now=self._clock(), reason=reason, retry_at=retry_at, priority=priority)

    def release(self, owner: str) -> None:
        """Give back everything `owner` holds, as if it had not been handed out."""
        from otel_drift.inbox import claiming

        with self._database.writing() as connection:
            claiming.release(connection, owner)

    def earlier_keys(self, trace_ids: Collection[str], origin: str) -> dict[str, str]:
        """Trace id → key of the session it was last audited in; not of traces that were audited in several."""
        from otel_drift.inbox import looking

        with self._database.reading() as connection:
            return looking.earlier_keys(connection, trace_ids, origin)

    def keeps_any(self, trace_ids: Collection[str], origin: str) -> bool:
        """Whether any of these traces is still there; those of a session that was deleted are not."""
        from otel_drift.inbox import settling

        with self._database.reading() as connection:
            return bool(settling.numbers_of(connection, trace_ids, origin))

    def traces_of(self, key: str, origin: str) -> set[str]:
        """The traces that were last audited in the session of a key."""
        from otel_drift.inbox import looking

        with self._database.reading() as connection:
            return looking.traces_of(connection, key, origin)

    def resume(self, reason: str) -> None:
        """Let what was put off for a reason be handed out again now: the reason is gone."""
        from otel_drift.inbox import claiming

        with self._database.writing() as connection:
            claiming.resume(connection, reason)

    def origin_of(self, trace_id: str, origins: Iterable[str]) -> str | None:
        """Which of these origins a trace is from; None where none of them has it."""
        from otel_drift.inbox import reading

        with self._database.reading() as connection:
            return reading.origin_of(connection, trace_id, origins)

    def counts(self, now: int, *, settle: int, cap: int, cap_spans: int) -> InboxCounts:
        """How much is open, due, held and put off, and how much is kept."""
        from otel_drift.inbox import looking

        with self._database.reading() as connection:
            return looking.counts(connection, now, settle=settle, cap=cap, cap_spans=cap_spans)

    def forgettable(self, *, session: str | None = None, user: str | None = None, before: int | None = None) -> int:
        """How many traces a privacy deletion would delete."""
        return len(self._chosen(session=session, user=user, before=before, everything=True, most=None))

    def forget(
        self,
        *,
        before: int | None = None,
        session: str | None = None,
        user: str | None = None,
        for_good: bool | None = None,
    ) -> int:
        """Delete traces whole; all that is given must hold. Returns how many spans were deleted.

        Args:
            before: Traces whose last record came before this time. Those that wait to be audited are kept until they
                are twice as old, unless it is a privacy deletion.
            session: Traces of the session of this id or key.
            user: Traces of this user, and of the user's sessions.
            for_good: A privacy deletion: nothing is left in the file, waiting or not, and a tombstone is kept. By
                default where a session or user is given.
        """
        from otel_drift.inbox import forgetting

        privacy = for_good if for_good is not None else session is not None or user is not None
        given = {"session": session, "user": user, "before": before}
        selector: dict[str, Any] = {
            name: value if name == "before" else True for name, value in given.items() if value is not None
        }
        deleted, more = 0, True
        while more:
            numbers = self._chosen(session=session, user=user, before=before, everything=privacy)
            deleted += forgetting.delete(self._database, numbers, selector if privacy else None)
            more = len(numbers) == AT_ONCE
        return deleted

    def _chosen(
        self,
        *,
        session: str | None,
        user: str | None,
        before: int | None,
        everything: bool,
        most: int | None = AT_ONCE,
    ) -> list[int]:
        """Numbers of the traces for which all holds that is given; by age alone, at most `most`."""
        from otel_drift.inbox import forgetting

        chosen: list[set[int]] = []
        with self._database.reading() as connection:
            if session is not None:
                chosen.append(forgetting.of_session(connection, session))
            if user is not None:
                chosen.append(forgetting.of_user(connection, user))
            if before is not None:
                unaudited = before if everything else 2 * before - self._clock()
                limit = None if chosen else most
                chosen.append(set(forgetting.of_age(connection, before, unaudited_before=unaudited, most=limit)))
        return sorted(set.intersection(*chosen)) if chosen else []

    def _store(self, calls: Sequence[Sequence[Part]]) -> list[int]:
        from otel_drift.inbox import storing

        with self._database.writing() as connection:
            return storing.store(connection, calls, self._clock(), self._session_attributes)
