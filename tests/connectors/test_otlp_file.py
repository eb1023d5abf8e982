"""The file source: any mixture of files, what is wrong with them, progress, and bounded memory."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from otel_drift.errors import RecordError, SourceError
from otel_drift.model import Annotation, Span
from otel_drift.otlp import ReadLimits
from otel_drift.protocols import Source
from otel_drift.spool import SpanSpool
from otel_drift_connectors.jsonl import JsonlSink
from otel_drift_connectors.otlp_file import OtlpFileSource
from otlp.samples import (
    attribute,
    dumped,
    log,
    log_request,
    protobuf,
    read,
    request,
    span,
    span_id,
    spans_of,
    with_reversed_keys,
)


def test_it_is_a_source_by_the_name_the_entry_point_has() -> None:
    from otel_drift.plugins import load

    assert isinstance(OtlpFileSource(["x"]), Source)
    assert OtlpFileSource.name == "otlp-file"
    assert load("sources", "otlp-file") is OtlpFileSource


def test_its_own_results_among_the_input_are_no_problem(tmp_path: Path) -> None:
    """A ``jsonl`` sink in the folder that is audited: passed over and counted, whatever else is broken."""
    annotations = [
        Annotation(f"r{n}", 1, "drift", "session", None, None, "s", "clean", 0.0, "x" * 3000, "factual_drift", 1, 2)
        for n in range(40)
    ]
    JsonlSink(str(tmp_path / "findings.jsonl")).write(annotations)
    (tmp_path / "traces.json").write_bytes(dumped(request(span(1))))
    source = OtlpFileSource([tmp_path])
    for _ in range(2):
        assert [r.name for page, _ in source.read() for r in page if isinstance(r, Span)] == ["span 1"]
        assert (source.span_count, source.own_results, source.problem_count) == (1, 40, 0)
    (tmp_path / "other.json").write_bytes(b'{"something": "else"}')
    assert len([page for page, _ in source.read()]) == 1
    assert (source.own_results, source.problem_count) == (40, 1)


def test_spans_and_their_log_records_meet_from_any_file_and_format(tmp_path: Path) -> None:
    (tmp_path / "a.logs.json").write_bytes(dumped(log_request(log(1), log(2, time=5))))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(dumped(request(span(2, parent=1)))))
    (tmp_path / "c.pb").write_bytes(protobuf(request(span(1))))
    (tmp_path / "d.log.pb").write_bytes(protobuf(log_request(log(2, time=3))))
    source = OtlpFileSource([tmp_path])
    with SpanSpool() as spool:
        for page, cursor in source.read():
            assert cursor is None
            for record in page:
                spool.add(record)
        [trace_id] = spool.trace_ids()
        first, second = spool.load(trace_id)
    assert (source.span_count, source.log_count, source.problem_count) == (2, 3, 0)
    assert [len(first.logs), len(second.logs)] == [1, 2]
    assert [record.time for record in second.logs] == sorted(record.time for record in second.logs)


def test_files_without_telemetry_in_a_folder_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text('{"conversation": "telecom", "turns": [{"user": "hello"}]}')
    (tmp_path / "list.json").write_text('["a", "b"]')
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "blank.json").write_text(" \n\n")
    (tmp_path / "noise.pb").write_bytes(bytes(range(255, 0, -1)))
    (tmp_path / "picture.json").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (tmp_path / "wide.json").write_text('{"resourceSpans":[]}', encoding="utf-16")
    (tmp_path / "spans.json").write_bytes(dumped(request(span(1))))
    records, source = read(tmp_path)
    assert [record.span_id for record in spans_of(records)] == [span_id(1)]
    assert {Path(problem.file).name for problem in source.problems} == {
        "labels.json", "list.json", "empty.json", "blank.json", "noise.pb", "picture.json", "wide.json",
    }  # fmt: skip
    assert all(problem.reason for problem in source.problems)


def test_pages_are_small_and_problems_are_told_as_they_come(tmp_path: Path) -> None:
    items = [span(number) for number in range(1000)]
    items[500] = span(500, traceId="x")
    (tmp_path / "a.json").write_bytes(dumped(request(*items)))
    told: list[RecordError] = []
    source = OtlpFileSource([str(tmp_path / "a.json")], on_problem=told.append)
    pages = [len(page) for page, _ in source.read()]
    assert sum(pages) == 999
    assert max(pages) < 300
    assert told == source.problems
    assert "record 501" in str(told[0])
    assert str(tmp_path / "a.json") in str(told[0])


def test_progress_goes_from_nothing_to_all_bytes(tmp_path: Path) -> None:
    for number in range(3):
        data = b"\n".join(dumped(request(span(n, attributes=[]))) for n in range(number * 2000, number * 2000 + 2000))
        (tmp_path / f"{number}.json").write_bytes(gzip.compress(data, 1) if number == 1 else data)
    steps: list[tuple[int, int]] = []
    source = OtlpFileSource([tmp_path], on_progress=lambda done, total: steps.append((done, total)))
    for _ in source.read():
        pass
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert steps == sorted(steps)
    assert steps[-1] == (total, total)
    assert len(steps) >= 3


def test_a_file_that_cannot_be_read_is_a_problem_as_long_as_another_can(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "spans.json").write_bytes(dumped(request(span(1))))
    records, source = read(tmp_path)
    assert len(records) == 1
    assert "no regular file" in source.problems[0].reason
    with pytest.raises(SourceError, match="none of the 1 input files"):
        read(tmp_path / "pipe.json")
    records, source = read(tmp_path / "pipe.json", tmp_path / "spans.json")
    assert len(records) == 1


@contextmanager
def _without_privileges() -> Iterator[None]:
    """Root may read everything, so be somebody else for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_files_and_folders_without_permission_are_problems() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "in" / "locked").mkdir(parents=True)
        for path in (folder / "in" / "locked.json", folder / "in" / "open.json", folder / "in" / "locked" / "a.json"):
            path.write_bytes(dumped(request(span(1))))
        (folder / "in" / "locked.json").chmod(0)
        (folder / "in" / "locked").chmod(0)
        with _without_privileges():
            records, source = read(folder / "in")
            with pytest.raises(SourceError, match=r"none of the 1 input files.*cannot be opened"):
                read(folder / "in" / "locked.json")
            with pytest.raises(SourceError, match=r"none of the 1 input files.*cannot be opened"):
                read(folder / "in" / "locked")
        assert len(records) == 1
        assert [Path(problem.file).name for problem in source.problems] == ["locked", "locked.json"]
        (folder / "in" / "locked").chmod(0o755)


