"""Receiver: a body as it was before compression, within a limit."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from otel_drift.receiver.refusals import Refusal

PLAIN = frozenset(("", "identity"))
PACKED = {"gzip": 31, "x-gzip": 31, "deflate": 15, "zlib": 15}
"""Content encodings that are understood, as the window bits zlib knows them by; HTTP's ``deflate`` is zlib's format."""
ACCEPTED = "gzip, deflate"
_PIECE = 1024 * 1024
_SLICE = 4096
"""Bytes given to zlib at once: at the end of each gzip member it copies what is left of them, and a body may be made of
hundreds of thousands of members."""


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """`body` without its compression.

    Raises:
        Refusal: it is larger than `most`, damaged, or ends early.
    """
    if encoding in PLAIN:
        if len(body) > most:
            raise _too_large(most)
        return body
    pieces = []
    size = 0
    for piece in _pieces(body, PACKED[encoding]):
        size += len(piece)
        if size > most:
            raise _too_large(most)
        pieces.append(piece)
    return b"".join(pieces)


def _pieces(body: bytes, bits: int) -> Iterator[bytes]:
    """Of one gzip member after the other, as gzip has it, or of one zlib stream."""
    inflate = zlib.decompressobj(bits)
    for begin in range(0, len(body), _SLICE):
        rest = body[begin : begin + _SLICE]
        while True:
            if inflate.eof:
                rest = rest.lstrip(b"\0")
                if not rest:
                    break
                if bits == PACKED["deflate"]:
                    raise Refusal("bad_data", "something follows the compressed data")
                inflate = zlib.decompressobj(bits)
            try:
                piece = inflate.decompress(rest, _PIECE)
            except zlib.error:
                raise Refusal("bad_data", "the compressed data is damaged") from None
            yield piece
            rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if not rest and len(piece) < _PIECE:
                break
    if not inflate.eof:
        raise Refusal("bad_data", "the compressed data ends early")


def _too_large(most: int) -> Refusal:
    return Refusal("too_large", f"a request may have {most:,} bytes without compression")
