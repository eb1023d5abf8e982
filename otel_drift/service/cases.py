"""Cases: claims under way, with the sessions that were rebuilt from them and what became of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from otel_drift import pipeline, sessions
from otel_drift.inbox import Claim, Inbox
from otel_drift.model import Session
from otel_drift.pipeline import Line
from otel_drift.selection import Choice, Selection
from otel_drift.service.shelf import Shelf
from otel_drift.sessions.linking import Group
from otel_drift.spool import SpanSpool


@dataclass(frozen=True, slots=True)
class Times:
    """When a session is due; nanoseconds, as `Inbox.claim` takes them."""

    now: int
    settle: int
    cap: int
    cap_spans: int


@dataclass(eq=False, slots=True)
class Case:
    """A claim under way.

    `audited` and `elsewhere` are what the inbox is told of it in the end; `left` are its sessions that are not done;
    `late` is why it is put off, and until when; `resting` how risky the worst is of its sessions that rest.
    """

    claim: Claim
    line: Line
    audited: dict[str, str | None] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)
    left: list[Waiting] = field(default_factory=list)
    late: dict[str, int] = field(default_factory=dict)
    resting: float = 0.0
    is_read: bool = False


@dataclass(eq=False, slots=True)
class Waiting:
    """A session that waits to be judged: where it is on the shelf, how risky it looks, since when it waits.

    `name` stands for the session as it is now: another, once records came.
    """

    case: Case
    place: int
    name: int
    key: str
    trace_ids: tuple[str, ...]
    since: int
    risk: float = 0.0
    started: int = 0


@dataclass(frozen=True, slots=True)
class Rest:
    """Why a session of a place rests, since and until when, after how many tries."""

    reason: str
    since: int
    until: int
    tries: int


@dataclass(slots=True)
class Reading:
    """Rebuilds the sessions of claims.

    `left_out` is told of each session that is not audited, and why; `rests` says of sessions without an id which rest,
    and `risk` how risky each is.
    """

    inbox: Inbox
    selection: Selection
    times: Times
    shelf: Shelf
    risk: Callable[[int, Claim, Session], float]
    rests: Callable[[int], Rest | None]
    keep_open: Callable[[Case, Rest, float], None]
    left_out: Callable[[str], None]
    taken: set[tuple[str, str]] = field(default_factory=set)

    def read(self, case: Case) -> None:
        """Find the sessions of a case that are due and asked for; one at a time is in memory.

        Raises:
            LedgerError, SourceError: the database or the disk failed.
        """
        claim, line = case.claim, case.line
        mentioned: set[str] = set()

        def wanted(group: Group) -> bool:
            if claim.session_id is not None:
                return group.session_id == claim.session_id
            if any(claim.traces[trace].first_unaudited is not None for trace in group.traces if trace in claim.traces):
                return True
            mentioned.update(group.traces)  # all is audited: it was read to see whether what is new belongs to it
            return False

        with SpanSpool() as spool:
            records = self.inbox.records(claim, int(line.options.gap_seconds * 1e9))
            for session in sessions.stream(pipeline.foreign(records, line), spool, line.options, wanted=wanted):
                if claim.session_id in (None, session.session_id):  # a trace may name several sessions
                    mentioned.update(session.trace_ids)
                if session.session_id is not None and claim.session_id is None:
                    theirs = (trace for trace in session.trace_ids if (claim.origin, trace) not in self.taken)
                    case.elsewhere |= dict.fromkeys(theirs, session.session_id)
                elif session.session_id == claim.session_id and self._is_due(session, claim):
                    self._take(session, case)
        nothing = (trace for trace, state in claim.traces.items() if state.is_own and trace not in mentioned)
        case.audited |= dict.fromkeys(nothing)
        case.is_read = True

    def _is_due(self, session: Session, claim: Claim) -> bool:
        if claim.session_id is not None:
            return any(claim.traces[trace].is_own for trace in session.trace_ids if trace in claim.traces)
        times = self.times
        return claim.is_due(
            session.trace_ids, now=times.now, settle=times.settle, cap=times.cap, cap_spans=times.cap_spans
        )

    def _take(self, session: Session, case: Case) -> None:
        claim = case.claim
        names = {(claim.origin, trace) for trace in session.trace_ids}
        if claim.session_id is None and not names.isdisjoint(self.taken):
            return  # of a session with an id that is being audited now, which will say so
        reason = self._reason_against(session, case.line)
        if reason is not None:
            self.left_out(reason)
            case.audited |= dict.fromkeys(session.trace_ids)
            return
        if claim.session_id is not None:
            self.taken |= names
        states = [claim.traces[trace] for trace in session.trace_ids if trace in claim.traces]
        last = max((state.last_received for state in states), default=0)
        name = hash((claim.origin, session.key, session.trace_ids, last))
        risk = self.risk(name, claim, session)
        if claim.session_id is None and (rest := self.rests(name)) is not None:
            self.keep_open(case, rest, risk)
            return
        since = [state.first_unaudited for state in states if state.first_unaudited is not None]
        place = self.shelf.put(session)
        started = min(since, default=self.times.now)
        case.left.append(Waiting(case, place, name, session.key, session.trace_ids, started, risk))

    def _reason_against(self, session: Session, line: Line) -> str | None:
        choice = Choice(self.selection, self.times.now)
        if not list(choice.of([session])):
            return next(iter(choice.left_out), "filtered")
        return None if pipeline.is_sampled(session, line) else "not_sampled"