def test_what_does_not_exist_is_an_error_that_names_it(tmp_path: Path) -> None:
    for missing in ("nowhere.json", "*.json", "folder"):
        if missing == "folder":
            (tmp_path / missing).mkdir()
        with pytest.raises(SourceError, match=r"folder|no such|no file matches") as caught:
            list(OtlpFileSource([tmp_path / missing]).read())
        assert str(tmp_path / missing) in str(caught.value)


def test_the_same_file_by_path_link_and_folder_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_bytes(dumped(request(span(1))))
    (tmp_path / "link.json").symlink_to(tmp_path / "in" / "a.json")
    records, _ = read(tmp_path / "in" / "a.json", tmp_path / "link.json", tmp_path / "in", tmp_path / "in" / "*.json")
    assert len(records) == 1


def test_reading_again_starts_again(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(dumped(request(span(1), span(2, traceId="x"))))
    source = OtlpFileSource([tmp_path])
    first, second = [list(source.read()) for _ in range(2)]
    assert first == second
    assert (source.span_count, source.problem_count, len(source.problems)) == (1, 1, 1)


def test_limits_apply_to_each_file(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_bytes(dumped(request(*[span(number) for number in range(10)])))
    (tmp_path / "small.json").write_bytes(dumped(request(span(1))))
    records, source = read(tmp_path, limits=ReadLimits(max_file_bytes=1000))
    assert len(records) == 1
    assert "over the limit of 1000" in source.problems[0].reason


_MEASURE = """
import sys
from pathlib import Path
from otel_drift.model import Annotation, Span
from otel_drift.otlp import ReadLimits
from otel_drift.spool import SpanSpool
from otel_drift_connectors.jsonl import JsonlSink
from otel_drift_connectors.otlp_file import OtlpFileSource
source = OtlpFileSource([sys.argv[1]], limits=ReadLimits(max_held_bytes=100_000))
with SpanSpool(1 << 20) as spool:
    for page, _ in source.read():
        for record in page:
            spool.add(record)
    loaded = sum(len(spool.load(trace_id)) for trace_id in spool.trace_ids())
status = Path("/proc/self/status").read_text()  # getrusage would count the parent's memory before exec
print(loaded, source.problem_count, status.split("VmHWM:")[1].split()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc to measure memory")
@pytest.mark.parametrize("shape", ["one document", "one document, resource last", "lines", "protobuf"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, shape: str, packed: bool) -> None:
    """Ten times the spans in one document take no more memory, whatever its form."""
    peaks = []
    for count in (500, 5000):
        text = "word " * 1000
        spans = [
            span(n, traceId=f"{n // 5 + 1:032x}", attributes=[attribute("text", f"{n} {text}")]) for n in range(count)
        ]
        if shape == "one document, resource last":
            data = dumped(with_reversed_keys(request(*spans)))
        elif shape == "one document":
            data = dumped(request(*spans))
        elif shape == "lines":
            data = b"\n".join(dumped(request(*spans[n : n + 50])) for n in range(0, count, 50))
        else:
            data = protobuf(request(*spans))
        path = tmp_path / f"{count}"
        path.write_bytes(gzip.compress(data, 1) if packed else data)
        run = subprocess.run([sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True)
        loaded, problems, peak = map(int, run.stdout.split())
        assert loaded == count
        assert problems in (0, 2), "where resource and scope come last, too late for most"
        peaks.append(peak)
    assert peaks[1] <= 1.3 * peaks[0]
