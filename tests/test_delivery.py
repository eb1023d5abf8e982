"""Delivery from the ledger: what sinks may do wrong, and that nothing is lost by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger_samples import finding, session, unit
from otel_drift import findings
from otel_drift.delivery import DeliveryReport, SinkDelivery, deliver
from otel_drift.errors import ConfigError, SinkError
from otel_drift.ledger import Ledger
from otel_drift.model import Annotation, Rejection, WriteReport


@dataclass
class Platform:
    """A sink in memory that keeps the current value per id, and does what it is told to."""

    behave: Callable[[Sequence[Annotation]], WriteReport | None] = lambda _: None
    name: str = "platform"
    upserts: bool = True
    values: dict[str, Annotation] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        self.batches.append(len(annotations))
        told = self.behave(annotations)
        if told is not None:
            return told
        self.values |= {one.id: one for one in annotations}
        return WriteReport(written=tuple(one.id for one in annotations))

    def close(self) -> None: ...


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger") as opened:
        yield opened


def commit(ledger: Ledger, *sinks: str, **changes: object) -> int:
    one = unit(finding(2), finding(3), finding(4), **changes)
    made = findings.annotations(one)
    ledger.commit_unit(None, one, made, sinks)
    return len(made)


def failing(error: Exception) -> Callable[[Sequence[Annotation]], WriteReport]:
    def fail(_: Sequence[Annotation]) -> WriteReport:
        raise error

    return fail


def test_everything_owed_is_written_in_batches_and_only_once(ledger: Ledger) -> None:
    number, platform, progress = commit(ledger, "a"), Platform(), []

    report = deliver(ledger, {"a": platform}, batch=6, on_progress=lambda name, count: progress.append((name, count)))
    again = deliver(ledger, {"a": platform}, batch=6)

    assert number == 16
    assert platform.batches == [6, 6, 4]
    assert progress == [("a", 6), ("a", 12), ("a", 16)]
    assert (report.sinks[0].written, again.sinks[0].written) == (16, 0)
    assert report.problems == again.problems == []
    assert len(platform.values) == 16


def test_who_was_owed_nothing_is_told_apart_from_who_is_down(ledger: Ledger) -> None:
    made = commit(ledger, "up", "down")
    sinks = {"up": Platform(), "down": Platform(failing(SinkError("no connection")))}
    first, again = deliver(ledger, sinks), deliver(ledger, sinks)
    assert (first.done, first.idle) == ([f"{made} values written to up"], [])
    assert (again.done, again.idle) == ([], ["up"])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SinkError("http://127.0.0.1:1 did not accept: no connection"), "did not accept: no connection"),
        (ConfigError("bad \x1b[31mheader"), "bad ␛[31mheader"),
        (ValueError("private words"), "unexpected ValueError (a fault of the sink"),
    ],
)
def test_a_sink_that_fails_stops_no_other_and_stays_owed(ledger: Ledger, error: Exception, told: str) -> None:
    commit(ledger, "dead", "alive")
    dead, alive = Platform(failing(error)), Platform()

    report = deliver(ledger, {"dead": dead, "alive": alive}, batch=5)

    assert dead.batches == [5]
    assert len(alive.values) == 16
    (problem,) = report.problems
    assert told in problem
    assert "16 annotations stay owed" in problem
    assert "private words" not in problem

    dead.behave = lambda _: None
    assert deliver(ledger, {"dead": dead}).problems == []
    assert len(dead.values) == 16


def test_a_sink_that_dies_midway_keeps_what_it_got(ledger: Ledger) -> None:
    commit(ledger, "a")
    platform = Platform()
    platform.behave = lambda _: failing(SinkError("down"))(_) if len(platform.batches) > 2 else None

    report = deliver(ledger, {"a": platform}, batch=5)

    assert (report.sinks[0].written, report.sinks[0].owed) == (10, 6)
    platform.behave = lambda _: None
    assert deliver(ledger, {"a": platform}).sinks[0].written == 6


def test_a_refusal_for_good_is_told_and_not_tried_again(ledger: Ledger) -> None:
    commit(ledger, "a")
    platform = Platform(lambda some: WriteReport(rejected=tuple(Rejection(one.id, "too \x1b long") for one in some)))

    report = deliver(ledger, {"a": platform})

    assert len(report.sinks[0].rejected) == 16
    assert len(report.problems) == 4
    assert "too ␛ long" in report.problems[0]
    assert "13 more" in report.problems[3]
    assert deliver(ledger, {"a": platform}) == DeliveryReport((SinkDelivery("a"),))
    assert ledger.delivery_counts() == {"a": {"rejected": 16}}


def test_a_refusal_for_now_is_tried_by_the_next_run_but_not_by_this_one(ledger: Ledger) -> None:
    commit(ledger, "a")
    platform = Platform(
        lambda some: WriteReport(rejected=tuple(Rejection(one.id, "busy", retryable=True) for one in some))
    )

    report = deliver(ledger, {"a": platform}, batch=10)

    assert platform.batches == [10, 6]
    assert "16 for now" in report.problems[0]
    platform.behave = lambda _: None
    assert deliver(ledger, {"a": platform}).sinks[0].written == 16


def test_what_a_sink_does_not_mention_stays_owed(ledger: Ledger) -> None:
    commit(ledger, "a")
    silent = Platform(lambda _: WriteReport())

    report = deliver(ledger, {"a": silent}, batch=10)

    assert silent.batches == [10, 6]
    assert report.sinks[0].owed == 16
    assert report.problems == ["sink a did not answer for 16; the next run tries again"]


def test_a_sink_sees_the_latest_values_and_withdrawals(ledger: Ledger) -> None:
    commit(ledger, "a")
    platform = Platform()
    deliver(ledger, {"a": platform})

    clean = unit(content_sha256="later")
    ledger.commit_unit(None, clean, findings.annotations(clean), ["a"])
    deliver(ledger, {"a": platform})

    standing = [one for one in platform.values.values() if not one.withdrawn]
    assert {(one.target, one.label) for one in standing} == {("session", "NONE")}


def test_a_sink_down_for_an_hour_of_runs_loses_nothing_and_each_run_asks_it_once(ledger: Ledger) -> None:
    number = 0
    platform = Platform(failing(SinkError("503")))
    for hour in range(4):
        number += commit(ledger, "a", unit_id=f"unit-{hour}", session=session(f"shop|{hour}", f"session-{hour}"))
        report = deliver(ledger, {"a": platform}, batch=5)
        assert platform.batches == [5] * (hour + 1), "a sink that is down is not asked for batch after batch"
    owed = len(set(ledger.delivery_counts()["a"])), report.sinks[0].owed
    platform.behave = lambda _: None
    done = deliver(ledger, {"a": platform})

    assert owed == (1, ledger.delivery_counts()["a"]["written"])
    assert done.problems == []
    assert ledger.delivery_counts()["a"].keys() == {"written"}
    assert {f"session-{hour}" for hour in range(4)} <= {one.session_id for one in platform.values.values()}
    assert number >= done.sinks[0].written == len(platform.values)


def test_a_new_revision_replaces_the_one_owed_to_a_sink_that_was_busy(ledger: Ledger) -> None:
    """Of what an upserting platform refused for now only the newest value is written, once."""
    platform = Platform(
        lambda owed: WriteReport(rejected=tuple(Rejection(one.id, "busy", retryable=True) for one in owed))
    )
    for summary in ("First.", "Second.", "Third."):
        one = unit(finding(3, explanation=summary), content_sha256=summary)
        ledger.commit_unit(None, one, findings.annotations, ["a"])
        deliver(ledger, {"a": platform})
    made = {one.id for one in findings.annotations(one)}
    platform.behave, platform.batches = lambda _: None, []
    deliver(ledger, {"a": platform})

    assert platform.values.keys() == made
    assert platform.batches == [len(made)]
    explained = [one.explanation for one in platform.values.values() if one.target == "span"]
    assert [text for text in explained if text and "Third." in text]
    assert not [text for text in explained if text and ("First." in text or "Second." in text)]


def test_a_clean_session_costs_at_most_two_writes_and_a_second_run_none(ledger: Ledger) -> None:
    one, platform = unit(), Platform()
    for _ in range(2):
        ledger.commit_unit(None, one, findings.annotations, ["a"])
        deliver(ledger, {"a": platform})

    assert one.outcome == "clean"
    assert 0 < sum(platform.batches) <= 2


def busy(owed: Sequence[Annotation]) -> WriteReport:
    return WriteReport(rejected=tuple(Rejection(one.id, "no such span yet", retryable=True) for one in owed))


def test_who_delivers_again_and_again_waits_longer_for_what_was_put_off(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put off 1 time: 10 s; after 3 times: 2 min; a sink that was down as a whole makes nothing wait."""
    clock = 1_700_000_000 * 1_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: clock)
    made = commit(ledger, "platform")
    sink = Platform(failing(SinkError("down")))

    def tried(after: float) -> int:
        nonlocal clock
        clock += int(after * 1e9)
        before = sum(sink.batches)
        deliver(ledger, {"platform": sink}, patient=True)
        return sum(sink.batches) - before

    assert [tried(1), tried(1)] == [made, made]
    sink.behave = busy
    assert [tried(1), tried(0.1), tried(9), tried(120), tried(120), tried(600)] == [made, 0, 0, made, made, made]
    assert tried(-5000) == made, "a clock set back makes nothing wait"
    sink.behave = lambda _: None
    assert tried(3600) == made
    assert sink.values


def test_what_a_sink_puts_off_for_a_week_is_owed_no_longer(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1_700_000_000 * 1_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: clock)
    made = commit(ledger, "platform")

    assert deliver(ledger, {"platform": Platform(busy)}).sinks[0].owed == made
    clock += 8 * 24 * 3600 * 1_000_000_000
    report = deliver(ledger, {"platform": Platform(busy)})

    assert report.sinks[0].owed == 0
    assert "given up after 7 days: no such span yet" in report.problems[0]
    assert ledger.delivery_counts()["platform"] == {"rejected": made}
