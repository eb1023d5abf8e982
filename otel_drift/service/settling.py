"""What becomes of claims: finished, put off, or given up; and of sessions that are none any more."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from otel_drift.errors import LedgerError
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.retry import Backoff
from otel_drift.service.cases import Case, Waiting
from otel_drift.service.daily_runs import DailyRuns
from otel_drift.service.ranking import priority_of
from otel_drift.service.resting import Resting
from otel_drift.telemetry import Telemetry
from otel_drift.times import MINUTE

log = logging.getLogger(__name__)

FAULT = Backoff(MINUTE, 60 * MINUTE)
MOST_FAULTS = 8
"""So often something is tried that fails for no known reason."""


class Settling:
    """Tells the inbox what became of claims, the ledger which sessions are none any more, and counts."""

    def __init__(
        self,
        inbox: Inbox,
        ledger: Ledger,
        runs: DailyRuns,
        resting: Resting,
        telemetry: Telemetry,
        done: Counter[str],
        clock: Callable[[], int],
    ) -> None:
        self._inbox = inbox
        self._ledger = ledger
        self._runs = runs
        self._resting = resting
        self._telemetry = telemetry
        self._done = done
        self._clock = clock
        self._faults: Counter[int] = Counter()

    def settle(self, case: Case, *, ranked: bool) -> None:
        """Give a claim back: finished, or put off with what is done of it.

        Raises:
            LedgerError: the database failed.
        """
        try:
            self._settle(case, ranked)
        except LedgerError:
            raise
        except Exception as error:  # one bad session stops no other: what was committed of it is found again
            log.debug("a claim could not be settled", exc_info=error)
            retry_at = self._clock() + FAULT.after(case.claim.attempts)
            self._inbox.put_off(case.claim, reason="error", retry_at=retry_at)

    def _settle(self, case: Case, ranked: bool) -> None:
        claim = case.claim
        for key in _moved(self._inbox, claim.origin, case.audited):
            self._ledger.retire_session(key, self._runs.run_id())
        if not case.late and not case.left:
            self._inbox.finish(claim, case.audited, elsewhere=case.elsewhere)
            return
        # What was not reached in this step was refused nothing: it only gives way, which costs it no attempt.
        reason = next((one for one in ("error", "judge", "budget") if one in case.late), "budget")
        gives_way = case.left and (claim.session_id is None or not case.late)
        risk = max([case.resting, *(one.risk for one in case.left)])
        self._inbox.put_off(
            claim,
            reason=reason,
            retry_at=self._clock() if gives_way else case.late[reason],
            priority=priority_of(risk) if ranked and case.is_read else None,
            audited=case.audited,
            elsewhere=case.elsewhere,
        )

    def done_with(self, one: Waiting, key: str | None) -> None:
        """A session is done: audited under its key, or of no interest any more."""
        self._faults.pop(one.name, None)
        one.case.left.remove(one)
        one.case.audited |= dict.fromkeys(one.trace_ids, key)

    def leave_out(self, reason: str) -> None:
        """Count a session that is not audited."""
        self._done[reason] += 1
        self._runs.count(reason)
        self._telemetry.session(reason)

    def fail(self, one: Waiting, error: Exception) -> None:
        """Put off a session that something unexpected came of, longer each time; at last give it up."""
        if self._is_last(one.name, one.case, error):
            self.done_with(one, None)
        else:
            self._resting.put_off(one, "error", FAULT)

    def cannot_read(self, case: Case, error: Exception) -> None:
        """The same for a claim of which it is not known what is in it."""
        name = hash(case.claim.group)
        if not self._is_last(name, case, error):
            case.late["error"] = self._clock() + FAULT.after(self._faults[name] - 1)
            return
        own = (trace for trace, state in case.claim.traces.items() if state.is_own)
        case.audited = dict.fromkeys(own) | case.audited
        for one in list(case.left):
            self.done_with(one, None)

    def hand_back(self, cases: Sequence[Case], owner: str) -> None:
        """After the ledger failed: what can be given back is, the rest is free once its lease is over."""
        try:
            for case in cases:
                if "error" in case.late:
                    self._inbox.put_off(case.claim, reason="error", retry_at=case.late["error"])
            self._inbox.release(owner)
        except LedgerError as error:
            log.debug("claims are left to their lease: %s", error)

    def _is_last(self, name: int, case: Case, error: Exception) -> bool:
        log.debug("something could not be audited", exc_info=error)
        self._faults[name] += 1
        if self._faults[name] <= MOST_FAULTS:
            return False
        del self._faults[name]
        kind, group = type(error).__name__, case.claim.group
        log.warning("given up after %d tries (%s): a session of group %s of the inbox", MOST_FAULTS + 1, kind, group)
        self.leave_out("failed")
        return True


def _moved(inbox: Inbox, origin: str, audited: Mapping[str, str | None]) -> Iterator[str]:
    """The keys of sessions that are none any more: all traces audited in them before are in others now."""
    now = {trace: key for trace, key in audited.items() if key is not None}
    earlier = inbox.earlier_keys(now, origin)
    for key in sorted({old for trace, old in earlier.items() if old != now[trace]} - set(now.values())):
        if inbox.traces_of(key, origin) <= now.keys():
            yield key
