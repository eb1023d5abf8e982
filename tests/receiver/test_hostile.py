"""Hostile requests: whatever comes, the answer is success or refusal, never a fault of ours, and memory stays flat."""

from __future__ import annotations

import ctypes
import gc
import gzip
import json
import os
import socket
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otlp.samples import attribute, dumped, log, log_request, protobuf, request, span
from receiver_desk import JSON, PROTOBUF, Desk, receiving, status

SOAK = bool(os.environ.get("OTEL_DRIFT_SOAK"))
VALUES: list[Any] = [
    {"stringValue": "tëxt \x00 \ud800"}, {"intValue": "9223372036854775807"}, {"doubleValue": 1e308},
    {"boolValue": True}, {"bytesValue": "AAE="}, {"arrayValue": {"values": [{"stringValue": "a"}, {}]}},
    {"kvlistValue": {"values": [attribute("k", "v")]}}, {},
]  # fmt: skip
SPANS = [
    span(
        number,
        parent=number // 2 if number else None,
        attributes=[
            attribute("session.id", f"s{number % 2}"),
            *({"key": f"k{place}", "value": value} for place, value in enumerate(VALUES)),
        ],
        events=[{"name": "e", "timeUnixNano": "1", "attributes": [attribute("a", "b")]}],
    )
    for number in range(3)
]  # fmt: skip
TEXTS = [json.dumps(one) for one in (request(*SPANS), log_request(log(1), log(2)))]
CLEAN = [json.loads(text.replace("\\u0000", "0").replace("\\ud800", "d")) for text in TEXTS]
BODIES = {PROTOBUF: [protobuf(one) for one in CLEAN], JSON: [text.encode() for text in TEXTS]}
SIGNALS = ("traces", "logs")
HUGE = [b"\xff" * 9 + b"\x01", b"\xff" * 12, b"\xff\xff\xff\xff\x0f", b"\x80" * 9 + b"\x02", b"\x00", b"\x7f"]
PIECES = [
    b"\x00", b"\\u0000", b"\\ud800", b"\xff\xfe", b"NaN", b"1e999", b"9" * 400, b"{" * 300, b"[" * 300, b"}", b"]",
    b'"', b"null", b'{"arrayValue":{"values":[' * 200, b'"traceId":', b'{"resourceSpans":[', b"\\", b",",
]  # fmt: skip


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory() as folder, receiving(Path(folder)) as running:
        yield running


@st.composite
def corrupted(draw: st.DrawFn, bodies: list[bytes], pieces: list[bytes]) -> bytes:
    """A request with bytes changed, cut out, doubled or put in."""
    data = bytearray(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(data)))
        change = draw(st.sampled_from(("set", "cut", "insert", "end", "double")))
        if change == "set" and place < len(data):
            data[place] = draw(st.integers(0, 255))
        elif change == "cut":
            del data[place : place + draw(st.integers(1, 40))]
        elif change == "insert":
            data[place:place] = draw(st.one_of(st.sampled_from(pieces), st.binary(max_size=12)))
        elif change == "end":
            del data[place:]
        else:
            data += data[place : place + 400]
    return bytes(data)


