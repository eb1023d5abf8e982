"""Bodies without their compression: members of gzip one after the other, at a cost that grows with the body only."""

from __future__ import annotations

import gzip
import random
import zlib
from typing import Any

import pytest

from otel_drift.receiver.unpacking import unpacked


def test_members_are_put_together_whatever_their_sizes_and_the_zeros_between_them() -> None:
    rng = random.Random(5)
    for _ in range(50):
        parts = [rng.randbytes(rng.choice((0, 1, 5_000, 70_000))) for _ in range(rng.randint(1, 4))]
        parts.insert(0, bytes(rng.choice((0, 10, 3_000_000))))
        body = b"".join(gzip.compress(part) + bytes(rng.choice((0, 3, 5_000))) for part in parts)
        assert unpacked(body, "gzip", 10_000_000) == b"".join(parts)


def test_a_body_of_many_tiny_members_is_handed_to_zlib_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib copies what follows a member: given the whole rest each time, 16 MB took minutes of a processor."""
    handed = 0
    real = zlib.decompressobj

    class Counting:
        def __init__(self, bits: int) -> None:
            self._inflate = real(bits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inflate, name)

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal handed
            handed += len(data)
            return self._inflate.decompress(data, most)

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    members = 5_000
    assert unpacked(gzip.compress(b"x") * members, "gzip", 10_000) == b"x" * members
    assert handed < 5_000 * members
