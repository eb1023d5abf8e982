"""Inbox: what is handed out for auditing, and how much is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from otel_drift.times import MINUTE

REST = 3
"""What stays open after an audit is handed out again after this part of the time sessions settle in, or later, where
the audit took long."""
SKEW = MINUTE
"""A time stored so much (nanoseconds) after now was written before the clock was set back, or by a clock that is wrong:
nothing waits for it."""


@dataclass(frozen=True, slots=True)
class TraceState:
    """What is known of a trace when it is claimed. Times are nanoseconds since the epoch.

    Attributes:
        group: the group that has to audit it.
        last_received: when its last records came.
        first_unaudited: when the first records came that were not audited; None where all were.
        unaudited_spans: how many spans were not audited.
        is_own: whether it is of what was claimed; else a neighbour that only reconstruction can tell apart.
    """

    group: str
    last_received: int
    first_unaudited: int | None
    unaudited_spans: int
    is_own: bool


@dataclass(slots=True)
class Claim:
    """A session id of a place, or the traces of a place that name none, held by one process for auditing.

    A place is an origin, a project and an environment. One session id may be several sessions: two customers' "1".

    Attributes:
        group: its id in the database.
        origin: `RECEIVED`, or the name of the followed source.
        project: the project or service.
        environment: the deployment environment.
        session_id: None for the traces of the place that name none.
        attempts: how often it was handed out before without being finished (handed back or put off for the budget
            not counted).
        priority: what it was put off with, else 0.
        put_off_since: when it was first put off since it was last finished.
        traces: by trace id; neighbours, and traces of a place that are not due, once `Inbox.records` was read.
        revision: everything up to this chunk is part of the claim.
        now: when it was claimed.
        settle: as it was claimed with.
        ticket: tells this claim from later ones of the same group.
    """

    group: str
    origin: str
    project: str
    environment: str | None
    session_id: str | None
    attempts: int
    priority: float
    put_off_since: int | None
    revision: int
    now: int
    settle: int
    ticket: str
    traces: dict[str, TraceState] = field(default_factory=dict)

    def is_due(self, trace_ids: Iterable[str], *, now: int, settle: int, cap: int, cap_spans: int) -> bool:
        """Whether one session among several of the claim is due: of these traces, as they were when claimed."""
        states = [self.traces[trace] for trace in trace_ids if trace in self.traces]
        return _is_due(states, now, settle, cap, cap_spans)


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How much is there. A group is a session id of a place, or the traces of a place that name none.

    Attributes:
        open: groups with records that were not audited.
        due: those of them that nobody holds, that are not put off and that are idle or at the cap.
        held: those that are being audited.
        put_off: groups put off until later, by reason.
        oldest_due: nanoseconds since the group that waits longest became due; 0 where none waits.
        spans: spans kept.
        bytes: what their payload takes.
    """

    open: int
    due: int
    held: int
    put_off: Mapping[str, int]
    oldest_due: int
    spans: int
    bytes: int


def _is_due(states: list[TraceState], now: int, settle: int, cap: int, cap_spans: int) -> bool:
    waiting = [state for state in states if state.first_unaudited is not None]
    if not waiting:
        return False
    last = max(state.last_received for state in states)
    if last <= now - settle or last > now + SKEW:
        return True
    if min(state.first_unaudited or 0 for state in waiting) <= now - cap:
        return True
    return sum(state.unaudited_spans for state in waiting) >= cap_spans
