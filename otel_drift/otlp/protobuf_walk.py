"""Walks OTLP protobuf of any size: the outer messages by hand, each span or log record by the protobuf library."""

from __future__ import annotations

from collections.abc import Iterator

from otel_drift.model import Record
from otel_drift.otlp.envelope import Envelope
from otel_drift.otlp.protobuf import record_from_protobuf, resource_from_protobuf, scope_from_protobuf
from otel_drift.otlp.records import Signal
from otel_drift.otlp.values import Decoding
from otel_drift.otlp.window import ByteWindow

PAGE = 16

_VARINT, _FIXED64, _LEN, _FIXED32 = 0, 1, 2, 5
_RESOURCE_ENTRIES = 1
_RESOURCE = 1
_SCOPE_ENTRIES = (2, 1000)  # 1000: instrumentation_library_spans of OTLP before 0.15
_SCOPE = 1
_RECORDS = 2
_LOG_FIRST_TAGS = frozenset((0x09, 0x10, 0x1A, 0x2A, 0x32, 0x3A, 0x45, 0x4A, 0x52, 0x59, 0x62))
"""Tags a LogRecord can begin with and a Span cannot: it begins with its trace id (0x0A)."""
_PREFIX = 4
_BARREN = 100_000
"""So many fields without a record between them are no telemetry, and would keep a reader busy for long."""


class _BrokenError(Exception):
    """The wire format ends or makes no sense here."""


def looks_like_protobuf(head: bytes) -> bool:
    """Whether a file that begins so is an OTLP request in protobuf: a resource entry with a field known there."""
    try:
        window = ByteWindow.over(head)
        if window.data[:1] != b"\x0a":
            return False
        window.pos = 1
        length = _varint(window)
        inner = window.data[window.pos : window.pos + 1]
        return length == 0 or inner in (b"\x0a", b"\x12", b"\x1a", b"\xc2")
    except _BrokenError:
        return False


def looks_length_prefixed(head: bytes) -> bool:
    """Whether a file that begins so is the Collector's ``format: proto``: a 4-byte big-endian length, then a request.

    A request that is not prefixed begins with 0x0A, which as a length's first byte would mean over 160 MB.
    """
    return head[:1] != b"\x0a" and looks_like_protobuf(head[_PREFIX:])


