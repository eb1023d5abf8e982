"""Source ``otlp-file``: OTLP JSON and protobuf and MLflow trace JSON from files, folders and globs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from otel_drift.errors import RecordError, SourceError
from otel_drift.model import Record, Span
from otel_drift.otlp.json_walk import JsonWalk
from otel_drift.otlp.limits import ProblemLog, ReadLimits
from otel_drift.otlp.paths import input_files
from otel_drift.otlp.protobuf_walk import ProtobufWalk, looks_length_prefixed, looks_like_protobuf
from otel_drift.otlp.unpacking import GZIP, ZSTD, FileBytes
from otel_drift.otlp.values import Decoding
from otel_drift.otlp.window import ByteWindow
from otel_drift.protocols import Window

PAGE = 16
"""Records a page: few enough to stay in the processor's cache until they are used."""

_BOM = b"\xef\xbb\xbf"
_HEAD = 64 * 1024
_JSON = re.compile(rb'\s*(?:\{\s*(?:\}|"[^"\x00-\x1f]*"\s*:)|\[\s*(?:[\[{\]"\d-]|true|false|null))')
_JSON_LATER = re.compile(rb'\{\s*"(?:resource(?:Spans|Logs|_spans|_logs)|info)"\s*:')


class OtlpFileSource:
    """Reads spans and log records from files, whatever their names say they hold.

    A broken record or file is counted, named in `problems` (the first `ReadLimits.max_problems` of them) and told to
    `on_problem`; the rest goes on.

    Args:
        paths: files, folders (searched for telemetry files) and globs.
        limits: what is accepted.
        on_problem: told of every problem.
        on_progress: told of the bytes read so far and in all, as they lie on disk.
    """

    name = "otlp-file"

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        limits: ReadLimits = ReadLimits(),
        on_problem: Callable[[RecordError], None] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.span_count = 0
        self.log_count = 0
        self._paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
        self._limits = limits
        self._log = ProblemLog(limits, on_problem)
        self._on_progress = on_progress
        self._done = 0
        self._total = 0

    @property
    def problems(self) -> list[RecordError]:
        """The first problems, each with file, record and reason."""
        return self._log.kept

    @property
    def problem_count(self) -> int:
        """How many problems there were in all."""
        return self._log.count

    @property
    def own_results(self) -> int:
        """How many of otel-drift's own results lay among the input and were passed over; they are no problem."""
        return self._log.own_results

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """Yield pages of records in the order of the files. Files are read whole: cursor and window mean nothing here.

        Raises:
            SourceError: a path does not exist, a glob or folder holds nothing, or no file can be opened.
        """
        self.span_count = self.log_count = self._done = 0
        self._log.clear()
        files = input_files(self._paths)
        self._total = sum(_size(file.path) for file in files)
        opened = 0
        page: list[Record] = []
        for file in files:
            self._log.named = file.named
            self._log.file = os.fsencode(file.path).decode(errors="replace")
            try:
                stream = FileBytes(file.path, self._limits, follow_link=file.named, on_bytes=self._progress)
            except RecordError as problem:
                self._log.report(problem.reason)
                continue
            opened += 1
            with stream:
                for records in self._records(stream):
                    page += records
                    if len(page) >= PAGE:
                        yield self._counted(page), None
                        page = []
                if stream.stopped:
                    self._log.report(stream.stopped)
        if page:
            yield self._counted(page), None
        if not opened:
            first = self.problems[0] if self.problems else "nothing to read"
            raise SourceError(f"none of the {len(files)} input files can be read: {first}")

    def _records(self, stream: FileBytes) -> Iterator[list[Record]]:
        window = ByteWindow(stream.readinto)
        window.have(_HEAD)
        head = bytes(window.data[:_HEAD])
        decoding = Decoding(self._limits, self._log)
        if head.startswith(_BOM):
            window.pos = len(_BOM)
            head = head[len(_BOM) :]
        if not head.strip():
            if stream.stopped:
                self._log.report("nothing could be unpacked")
            else:
                self._log.report("empty file", lost=False)
        elif _JSON.match(head):
            yield from JsonWalk(window, decoding).records()
        elif looks_like_protobuf(head):
            yield from ProtobufWalk(window, decoding).records()
        elif looks_length_prefixed(head):
            yield from ProtobufWalk(window, decoding, prefixed=True).records()
        elif _JSON_LATER.search(head):
            yield from JsonWalk(window, decoding).records()
        else:
            self._log.no_telemetry(_unknown(head))

    def _counted(self, page: list[Record]) -> list[Record]:
        spans = [type(record) for record in page].count(Span)
        self.span_count += spans
        self.log_count += len(page) - spans
        return page

    def _progress(self, size: int) -> None:
        self._done += size
        if self._on_progress is not None:
            self._on_progress(self._done, max(self._total, self._done))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _unknown(head: bytes) -> str:
    if head.startswith(ZSTD) or head[4:8] == ZSTD:
        return "zstd-compressed; unpack it first (or let the Collector's file exporter write without compression)"
    if head.startswith(GZIP):
        return "gzip inside gzip is not read; unpack it once"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text; OTLP JSON is UTF-8"
    return "neither OTLP JSON, OTLP protobuf nor an MLflow trace begins here"
