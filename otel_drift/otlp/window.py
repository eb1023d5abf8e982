"""A view on a stream of bytes that moves forward only and grows only as far as one value needs."""

from __future__ import annotations

import io
from collections.abc import Callable

CHUNK = 256 * 1024
"""Bytes that are held at once as a rule; more where a value is longer."""


class ByteWindow:
    """`data` holds what was read and not yet let go; `pos` is the next byte of it to look at.

    Refilling lets go of what lies before `pos` and reads into the same memory (which spares a copy, and asking the
    system for more), so positions and views of `data` are valid until the next `fill`.

    Args:
        readinto: fills what it is given from the beginning and says by how many bytes; 0 at the end.
        offset: where in the whole stream it begins.
        line: the line it begins on.
    """

    __slots__ = ("_counted", "_lines", "_offset", "_readinto", "data", "ended", "pos")

    def __init__(self, readinto: Callable[[memoryview], int], *, offset: int = 0, line: int = 1) -> None:
        self.data: bytes | bytearray = b""
        self.pos = 0
        self.ended = False
        self._readinto = readinto
        self._offset = offset
        self._lines = line
        self._counted = 0

    @classmethod
    def over(cls, data: bytes, *, offset: int = 0, line: int = 1) -> ByteWindow:
        """A window over bytes that are all there."""
        window = cls(io.BytesIO().readinto, offset=offset, line=line)
        window.data = data
        window.ended = True
        return window

    def fill(self) -> bool:
        """Read more; False at the end. Each call at least doubles what is unread, so looking again stays linear."""
        if self.ended:
            return False
        self._lines = self.line
        self._counted = 0
        self._offset += self.pos
        held = len(self.data) - self.pos
        size = CHUNK
        while size < 2 * held:
            size *= 2
        data = self.data if isinstance(self.data, bytearray) and len(self.data) == size else bytearray(size)
        filled = held
        with memoryview(data) as space:
            space[:held] = memoryview(self.data)[self.pos :]
            while filled < size and (count := self._readinto(space[filled:])):
                filled += count
        self.ended = filled < size
        del data[filled:]
        self.data = data
        self.pos = 0
        return filled > held

    def have(self, size: int) -> bool:
        """Whether `size` bytes are there from `pos` on, after reading as much as that takes."""
        while len(self.data) - self.pos < size:
            if not self.fill():
                return False
        return True

    def skip_in_line(self, size: int) -> None:
        """Go on by bytes that hold no line end, which spares looking for one."""
        self._lines = self.line
        self._counted += size
        self.pos += size

    @property
    def offset(self) -> int:
        """Where `pos` lies in the whole stream."""
        return self._offset + self.pos

    @property
    def line(self) -> int:
        """The line (from 1) `pos` lies on."""
        if self._counted < self.pos:
            self._lines += self.data.count(b"\n", self._counted, self.pos)
            self._counted = self.pos
        return self._lines

    def place(self, ahead: int = 0) -> str:
        """`pos` (and `ahead` bytes) for people: ``line 3, byte 1234``."""
        line = self.line + (self.data.count(b"\n", self.pos, self.pos + ahead) if ahead else 0)
        return f"line {line}, byte {self.offset + ahead}"

    def place_in_bytes(self) -> str:
        """`pos` in a stream that has no lines: ``byte 1234``."""
        return f"byte {self.offset}"