def holds(desk: Desk, signal: str, body: bytes, kind: str, packing: str) -> None:
    """Accepted or refused for good; the receiver goes on."""
    before = desk.spans_kept()
    sent = {"gzip": gzip.compress, "deflate": zlib.compress}.get(packing, bytes)(body)
    answer = desk.post(signal, sent, kind, content_encoding=packing)
    assert answer.status_code in (200, 400, 413), (answer.status_code, body)
    if answer.status_code != 200:
        assert status(answer).message
        assert desk.spans_kept() == before
    if kind == PROTOBUF and packing != "deflate":
        codes = {200: None, 400: grpc.StatusCode.INVALID_ARGUMENT, 413: grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert refused_by_grpc(desk, signal, body) is codes[answer.status_code], body


def refused_by_grpc(desk: Desk, signal: str, body: bytes) -> grpc.StatusCode | None:
    try:
        desk.call(signal, body, grpc.Compression.Gzip)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return None


@settings(max_examples=500 if SOAK else 50)
@given(st.data())
def test_corrupted_protobuf(desk: Desk, data: st.DataObject) -> None:
    body = data.draw(corrupted(BODIES[PROTOBUF], HUGE))
    signal, packing = data.draw(st.sampled_from(SIGNALS)), data.draw(st.sampled_from(("identity", "gzip", "deflate")))
    holds(desk, signal, body, PROTOBUF, packing)


@settings(max_examples=500 if SOAK else 50)
@given(st.data())
def test_corrupted_json(desk: Desk, data: st.DataObject) -> None:
    body = data.draw(corrupted(BODIES[JSON], PIECES))
    signal, packing = data.draw(st.sampled_from(SIGNALS)), data.draw(st.sampled_from(("identity", "gzip", "deflate")))
    holds(desk, signal, body, JSON, packing)


@settings(max_examples=500 if SOAK else 50)
@given(st.data())
def test_corrupted_compression(desk: Desk, data: st.DataObject) -> None:
    """Damaged data is bad data; that which decompresses all the same is looked at as any other."""
    packing = data.draw(st.sampled_from(("gzip", "deflate")))
    packed = {"gzip": gzip.compress, "deflate": zlib.compress}[packing](BODIES[PROTOBUF][0])
    body = data.draw(corrupted([packed], [b"\x00", packed]))
    assert desk.post("traces", body, PROTOBUF, content_encoding=packing).status_code in (200, 400)


@settings(max_examples=300 if SOAK else 40)
@given(body=st.binary(max_size=300), kind=st.sampled_from((PROTOBUF, JSON)), signal=st.sampled_from(SIGNALS))
def test_anything(desk: Desk, body: bytes, kind: str, signal: str) -> None:
    holds(desk, signal, body, kind, "identity")


@settings(max_examples=300 if SOAK else 40)
@given(st.binary(min_size=1, max_size=200))
def test_what_is_no_http_harms_nobody(desk: Desk, raw: bytes) -> None:
    place = desk.receiver.addresses["http"].rpartition("/")[2].split(":")
    for head in (b"", b"POST /v1/traces HTTP/1.1\r\n"):
        with closing(socket.create_connection((place[0], int(place[1])), 30)) as connection:
            connection.sendall(head + raw)
    assert desk.post("traces", b"").status_code == 200


def _deep(depth: int) -> bytes:
    value: bytes = b"\x0a\x01x"
    for _ in range(depth):
        value = b"\x2a" + _varint(len(value) + len(_varint(len(value))) + 1) + b"\x0a" + _varint(len(value)) + value
    return _within(_field(1, b"\x01" * 16) + _field(2, b"\x02" * 8) + _field(9, _field(1, b"k") + _field(2, value)))


def _within(raw: bytes, times: int = 1) -> bytes:
    return _field(1, _field(2, _field(2, raw) * times))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


IDS = _field(1, b"\x01" * 16) + _field(2, b"\x02" * 8)
MIB = 1024 * 1024
AMPLIFIED = {
    "no bytes but zeros": b"\x00" * 30 * MIB,
    "unknown fields": b"\x08\x00" * 15 * MIB,
    "empty entries": b"\x0a\x00" * 15 * MIB,
    "empty spans": _within(b"", 15 * MIB),
    "tiny spans": _within(IDS, MIB),
    "empty attributes": _within(IDS + b"\x4a\x00" * (4 * MIB - 100)),
    "a span that is too large": _within(IDS + _field(5, b"x" * 9 * MIB)),
    "a length that is too large": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * MIB,
    "nested values": _deep(2000),
}


@pytest.mark.parametrize("what", AMPLIFIED)
def test_little_that_becomes_much(desk: Desk, what: str) -> None:
    """Refused or cut within the memory that a large honest request takes."""
    answer = desk.post("traces", gzip.compress(AMPLIFIED[what], 1), content_encoding="gzip")
    assert answer.status_code in (200, 400, 413)
    assert desk.post("traces", BODIES[PROTOBUF][0]).status_code == 200


def test_one_broken_part_of_a_request_does_not_lose_the_others(desk: Desk) -> None:
    """A text of one span that is no UTF-8, in either encoding, and nesting without end."""
    for kind, make in ((PROTOBUF, protobuf), (JSON, dumped)):
        sent = make(request(span(1), span(2, name="BROKEN"), span(3))).replace(b"BROKEN", b"\xff\xfe\xff...")
        before = desk.spans_kept()
        assert desk.post("traces", sent, kind).status_code == 200
        assert desk.spans_kept() == before + (2 if kind == PROTOBUF else 3)
    deep = _deep(60)
    before = desk.spans_kept()
    assert desk.post("traces", protobuf(request(span(1))) + deep).status_code == 200
    assert desk.spans_kept() > before


def test_memory_stays_flat(tmp_path: Path) -> None:
    """The same attacks once more leave nothing behind."""

    packed = [gzip.compress(body, 1) for body in AMPLIFIED.values()] + [gzip.compress(b"\x00" * 200 * MIB, 1)]
    with receiving(tmp_path, grpc="") as desk:
        for body in packed:
            desk.post("traces", body, content_encoding="gzip")
        before = resident()
        for body in packed:
            assert desk.post("traces", body, content_encoding="gzip").status_code in (200, 400, 413)
        assert resident() - before < 50 * MIB


def resident() -> int:
    """Bytes of memory this process holds, what the allocator only keeps for later given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
