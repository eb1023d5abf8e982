"""When what could not be audited comes again: later each time; sessions of a place one by one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from otel_drift.inbox.claim import REST, SKEW
from otel_drift.retry import Backoff
from otel_drift.service.cases import Case, Rest, Waiting
from otel_drift.times import MINUTE

_REMEMBERED = 20_000


class Resting:
    """Puts sessions off.

    One with an id is a claim of its own, whose time and tries the inbox keeps. Those without one share the claim of
    their place: the place comes again soon, for the others' sake, and which of its sessions rest until when is
    remembered here, of the last 20,000; a process that begins anew tries them at once.
    """

    def __init__(self, settle: int, clock: Callable[[], int]) -> None:
        self._soon = max(MINUTE, settle // REST)
        self._clock = clock
        self._known: OrderedDict[int, Rest] = OrderedDict()

    def of(self, name: int) -> Rest | None:
        """Why and until when a session rests, if it does; a time from before the clock was set back is none."""
        now, rest = self._clock(), self._known.get(name)
        return rest if rest is not None and rest.since <= now + SKEW and rest.until > now else None

    def tries(self, one: Waiting) -> int:
        """How often a session was tried in vain."""
        if one.case.claim.session_id is not None:
            return one.case.claim.attempts
        known = self._known.get(one.name)
        return known.tries if known else 0

    def put_off(self, one: Waiting, reason: str, until: int | Backoff[int]) -> None:
        """Have a session rest until a time, or for a while that grows with its tries."""
        now, tries = self._clock(), self.tries(one)
        end = now + until.after(tries) if isinstance(until, Backoff) else until
        if one.case.claim.session_id is not None:
            one.case.late[reason] = end
            return
        rest = Rest(reason, now, end, tries if reason == "budget" else tries + 1)
        self._known.pop(one.name, None)
        self._known[one.name] = rest
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        self.keep_open(one.case, rest, one.risk)
        one.case.left.remove(one)

    def keep_open(self, case: Case, rest: Rest, risk: float) -> None:
        """Have a place come again though nothing of it can be done now."""
        case.late[rest.reason] = min(rest.until, self._clock() + self._soon)
        case.resting = max(case.resting, risk)
