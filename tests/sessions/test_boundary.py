"""A session that cannot be put together stops no other, in memory and streamed, and says so."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from drift_cases import ScriptedJudge
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.model import Session, Span
from otel_drift.report.inspection import print_session
from otel_drift.sessions import ReconstructOptions, reconstruct, stream
from otel_drift.spool import SpanSpool
from otel_drift.validation import audit_session
from report.terminal import printed
from spans import TURNS, chat, said

ENTRY = sys.modules["otel_drift.sessions.reconstruct"]
SECRET = "sk-in-a-message"


def streamed(spans: Sequence[Span]) -> list[Session]:
    with SpanSpool() as spool:
        return list(stream(spans, spool, ReconstructOptions()))


def fail_in(monkeypatch: pytest.MonkeyPatch, step: str, session: str) -> None:
    """Make one step of the rebuilding fail for the spans (or the group) of one session."""
    real = getattr(ENTRY, step)

    def broken(subject: Any, *rest: Any) -> Any:
        own = subject.attributes.get("session.id") if isinstance(subject, Span) else subject.session_id
        if own == session:
            raise ValueError(SECRET)
        return real(subject, *rest)

    monkeypatch.setattr(ENTRY, step, broken)


@pytest.mark.parametrize("rebuild", [reconstruct, streamed])
@pytest.mark.parametrize("step", ["read", "build"])
def test_one_broken_session_stops_no_other(
    rebuild: Callable[[Sequence[Span]], list[Session]],
    step: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fail_in(monkeypatch, step, "bad")
    good = [chat(0, ids={"session.id": "good"}), chat(1, ids={"session.id": "good"})]
    bad = [chat(0, start=7.0, ids={"session.id": "bad"})]
    with caplog.at_level(logging.DEBUG):
        sessions = rebuild([span for trace in (*good, *bad) for span in trace.spans])
    whole = next(s for s in sessions if s.turns)
    assert said(whole) == TURNS[:2]
    assert not whole.hints or whole.hints[0].code != "reconstruction_failed"
    (failed,) = [s for s in sessions if not s.turns]
    assert failed.trace_ids == (bad[0].trace_id,)
    assert [hint.code for hint in failed.hints] == ["reconstruction_failed"]
    assert SECRET not in caplog.text
    assert SECRET not in repr(failed)


def test_a_span_no_reader_can_identify_does_not_end_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_in(monkeypatch, "identify", "bad")
    fail_in(monkeypatch, "read", "bad")
    traces = [chat(0, ids={"session.id": "bad"}), chat(0, start=500.0, ids={"session.id": "good"})]
    sessions = streamed([span for trace in traces for span in trace.spans])
    assert sorted(len(s.turns) for s in sessions) == [0, 1]


def test_such_a_session_is_inconclusive_and_shown_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_in(monkeypatch, "build", "bad")
    (session,) = reconstruct(chat(0, ids={"session.id": "bad"}).spans)
    unit = audit_session(FactualDrift(), session, ScriptedJudge([]))
    assert (unit.outcome, unit.reason) == ("inconclusive", "reconstruction_failed")
    shown = printed(lambda console: print_session(console, session), terminal=False)
    assert "its spans could not be put together (ValueError)" in shown


@pytest.mark.parametrize("ids", [{"session.id": "bad"}, {}])
def test_a_value_nested_as_deeply_as_calls_may_be_stops_no_other_session(ids: dict[str, str]) -> None:
    """It is packed where there is room for as many calls, and read where there is not."""
    deep: list[object] = []
    for _ in range(sys.getrecursionlimit() * 3 // 5):
        deep = [deep]
    bad = chat(0, start=7.0, ids=ids)
    bad.spans[0] = dataclasses.replace(bad.spans[0], attributes={**bad.spans[0].attributes, "deep": deep})
    last = chat(0, start=9.0, ids={"session.id": "last"})
    with SpanSpool() as spool:
        sessions = stream([*chat(0, ids={"session.id": "first"}).spans, *bad.spans, *last.spans], spool)
        first = next(sessions)
        failed, other = called_deeply(sys.getrecursionlimit() // 2, lambda: list(sessions))
    assert [said(first), said(other)] == [TURNS[:1], TURNS[:1]]
    assert failed.trace_ids == (bad.trace_id,)
    assert failed.turns or failed.hints[0].code == "reconstruction_failed"  # later versions of Python allow for more


def called_deeply(depth: int, call: Callable[[], list[Session]]) -> list[Session]:
    return call() if depth == 0 else called_deeply(depth - 1, call)
