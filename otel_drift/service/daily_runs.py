"""The runs of a service in the ledger: one a day (UTC) of each process, so that days can be compared."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from otel_drift.errors import LedgerError
from otel_drift.ledger import Ledger
from otel_drift.ledger.spend import day_of
from otel_drift.model import Unit
from otel_drift.totals import Totals

log = logging.getLogger(__name__)


class DailyRuns:
    """Begins a run with the first result of a day, ends it with the day or with the process; not safe for threads.

    Its totals are those of a batch, and ``sessions_by`` counts sessions that were left out or got the embedded judge.
    """

    def __init__(self, ledger: Ledger, description: Mapping[str, Any], clock: Callable[[], int]) -> None:
        self._ledger = ledger
        self._description = description
        self._clock = clock
        self._run_id: int | None = None
        self._day = ""
        self._totals = Totals()
        self._counts: Counter[str] = Counter()

    def run_id(self) -> int:
        """The run of today."""
        self.turn()
        if self._run_id is None:
            self._day = day_of(self._clock())
            self._run_id = self._ledger.begin_run({**self._description, "day": self._day})
        return self._run_id

    def add(self, unit: Unit) -> None:
        """Count a committed result."""
        self._totals.add(unit)

    def count(self, what: str) -> None:
        """Count a session of which there is something to say."""
        self._counts[what] += 1

    def turn(self) -> None:
        """End the run of another day."""
        if self._run_id is not None and self._day != day_of(self._clock()):
            self.end()

    def end(self) -> None:
        """Note the totals; a ledger that fails leaves the run as one that was cut short."""
        if self._run_id is None:
            return
        record = {**self._totals.record(), "sessions_by": dict(self._counts)}
        run_id, self._run_id = self._run_id, None
        self._totals, self._counts = Totals(), Counter()
        try:
            self._ledger.end_run(run_id, record)
        except LedgerError as error:
            log.debug("run %d has no end: %s", run_id, error)
