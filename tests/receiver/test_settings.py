"""What a receiver may listen on, and what is said where it may not or cannot."""

from __future__ import annotations

import logging
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest

from free_ports import free_ports
from otel_drift.errors import ConfigError
from receiver_desk import receiving

TOKEN = "0123456789abcdef-token"


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "collector.example:4318", "192.168.1.4:4318"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_off_loopback_needs_a_token(tmp_path: Path, protocol: str, address: str) -> None:
    wanted = rf"\[serve\] {protocol} .*loopback only.*OTEL_DRIFT_SERVE_TOKEN"
    with pytest.raises(ConfigError, match=wanted), receiving(tmp_path, **{protocol: address}):
        pass


def test_with_a_token_it_may_and_what_is_missing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), receiving(tmp_path, token=TOKEN, http="0.0.0.0:0", grpc="0.0.0.0:0") as desk:
        assert set(desk.receiver.addresses) == {"http", "grpc"}
    assert caplog.text.count("without TLS") == 2


@pytest.mark.parametrize("token", ["short", "", "0123456789abcdef token", "0123456789abcdef\n", "0123456789abcdeä"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(ConfigError, match="OTEL_DRIFT_SERVE_TOKEN must") as caught, receiving(tmp_path, token=token):
        pass
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("address", ["4318", "localhost", "localhost:", "localhost:x", "localhost:99999", ":80"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_addresses_that_are_none_are_refused(tmp_path: Path, protocol: str, address: str) -> None:
    wanted = rf"\[serve\] {protocol} .*HOST:PORT"
    with pytest.raises(ConfigError, match=wanted), receiving(tmp_path, **{protocol: address}):
        pass


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_taken_port_is_said_and_nothing_stays_open(tmp_path: Path, protocol: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        (other,) = free_ports(1)
        settings = {"http": f"127.0.0.1:{other}", "grpc": f"127.0.0.1:{other}"}
        settings[protocol] = f"127.0.0.1:{taken.getsockname()[1]}"
        wanted = rf"\[serve\] {protocol} .*taken"
        with pytest.raises(ConfigError, match=wanted), receiving(tmp_path, **settings):
            pass
        with closing(socket.socket()) as probe:
            assert probe.connect_ex(("127.0.0.1", other)) != 0


def test_either_protocol_may_be_left_out(tmp_path: Path) -> None:
    with receiving(tmp_path, http="") as desk:
        assert list(desk.receiver.addresses) == ["grpc"]
    with receiving(tmp_path, grpc="") as desk:
        assert list(desk.receiver.addresses) == ["http"]


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigError, match=r"otel-drift\[serve\]"), receiving(tmp_path):
        pass


def test_a_receiver_stops_and_another_takes_its_place(tmp_path: Path) -> None:
    with receiving(tmp_path) as desk:
        places = {name: url.rpartition("/")[2] for name, url in desk.receiver.addresses.items()}
    with receiving(tmp_path, **places) as desk:
        assert desk.post("traces", b"").status_code == 200
        assert desk.call("traces", b"") == b""
