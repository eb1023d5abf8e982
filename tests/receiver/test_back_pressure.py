"""Senders are told to wait before memory or disk runs out, and nothing is acknowledged that is not kept."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from otel_drift import receiver as receiver_module
from otel_drift.errors import LedgerError
from otel_drift.receiver import admission, http
from otlp.samples import attribute, dumped, protobuf, request, span
from receiver_desk import JSON, METHODS, PROTOBUF, Desk, delay, receiving, rpc_status, status

BATCH = protobuf(request(*(span(number) for number in range(20))))
LARGE = protobuf(request(span(1, attributes=[attribute("input.value", "x" * 400_000)])))
UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture(autouse=True)
def _always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LOOK_SECONDS", -1.0)


def told_to_wait(desk: Desk, code: int, rpc: grpc.StatusCode, body: bytes = BATCH) -> None:
    """Both protocols say so, and when to come again."""
    for kind, sent in ((PROTOBUF, body), (JSON, dumped(request(span(1, name="x" * len(body)))))):
        answer = desk.post("traces", sent, kind)
        assert answer.status_code == code, answer.text
        assert float(answer.headers["retry-after"]) == delay(status(answer)) is not None
        assert status(answer).code == rpc.value[0]
    with pytest.raises(grpc.RpcError) as caught:
        desk.call("traces", body)
    assert (caught.value.code(), rpc_status(caught.value).code) == (rpc, rpc.value[0])
    assert delay(rpc_status(caught.value)) is not None
    assert "google.rpc.retryinfo-bin" in dict(caught.value.trailing_metadata())


def test_a_full_backlog(tmp_path: Path) -> None:
    with receiving(tmp_path, max_backlog_mb=0.001) as desk:
        accepted = 0
        while desk.post("traces", BATCH).status_code == 200:
            accepted += 1
            assert accepted < 100
        told_to_wait(desk, 503, UNAVAILABLE)
        assert desk.receiver.problem() == "more than 0.001 MB are kept"
        assert {reason for _, reason, _ in desk.telemetry.refusals} == {"backlog"}
        assert desk.spans_kept() == 20 * accepted
        desk.inbox.forget(before=2**62, for_good=True)
        assert desk.receiver.problem() is None
        assert desk.post("traces", BATCH).status_code == 200


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    with receiving(tmp_path, min_free_disk_mb=500) as desk:
        looked: list[Path] = []

        def free(path: Path) -> Any:
            looked.append(path)
            return usage(10**12, 0, 499_000_000)

        assert shutil.disk_usage(tmp_path).free < 500_000_000 or desk.post("traces", BATCH).status_code == 200
        kept = desk.spans_kept()
        monkeypatch.setattr(shutil, "disk_usage", free)
        told_to_wait(desk, 503, UNAVAILABLE)
        assert set(looked) == {tmp_path}
        assert desk.spans_kept() == kept
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 0, 501_000_000))
        assert desk.post("traces", BATCH).status_code == 200


def test_a_database_that_fails_and_comes_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with receiving(tmp_path) as desk:
        desk.inbox.failure = lambda: LedgerError("ledger x cannot be written: the disk is full")
        told_to_wait(desk, 503, UNAVAILABLE)
        assert caplog.text.count("the disk is full") == 1  # not with every request
        desk.inbox.failure = lambda: RuntimeError("anything else")
        told_to_wait(desk, 503, UNAVAILABLE)
        assert desk.spans_kept() == 0
        assert desk.telemetry.accepted == []
        desk.inbox.failure = lambda: None
        assert desk.post("traces", BATCH).status_code == 200


def test_a_database_whose_file_is_deleted_or_replaced(tmp_path: Path) -> None:
    """What is written to a file that has no name any more would be acknowledged, and lost with the process."""
    with receiving(tmp_path) as desk:
        file = desk.inbox.file
        assert file is not None
        elsewhere = file.rename(file.with_suffix(".away"))
        told_to_wait(desk, 503, UNAVAILABLE)
        assert "deleted or replaced" in (desk.receiver.problem() or "")
        file.write_bytes(elsewhere.read_bytes())
        told_to_wait(desk, 503, UNAVAILABLE)
        elsewhere.rename(file)
        assert desk.receiver.problem() is None
        assert desk.post("traces", BATCH).status_code == 200


def test_too_much_at_once(tmp_path: Path) -> None:
    """What is being kept and what comes meanwhile stays within the limit; afterwards there is room again."""
    with receiving(tmp_path, max_inflight_mb=1.0) as desk, ThreadPoolExecutor(2) as pool:
        desk.inbox.go_on.clear()
        waiting = [pool.submit(desk.post, "traces", LARGE) for _ in range(2)]
        for _ in waiting:
            assert desk.inbox.entered.acquire(timeout=30)
        told_to_wait(desk, 429, EXHAUSTED, LARGE)
        desk.inbox.go_on.set()
        assert [one.result().status_code for one in waiting] == [200, 200]
        for _ in range(3):
            assert desk.post("traces", LARGE).status_code == 200
            assert desk.call("traces", LARGE) == b""


def test_what_can_never_fit_is_refused_for_good(tmp_path: Path) -> None:
    with receiving(tmp_path, max_inflight_mb=0.5) as desk:
        answer = desk.post("traces", LARGE)
        assert (answer.status_code, "retry-after" in answer.headers) == (413, False)
        with pytest.raises(grpc.RpcError) as caught:
            desk.call("traces", LARGE)
        assert (caught.value.code(), caught.value.trailing_metadata()) == (EXHAUSTED, ())


def test_a_body_larger_than_any_room_is_refused_for_good_before_it_comes(tmp_path: Path) -> None:
    with receiving(tmp_path, grpc="") as desk, closing(socket.create_connection(_place(desk), 30)) as connection:
        connection.sendall(_head(desk, 10**15) + b"x")
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_too_many_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_REQUESTS", 3)
    with receiving(tmp_path) as desk, ThreadPoolExecutor(3) as pool:
        desk.inbox.go_on.clear()
        waiting = [pool.submit(desk.post, "traces", BATCH) for _ in range(3)]
        for _ in waiting:
            assert desk.inbox.entered.acquire(timeout=30)
        told_to_wait(desk, 429, EXHAUSTED)
        desk.inbox.go_on.set()
        assert [one.result().status_code for one in waiting] == [200] * 3


def test_refused_requests_leave_nothing_behind(tmp_path: Path) -> None:
    """However a request ends, its room is free again."""
    with receiving(tmp_path, max_inflight_mb=1.0) as desk:
        for _ in range(30):
            assert desk.post("traces", b"\x7b" * 300_000).status_code == 400
            assert desk.post("traces", b"\x1f" * 300_000, content_encoding="gzip").status_code == 400
            with pytest.raises(grpc.RpcError):
                desk.call("traces", b"\x7b" * 300_000)
            with socket.create_connection(_place(desk)) as connection:
                connection.sendall(_head(desk, 400_000) + b"x" * 100_000)  # and goes away
        assert _eventually(lambda: desk.post("traces", LARGE).status_code == 200)


def test_senders_that_give_up_leave_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What they sent takes up room until it is kept, and no longer."""
    with receiving(tmp_path, max_inflight_mb=1.0) as desk:
        desk.inbox.go_on.clear()
        for _ in range(2):
            with grpc.insecure_channel(desk.address) as channel:
                waiting = channel.unary_unary(METHODS["traces"]).future(LARGE)
                assert desk.inbox.entered.acquire(timeout=30)
                assert waiting.cancel()
        assert _eventually(lambda: desk.post("traces", LARGE).status_code == 429)
        desk.inbox.go_on.set()
        assert _eventually(lambda: desk.post("traces", LARGE).status_code == 200)
        assert _eventually(lambda: desk.receiver._admission._inflight == 0)
    assert "Exception" not in caplog.text


