"""The sink ``jsonl``: whole lines, each once, private, whatever happens in between."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_samples import annotation
from otel_drift.errors import ConfigError, SinkError
from otel_drift.passage_mark import PassageMark
from otel_drift.protocols import Sink
from otel_drift_connectors.jsonl import JsonlSink


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def records(file: Path) -> list[dict[str, Any]]:
    assert file.read_bytes().endswith(b"\n")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_record_says_everything(file: Path) -> None:
    one = annotation(1, metadata={"severity": "MAJOR", "confidence": 0.9})

    report = JsonlSink(str(file)).write([one])

    assert report.written == (one.id,)
    (record,) = records(file)
    assert next(iter(record)) == "otel_drift.result.id"
    assert record == {
        "otel_drift.result.id": one.id,
        "revision": 1,
        "name": "factual_drift",
        "target": "span",
        "trace_id": one.trace_id,
        "span_id": one.span_id,
        "session_id": "s1",
        "label": "MAJOR",
        "score": 0.7,
        "explanation": one.explanation,
        "audit": "factual_drift",
        "start": one.start,
        "end": one.end,
        "error_type": None,
        "withdrawn": False,
        "environment": None,
        "links": list(one.links),
        "metadata": {"severity": "MAJOR", "confidence": 0.9},
    }


def test_a_record_names_the_passages_it_concerns(file: Path) -> None:
    mark = PassageMark("t:s", "doc-1", "ab", "MAJOR", "Possible undisclosed conflict with doc-2.")

    JsonlSink(str(file)).write([annotation(1, passages=(mark,))])

    assert records(file)[0]["passages"] == [
        {"span_ref": "t:s", "passage_id": "doc-1", "text_sha256": "ab", "label": "MAJOR",
         "explanation": "Possible undisclosed conflict with doc-2."}
    ]  # fmt: skip


def test_it_is_a_sink_with_an_absolute_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    sink = JsonlSink("out.jsonl")

    assert isinstance(sink, Sink)
    assert sink.name == f"jsonl:{file}"
    assert not file.exists()


def test_only_the_owner_may_read_it(file: Path) -> None:
    before = os.umask(0)
    try:
        JsonlSink(str(file)).write([annotation()])
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_in_the_file_is_not_written_again(file: Path) -> None:
    first, second = annotation(1), annotation(2)
    JsonlSink(str(file)).write([first])

    report = JsonlSink(str(file)).write([first, second, second])

    assert (report.written, report.unchanged) == ((second.id,), (first.id, second.id))
    assert [record["otel_drift.result.id"] for record in records(file)] == [first.id, second.id]


def test_revisions_and_withdrawals_are_appended(file: Path) -> None:
    sink = JsonlSink(str(file))
    for one in (annotation(1), annotation(1, revision=2), annotation(1, revision=3, withdrawn=True, score=None)):
        sink.write([one])

    assert [(r["revision"], r["withdrawn"]) for r in records(file)] == [(1, False), (2, False), (3, True)]


def test_a_new_ledger_that_says_something_else_under_an_old_revision_is_heard(file: Path) -> None:
    JsonlSink(str(file)).write([annotation(1)])

    assert JsonlSink(str(file)).write([annotation(1, label="MINOR")]).written


@pytest.mark.parametrize("cut", [1, 10, 25, 100, -2, -1])
def test_half_a_last_line_is_repaired(file: Path, cut: int) -> None:
    JsonlSink(str(file)).write([annotation(1), annotation(2)])
    whole = file.read_bytes()
    start = whole.index(b"\n") + 1
    file.write_bytes(whole[: start + cut] if cut > 0 else whole[:cut])

    JsonlSink(str(file)).write([annotation(1), annotation(2), annotation(3)])

    ids = [record["otel_drift.result.id"] for record in records(file)]
    assert ids == [annotation(n).id for n in (1, 2, 3)]


def test_a_foreign_file_is_left_alone(file: Path) -> None:
    file.write_text("name;amount\nhalf a li")

    with pytest.raises(SinkError, match="no record of otel-drift"):
        JsonlSink(str(file)).write([annotation()])

    assert file.read_text() == "name;amount\nhalf a li"


def test_a_file_replaced_or_emptied_meanwhile_gets_everything_again(file: Path) -> None:
    sink = JsonlSink(str(file))
    sink.write([annotation(1)])
    file.unlink()
    assert sink.write([annotation(1)]).written
    file.write_bytes(b"")
    assert sink.write([annotation(1)]).written
    assert len(records(file)) == 1


def test_two_sinks_on_one_file_never_mix_or_double(file: Path) -> None:
    many = [annotation(n) for n in range(200)]

    def write(_: int) -> int:
        sink = JsonlSink(str(file))
        return sum(len(sink.write(many[start : start + 10]).written) for start in range(0, 200, 10))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(write, range(4))) == 200
    assert len({record["otel_drift.result.id"] for record in records(file)}) == len(records(file)) == 200


def test_a_full_disk_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = JsonlSink(str(file))
    sink.write([annotation(1)])
    before = file.read_bytes()
    real = os.write

    def short(handle: int, data: bytes) -> int:
        if len(data) > 100:
            return real(handle, data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(SinkError, match=r"out\.jsonl cannot be written: No space left"):
        sink.write([annotation(2)])
    monkeypatch.undo()

    assert file.read_bytes() == before
    assert sink.write([annotation(1), annotation(2)]).written == (annotation(2).id,)


def test_an_interrupt_in_the_middle_loses_and_doubles_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = JsonlSink(str(file))
    real = os.write

    def interrupted(handle: int, data: bytes) -> int:
        real(handle, data[:700])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sink.write([annotation(1), annotation(2)])
    monkeypatch.undo()

    assert len(sink.write([annotation(1), annotation(2)]).written) == len(records(file)) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_device_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        JsonlSink("/dev/full")


@pytest.mark.parametrize(
    ("path", "said"), [("", "needs a file"), ("missing/out.jsonl", "does not exist"), (".", "not")]
)
def test_a_wrong_path_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        JsonlSink(path)


@given(st.text(), st.dictionaries(st.text(), st.floats() | st.integers() | st.text()))
def test_any_text_is_one_line_of_json(tmp_path_factory: pytest.TempPathFactory, text: str, metadata: Any) -> None:
    file = tmp_path_factory.mktemp("any") / "out.jsonl"
    one = annotation(1, explanation=text + "\ud800\n\0", session_id=text, metadata=metadata)

    JsonlSink(str(file)).write([one, replace(one, revision=2)])

    assert len(file.read_bytes().splitlines()) == file.read_bytes().count(b"\n") == 2
    assert records(file)[0]["session_id"] == text


def test_importing_it_imports_no_vendor() -> None:
    code = (
        "import sys, otel_drift_connectors.jsonl; print([m for m in sys.modules if m.startswith(('opentel', 'sqlal'))])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"
