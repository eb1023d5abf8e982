"""Audits the sessions in the inbox as they settle, within the day's budget, the riskiest first."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from otel_drift import pipeline
from otel_drift.budget import Budget
from otel_drift.config import Settings
from otel_drift.errors import LedgerError, OtelDriftError, SourceError
from otel_drift.inbox import RECEIVED, Claim, Inbox
from otel_drift.ledger import Ledger
from otel_drift.model import Session, Unit
from otel_drift.pipeline import Line
from otel_drift.protocols import Window
from otel_drift.reasons import PASSING, explain
from otel_drift.retry import Backoff
from otel_drift.selection import Selection
from otel_drift.service.cases import Case, Reading, Times, Waiting
from otel_drift.service.conditions import Conditions
from otel_drift.service.daily_budget import DailyBudget
from otel_drift.service.daily_runs import DailyRuns
from otel_drift.service.holding import holding
from otel_drift.service.ranking import Ranking
from otel_drift.service.resting import Resting
from otel_drift.service.risk import embedded
from otel_drift.service.settling import Settling
from otel_drift.service.shelf import Shelf
from otel_drift.telemetry import Telemetry
from otel_drift.times import HOUR, MINUTE, SECOND

RANKED = 64
"""Claims ranked together where the budget is limited."""
MOST_RANKING = 200
"""Steps that only rank before some session is judged all the same: new ones may come faster than they are ranked."""
AT_ONCE = 256
"""Sessions of a place judged in one step where it is not."""
JUDGE_DOWN = Backoff(30 * SECOND, 15 * MINUTE)
JUDGE_FAILS_IT = Backoff(30 * SECOND, 6 * HOUR)
"""Where the judge answers others, but not this session."""
ANSWERS_NOBODY = Backoff(1.0, 120.0)
"""Seconds between two tries of a judge that answers nobody."""
_LEDGER_FAILED = "internal_error: LedgerError"
_GRAVITY = ("findings", "inconclusive", "clean", "not_applicable")


class AuditDuty:
    """Claims due sessions, rebuilds and judges them, commits, and says to the inbox what became of them.

    A step is a few claims, renewed while they are judged, so that no other process has them. Every result is committed
    by itself; a process that is killed leaves its claims to their leases, and what it had committed is found again,
    not asked again.

    What passes by itself is not committed as a result: a judge that is down or slow, a budget that is used up. Such a
    session is put off: for the judge a little longer each time (and while the judge answers nobody, one session at a
    time is tried), for the budget until midnight UTC. With ``[budget] over = "embedded"``, or once it has waited
    `longest_wait_hours`, it gets the embedded judge instead, which says in every result that it is that.

    While the budget is limited, sessions are ranked before anything is spent. A session not yet ranked is handed out
    before all that are; a step that finds only such sessions ranks them (`risk`) and gives them back, and only once
    nothing unranked is left over, the riskiest are judged: of all that is due at a moment the riskiest come first, over
    all processes. New records of a session have it ranked anew. What it cannot do: know what comes later the same day
    (that competes for what is left), undo what was spent, or weigh prices: where a session does not fit into the day
    any more, less risky ones that are smaller may. Sessions without an id are claimed by place, which ranks as its
    riskiest. What is judged at once (a few for each worker) is not interrupted for what comes meanwhile.

    A session whose traces turned out to belong to another is retired from the ledger once the other is committed.
    """

    name = "audits"
    every = 2.0

    def __init__(
        self,
        inbox: Inbox,
        lines: Mapping[str, Line],
        settings: Settings,
        owner: str,
        telemetry: Telemetry,
        *,
        conditions: Conditions | None = None,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args.

        inbox: What was received, on the ledger of the lines.
        lines: How the sessions of each origin are audited; what no longer has one is audited as what is received.
        settings: ``[serve]``, ``[budget]`` and ``[pull]`` count.
        owner: Of the claims; distinct among processes.
        telemetry: Is told of results.
        conditions: Are told when the judge or the budget fails.
        clock: The wall clock, in nanoseconds since the epoch.
        monotonic: Seconds, for pauses.

        Raises:
            ConfigError: the day's budget cannot be kept, as the judge's price is unknown.
        """
        first = lines[RECEIVED]
        pull = settings.pull
        self.budget = DailyBudget(first.ledger, settings.budget, clock)
        self.budget.check(first.judge)
        self.done: Counter[str] = Counter()
        """Sessions of this process by what came of them; ``embedded_instead`` counts besides."""
        self._inbox = inbox
        self._ledger: Ledger = first.ledger
        self._lines = lines
        self._settings = settings
        self._owner = owner
        self._telemetry = telemetry
        self._conditions = conditions
        self._clock = clock
        self._monotonic = monotonic
        self._costs = not first.judge.embedded
        self._limited = self.budget.limited and self._costs
        self._workers = first.workers
        self._ranks = Ranking(settings.budget.high_risk, first) if self._limited else None
        self._selection = Selection(
            Window(0, 2**63 - 1, (), tuple(pull.environments), tuple(pull.users), tuple(pull.tags)),
            min_turns=pull.min_turns,
            flags=tuple(pull.flagged),
        )
        self._due = settings.serve.due()
        self._runs = DailyRuns(self._ledger, {"serve": owner, "paths": sorted(lines), "judge": first.judge.name}, clock)
        self._resting = Resting(self._due["settle"], clock)
        self._settling = Settling(inbox, first.ledger, self._runs, self._resting, telemetry, self.done, clock)
        self._working = threading.Lock()
        self._stopping = threading.Event()
        self._portion = Budget()
        self._resumed = False
        self._failures = 0
        self._ranking = 0
        self._pause_until = float("-inf")

    def step(self) -> bool:
        """Audit what is due, a bounded part of it. True where there may be more.

        Raises:
            LedgerError: the database failed; what was claimed is free again once its lease is over, if not before.
            SourceError: the temporary folder is full.
            ConfigError: a prompt or setting is wrong, so that nothing can be audited.
        """
        with self._working:
            if self._stopping.is_set():
                self._runs.end()
                return False
            if self._monotonic() < self._pause_until:
                return False
            try:
                return self._step()
            finally:
                if self._stopping.is_set():
                    self._runs.end()

    def stop(self) -> None:
        """Have the step under way end soon: no further ask, what is complete is committed, the rest handed back."""
        self._stopping.set()
        self._portion.stop()
        if self._working.acquire(blocking=False):
            try:
                self._runs.end()
            finally:
                self._working.release()

    def _step(self) -> bool:
        self._begin()
        now = self._clock()
        most = self._most()
        claims = self._claim(now, most)
        if self._ranks and len(claims) == most and any(claim.priority >= 0 for claim in claims):
            claims += self._claim(now, RANKED - most)
        if not claims:
            return False
        cases = [Case(claim, self._line(claim.origin)) for claim in claims]
        lease = self._settings.serve.lease_seconds
        with holding(self._inbox, claims, self._owner, lease, self._clock), Shelf() as shelf:
            try:
                times = Times(now, **self._due)
                self._read(cases, self._reading(times, shelf))
                waiting = sorted((one for case in cases for one in case.left), key=lambda one: -one.risk)
                if self._only_ranks(cases):
                    waiting = []
                chosen = {one.case for one in waiting[:most]}
                for case in cases:
                    if case not in chosen:  # given back at once: another process may have room for it
                        self._settling.settle(case, ranked=self._ranks is not None)
                self._judge([one for one in waiting if one.case in chosen], most, shelf)
                for case in cases:
                    if case in chosen:
                        self._settling.settle(case, ranked=self._ranks is not None)
            except Exception:
                self._settling.hand_back(cases, self._owner)
                raise
        return True

    def _reading(self, times: Times, shelf: Shelf) -> Reading:
        return Reading(
            inbox=self._inbox,
            selection=self._selection,
            times=times,
            shelf=shelf,
            left_out=self._settling.leave_out,
            risk=self._ranks.of if self._ranks else lambda *_: 0.0,
            rests=self._resting.of,
            keep_open=self._resting.keep_open,
        )

    def _claim(self, now: int, limit: int) -> list[Claim]:
        lease = int(self._settings.serve.lease_seconds * SECOND)
        return self._inbox.claim(self._owner, now=now, lease=lease, limit=limit, **self._due)

    def _begin(self) -> None:
        # The budget's own `stop` ends one step only: the day stays open.
        # Without a limit it counts all the same: status says it, and a limit may be set later the same day.
        self._portion = self.budget.portion() if self._costs else Budget()
        if self._stopping.is_set():
            self._portion.stop()
        if not self._resumed:  # since it was put off, limits may have been raised, a key or a model been set right
            for reason in ("budget", "judge"):
                self._inbox.resume(reason)
            self._resumed = True
        if self._limited and not self.budget.refused:
            self._clear("budget")
        self._runs.turn()

    def _read(self, cases: Sequence[Case], reading: Reading) -> None:
        # Those with an id first: traces without one may turn out to be theirs.
        for case in sorted(cases, key=lambda case: case.claim.session_id is None):
            if self._stopping.is_set():
                case.late["budget"] = self._clock()
                continue
            try:
                reading.read(case)
            except (LedgerError, SourceError):  # should it be this one that is damaged, others come first next time
                case.late["error"] = self._clock() + JUDGE_DOWN.after(case.claim.attempts)
                raise
            except Exception as error:  # one bad session stops no other
                self._settling.cannot_read(case, error)

    def _only_ranks(self, cases: Sequence[Case]) -> bool:
        """Whether there may be more that is not ranked, so that nothing is judged yet."""
        unranked = self._ranks is not None and len(cases) == RANKED and all(one.claim.priority >= 0 for one in cases)
        self._ranking = self._ranking + 1 if unranked and self._ranking < MOST_RANKING else 0
        return self._ranking > 0

    def _most(self) -> int:
        """How many claims are judged in a step."""
        if self._failures:
            return 1
        return min(8 * self._workers, RANKED // 2) if self._ranks else max(16, 4 * self._workers)

    def _judge(self, waiting: Sequence[Waiting], most: int, shelf: Shelf) -> None:
        under_way: deque[Waiting] = deque()
        asked: list[Waiting] = []
        answered: list[Waiting] = []
        failed: list[tuple[Waiting, str]] = []
        at_once = most if self._ranks or most == 1 else AT_ONCE

        def given() -> Iterator[tuple[Session, Line]]:
            for place, (one, budget) in enumerate(zip(waiting, self._portion.places(), strict=False)):
                # A place may have many; where the budget refused the riskiest, the others may still fit.
                if self._stopping.is_set() or (place >= at_once and (asked or most == 1)):
                    return
                one.started = self._clock()
                under_way.append(one)
                yield shelf.take(one.place), replace(one.case.line, budget=budget)

        try:
            with closing(pipeline.judged(given(), self._workers)) as judged:
                for session, line, units in judged:
                    one = under_way[0]
                    if any(unit.reason == _LEDGER_FAILED for unit in units):
                        raise LedgerError(f"ledger {self._ledger.name} failed while a session was judged")
                    if any(unit.calls for unit in units):
                        asked.append(one)
                    if any(unit.calls and not _passes(unit) for unit in units):
                        answered.append(one)
                    settled, reason = self._settled(one, session, line, units)
                    if reason not in (None, "budget_exhausted"):
                        failed.append((one, str(reason)))
                    self._commit(one, session, line, settled, reason)
                    under_way.popleft()
        except OtelDriftError:
            if under_way:  # should it be this session's fault, the next step begins with others
                self._resting.put_off(under_way[0], "error", JUDGE_DOWN)
            raise
        except Exception as error:  # one bad session stops no other: what was under way after it comes again at once
            if not under_way:
                raise
            self._settling.fail(under_way[0], error)
        self._note_judge(answered, failed)

    def _commit(self, one: Waiting, session: Session, line: Line, settled: Sequence[Unit], reason: str | None) -> None:
        sinks = () if self._is_deleted(one) else line.sinks
        try:
            known = {unit.unit_id: self._ledger.found_before(unit) for unit in settled}
            made = list(pipeline.committed(settled, replace(line, run_id=self._runs.run_id(), sinks=sinks)))
        except LedgerError:
            raise
        except Exception as error:  # one bad session stops no other
            self._settling.fail(one, error)
            return
        if self._is_deleted(one):  # while it was judged: what that left in the ledger, answers too, goes as well
            self._ledger.forget(session=session.key)
            self._settling.done_with(one, None)
            return
        for unit in made:
            self._runs.add(unit)
            self._telemetry.unit(unit, known[unit.unit_id])
        if reason is None:
            self._settling.done_with(one, one.key)
            outcome = min((unit.outcome for unit in made), key=_GRAVITY.index, default="not_applicable")
            self.done[outcome] += 1
            self._telemetry.session(outcome, session, made, started=one.started, ended=self._clock())
        elif reason == "budget_exhausted" and not self._portion.exhausted:
            self._resting.put_off(one, "budget", self.budget.next_day)
            self._note("budget", "the day's budget is used up: sessions wait until 00:00 UTC, the riskiest come first")

    def _is_deleted(self, one: Waiting) -> bool:
        return not self._inbox.keeps_any(one.trace_ids, one.case.claim.origin)

    def _settled(self, one: Waiting, session: Session, line: Line, units: list[Unit]) -> tuple[list[Unit], str | None]:
        """What of a session's results is committed, and the reason that keeps it waiting, if one does."""
        passing = {unit.unit_id: _code(unit) for unit in units if _passes(unit)}
        if not passing:
            return units, None
        keep = [unit for unit in units if unit.unit_id not in passing]
        reason = next((code for code in passing.values() if code != "budget_exhausted"), "budget_exhausted")
        if reason == "budget_exhausted" and self._portion.exhausted:  # not the day: this step was stopped
            return keep, reason
        longest = int(self._settings.budget.longest_wait_hours * HOUR)
        too_long = self._clock() - one.since > longest
        if not (too_long or (reason == "budget_exhausted" and self._settings.budget.over == "embedded")):
            return keep, reason
        names = {unit.audit for unit in units if unit.unit_id in passing}
        instead = embedded(replace(line, audits=[audit for audit in line.audits if audit.name in names]))
        made = {unit.unit_id: unit for unit in pipeline.judge_session(session, instead)}
        self.done["embedded_instead"] += 1
        self._runs.count("embedded_instead")
        if self._settings.budget.over == "embedded" and reason == "budget_exhausted":
            self._note("budget", "the day's budget is used up: sessions get the embedded judge until 00:00 UTC")
        return [*keep, *(unit for key, unit in made.items() if key in passing)], None

    def _note_judge(self, answered: Sequence[Waiting], failed: Sequence[tuple[Waiting, str]]) -> None:
        for one, _reason in failed:
            if one in one.case.left:
                self._resting.put_off(one, "judge", JUDGE_FAILS_IT if answered else JUDGE_DOWN)
        if answered:
            self._failures = 0
            self._clear("judge")
        elif failed:
            self._failures += 1
            self._pause_until = self._monotonic() + ANSWERS_NOBODY.after(self._failures)
            self._note("judge", f"the judge does not answer, sessions wait: {explain(failed[-1][1])}")

    def _line(self, origin: str) -> Line:
        return self._lines.get(origin) or self._lines[RECEIVED]

    def _note(self, name: str, message: str) -> None:
        if self._conditions is not None:
            self._conditions.note(name, message)

    def _clear(self, name: str) -> None:
        if self._conditions is not None:
            self._conditions.clear(name)


def _passes(unit: Unit) -> bool:
    """Whether a result may be another in a while, with nothing done about it."""
    return unit.outcome == "inconclusive" and _code(unit) in PASSING


def _code(unit: Unit) -> str:
    return (unit.reason or "").partition(":")[0]