def test_a_body_that_comes_too_slowly_is_to_be_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.2)
    with receiving(tmp_path, grpc="") as desk, closing(socket.create_connection(_place(desk), 30)) as connection:
        connection.sendall(_head(desk, 1000) + b"x")
        assert connection.recv(1000).startswith(b"HTTP/1.1 503 ")
        assert desk.telemetry.refusals == [("http", "timeout", 0)]


def test_connections_beyond_the_limit_take_the_place_of_idle_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "MOST_CONNECTIONS", 8)
    with receiving(tmp_path, grpc="") as desk, ExitStack() as stack:
        desk.inbox.go_on.clear()
        busy = stack.enter_context(closing(socket.create_connection(_place(desk), 30)))
        busy.sendall(_head(desk, len(BATCH)) + BATCH)
        assert desk.inbox.entered.acquire(timeout=30)
        silent = [stack.enter_context(closing(socket.create_connection(_place(desk), 30))) for _ in range(30)]
        assert [one.recv(1) for one in silent[:22]] == [b""] * 22
        desk.inbox.go_on.set()
        assert desk.post("traces", BATCH).status_code == 200
        assert busy.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_a_stop_refuses_what_comes_and_finishes_what_is_under_way(tmp_path: Path) -> None:
    with receiving(tmp_path) as desk, ThreadPoolExecutor(3) as pool:
        desk.inbox.go_on.clear()
        waiting = [pool.submit(desk.post, "traces", BATCH), pool.submit(desk.call, "traces", BATCH)]
        for _ in waiting:
            assert desk.inbox.entered.acquire(timeout=30)
        stop = pool.submit(desk.receiver.stop, 30)
        assert _eventually(lambda: desk.receiver._admission.stopping)
        with pytest.raises(grpc.RpcError) as caught:
            desk.call("traces", BATCH)
        assert caught.value.code() is UNAVAILABLE
        assert not stop.done()
        desk.inbox.go_on.set()
        stop.result(30)

        assert (waiting[0].result().status_code, waiting[1].result()) == (200, b"")
        assert desk.spans_kept() == 40
        with pytest.raises(httpx.TransportError):
            desk.post("traces", BATCH)
    assert not [one.name for one in threading.enumerate() if one.name.startswith("receiver")]


def test_a_stop_does_not_wait_longer_than_its_grace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was not acknowledged is sent again: it may be kept twice, never lost."""
    with receiving(tmp_path) as desk, ThreadPoolExecutor(3) as pool:
        desk.inbox.go_on.clear()
        waiting = [pool.submit(desk.post, "traces", BATCH), pool.submit(desk.call, "traces", BATCH)]
        for _ in waiting:
            assert desk.inbox.entered.acquire(timeout=30)
        stop = pool.submit(desk.receiver.stop, 0.2)
        assert waiting[0].result(30).status_code == 503
        with pytest.raises(grpc.RpcError) as caught:
            waiting[1].result(30)
        assert caught.value.code() is UNAVAILABLE
        desk.inbox.go_on.set()
        stop.result(30)
    assert "Traceback" not in caplog.text


def _place(desk: Desk) -> tuple[str, int]:
    return "127.0.0.1", int(desk.receiver.addresses["http"].rpartition(":")[2])


def _head(desk: Desk, size: int) -> bytes:
    host = "{}:{}".format(*_place(desk))
    lines = ["POST /v1/traces HTTP/1.1", f"Host: {host}", f"Content-Type: {PROTOBUF}", f"Content-Length: {size}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _eventually(holds: Any) -> bool:
    deadline = time.monotonic() + 120
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
