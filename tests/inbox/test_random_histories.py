"""Whatever happens in whatever order, the books of the inbox are right, and in the end everything was audited."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from inbox_contract import DAY, MINUTE, Clock, Desk, request, turn
from otel_drift.inbox import Claim
from otel_drift.inbox.arrival import Facts, groups_of, read
from otel_drift.ledger import Ledger
from otel_drift.model import Record, Session, Span
from otel_drift.sessions import ReconstructOptions, stream
from otel_drift.spool import SpanSpool

STEPS = 60


class History:
    """Things that happen to an inbox, with what was given to it.

    Where it `forgets`, traces without an id resend others' texts.
    """

    def __init__(self, ledger: Ledger, seed: int, *, forgets: bool = False) -> None:
        self.ledger = ledger
        self.forgets = forgets
        self.rng = random.Random(seed)
        self.desk = Desk(ledger, Clock())
        self.given: list[Span] = []
        self.held: list[tuple[str, Claim]] = []
        self.last: dict[str, Session] = {}

    def step(self) -> None:
        adds, audits = [self.add] * 3, [self.claim, self.audit, self.audit]
        self.rng.choice([*adds, *audits, self.put_off, self.crash, self.wait, self.late])()

    def add(self) -> None:
        rng = self.rng
        records: list[Record] = []
        for _ in range(rng.randint(1, 5)):
            trace, span = rng.randint(1, 12), rng.randint(1, 4)
            session = rng.choice([None, None, "a", "b"]) if trace > 6 else rng.choice(["a", f"s{trace}"])
            one = turn(
                trace, session, user=rng.choice([None, "ann", "bob"]), at=trace * MINUTE + span, span=span,
                parent=None if span == 1 else 1, service=rng.choice(["bot", "bot", "shop"]),
                question=f"question {trace}", answer=f"answer {trace}",
                history=[(f"question {n}", f"answer {n}") for n in range(7, trace)] if self.forgets else (),
            )  # fmt: skip
            records.append(one if rng.random() < 0.8 else request(trace, at=trace * MINUTE))
        self.desk.inbox.add(records)
        self.given += [record for record in records if isinstance(record, Span)]

    def claim(self) -> None:
        owner = self.rng.choice(["one", "two"])
        taken = {claim.group for _, claim in self.held}
        for claim in self.desk.claim(owner, limit=self.rng.randint(1, 4)):
            assert claim.group not in taken
            self.held.append((owner, claim))

    def audit(self) -> None:
        if self.held:
            _, claim = self.held.pop(self.rng.randrange(len(self.held)))
            self.last |= {one.key: one for one in self.desk.audit(claim)}

    def put_off(self) -> None:
        if self.held:
            _, claim = self.held.pop()
            until = self.desk.clock.now + self.rng.randint(0, 30) * MINUTE
            self.desk.inbox.put_off(claim, reason="judge", retry_at=until, priority=self.rng.random())

    def crash(self) -> None:
        """A process goes, and is back: its claims run out, or it handed them back."""
        owner = self.rng.choice(["one", "two"])
        self.held = [(other, claim) for other, claim in self.held if other != owner]
        if self.rng.random() < 0.5:
            self.desk.inbox.release(owner)
        else:
            self.expire()

    def wait(self) -> None:
        """Time passes, or the clock is set back a little; who is alive holds on."""
        self.desk.later(self.rng.randint(-2, 40) * MINUTE)
        lost = set()
        for owner, claim in self.held:
            lost |= self.desk.inbox.renew([claim], owner, self.desk.clock.now + self.desk.lease)
        if not self.forgets:
            assert lost.isdisjoint(row["group_id"] for row in rows(self.ledger, "group")), "only what is empty goes"

    def late(self) -> None:
        """A process hangs for so long that others take its claims; then it finishes what it had."""
        self.desk.later(self.desk.lease + 1)
        late, self.held = self.held, []
        self.claim()
        for _, claim in late:
            self.last |= {one.key: one for one in self.desk.audit(claim)}

    def expire(self) -> None:
        self.desk.later(self.desk.lease + 1)
        self.held = []

    def drain(self) -> None:
        """Settle and audit until nothing is open."""
        self.held = []
        for _ in range(30):
            self.desk.later(DAY)
            self.last |= {one.key: one for one in self.desk.audit_all()}
            if not self.desk.counts().open:
                return
        raise AssertionError("something stays open for ever")


def rows(ledger: Ledger, table: str) -> list[dict[str, Any]]:
    with ledger.database.reading() as connection:
        return [dict(row) for row in connection.execute(sa.text(f"SELECT * FROM otel_drift_inbox_{table}")).mappings()]


def check_books(ledger: Ledger) -> None:
    """What is kept twice agrees."""
    traces = {row["trace_number"]: row for row in rows(ledger, "trace")}
    members, groups = rows(ledger, "member"), {row["group_id"]: row for row in rows(ledger, "group")}
    chunks = rows(ledger, "chunk")
    (tally,) = rows(ledger, "tally") or [{"spans": 0, "bytes": 0}]
    assert tally["spans"] == sum(row["spans"] for row in chunks) == sum(row["spans"] for row in traces.values())
    assert tally["bytes"] == sum(len(row["payload"]) for row in chunks) == sum(row["bytes"] for row in traces.values())
    for number, row in traces.items():
        facts = Facts.from_json(row["facts"], row["started"], row["ended"], row["relevant"])
        own = {m["group_id"] for m in members if m["trace_number"] == number and not m["adopted"]}
        assert own == groups_of(facts, read(row["origin"])).keys()
    assert {m["group_id"] for m in members} == groups.keys()
    for group_id, row in groups.items():
        of_group = [m for m in members if m["group_id"] == group_id]
        is_open = any(m["open_since"] is not None for m in of_group)
        assert (row["open_since"] is not None) == (is_open and bool(row["relevant"]))
        if row["open_since"] is not None:
            assert row["open_spans"] == sum(m["open_spans"] for m in of_group if m["open_since"] is not None)
        assert (row["ticket"] is None) == (row["owner"] is None) == (row["held_until"] is None)
        assert row["attempts"] >= 0


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.open(":memory:") as opened:
        yield opened


@pytest.mark.parametrize("seed", range(20))
def test_the_books_are_right_and_everything_is_audited_in_the_end(ledger: Ledger, seed: int) -> None:
    """The last result of every session that there is in the end is that of a batch over everything."""
    history = History(ledger, seed)
    for _ in range(STEPS):
        history.step()
        check_books(ledger)
    history.drain()
    check_books(ledger)

    with SpanSpool() as spool:
        expected = {one.key: one for one in stream(history.given, spool, ReconstructOptions())}
    assert {key: repr(history.last.get(key)) for key in expected} == {key: repr(one) for key, one in expected.items()}


@pytest.mark.parametrize("seed", range(12))
def test_the_books_are_right_whatever_is_linked_and_forgotten(ledger: Ledger, seed: int) -> None:
    history = History(ledger, seed, forgets=True)
    for _ in range(STEPS):
        history.step()
        if history.rng.random() < 0.1:
            selectors: list[dict[str, Any]] = [
                {"user": "ann"}, {"session": "a"}, {"before": history.desk.clock.now - 20 * MINUTE},
                {"before": history.desk.clock.now, "for_good": True},
            ]  # fmt: skip
            history.desk.inbox.forget(**history.rng.choice(selectors))
        check_books(ledger)
    history.drain()
    history.desk.inbox.forget(before=history.desk.clock.now)
    for table in ("trace", "chunk", "member", "group"):
        assert rows(ledger, table) == []
