"""Reads a platform again and again into the inbox: what came since the last time, and a little before."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

from otel_drift.config import PullSettings
from otel_drift.errors import RecordError
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.protocols import Source, Window
from otel_drift.service.conditions import Conditions
from otel_drift.times import HOUR, MINUTE

SLICE = HOUR
"""How much time is read at once: what was read is noted after each, and a stop waits for no more."""
_FOLLOW = "follow"
MOST_PROBLEMS = 1_000
AT_ONCE = 500
"""Records put into the inbox in one transaction."""


def mark_of(source: str, pull: PullSettings) -> str:
    """Under which name the ledger keeps how far a source was read; another choice of sessions is another reading."""
    narrowed = pull.model_dump(include={"environments", "users", "tags"})
    return json.dumps([_FOLLOW, source, {key: value for key, value in narrowed.items() if value}])


def followed(mark: str) -> str | None:
    """The source that a mark is of; None where the ledger's cursor is of something else."""
    if not mark.startswith(json.dumps([_FOLLOW])[:-1]):
        return None
    name: str = json.loads(mark)[1]
    return name


class FollowDuty:
    """Follows one source. What it read is durable before the mark up to which it was read moves on."""

    def __init__(
        self,
        source: Source,
        inbox: Inbox,
        ledger: Ledger,
        pull: PullSettings,
        *,
        every: float,
        first: int,
        problems: deque[RecordError],
        conditions: Conditions,
        stopping: threading.Event,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Args.

        source: A windowed source.
        inbox: Where its records go, under the source's name.
        ledger: Keeps the mark.
        pull: Which sessions; how far to look back.
        every: Seconds between two readings.
        first: Where the first reading begins, where there is no mark (nanoseconds since the epoch).
        problems: Where the source puts records it cannot read, `MOST_PROBLEMS` at most; emptied here.
        conditions: Told of them.
        stopping: Ends a reading between two pages.
        clock: The wall clock, in nanoseconds.
        """
        self.name = f"source {source.name}"
        self.every = every
        self._problems = problems
        self._conditions = conditions
        self._source = source
        self._inbox = inbox
        self._ledger = ledger
        self._pull = pull
        self._first = first
        self._stopping = stopping
        self._clock = clock
        self.mark = mark_of(source.name, pull)

    def step(self) -> bool:
        """Read one slice; True while the present is not reached.

        Raises:
            SourceError: the source cannot be read.
            LedgerError: the database failed.
        """
        with self._ledger.delivering(self.mark):  # of several processes one reads, the next goes on from its mark
            reached = self._ledger.cursor(self.mark)
            now = self._clock()
            since = min(int(reached), now) if reached else self._first
            until = min(now, since + SLICE)
            look_back = int(self._pull.look_back_minutes * MINUTE) if reached else 0
            if not self._read(self._window(since - look_back, until)):
                return False
            self._ledger.set_cursor(self.mark, str(until))
        return until < now

    def _window(self, since: int, until: int) -> Window:
        pull = self._pull
        return Window(max(0, since), until, (), tuple(pull.environments), tuple(pull.users), tuple(pull.tags))

    def _read(self, window: Window) -> bool:
        for page, _cursor in self._source.read(None, window):
            records = iter(page)
            while some := list(islice(records, AT_ONCE)):
                self._inbox.add(some, self._source.name, only_new=True)
            if self._stopping.is_set():
                return False
        self._say_problems()
        return True

    def _say_problems(self) -> None:
        lost = [problem for problem in self._problems if problem.lost]
        if lost:
            self._conditions.note(f"{self.name}: records", f"{len(lost)} broken records were passed over: {lost[0]}")
        else:
            self._conditions.clear(f"{self.name}: records")
        self._problems.clear()
