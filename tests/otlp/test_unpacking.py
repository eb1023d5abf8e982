"""gzip is unpacked as it is read, and stops at damage and limits with what came before."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import pytest

from otel_drift.errors import RecordError
from otel_drift.otlp import ReadLimits
from otel_drift.otlp.unpacking import FileBytes
from otlp.samples import dumped, read_bytes, request, span, span_id

LINES = [dumped(request(span(number, attributes=[]))) + b"\n" for number in range(200)]


def unpacked(path: Path, size: int = 1000, limits: ReadLimits | None = None) -> tuple[bytes, str | None]:
    with FileBytes(path, limits or ReadLimits()) as stream:
        space = bytearray(size)
        parts = []
        while count := stream.readinto(memoryview(space)):
            parts.append(bytes(space[:count]))
        return b"".join(parts), stream.stopped


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_several_gzip_members_are_one_stream(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"".join(map(gzip.compress, LINES[:20])) + b"\0" * 512)
    assert unpacked(path, size) == (b"".join(LINES[:20]), None)


def test_cut_gzip_gives_what_came_before_and_says_so(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(LINES), 1)
    for cut in (len(data) - 1, len(data) - 9, len(data) // 2, 40):
        records, problems = read_bytes(tmp_path, data[:cut])
        assert [record.span_id for record in records] == [span_id(number) for number in range(len(records))]
        assert any("gzip data ends early" in problem.reason for problem in problems), cut
    assert len(read_bytes(tmp_path, data[: len(data) // 2])[0]) > 20


def test_damaged_gzip_gives_what_came_before_and_says_so(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(b"".join(LINES), 1))
    data[-6] ^= 0xFF  # the checksum
    records, problems = read_bytes(tmp_path, bytes(data))
    assert len(records) <= 200
    assert any("broken gzip data" in problem.reason for problem in problems)
    data[len(data) // 2] ^= 0xFF
    read_bytes(tmp_path, bytes(data))


def test_what_follows_gzip_is_skipped_and_counted(tmp_path: Path) -> None:
    records, problems = read_bytes(tmp_path, gzip.compress(LINES[0]) + b"rubbish")
    assert len(records) == 1
    assert "something follows the gzip data" in problems[0].reason


def test_a_zip_bomb_is_stopped_by_its_ratio(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(LINES[0]) + b"".join(packer.compress(b" " * 1_000_000) for _ in range(40)) + packer.flush()
    assert len(bomb) < 50_000
    limits = ReadLimits(ratio_grace_bytes=2_000_000)
    records, problems = read_bytes(tmp_path, bomb, limits)
    assert len(records) == 1
    assert "zip bomb" in problems[0].reason
    path = tmp_path / "bomb"
    path.write_bytes(bomb)
    assert len(unpacked(path, 100_000, limits)[0]) < 20_000_000


def test_unpacked_size_and_file_size_are_bounded(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(LINES))
    records, problems = read_bytes(tmp_path, data, ReadLimits(max_unpacked_bytes=len(LINES[0]) * 50))
    assert "unpacks to more than" in problems[0].reason
    assert not records or len(records) <= 200
    path = tmp_path / "large"
    path.write_bytes(data)
    with pytest.raises(RecordError, match="over the limit"):
        FileBytes(path, ReadLimits(max_file_bytes=100))


def test_other_compressions_are_named(tmp_path: Path) -> None:
    _, problems = read_bytes(tmp_path, b"\x28\xb5\x2f\xfd" + b"\0" * 50)
    assert "zstd" in problems[0].reason
    _, problems = read_bytes(tmp_path, gzip.compress(gzip.compress(LINES[0])))
    assert "gzip inside gzip" in problems[0].reason


def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(RecordError, match=r"regular file|cannot be opened"):
            FileBytes(path, ReadLimits())


def test_a_link_is_followed_only_if_wished(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(LINES[0])
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert unpacked(tmp_path / "link") == (LINES[0], None)
    with pytest.raises(RecordError, match="cannot be opened"):
        FileBytes(tmp_path / "link", ReadLimits(), follow_link=False)
