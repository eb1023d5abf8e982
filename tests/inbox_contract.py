"""What every inbox must do; run over SQLite by inbox/test_inbox.py and over PostgreSQL by servers/test_postgres.py."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from captures import names_in, records_of
from otel_drift.inbox import RECEIVED, Claim, Inbox
from otel_drift.ledger import Ledger
from otel_drift.model import LogRecord, Record, Session, Span
from otel_drift.sessions import ReconstructOptions, stream
from otel_drift.sessions.linking import Group
from otel_drift.spool import SpanSpool

SECOND = 10**9
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_800_000_000 * SECOND
GAP = DAY
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


class Clock:
    """Stands still until moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


def turn(
    trace: int | str,
    session: str | None = None,
    *,
    user: str | None = None,
    at: int = 0,
    question: str = "Is there a fee?",
    answer: str = "There is no fee.",
    history: Sequence[tuple[str, str]] = (),
    span: int = 1,
    parent: int | None = None,
    service: str = "bot",
    environment: str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Span:
    """A chat call in a trace of its own; `at`: nanoseconds after `START`."""
    said = [m for q, a in history for m in (("user", q), ("assistant", a))]
    messages = [
        {"role": role, "parts": [{"type": "text", "content": text}]} for role, text in (*said, ("user", question))
    ]
    reply = [{"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]
    own: dict[str, Any] = {**CHAT, "gen_ai.input.messages": messages, "gen_ai.output.messages": reply}
    if session is not None:
        own["gen_ai.conversation.id"] = session
    if user is not None:
        own["user.id"] = user
    resource = {"service.name": service}
    if environment is not None:
        resource["deployment.environment.name"] = environment
    return Span(
        trace if isinstance(trace, str) else f"{trace:032x}", f"{span:016x}",
        None if parent is None else f"{parent:016x}", "chat", START + at, START + at + SECOND,
        {**own, **(attributes or {})}, resource, "test",
    )  # fmt: skip


def request(trace: int, *, at: int = 0, service: str = "bot", session: str | None = None) -> Span:
    """A span that says nothing of a conversation."""
    attributes = {"http.request.method": "GET"} | ({"session.id": session} if session else {})
    resource = {"service.name": service}
    return Span(f"{trace:032x}", f"{9:016x}", None, "GET /", START + at, START + at + 1, attributes, resource)


class Desk:
    """An inbox, its clock, and one process that audits: reconstructs what is due, and says that it was audited."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self.clock = clock
        self.inbox = Inbox(ledger, clock=clock)
        self.settle, self.cap, self.cap_spans, self.lease = 15 * MINUTE, 4 * HOUR, 1000, MINUTE

    def later(self, nanoseconds: int) -> Desk:
        self.clock.now += nanoseconds
        return self

    def claim(self, owner: str = "one", limit: int = 100) -> list[Claim]:
        return self.inbox.claim(
            owner, now=self.clock.now, settle=self.settle, cap=self.cap, cap_spans=self.cap_spans, lease=self.lease,
            limit=limit,
        )  # fmt: skip

    def due(self, claim: Claim, session: Session) -> bool:
        if claim.session_id is not None:  # what came may have changed whose the others are
            return any(claim.traces[trace].is_own for trace in session.trace_ids)
        return claim.is_due(
            session.trace_ids, now=self.clock.now, settle=self.settle, cap=self.cap, cap_spans=self.cap_spans
        )

    def reconstructed(self, claim: Claim) -> list[Session]:
        def wanted(group: Group) -> bool:
            return claim.session_id in (None, group.session_id)

        with SpanSpool() as spool:
            records = self.inbox.records(claim, GAP)
            return list(stream(records, spool, ReconstructOptions(), wanted=wanted))

    def audit(self, claim: Claim) -> list[Session]:
        """As the service does: the sessions of the claim that are due; what belongs elsewhere is handed on."""
        found = self.reconstructed(claim)
        own = [one for one in found if claim.session_id in (None, one.session_id)]
        due = [one for one in own if one.session_id == claim.session_id and self.due(claim, one)]
        mentioned = {trace for one in own for trace in one.trace_ids}
        audited = {trace: one.key for one in due for trace in one.trace_ids}
        nothing = {t: None for t, state in claim.traces.items() if state.is_own and t not in mentioned}
        elsewhere: dict[str, str] = {}
        if claim.session_id is None:
            elsewhere = {t: one.session_id for one in found if one.session_id is not None for t in one.trace_ids}
        self.inbox.finish(claim, {**nothing, **audited}, elsewhere=elsewhere)
        return due

    def audit_all(self) -> list[Session]:
        """Until nothing is due."""
        done: list[Session] = []
        for _ in range(50):
            claims = self.claim()
            if not claims:
                return done
            for claim in claims:
                done += self.audit(claim)
        raise AssertionError("something stays due for ever")

    def counts(self) -> Any:
        return self.inbox.counts(self.clock.now, settle=self.settle, cap=self.cap, cap_spans=self.cap_spans)


def everything(inbox: Inbox, claims: Sequence[Claim]) -> list[Record]:
    return [record for claim in claims for record in inbox.records(claim, GAP)]


class InboxContract:
    """Subclasses give the fixture `place`, a path or URL of an empty ledger."""

    @pytest.fixture
    def place(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def ledger(self, place: str) -> Iterator[Ledger]:
        with Ledger.open(place) as opened:
            yield opened

    @pytest.fixture
    def desk(self, ledger: Ledger) -> Desk:
        return Desk(ledger, Clock())

    # --- the same sessions as a batch ---

    @pytest.mark.parametrize("part", range(4))
    def test_every_capture_in_any_order_gives_the_sessions_of_a_batch(
        self, desk: Desk, shared: Path, part: int
    ) -> None:
        """Each capture is a source of its own; whole captures are put in piecewise and shuffled, then claimed."""
        rng = random.Random(part)
        expected = []
        for name in names_in(shared)[part::4]:
            records = list(records_of(shared, name))
            with SpanSpool() as spool:
                expected += [(name, repr(one)) for one in stream(records, spool, ReconstructOptions())]
            rng.shuffle(records)
            while records:
                count = rng.randint(1, 12)
                desk.inbox.add(records[:count], name)
                del records[:count]
        desk.later(desk.settle)
        found = []
        while claims := desk.claim(limit=7):
            for claim in claims:
                found += [(claim.origin, repr(one)) for one in desk.audit(claim)]

        assert sorted(found) == sorted(expected)
        assert desk.counts().open == 0

    def test_audited_as_it_comes_the_last_result_is_that_of_a_batch(self, desk: Desk, shared: Path) -> None:
        """Traces come one after the other and everything is audited after each; sessions without an id too."""
        desk.settle = 0
        for name in ("openinference-openai/cloudlimits-nosession", "openlit-openai/telecom-chroma"):
            records = list(records_of(shared, name))
            with SpanSpool() as spool:
                expected = {one.key: one for one in stream(records, spool, ReconstructOptions())}
            traces: dict[str, list[Record]] = {}
            for record in records:
                traces.setdefault(record.trace_id, []).append(record)
            last: dict[str, Session] = {}
            for own in traces.values():
                desk.inbox.add(own, name)
                last |= {one.key: one for one in desk.later(1).audit_all()}
            assert {key: last.get(key) for key in expected} == expected

    # --- what is kept ---

    def test_records_come_back_as_they_were(self, place: str, desk: Desk) -> None:
        odd = {
            "text": "NUL \0, a lone surrogate \ud800, a smile 🙂", "bytes": b"\xff\0", "big": 2**70, "small": -(2**63),
            "not a number": [float("inf"), -0.0, 1e-300], "$": ["bytes", "AA=="], "none": None, "no": False,
            "deep": {"list": [1, [2, {"$": 3}]], "empty": {}}, "\0": "\0",
        }  # fmt: skip
        first = turn("odd \0\ud800 id", "s", attributes=odd)
        second = dataclasses.replace(first, span_id="0002", start=0, end=2**64, status="error", status_message="\ud800")
        log = LogRecord(first.trace_id, "0002", "event", 7, {"body": [b"\0"]}, {"user.id": "\ud800"}, "scope")
        desk.inbox.add([first, log])
        desk.inbox.add([second])

        with Ledger.open(place) as other:
            again = Desk(other, desk.clock).later(desk.settle)
            assert everything(again.inbox, again.claim()) == [first, log, second]

    def test_a_call_takes_all_or_nothing(self, desk: Desk) -> None:
        class Refusing(UserDict[str, Any]):
            def __iter__(self) -> Iterator[str]:
                raise RuntimeError("no")

        broken = dataclasses.replace(turn(2), attributes=Refusing(a=1.5))
        with pytest.raises(RuntimeError):
            desk.inbox.add([turn(1), broken])
        assert desk.counts().spans == 0

    def test_counts_say_what_is_kept(self, desk: Desk) -> None:
        assert desk.counts().open == desk.counts().spans == desk.counts().bytes == 0
        assert desk.inbox.add([turn(1, "a"), turn(2, "a"), turn(3), request(4)]) == 4
        assert desk.inbox.add([]) == 0

        counts = desk.counts()
        assert (counts.open, counts.due, counts.held, counts.spans) == (2, 0, 0, 4)
        assert 400 < counts.bytes < 4000
        assert desk.later(desk.settle + 5).counts().due == 2
        assert desk.counts().oldest_due == 5
        desk.claim(limit=1)
        assert (desk.counts().open, desk.counts().due, desk.counts().held) == (2, 1, 1)

    def test_threads_that_add_at_once_lose_nothing(self, place: str, ledger: Ledger) -> None:
        desk = Desk(ledger, Clock())
        desk.settle = 0

        def work(number: int) -> int:
            return sum(
                desk.inbox.add([turn(100 * number + one, f"s{one % 3}"), turn(one, span=number, at=one)])
                for one in range(10)
            )

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(work, range(1, 13))) == 240
        found = {record.span_id + record.trace_id for record in everything(desk.inbox, desk.claim())}
        assert len(found) == desk.counts().spans == 240

    def test_a_follower_keeps_only_what_is_new(self, desk: Desk) -> None:
        log = LogRecord(f"{1:032x}", f"{1:016x}", "e", 1, float("nan"), {})
        page: list[Record] = [turn(1, "s"), turn(1, "s"), turn(2), log]
        assert desk.inbox.add(page, "phoenix:x", only_new=True) == 3
        assert desk.inbox.add(page, "phoenix:x", only_new=True) == 0
        longer = dataclasses.replace(turn(1, "s"), end=START + 2 * SECOND)
        assert desk.inbox.add([*page, longer, turn(1, "s", span=2)], "phoenix:x", only_new=True) == 2
        assert desk.inbox.add(page, only_new=True) == 3, "another origin"
        assert desk.counts().spans == 4 + 2

        desk.later(desk.settle).audit_all()
        desk.inbox.add(page, "phoenix:x", only_new=True)
        assert desk.counts().open == 0, "reading the same again opens nothing"

    # --- what is due ---

    def test_a_session_is_due_once_it_is_idle(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s")])
        desk.later(10 * MINUTE).inbox.add([turn(2, "s")])
        assert not desk.later(10 * MINUTE).claim()

        (claim,) = desk.later(5 * MINUTE).claim()

        assert (claim.origin, claim.project, claim.environment, claim.session_id) == (RECEIVED, "bot", None, "s")
        assert {trace: state.unaudited_spans for trace, state in claim.traces.items()} == {
            f"{1:032x}": 1,
            f"{2:032x}": 1,
        }
        assert not desk.claim("two"), "somebody holds it"

    def test_a_session_that_never_rests_is_due_at_the_cap(self, desk: Desk) -> None:
        for number in range(1, 25):
            desk.inbox.add([turn(number, "s")])
            assert not desk.claim()
            desk.later(10 * MINUTE)
        assert len(desk.claim()) == 1

    def test_a_session_of_many_spans_is_due_at_once(self, desk: Desk) -> None:
        desk.cap_spans = 3
        desk.inbox.add([turn(1, "s"), turn(2, "s")])
        assert not desk.claim()
        desk.inbox.add([turn(3, "s")])
        assert len(desk.claim()) == 1

    def test_two_environments_projects_and_origins_are_apart(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s"), turn(2, "s", environment="prod"), turn(3, "s", service="other")])
        desk.inbox.add([turn(1, "s")], "phoenix:x")
        claims = desk.later(desk.settle).claim()
        assert sorted((c.origin, c.project, c.environment or "", len(c.traces)) for c in claims) == [
            ("phoenix:x", "bot", "", 1),
            ("receiver", "bot", "", 1),
            ("receiver", "bot", "prod", 1),
            ("receiver", "other", "", 1),
        ]

    def test_two_customers_of_one_session_id_are_one_claim_and_two_sessions(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s", user="ann"), turn(2, "s", user="bob")])
        (claim,) = desk.later(desk.settle).claim()
        assert sorted(one.key for one in desk.audit(claim)) == ["bot/-/ann/s", "bot/-/bob/s"]

    def test_the_session_id_may_come_last_and_from_another_span(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, at=SECOND, span=2, parent=1)])
        desk.later(MINUTE).inbox.add([turn(1, "s", span=1)])
        sessions = desk.later(desk.settle).audit_all()
        assert [(one.session_id, len(one.trace_ids)) for one in sessions] == [("s", 1)]
        assert desk.counts().open == 0

    def test_a_better_session_id_that_comes_late_moves_the_trace(self, desk: Desk) -> None:
        """Named by the model's library first and audited so; then by the application."""
        one, two = f"{1:032x}", f"{2:032x}"
        desk.inbox.add([turn(1, "thread", span=2, parent=1), turn(2, "thread")])
        assert [one.session_id for one in desk.later(desk.settle).audit_all()] == ["thread"]
        before = desk.inbox.earlier_keys([one, two], RECEIVED)

        desk.inbox.add([turn(1, attributes={"session.id": "chat"})])
        desk.later(desk.settle)
        moved = desk.inbox.earlier_keys([one], RECEIVED)
        again = desk.audit_all()

        assert before == dict.fromkeys([one, two], "bot/-/-/thread")
        assert moved == {one: "bot/-/-/thread"}
        assert sorted((one.session_id, one.trace_ids) for one in again) == [("chat", (one,)), ("thread", (two,))], (
            "the session it left is audited again, without it"
        )

    def test_a_session_that_a_trace_leaves_is_audited_again(self, desk: Desk) -> None:
        """Traces without an id: what came late shows that one of them belongs elsewhere."""
        talk = [("When do you open?", "At nine."), ("And close?", "At five.")]
        desk.inbox.add([turn(1, question=talk[0][0], answer=talk[0][1])])
        desk.inbox.add([turn(2, at=MINUTE, question=talk[1][0], answer=talk[1][1], history=talk[:1])])
        assert [len(one.turns) for one in desk.later(desk.settle).audit_all()] == [2]

        desk.inbox.add([turn(2, at=MINUTE - 1, span=2, parent=1)])  # it began with another question
        again = desk.later(desk.settle).audit_all() + desk.later(desk.settle).audit_all()

        assert sorted(one.trace_ids for one in again) == [(f"{1:032x}",), (f"{2:032x}",)]
        assert desk.counts().open == 0

    def test_the_root_says_the_project_whenever_it_comes(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s", span=2, parent=1, service="library", at=-SECOND)])
        desk.inbox.add([turn(1, "s", span=1, service="app")])
        desk.inbox.add([turn(1, "s", span=3, parent=1, service="library", at=-2 * SECOND)])
        (claim,) = desk.later(desk.settle).claim()
        assert claim.project == "app"

    def test_what_is_of_no_interest_is_kept_but_opens_nothing(self, desk: Desk) -> None:
        desk.inbox.add([request(1), request(2, session="s")])
        assert (desk.counts().open, desk.counts().spans) == (0, 2)
        desk.later(MINUTE).inbox.add([turn(1)])
        desk.inbox.add([turn(2, "s", at=SECOND)])
        assert desk.counts().open == 2
        assert sorted(len(c.traces) for c in desk.later(desk.settle).claim()) == [1, 1]

    # --- who audits ---

    def test_finished_sessions_open_again_with_late_records(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s")])
        desk.later(desk.settle).audit_all()
        assert not desk.later(desk.settle).claim()

        desk.inbox.add([turn(1, "s", span=2, parent=1)])
        assert not desk.claim()
        (claim,) = desk.later(desk.settle).claim()
        assert claim.traces[f"{1:032x}"].unaudited_spans == 1
        assert [len(list(desk.inbox.records(claim, GAP)))] == [2], "it is read whole"

    def test_records_that_come_during_the_audit_keep_it_open_and_are_not_in_it(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s")])
        (claim,) = desk.later(desk.settle).claim()
        desk.later(SECOND).inbox.add([turn(1, "s", span=2, parent=1), turn(2, "s")])

        (audited,) = desk.audit(claim)

        assert audited.trace_ids == (f"{1:032x}",)
        assert (desk.counts().open, desk.counts().due) == (1, 0)
        (again,) = desk.later(desk.settle).claim()
        states = {trace: state.unaudited_spans for trace, state in again.traces.items()}
        assert states == {f"{1:032x}": 1, f"{2:032x}": 1}

    def test_a_lease_that_ran_out_frees_it_and_a_late_finish_does_no_harm(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s")])
        (dead,) = desk.later(desk.settle).claim("dead")
        assert not desk.later(desk.lease - 1).claim("alive")
        (claim,) = desk.later(1).claim("alive")
        assert (dead.attempts, claim.attempts) == (0, 1)

        assert desk.inbox.renew([dead], "dead", desk.clock.now + HOUR) == {dead.group}
        desk.inbox.put_off(dead, reason="error", retry_at=desk.clock.now + HOUR)
        desk.audit(dead)
        assert not desk.claim("third"), "the new owner still holds it"
        assert desk.counts().held == 0, "and what was audited counts"
        desk.audit(claim)
        assert desk.counts().open == 0

    def test_a_renewed_claim_stays(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s")])
        (claim,) = desk.later(desk.settle).claim()
        for _ in range(5):
            desk.later(desk.lease - 1)
            assert not desk.inbox.renew([claim], "one", desk.clock.now + desk.lease)
        assert not desk.claim("two")

    def test_what_is_put_off_waits_and_keeps_its_rank_and_reason(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "a"), turn(2, "b"), turn(3, "c")])
        claims = {claim.session_id: claim for claim in desk.later(desk.settle).claim()}
        since, until = desk.clock.now, desk.clock.now + HOUR
        desk.inbox.put_off(claims["a"], reason="budget", retry_at=until, priority=0.5)
        desk.inbox.put_off(claims["b"], reason="budget", retry_at=until, priority=2.0)
        desk.inbox.put_off(claims["c"], reason="error", retry_at=until)
        assert desk.counts().put_off == {"budget": 2, "error": 1}
        assert not desk.later(HOUR - 1).claim()

        again = desk.later(1).claim()

        assert [(one.session_id, one.attempts, one.put_off_since) for one in again] == [
            ("b", 0, since), ("a", 0, since), ("c", 1, since),
        ]  # fmt: skip
        for claim in again:
            desk.audit(claim)
        desk.inbox.add([turn(1, "a", span=2, parent=1)])
        (fresh,) = desk.later(desk.settle).claim()
        assert (fresh.priority, fresh.attempts, fresh.put_off_since) == (0, 0, None)

    def test_a_part_can_be_audited_and_the_rest_put_off(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s", user="ann"), turn(2, "s", user="bob")])
        (claim,) = desk.later(desk.settle).claim()
        list(desk.inbox.records(claim, GAP))
        desk.inbox.put_off(claim, reason="budget", retry_at=desk.clock.now + 1, audited={f"{1:032x}": "ann's"})
        (rest,) = desk.later(1).claim()
        assert [trace for trace in rest.traces if desk_due(desk, rest, trace)] == [f"{2:032x}"]

    def test_a_graceful_stop_hands_back_everything(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "a"), turn(2, "b"), turn(3, "c")])
        desk.later(desk.settle).claim("one", limit=2)
        desk.claim("two")
        desk.inbox.release("one")
        assert [claim.attempts for claim in desk.claim("three")] == [0, 0]

    def test_two_processes_never_hold_the_same_session(self, place: str, desk: Desk) -> None:
        desk.inbox.add([turn(number, f"s{number}") for number in range(1, 61)])
        desk.later(desk.settle)
        ready = threading.Barrier(3)

        def work(number: int) -> list[str]:
            with Ledger.open(place) as mine:
                own = Desk(mine, desk.clock)
                ready.wait()
                taken = []
                while claims := own.claim(f"process {number}", limit=3):
                    taken += [claim.session_id or "" for claim in claims]
                    for claim in claims:
                        own.audit(claim)
                return taken

        with ThreadPoolExecutor(3) as pool:
            taken = [session for found in pool.map(work, range(3)) for session in found]
        assert sorted(taken) == sorted(f"s{number}" for number in range(1, 61))

    # --- clocks ---

    @pytest.mark.parametrize("jump", [2 * MINUTE, HOUR, 400 * DAY])
    def test_a_clock_set_back_makes_nothing_wait_for_ever(self, desk: Desk, jump: int) -> None:
        """What was received, put off, claimed or audited before it was: due again after settling at the latest."""
        desk.inbox.add([turn(1, "idle"), turn(2, "put off"), turn(3, "held"), turn(4), turn(5, "audited")])
        claims = {claim.session_id: claim for claim in desk.later(desk.settle).claim()}
        desk.inbox.put_off(claims["put off"], reason="judge", retry_at=desk.clock.now + MINUTE)
        desk.audit(claims["audited"])
        desk.audit(claims[None])
        desk.inbox.release("nobody")
        desk.inbox.add([turn(5, "audited", span=2, parent=1), turn(6)])
        desk.later(-jump)

        desk.later(desk.settle + desk.lease + MINUTE)
        claims_now = {claim.session_id for claim in desk.claim("other")}

        assert claims_now == {"idle", "put off", "held", "audited", None}

    # --- traces without a session id ---

    def test_a_place_is_handed_out_only_when_something_in_it_is_due(self, desk: Desk) -> None:
        """Each trace settles by itself, however many others keep coming."""
        handed_out = 0
        sessions: list[Session] = []
        for number in range(1, 61):
            desk.inbox.add([turn(number, at=number * 5 * MINUTE, question=f"q{number}", answer=f"a{number}")])
            desk.later(MINUTE)
            for claim in desk.claim():
                handed_out += 1
                sessions += desk.audit(claim)
        assert len(sessions) == len({one.trace_ids for one in sessions}) == 60 - 14
        assert handed_out == (60 - 15) // 5 + 1

    def test_a_conversation_told_by_its_history_is_audited_whole(self, desk: Desk) -> None:
        talk = [("When do you open?", "At nine."), ("And close?", "At five."), ("On Sunday?", "Closed.")]
        found: list[Session] = []
        for number, (question, answer) in enumerate(talk):
            one = turn(number + 1, at=number * HOUR, question=question, answer=answer, history=talk[:number])
            desk.inbox.add([one])
            desk.later(HOUR)
            found = desk.audit_all() or found
        assert [len(one.turns) for one in found] == [3]
        assert set(desk.inbox.earlier_keys([f"{n:032x}" for n in (1, 2, 3)], RECEIVED).values()) == {found[0].key}

    def test_it_stays_whole_when_its_beginning_is_longer_ago_than_the_gap(self, desk: Desk) -> None:
        talk = [("When do you open?", "At nine."), ("And close?", "At five."), ("On Sunday?", "Closed.")]
        found: list[Session] = []
        for number, (question, answer) in enumerate(talk):
            one = turn(number + 1, at=number * 20 * HOUR, question=question, answer=answer, history=talk[:number])
            desk.inbox.add([one])
            desk.later(20 * HOUR)
            found = desk.audit_all() or found
        assert [one.trace_ids for one in found] == [tuple(f"{n:032x}" for n in (1, 2, 3))]

    def test_only_what_is_near_what_is_due_is_read(self, desk: Desk) -> None:
        for day in range(10):
            desk.inbox.add([turn(10 * day + n, at=day * 3 * DAY, question=f"q{day}.{n}") for n in range(1, 6)])
            desk.later(3 * DAY).audit_all()
        desk.inbox.add([turn(999, at=30 * DAY + HOUR)])
        (claim,) = desk.later(desk.settle).claim()
        assert len(claim.traces) == 1
        assert [record.trace_id for record in desk.inbox.records(claim, GAP)] == [f"{999:032x}"]

    def test_a_trace_without_an_id_opens_the_session_that_its_history_continues(self, desk: Desk) -> None:
        """It comes long after the session with an id was audited."""
        talk = [("When do you open?", "At nine."), ("And close?", "At five.")]
        desk.inbox.add([turn(1, "s", question=talk[0][0], answer=talk[0][1])])
        desk.later(2 * HOUR).audit_all()
        desk.inbox.add([turn(2, at=2 * HOUR, question=talk[1][0], answer=talk[1][1], history=talk[:1])])

        again = desk.later(desk.settle).audit_all()

        assert [(one.session_id, len(one.turns)) for one in again] == [("s", 2)]
        assert desk.counts().open == 0
        desk.inbox.add([dataclasses.replace(request(2, at=2 * HOUR), parent_id=f"{1:016x}")])
        assert [(one.session_id, len(one.turns)) for one in desk.later(desk.settle).audit_all()] == [("s", 2)]
        assert desk.counts().open == 0

    @pytest.mark.parametrize("place_first", [True, False])
    def test_a_trace_that_its_session_was_audited_with_meanwhile_is_done_at_its_place(
        self, desk: Desk, place_first: bool
    ) -> None:
        """Claimed together, a trace's session and its place may be audited in any order."""
        talk = [("When do you open?", "At nine."), ("And close?", "At five.")]
        desk.inbox.add([turn(1, "s", question=talk[0][0], answer=talk[0][1])])
        desk.inbox.add([turn(2, at=2 * HOUR, question=talk[1][0], answer=talk[1][1], history=talk[:1])])
        desk.later(2 * HOUR).audit_all()
        desk.later(desk.settle).audit_all()
        desk.inbox.add([dataclasses.replace(request(2, at=2 * HOUR), parent_id=f"{1:016x}")])

        claims = desk.later(desk.settle).claim()
        assert len(claims) == 2
        claims.sort(key=lambda one: (one.session_id is None) != place_first)
        audited = [one for claim in claims for one in desk.audit(claim)]

        assert [(one.session_id, len(one.turns)) for one in audited] == [("s", 2)]
        assert desk.counts().open == 0

    # --- deletion ---

    def test_retention_deletes_what_was_audited_and_is_old(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "old"), turn(2), request(3)])
        desk.later(DAY).audit_all()
        desk.inbox.add([turn(4, "new"), turn(1, "old", span=2, parent=1)])
        assert desk.inbox.forget(before=START + HOUR) == 2
        assert desk.counts().spans == 3
        assert desk.inbox.forget(before=START + HOUR) == 0
        assert {one.session_id for one in desk.later(desk.settle).audit_all()} == {"old", "new"}

        assert desk.inbox.forget(before=desk.clock.now) == 3
        assert (desk.counts().open, desk.counts().spans, desk.counts().bytes) == (0, 0, 0)
        assert not desk.claim()

    def test_what_waits_to_be_audited_is_kept_twice_as_long(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s"), turn(2)])
        age = 10 * DAY
        desk.later(age + 1)
        assert desk.inbox.forget(before=desk.clock.now - age) == 0
        desk.later(age)
        assert desk.inbox.forget(before=desk.clock.now - age) == 2
        assert (desk.counts().open, desk.counts().due) == (0, 0)

    def test_what_is_forgotten_while_it_is_held_does_no_harm(self, desk: Desk) -> None:
        desk.inbox.add([turn(1, "s"), turn(2)])
        claims = desk.later(desk.settle).claim()
        for claim in claims:
            list(desk.inbox.records(claim, GAP))
        desk.inbox.forget(before=desk.clock.now, for_good=True)
        for claim in claims:
            assert desk.audit(claim) == []
        assert desk.counts().open == 0

    def test_a_session_is_forgotten_by_id_or_key_with_what_was_audited_in_it(self, desk: Desk) -> None:
        talk = [("When do you open?", "At nine."), ("And close?", "At five.")]
        desk.inbox.add([turn(1, "s", user="ann"), turn(2, "s", user="bob"), turn(3, "t"), turn(7, "s", service="x")])
        desk.inbox.add([turn(4, at=HOUR, question=talk[0][0], answer=talk[0][1])])
        desk.inbox.add([turn(5, at=HOUR + MINUTE, question=talk[1][0], answer=talk[1][1], history=talk[:1])])
        desk.later(DAY).audit_all()

        assert desk.inbox.forgettable(session="bot/-/ann/s") == 1
        assert desk.inbox.forget(session="bot/-/ann/s") == 1
        assert desk.inbox.forget(session=f"bot/-/-/trace:{4:032x}") == 2
        assert desk.inbox.forget(session="s", before=START) == 0, "all that is given must hold"
        assert desk.inbox.forget(session="s") == 2
        assert desk.inbox.forget(session="s") == 0
        assert desk.counts().spans == 1

    def test_a_user_is_forgotten_in_all_that_is_known_to_be_theirs(self, desk: Desk) -> None:
        """Also in traces that do not name them, of a session in which others do, audited or not."""
        desk.inbox.add([turn(1, "s", user="ann"), turn(2, "s"), turn(3, "s", user="ann", span=2)])
        desk.inbox.add([turn(4, user="ann"), turn(5, user="anna"), turn(6, "t", user="bob")])
        assert desk.inbox.forget(user="ann") == 4
        assert desk.counts().spans == 2
        assert desk.inbox.forget(user="nobody") == 0
        assert len(desk.later(desk.settle).audit_all()) == 2


def desk_due(desk: Desk, claim: Claim, trace: str) -> bool:
    return claim.is_due([trace], now=desk.clock.now, settle=desk.settle, cap=desk.cap, cap_spans=desk.cap_spans)
