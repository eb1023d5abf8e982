"""What the ledger's tables of alerts hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from otel_drift.model import Finding

AlertState: TypeAlias = Literal["firing", "held", "resolved", "expired", "done"]
"""`held`: a person has rejected or muted it; `done`: an action that was called for."""
ToldState: TypeAlias = Literal["firing", "resolved", "unsure"]


@dataclass(frozen=True, slots=True)
class Found:
    """A finding that stands, as it was judged. Times are nanoseconds since the epoch."""

    result_id: int
    unit_id: str
    created: int
    session_key: str
    session_id: str | None
    project: str
    environment: str | None
    judge: str
    finding: Finding
    fingerprint: str | None
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An alert of one alerter. `body` is what is told of it; `due` since when there is something to tell.

    Of a finding whose texts were erased, `body` keeps type and severity only, once its end was told.
    """

    alert_key: str
    unit_id: str
    result_id: int
    event_id: str | None
    item_id: str | None
    fingerprint: str | None
    state: AlertState
    body: Mapping[str, Any]
    started: int
    ended: int | None = None
    due: int | None = None
    told: int | None = None
    told_state: ToldState | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """An alert that may change by itself, and what now holds of its finding.

    `current` is the newest result of its unit (None: the unit is gone), `no_verdict` whether all its results after the
    alert's are inconclusive, `erased` whether the texts of the alert's result were erased.
    """

    row: AlertRow
    current: int | None
    no_verdict: bool
    rejected: bool
    muted: bool
    erased: bool


@dataclass(frozen=True, slots=True)
class AlerterState:
    """How an alerter is doing: results looked at, when it was sent to in the last hour, failures in a row."""

    seen: int
    sent: tuple[int, ...] = ()
    failures: int = 0
    refusals: int = 0
    retry_at: int | None = None
    reason: str | None = None
