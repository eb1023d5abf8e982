"""What is accepted from outside, and where what is not accepted gets counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from otel_drift.errors import RecordError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits for files and receivers alike (DESIGN: untrusted input). Sizes are bytes unless said otherwise.

    Beyond a file limit the file is left there and what came before counts; beyond a record limit the record is
    skipped, or, for `max_text`, `max_attributes` and `max_events`, cut. Each case is counted as a problem.
    """

    max_file_bytes: int = 256 * 1024 * MIB
    """Of one file as it lies on disk."""
    max_unpacked_bytes: int = 1024 * 1024 * MIB
    """Of one file after decompression."""
    max_ratio: int = 250
    """Bytes after decompression for one before; traces with resent histories reach about 60."""
    ratio_grace_bytes: int = 64 * MIB
    """Unpacked size up to which the ratio does not matter."""
    max_record_bytes: int = 32 * MIB
    """Of one span or log record (in MLflow's format: of one trace) as it was sent."""
    max_held_bytes: int = 8 * MIB
    """Of records kept waiting for a resource or scope that comes after them in the document."""
    max_depth: int = 64
    """Nested lists and maps in one attribute value."""
    max_text: int = MIB
    """Characters of one text; longer ones are cut and the attribute ``otel_drift.truncated`` names them."""
    max_attributes: int = 20_000
    """Of one span, event, log record, resource, or map inside an attribute."""
    max_events: int = 10_000
    """Of one span."""
    max_problems: int = 100
    """Problems kept with their text; all are counted."""


class ProblemLog:
    """Counts broken input and keeps the first cases. `file` is the name under which they are reported."""

    def __init__(
        self, limits: ReadLimits, on_problem: Callable[[RecordError], None] | None = None, file: str = ""
    ) -> None:
        self.file = file
        self.kept: list[RecordError] = []
        self.count = 0
        self.named = True
        """Whether the user named the file; one found in a folder may be there for something else."""
        self.own_results = 0
        """Results of otel-drift's own (a ``jsonl`` sink in an input folder) that were passed over."""
        self._limits = limits
        self._on_problem = on_problem

    def clear(self) -> None:
        """Start again."""
        self.kept.clear()
        self.count = self.own_results = 0

    def report(self, reason: str, record: str = "", *, lost: bool = True) -> None:
        """Count one problem of the current file.

        Args:
            reason: what is wrong.
            record: which record: a line, a byte, an ordinal.
            lost: whether something was passed over that should have been read.
        """
        problem = RecordError(reason, file=self.file, record=record, lost=lost)
        self.count += 1
        if len(self.kept) < self._limits.max_problems:
            self.kept.append(problem)
        if self._on_problem is not None:
            self._on_problem(problem)

    def no_telemetry(self, reason: str, record: str = "") -> None:
        """Count a document that is no telemetry: something is lost only where the user named its file."""
        self.report(reason, record, lost=self.named)
