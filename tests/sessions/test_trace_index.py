"""The index of traces: facts that come in parts come together, whatever ids and times they are of."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from otel_drift.errors import SourceError
from otel_drift.model import Span
from otel_drift.normalise import identify
from otel_drift.sessions import trace_index
from otel_drift.sessions.facts import Whose, unpacked
from otel_drift.sessions.trace_index import TraceIndex, trace_id_of

ROOT = Span("t", "1", None, "root", 50, 90, {"session.id": "late", "user.id": "ada"}, {"service.name": "bot"})
PARTS = (
    ROOT,
    Span("t", "2", "1", "early child", 10, 20, {"gen_ai.request.model": "m"}, {"service.name": "model server"}),
    Span("t", "3", "1", "child", 60, 99, {"session.id": "other", "user.id": "bo", "gen_ai.request.model": "m"}),
)  # fmt: skip


def rows(spans: list[Span]) -> list[tuple[str, int, int, Whose]]:
    with TraceIndex() as index:
        for span in spans:
            index.facts(span.trace_id).add(span, identify(span))
        index.settle()
        query = "SELECT id, start, end, packed FROM trace JOIN whose ON whose.number = whose ORDER BY trace.number"
        return [
            (trace_id_of(i), start, end, unpacked(packed)) for i, start, end, packed in index.database.execute(query)
        ]


@pytest.mark.parametrize("order", list(itertools.permutations(PARTS)))
def test_facts_that_come_in_parts_are_those_of_the_whole(
    order: tuple[Span, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another trace between any two spans: with one trace a batch each part is written on its own."""
    whole = rows(list(PARTS))
    monkeypatch.setattr(trace_index, "BATCH", 1)
    others = [dataclasses.replace(ROOT, trace_id=f"other {number}", start=1000 + number) for number in range(3)]
    apart = rows([span for pair in zip(order, others, strict=True) for span in pair])
    assert apart[:1] == whole
    [(_, start, end, whose)] = whole
    assert (start, end, whose.project) == (10, 99, "bot")
    assert (len(whose.sessions), whose.owners) == (1, (("user", "ada"), ("user", "bo")))


def test_traces_are_numbered_by_time_then_id() -> None:
    spans = [Span(trace, "1", None, "", start, start) for trace, start in (("b", 5), ("c", 1), ("a", 5), ("é", 5))]
    assert [trace for trace, *_ in rows(spans)] == ["c", "a", "b", "é"]


@pytest.mark.parametrize("trace_id", ["\ud800", "", "\0", "0" * 32])
def test_any_text_can_be_an_id_and_any_number_a_time(trace_id: str) -> None:
    [(found, start, end, _)] = rows([Span(trace_id, "1", None, "", 0, 2**64 - 1, {"session.id": "\ud800"})])
    assert (found, start, end) == (trace_id, 0, 2**63 - 1)


def test_a_disk_that_is_full_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_index, "BATCH", 100)
    with pytest.raises(SourceError, match="TMPDIR"):
        fill_disk()


def fill_disk() -> None:
    with TraceIndex() as index:
        index.database.execute("PRAGMA max_page_count = 10")
        for number in range(1000):
            index.facts(f"{number:032x}").add(ROOT, identify(ROOT))
