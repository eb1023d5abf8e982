"""What people do with a ledger: review, mute, read the record, compare runs, have texts forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from otel_drift.errors import ConfigError

if TYPE_CHECKING:
    from otel_drift.ledger.database import Database
    from otel_drift.review import Decision


class Desk:
    """The part of `Ledger` that commands for people use. Times are nanoseconds since the Unix epoch."""

    _database: Database

    def review_items(
        self, statuses: Sequence[str] = (), *, audit: str | None = None, severity: str | None = None
    ) -> list[dict[str, Any]]:
        """Review items: those a person has to see first, then the worst, then the oldest.

        Args:
            statuses: See `policy.ItemStatus`; empty for all but withdrawn ones.
            audit: Only of this audit.
            severity: Only this severe or worse.
        """
        from otel_drift.ledger import items

        with self._database.reading() as connection:
            return items.listed(connection, statuses, audit, severity)

    def review_item(self, ref: str) -> dict[str, Any]:
        """One review item with finding, report, texts and history.

        Args:
            ref: Its id, the beginning of it (4 characters or more), or an event id.

        Raises:
            ConfigError: no item, or more than one, is called so.
        """
        from otel_drift.ledger import items

        with self._database.reading() as connection:
            return items.shown(connection, _one(items.ids_like(connection, ref), ref))

    def resolve(self, ref: str, decision: Decision, *, by: str, why: str) -> tuple[dict[str, Any], list[str]]:
        """Record a person's decision; what it changes on platforms is owed to the sinks that had the unit's results.

        Returns:
            The item after it, and the names of the sinks that are owed something. None where the unit's texts were
            erased or an older version wrote it: then the next audit says it.

        Raises:
            ConfigError: no item, or more than one, is called so.
        """
        from otel_drift.ledger import items, reviews, revisions, units

        with self._database.writing() as connection:
            item_id = _one(items.ids_like(connection, ref), ref)
            unit_id = reviews.resolve(connection, item_id, decision, by, why)
            said = units.republish(connection, [unit_id])
            return items.shown(connection, item_id), revisions.sinks_of(connection, unit_id) if said else []

    def decided_items(self, audit: str | None = None) -> list[dict[str, Any]]:
        """Every confirmed or rejected item in full, oldest decision first."""
        from otel_drift.ledger import items

        with self._database.reading() as connection:
            return list(items.decided(connection, audit))

    def decisions(self, audit: str) -> list[dict[str, Any]]:
        """Every current decision (a report that says `abstain`) of an audit, with its texts and people's verdicts."""
        from otel_drift.ledger import items

        with self._database.reading() as connection:
            return list(items.decisions(connection, audit))

    def mute(self, ref: str, *, why: str, until: int | None = None) -> dict[str, Any]:
        """Mute a finding's fingerprint: from now on, and where it stands already, it makes no annotation and no alert.

        Args:
            ref: An event id, or a review item's id or the beginning of it.
            why: The reason, shown wherever the finding is marked as muted.
            until: When it ends; None for never.

        Raises:
            ConfigError: nothing is called so, or the item is no finding.
        """
        from otel_drift.ledger import items, mutes, units

        with self._database.writing() as connection:
            made = mutes.add(connection, ref, why, until)
            if made is None:
                item = items.shown(connection, _one(items.ids_like(connection, ref), ref))
                if item["event_id"] is None:
                    raise ConfigError(f"review item {ref} is about a whole unit; only findings can be muted")
                made = mutes.add(connection, item["event_id"], why, until)
            if made is None:
                raise ConfigError(f"the finding {ref} is not in a current result any more; audit its session again")
            units.republish(connection, mutes.units_with(connection, made["fingerprint"]))
            return made

    def unmute(self, mute_id: int) -> None:
        """Take a mute back; its findings are said again.

        Raises:
            ConfigError: there is no such mute in force.
        """
        from otel_drift.ledger import mutes, units

        with self._database.writing() as connection:
            fingerprint = mutes.remove(connection, mute_id)
            if fingerprint is None:
                raise ConfigError(f"no mute {mute_id} is in force; `otel-drift mute list` shows them")
            units.republish(connection, mutes.units_with(connection, fingerprint))

    def mutes(self, *, everything: bool = False) -> list[dict[str, Any]]:
        """Mutes in force, oldest first; `everything`: also those expired or taken back."""
        from otel_drift.ledger import mutes

        with self._database.reading() as connection:
            return mutes.listed(connection, everything)

    def record(self, session: str | None = None, since: int | None = None) -> Iterator[dict[str, Any]]:
        """The audit record, oldest result first: of a session (its id or key), since a time, or whole."""
        from otel_drift.ledger import record

        with self._database.reading() as connection:
            ids = record.result_ids(connection, session, since)
        for result_id in ids:
            with self._database.reading() as connection:
                yield record.entry(connection, result_id)

    def forgettable(
        self, *, session: str | None = None, user: str | None = None, before: int | None = None
    ) -> list[int]:
        """The results whose texts `forget` would erase."""
        from otel_drift.ledger import erasure

        with self._database.reading() as connection:
            return erasure.concerned(connection, session=session, user=user, before=before)

    def forget(
        self, *, session: str | None = None, user: str | None = None, before: int | None = None
    ) -> dict[str, int]:
        """Erase texts for good, leaving hashes and a tombstone; all that is given must hold.

        Review items that nobody decided are withdrawn, and alerts end: an `AlertDuty` tells so those who were told.
        What sinks were given is not touched: platforms have their own deletion.

        Returns:
            How much of each kind was erased.
        """
        from otel_drift.ledger import erasure

        given = {"session": session, "user": user, "before": before}
        selector = {name: value if name == "before" else True for name, value in given.items() if value is not None}
        with self._database.overwriting() as connection:
            results = erasure.concerned(connection, session=session, user=user, before=before)
            only_time = before if session is None and user is None else None
            return erasure.erase(connection, results, selector, only_time)

    def runs(self) -> list[dict[str, Any]]:
        """All runs, oldest first."""
        from otel_drift.ledger import history

        with self._database.reading() as connection:
            return history.runs(connection)

    def members(self, run_id: int) -> list[dict[str, Any]]:
        """The results of a run's units, those found again included, for `comparison.compare`."""
        from otel_drift.ledger import history

        with self._database.reading() as connection:
            return history.members(connection, run_id)

    def current_findings(self, since: int | None = None) -> list[dict[str, Any]]:
        """Every finding of current results, with the passages behind it, its status and mute."""
        from otel_drift.ledger import history

        with self._database.reading() as connection:
            return history.findings(connection, since)


def _one(found: Sequence[str], ref: str) -> str:
    if not found:
        raise ConfigError(
            f"no review item or event is called {ref!r} or begins so (four characters at least); "
            "`otel-drift review list --status all` shows them"
        )
    if len(found) > 1:
        raise ConfigError(f"{ref!r} is the beginning of several items: {', '.join(found)}, …; write more of it")
    return found[0]
