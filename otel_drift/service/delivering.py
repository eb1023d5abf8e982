"""Writes to one sink what it is owed, as it comes."""

from __future__ import annotations

from otel_drift import delivery
from otel_drift.errors import SinkError
from otel_drift.ledger import Ledger
from otel_drift.protocols import Sink
from otel_drift.telemetry import Telemetry


class DeliveryDuty:
    """Delivers to one sink. A sink that is down is a `SinkError`: the runner waits longer each time."""

    every = 2.0

    def __init__(self, ledger: Ledger, name: str, sink: Sink, telemetry: Telemetry) -> None:
        self.name = f"sink {name}"
        self._ledger = ledger
        self._sink = (name, sink)
        self._telemetry = telemetry

    def step(self) -> bool:
        """Write what is owed now.

        Raises:
            SinkError: the sink failed as a whole; what it did not take stays owed.
            LedgerError: the ledger failed.
        """
        name, sink = self._sink
        if not self._ledger.owed_to(name):
            return False
        for delivered in delivery.deliver(self._ledger, {name: sink}, patient=True).sinks:
            self._telemetry.delivered(delivered)
            if delivered.error:
                raise SinkError(f"{delivered.error}; {delivered.owed} values stay owed")
        return False
