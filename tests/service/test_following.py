"""Followers: what a platform has is put into the inbox once, from a mark that survives, with a look back."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from otel_drift.config import PullSettings
from otel_drift.errors import RecordError, SourceError
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.model import Record, Span
from otel_drift.protocols import Window
from otel_drift.service.conditions import Conditions
from otel_drift.service.following import SLICE, FollowDuty
from otel_drift.testing import conversation
from otel_drift.times import SECOND

NOW = 1_800_000_000 * SECOND
MINUTE = 60 * SECOND


class Platform:
    """A source in memory: sessions whole, as a windowed source gives them."""

    name = "platform:here"
    windowed = True

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.windows: list[Window] = []
        self.fails = False

    def read(self, cursor: str | None = None, window: Window | None = None) -> Iterator[tuple[Sequence[Record], None]]:
        assert window is not None
        self.windows.append(window)
        if self.fails:
            raise SourceError("down")
        names = {
            span.attributes["gen_ai.conversation.id"]
            for span in self.spans
            if window.since <= span.end and span.start < window.until
        }
        yield [span for span in self.spans if span.attributes["gen_ai.conversation.id"] in names], None


class Follower:
    """A follower with a clock of its own."""

    def __init__(self, ledger: Ledger, first: int = NOW - 30 * MINUTE) -> None:
        self.now = NOW
        self.platform = Platform()
        self.inbox = Inbox(ledger, clock=lambda: self.now)
        self.stopping = threading.Event()
        self.problems: deque[RecordError] = deque()
        self.conditions = Conditions()
        self.duty = FollowDuty(
            self.platform,
            self.inbox,
            ledger,
            PullSettings(look_back_minutes=10),
            every=300,
            first=first,
            problems=self.problems,
            conditions=self.conditions,
            stopping=self.stopping,
            clock=lambda: self.now,
        )

    def kept(self) -> int:
        return self.inbox.counts(self.now, settle=0, cap=1, cap_spans=1).spans


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger") as opened:
        yield opened


def test_what_is_there_is_kept_once_however_often_it_is_read(ledger: Ledger) -> None:
    one = Follower(ledger)
    one.platform.spans = conversation("a", ends=NOW - 5 * MINUTE)
    assert one.duty.step() is False
    one.now += 5 * MINUTE
    assert one.duty.step() is False
    assert one.kept() == len(one.platform.spans)
    first, second = one.platform.windows
    assert (first.since, first.until) == (NOW - 30 * MINUTE, NOW)
    assert (second.since, second.until) == (NOW - 10 * MINUTE, NOW + 5 * MINUTE), "a look back for late spans"


def test_a_new_turn_of_a_known_session_is_kept_and_opens_it_again(ledger: Ledger) -> None:
    one = Follower(ledger)
    whole = conversation("a", ends=NOW - 5 * MINUTE)
    one.platform.spans = whole[:-3]
    one.duty.step()
    claims = one.inbox.claim("me", now=one.now, settle=0, cap=1, cap_spans=1, lease=MINUTE, limit=9)
    for claim in claims:
        list(one.inbox.records(claim, MINUTE))
        one.inbox.finish(claim, dict.fromkeys(claim.traces, "key"))
    assert one.inbox.counts(one.now, settle=0, cap=1, cap_spans=1).open == 0
    one.duty.step()
    assert one.inbox.counts(one.now, settle=0, cap=1, cap_spans=1).open == 0, "the same again opens nothing"

    one.platform.spans = whole
    one.duty.step()
    assert one.inbox.counts(one.now, settle=0, cap=1, cap_spans=1).open == 1


def test_a_long_time_is_read_in_slices_and_goes_on_after_a_failure(ledger: Ledger) -> None:
    one = Follower(ledger, first=NOW - 2 * SLICE - MINUTE)
    assert one.duty.step() is True
    one.platform.fails = True
    with pytest.raises(SourceError):
        one.duty.step()
    one.platform.fails = False
    again = Follower(ledger)  # another process: the mark is in the ledger
    assert [again.duty.step(), again.duty.step()] == [True, False]
    assert [window.until for window in again.platform.windows] == [NOW - MINUTE, NOW]
    assert again.platform.windows[0].since == NOW - SLICE - MINUTE - 10 * MINUTE


def test_a_stop_in_the_middle_leaves_the_mark_where_it_was(ledger: Ledger) -> None:
    one = Follower(ledger)
    one.platform.spans = conversation("a", ends=NOW - 5 * MINUTE)
    one.stopping.set()
    assert one.duty.step() is False
    assert ledger.cursor(one.duty.mark) is None
    assert one.kept() == len(one.platform.spans), "what was read is kept all the same"


def test_a_mark_in_the_future_makes_nothing_wait(ledger: Ledger) -> None:
    """It was set by a clock that ran ahead."""
    one = Follower(ledger)
    ledger.set_cursor(one.duty.mark, str(NOW + 3600 * SECOND))
    one.platform.spans = conversation("a", ends=NOW - 5 * MINUTE)
    one.duty.step()
    assert one.kept() == len(one.platform.spans)


def test_broken_records_are_said_until_a_reading_has_none(ledger: Ledger) -> None:
    one = Follower(ledger)
    one.problems.append(RecordError("no span id", file="platform:here", record="ab12"))
    one.duty.step()
    assert "1 broken records" in next(iter(one.conditions.now().values())).message
    one.duty.step()
    assert one.conditions.now() == {}