class ProtobufWalk:
    """One walk over one stream: requests one after the other (merged, as protobuf has it) or length-prefixed.

    Without `signal` each record is taken for what it begins like.
    """

    def __init__(
        self, window: ByteWindow, decoding: Decoding, *, prefixed: bool = False, signal: Signal | None = None
    ) -> None:
        self._window = window
        self._decoding = decoding
        self._envelope = Envelope(decoding)
        self._prefixed = prefixed
        self._signal = signal
        self._ordinal = 0
        self._barren = 0
        decoding.careful = True

    def records(self) -> Iterator[list[Record]]:
        """Yield the records in small lists, as they come; broken ones are counted."""
        try:
            while self._window.have(1):
                end = self._frame_end() if self._prefixed else None
                for _ in self._request(end):
                    if len(self._envelope.ready) >= PAGE:
                        yield self._envelope.take()
                if end is not None:
                    self._skip_to(end)
        except _BrokenError as problem:
            self._decoding.log.report(f"{problem}; what came before was read", self._window.place_in_bytes())
        self._envelope.close_resource()
        if self._envelope.ready:
            yield self._envelope.take()

    def _frame_end(self) -> int:
        if not self._window.have(_PREFIX):
            raise _BrokenError("the file ends in a length")
        length = int.from_bytes(self._take(_PREFIX), "big")
        return self._window.offset + length

    def _request(self, end: int | None) -> Iterator[None]:
        for field, stop in self._fields(end, "request"):
            if field == _RESOURCE_ENTRIES:
                self._envelope.open_resource()
                yield from self._resource_entry(stop)
                self._envelope.close_resource()
                yield

    def _resource_entry(self, end: int) -> Iterator[None]:
        for field, stop in self._fields(end, "resource entry"):
            if field == _RESOURCE:
                self._decoding.where = self._window.place_in_bytes()
                self._envelope.set_resource(resource_from_protobuf(self._message(stop), self._decoding))
            elif field in _SCOPE_ENTRIES:
                self._envelope.open_scope()
                yield from self._scope_entry(stop)
                self._envelope.close_scope()

    def _scope_entry(self, end: int) -> Iterator[None]:
        for field, stop in self._fields(end, "scope entry"):
            if field == _SCOPE:
                self._decoding.where = self._window.place_in_bytes()
                self._envelope.set_scope(scope_from_protobuf(self._message(stop), self._decoding))
            elif field == _RECORDS:
                self._record(stop)
                yield

    def _record(self, end: int) -> None:
        envelope, decoding = self._envelope, self._decoding
        self._ordinal += 1
        self._barren = 0
        size = end - self._window.offset
        if size > decoding.limits.max_record_bytes:
            decoding.log.report(
                f"record of {size} bytes, over the limit of {decoding.limits.max_record_bytes}",
                self._window.place_in_bytes(),
            )
            return
        decoding.where = f"{self._window.place_in_bytes()}, record {self._ordinal}"
        raw = self._message(end)
        signal: Signal = self._signal or ("logs" if raw and raw[0] in _LOG_FIRST_TAGS else "traces")
        record = record_from_protobuf(raw, signal, envelope.resource, envelope.scope, decoding)
        if record is not None:
            envelope.add(record, len(raw))

    def _fields(self, end: int | None, what: str) -> Iterator[tuple[int, int]]:
        """Yield number and end of each length-delimited field up to `end`; whatever is not read of it is skipped."""
        window = self._window
        while window.have(1) if end is None else window.offset < end:
            self._barren += 1
            if self._barren > _BARREN:
                raise _BrokenError(f"{_BARREN:,} fields and no record between them")
            tag = _varint(window)
            kind, field = tag & 7, tag >> 3
            if kind == _LEN:
                length = _varint(window)
                stop = window.offset + length
                if end is not None and stop > end:
                    self._decoding.log.report(
                        f"a field of a {what} is longer than the {what}; the rest of it was skipped",
                        window.place_in_bytes(),
                    )
                    self._skip_to(end)
                    return
                yield field, stop
                self._skip_to(stop)
            elif kind == _VARINT:
                _varint(window)
            elif kind in (_FIXED64, _FIXED32):
                self._skip_to(window.offset + (8 if kind == _FIXED64 else 4))
            elif end is None:
                raise _BrokenError("no protobuf field begins here")
            else:
                self._decoding.log.report(
                    f"no protobuf field begins here; the rest of the {what} was skipped", window.place_in_bytes()
                )
                self._skip_to(end)

    def _message(self, end: int) -> bytes:
        size = end - self._window.offset
        if size > self._decoding.limits.max_record_bytes:
            raise _BrokenError(f"a message of {size} bytes, over the limit of {self._decoding.limits.max_record_bytes}")
        if not self._window.have(size):
            raise _BrokenError("the file ends early in this message")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        window = self._window
        taken = bytes(memoryview(window.data)[window.pos : window.pos + size])
        window.pos += size
        return taken

    def _skip_to(self, end: int) -> None:
        window = self._window
        while window.offset < end:
            window.pos = min(len(window.data), window.pos + end - window.offset)
            if window.offset < end and not window.fill():
                raise _BrokenError("the file ends early")


def _varint(window: ByteWindow) -> int:
    value = 0
    for shift in range(0, 70, 7):
        if window.pos >= len(window.data) and not window.fill():
            raise _BrokenError("the file ends early")
        byte = window.data[window.pos]
        window.pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise _BrokenError("a length makes no sense")
