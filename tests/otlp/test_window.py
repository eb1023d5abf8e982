"""A window goes over all bytes of a stream once, whatever pieces they come in and are asked for."""

from __future__ import annotations

import io
import random

import pytest

from otel_drift.otlp import window
from otel_drift.otlp.window import ByteWindow


@pytest.mark.parametrize("chunk", [1, 2, 64, 1000])
def test_bytes_offsets_and_lines_are_those_of_the_stream(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "CHUNK", chunk)
    for seed in range(40):
        chance = random.Random(seed)
        data = bytes(chance.choices(b"ab\n", k=chance.randrange(5000)))
        stream = io.BytesIO(data)

        def in_pieces(space: memoryview, stream: io.BytesIO = stream, chance: random.Random = chance) -> int:
            return stream.readinto(space[: chance.randrange(1, len(space) + 1)])

        view = ByteWindow(in_pieces)
        seen = b""
        while view.have(1):
            view.have(chance.randrange(300))
            assert (view.offset, view.line) == (len(seen), 1 + seen.count(b"\n"))
            taken = bytes(view.data[view.pos : view.pos + chance.randrange(1, 300)])
            seen += taken
            view.pos += len(taken)
        assert seen == data
        assert view.ended
