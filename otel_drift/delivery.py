"""Delivers what the ledger owes: a dead sink delays, and loses nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from otel_drift.ledger import Ledger
from otel_drift.model import Annotation, Rejection, WriteReport
from otel_drift.protocols import Sink
from otel_drift.report.escape import said_of, terminal_safe

log = logging.getLogger(__name__)

UNCONFIRMED = 1_000
"""Annotations of a sink that reads back, accepted but not yet looked for: reading back many at once waits once."""
BATCH = 100
"""Annotations a write; small enough for platforms that block others during a large one."""
LISTED = 3
"""How many rejections of one sink are told in words; the ledger has them all."""


@dataclass(frozen=True, slots=True)
class SinkDelivery:
    """What one sink got in one delivery. `error` says why it stopped early; what it did not get stays owed."""

    sink: str
    written: int = 0
    unchanged: int = 0
    rejected: tuple[Rejection, ...] = ()
    error: str | None = None
    owed: int = 0


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What became of a delivery, sink by sink."""

    sinks: tuple[SinkDelivery, ...] = ()

    @property
    def done(self) -> list[str]:
        """What was written where, one sentence a sink that was owed something."""
        return [
            f"{one.written} value{'' if one.written == 1 else 's'} written to {one.sink}"
            + (f", {one.unchanged} stood there already" if one.unchanged else "")
            for one in self.sinks
            if one.written or one.unchanged
        ]

    @property
    def idle(self) -> list[str]:
        """The sinks that were owed nothing: what they were to get stands there."""
        return [
            one.sink
            for one in self.sinks
            if not (one.written or one.unchanged or one.rejected or one.error or one.owed)
        ]

    @property
    def problems(self) -> list[str]:
        """What a person must know, one sentence each; empty if everything arrived."""
        told = []
        for one in self.sinks:
            if one.error:
                told.append(
                    f"sink {one.sink}: {one.error}; {one.owed} annotation{'' if one.owed == 1 else 's'} "
                    "stay owed and are written by the next run"
                )
            refused = [rejection for rejection in one.rejected if not rejection.retryable]
            told += [
                f"sink {one.sink} refused annotation {rejection.annotation_id}: {terminal_safe(rejection.reason)}"
                for rejection in refused[:LISTED]
            ]
            if len(refused) > LISTED:
                told.append(f"sink {one.sink} refused {len(refused) - LISTED} more; the ledger has their reasons")
            put_off = [rejection for rejection in one.rejected if rejection.retryable]
            later = len(put_off)
            if later:
                why = terminal_safe(put_off[0].reason)
                told.append(f"sink {one.sink} could not take {later} for now ({why}); the next run tries again")
            if not one.error and one.owed > later:
                told.append(f"sink {one.sink} did not answer for {one.owed - later}; the next run tries again")
        return told


def deliver(
    ledger: Ledger,
    sinks: Mapping[str, Sink],
    *,
    batch: int = BATCH,
    patient: bool = False,
    on_progress: Callable[[str, int], None] | None = None,
) -> DeliveryReport:
    """Write to each sink what it is owed, in batches, each settled before the next.

    A sink that fails, in whatever way, stops no other; what it was to write stays owed. Nothing is tried twice in one
    delivery; what a sink has put off for a week is given up.

    Args:
        ledger: Who knows what is owed.
        sinks: The sinks by the name they were given to `Ledger.commit_unit`.
        batch: Annotations a write.
        patient: For who delivers again and again: what a sink put off waits longer each time.
        on_progress: Called with a sink's name and the number handed to it so far.

    Raises:
        LedgerError: the ledger failed.
    """
    return DeliveryReport(
        tuple(_deliver_to(ledger, name, sink, batch, patient, on_progress) for name, sink in sinks.items())
    )


def _deliver_to(
    ledger: Ledger,
    name: str,
    sink: Sink,
    batch: int,
    patient: bool,
    on_progress: Callable[[str, int], None] | None,
) -> SinkDelivery:
    parcel = _Parcel(ledger, name, sink)
    error = None
    with ledger.delivering(name):
        handed = place = 0
        while error is None and (owed := ledger.hand_out(name, batch, after=place, patient=patient)):
            place = owed[-1][0]
            error = parcel.hand_over([one for _place, one in owed])
            handed += len(owed)
            if on_progress:
                on_progress(name, handed)
        error = parcel.confirm() or error
        given_up = ledger.give_up(name)
    left = ledger.owed_to(name)
    return SinkDelivery(name, parcel.written, parcel.unchanged, (*parcel.rejected, *given_up), error, left)


class _Parcel:
    """What goes to one sink in one delivery; settled when the sink says it is there."""

    def __init__(self, ledger: Ledger, name: str, sink: Sink) -> None:
        self.written = self.unchanged = 0
        self.rejected: list[Rejection] = []
        self._ledger = ledger
        self._name = name
        self._sink = sink
        self._confirm: Callable[[Sequence[Annotation]], WriteReport] | None = getattr(sink, "confirm", None)
        self._accepted: list[Annotation] = []

    def hand_over(self, owed: Sequence[Annotation]) -> str | None:
        """Write; returns what went wrong with the sink as a whole."""
        report, error = _tried(self._sink.write, owed)
        if self._confirm is not None:
            accepted = set(report.written)
            self._accepted += [one for one in owed if one.id in accepted]
            report = replace(report, written=())
        self._settle(report)
        if len(self._accepted) >= UNCONFIRMED:
            error = self.confirm() or error
        return error

    def confirm(self) -> str | None:
        """Settle what was only accepted; what the sink does not find stays owed."""
        if self._confirm is None or not self._accepted:
            return None
        report, error = _tried(self._confirm, self._accepted)
        self._accepted = []
        self._settle(report)
        return error

    def _settle(self, report: WriteReport) -> None:
        self._ledger.settle(self._name, report)
        self.written += len(report.written)
        self.unchanged += len(report.unchanged)
        self.rejected += report.rejected


def _tried(
    step: Callable[[Sequence[Annotation]], WriteReport], given: Sequence[Annotation]
) -> tuple[WriteReport, str | None]:
    try:
        return step(given), None
    except Exception as error:  # the per-sink boundary: a broken sink stops no other
        log.debug("sink failed", exc_info=error)
        return WriteReport(), said_of(error, "the sink")
