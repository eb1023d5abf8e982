"""The conformance checks pass good connectors and fail bad ones; ours that need no server pass them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otel_drift.errors import ConfigError, SinkError
from otel_drift.model import Annotation, Rejection, WriteReport
from otel_drift.protocols import Window
from otel_drift.testing import (
    MemorySink,
    MemorySource,
    SinkCase,
    SourceCase,
    check_sink,
    check_source,
    sample_annotations,
    sample_spans,
)
from otel_drift.testing.sinks import Place, place
from otel_drift_connectors.jsonl import JsonlSink

SPANS = sample_spans(sessions=3)
SECOND = 10**9


def source_case(make: Callable[[], Any] = lambda: MemorySource(SPANS), **changes: Any) -> SourceCase:
    sessions: dict[str, list[str]] = {}
    for span in SPANS:
        sessions.setdefault(span.attributes["gen_ai.conversation.id"], []).append(span.ref)
    last = [span for span in SPANS if span.attributes["gen_ai.conversation.id"] == "session-3"]
    window = Window(last[4].start, last[-1].end + 1)
    return SourceCase(make, window, {"session-3": sessions["session-3"]}, elsewhere=["session-1"], **changes)


def test_a_good_source_passes() -> None:
    def unauthorised() -> Any:
        raise ConfigError("memory: refused the credentials (401); set MEMORY_KEY")

    check_source(source_case(broken={"wrong key": unauthorised}, secrets=["s3cret"]))


class _OnlyTheWindow(MemorySource):
    def read(self, cursor: str | None = None, window: Window | None = None) -> Any:
        for page, after in super().read(cursor, window):
            inside = [span for span in page if window is None or window.since <= span.start < window.until]  # type: ignore[union-attr]
            yield inside, after


class _ForgetsItsCursor(MemorySource):
    def read(self, cursor: str | None = None, window: Window | None = None) -> Any:
        for page, _ in super().read(None, window):
            if cursor is None:
                for span in page:
                    yield [span], span.span_id  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: _OnlyTheWindow(SPANS), "spans are lost"),
        (lambda: _ForgetsItsCursor(SPANS), "after the cursor"),
        (lambda: MemorySource([replace(span, span_id=span.span_id.upper()) for span in SPANS]), "lost"),
        (lambda: MemorySource(SPANS, name="memory s3cret"), "secret"),
    ],
)
def test_a_bad_source_fails(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_source(source_case(make, secrets=["s3cret"]))


def test_a_source_that_hides_or_unmarks_our_own_output_fails() -> None:
    marked = [
        replace(span, attributes={**span.attributes, "otel_drift.result.id": "r1"})
        if number == len(SPANS) - 1
        else span
        for number, span in enumerate(SPANS)
    ]
    own = {SPANS[-1].ref: "r1"}

    check_source(source_case(lambda: MemorySource(marked), own=own))
    with pytest.raises(AssertionError, match="lost its mark"):
        check_source(source_case(own=own))


def test_an_error_that_does_not_come_is_missed() -> None:
    with pytest.raises(AssertionError, match="wrong key: no error"):
        check_source(source_case(broken={"wrong key": lambda: MemorySource(SPANS)}))


class _Platform:
    """What several sinks share, as processes share a platform."""

    def __init__(self) -> None:
        self.values: dict[str, Annotation] = {}
        self.failing = False

    def standing(self) -> Iterator[tuple[Place, str]]:
        return ((place(one), one.label) for one in self.values.values())

    @contextmanager
    def down(self) -> Iterator[None]:
        self.failing = True
        yield
        self.failing = False


class _Sink(MemorySink):
    def __init__(self, platform: _Platform) -> None:
        super().__init__()
        self.platform = platform
        self.values = platform.values

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        if self.platform.failing:
            raise SinkError("memory is down")
        refused = [one for one in annotations if one.name == "refused"]
        report = super().write([one for one in annotations if one.name != "refused"])
        return replace(report, rejected=tuple(Rejection(one.id, "a name it does not take") for one in refused))


def sink_case(kind: type[_Sink] = _Sink) -> SinkCase:
    platform = _Platform()
    annotations = sample_annotations(SPANS)
    return SinkCase(
        lambda: kind(platform),
        annotations,
        platform.standing,
        failing={"an outage": platform.down},
        refused=replace(annotations[0], id="r" * 32, name="refused"),
    )


def test_a_good_sink_passes() -> None:
    check_sink(sink_case())


class _Doubles(_Sink):
    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        report = super().write(annotations)
        for one in annotations:
            self.values[f"{one.id}{len(self.values)}"] = one
        return report


class _KeepsWithdrawn(_Sink):
    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        report = super().write([one for one in annotations if not one.withdrawn])
        return replace(report, written=(*report.written, *(one.id for one in annotations if one.withdrawn)))


class _LosesWhenDown(_Sink):
    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        if self.platform.failing:
            return WriteReport(written=tuple(one.id for one in annotations))
        return super().write(annotations)


class _OneBadApple(_Sink):
    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        if any(one.name == "refused" for one in annotations):
            return WriteReport(rejected=tuple(Rejection(one.id, "no") for one in annotations))
        return super().write(annotations)


class _KeepsTheFirst(_Sink):
    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        first = {one.id: one for one in reversed(annotations)}
        return super().write(list(first.values()))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (_KeepsTheFirst, "after two revisions in one delivery"),
        (_Doubles, "more than one value"),
        (_KeepsWithdrawn, "still there"),
        (_LosesWhenDown, "after an outage"),
        (_OneBadApple, "takes others with it"),
    ],
)
def test_a_bad_sink_fails(kind: type[_Sink], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_sink(sink_case(kind))


def test_jsonl_passes(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"

    def standing() -> Iterator[tuple[Place, str]]:
        highest: dict[str, dict[str, Any]] = {}
        seen: list[tuple[str, int]] = []
        for line in file.read_text().splitlines():
            record = json.loads(line)
            key = record["otel_drift.result.id"]
            seen.append((key, record["revision"]))
            if record["revision"] >= highest.get(key, {"revision": 0})["revision"]:
                highest[key] = record
        assert len(seen) == len(set(seen)), "a record stands twice"
        for record in highest.values():
            ids = {
                "span": f"{record['trace_id']}:{record['span_id']}",
                "trace": record["trace_id"],
                "session": record["session_id"],
            }
            if not record["withdrawn"]:
                yield (record["target"], ids[record["target"]], record["name"]), record["label"]

    check_sink(
        SinkCase(
            lambda: JsonlSink(str(file)),
            sample_annotations(SPANS),
            standing,
            broken={"no folder": lambda: JsonlSink(str(tmp_path / "missing" / "x.jsonl"))},
        )
    )
