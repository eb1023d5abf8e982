"""Opens a file for reading, unpacks gzip as it goes, and stops at the limits."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path

from otel_drift.errors import RecordError
from otel_drift.otlp.limits import ReadLimits

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"

_RAW_CHUNK = 256 * 1024
_AUTO_GZIP = 31


class FileBytes:
    """The bytes of one regular file, unpacked if its content is gzip. Use as a context manager.

    `stopped` says, after the end, why reading ended before the file did (None if it did not).
    """

    def __init__(
        self,
        path: Path,
        limits: ReadLimits,
        *,
        follow_link: bool = True,
        on_bytes: Callable[[int], None] | None = None,
    ) -> None:
        """Open the file.

        Raises:
            RecordError: it cannot be opened, is no regular file, or is larger than the limit.
        """
        self.stopped: str | None = None
        self._limits = limits
        self._on_bytes = on_bytes
        self._unpacked = 0
        self._raw = 0
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        if not follow_link:
            flags |= getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(path, flags)
        except OSError as problem:
            raise RecordError(f"cannot be opened ({problem.strerror})", file=str(path)) from problem
        status = os.fstat(descriptor)
        reason = None
        if not stat.S_ISREG(status.st_mode):
            reason = "no regular file (a device, pipe or socket is not read)"
        elif status.st_size > limits.max_file_bytes:
            reason = f"{status.st_size} bytes, over the limit of {limits.max_file_bytes}"
        if reason:
            os.close(descriptor)
            raise RecordError(reason, file=str(path))
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self.size = status.st_size
        self._head = self._read_raw()
        self._inflate = zlib.decompressobj(_AUTO_GZIP) if self._head.startswith(GZIP) else None

    def __enter__(self) -> FileBytes:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def packed(self) -> bool:
        """Whether the file is gzip."""
        return self._inflate is not None

    def readinto(self, space: memoryview) -> int:
        """Fill `space` from its beginning; return by how many bytes: 0 at the end, or where `stopped` says why."""
        if self._inflate is None:
            head = self._head[: len(space)]
            if not head:
                return self._raw_into(space)
            self._head = self._head[len(head) :]
            space[: len(head)] = head
            return len(head)
        filled = 0
        while filled < len(space) and self.stopped is None:
            part = self._unpack(len(space) - filled)
            if part is None:
                break
            space[filled : filled + len(part)] = part
            filled += len(part)
        return filled

    def _unpack(self, size: int) -> bytes | None:
        """Up to `size` unpacked bytes, possibly none; None at the end."""
        assert self._inflate is not None
        if self._inflate.eof:  # gzip files may be several, one after the other
            rest = (self._inflate.unused_data or self._read_raw()).lstrip(b"\0")
            if not rest:
                return None
            if not rest.startswith(GZIP[:1]):
                self.stopped = "something follows the gzip data; it was skipped"
                return None
            self._inflate = zlib.decompressobj(_AUTO_GZIP)
            packed = rest
        else:
            packed = self._inflate.unconsumed_tail or self._take_head() or self._read_raw()
            if not packed:
                self.stopped = "the gzip data ends early; what came before was read"
                return None
        try:
            part = self._inflate.decompress(packed, size)
        except zlib.error as problem:
            self.stopped = f"broken gzip data ({problem}); what came before was read"
            return None
        self._unpacked += len(part)
        self._check_unpacked()
        return part

    def _check_unpacked(self) -> None:
        limits = self._limits
        if self._unpacked > limits.max_unpacked_bytes:
            self.stopped = f"unpacks to more than {limits.max_unpacked_bytes} bytes; the rest was not read"
        elif self._unpacked > limits.ratio_grace_bytes and self._unpacked > limits.max_ratio * self._raw:
            self.stopped = (
                f"unpacks to more than {limits.max_ratio} times its size (a zip bomb?); the rest was not read"
            )

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        return head

    def _read_raw(self) -> bytes:
        chunk = bytearray(_RAW_CHUNK)
        del chunk[self._raw_into(memoryview(chunk)) :]
        return bytes(chunk)

    def _raw_into(self, space: memoryview) -> int:
        try:
            size = self._file.readinto(space) or 0
        except OSError as problem:
            self.stopped = f"cannot be read on ({problem.strerror})"
            return 0
        self._raw += size
        if self._raw > self._limits.max_file_bytes:
            self.stopped = f"grew beyond the limit of {self._limits.max_file_bytes} bytes while it was read"
            return 0
        if self._on_bytes is not None:
            self._on_bytes(size)
        return size
