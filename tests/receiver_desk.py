"""A receiver that really listens, with an inbox on a SQLite file, and what it told of itself; and senders for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from otel_drift.config import ServeSettings
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.model import LogRecord, Record, Span
from otel_drift.receiver import Receiver
from otel_drift.telemetry import Telemetry

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
METHOD = "/opentelemetry.proto.collector.{}.v1.{}Service/Export"
METHODS = {
    "traces": METHOD.format("trace", "Trace"),
    "logs": METHOD.format("logs", "Logs"),
    "metrics": METHOD.format("metrics", "Metrics"),
}


class CountedTelemetry(Telemetry):
    """Keeps what the receiver tells."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: list[tuple[str, int, int, int]] = []
        self.refusals: list[tuple[str, str, int]] = []

    def received(self, protocol: str, spans: int, logs: int, size: int) -> None:
        self.accepted.append((protocol, spans, logs, size))

    def refused(self, protocol: str, reason: str, records: int = 0) -> None:
        self.refusals.append((protocol, reason, records))


class WatchedInbox(Inbox):
    """An inbox whose `add` may be held up or made to fail."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.go_on = threading.Event()
        self.go_on.set()
        self.entered = threading.Semaphore(0)
        self.failure: Callable[[], Exception | None] = lambda: None

    def add(self, records: Sequence[Record], *given: Any, **options: Any) -> int:
        self.entered.release()
        assert self.go_on.wait(60)
        failure = self.failure()
        if failure is not None:
            raise failure
        return super().add(records, *given, **options)


@dataclass
class Desk:
    """A running receiver and its parts."""

    receiver: Receiver
    inbox: WatchedInbox
    ledger: Ledger
    telemetry: CountedTelemetry
    http: httpx.Client
    channels: list[grpc.Channel] = field(default_factory=list)

    @property
    def address(self) -> str:
        """``HOST:PORT`` of the gRPC server."""
        return self.receiver.addresses["grpc"].rpartition("/")[2]

    def post(self, signal: str, body: bytes, kind: str = PROTOBUF, **headers: str) -> httpx.Response:
        """Send over HTTP."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(f"/v1/{signal}", content=body, headers={"content-type": kind, **named})

    def call(
        self,
        signal: str,
        body: bytes,
        compression: grpc.Compression = grpc.Compression.NoCompression,
        metadata: Sequence[tuple[str, str]] = (),
        channel: grpc.Channel | None = None,
    ) -> bytes:
        """Send over gRPC; raises grpc.RpcError."""
        if channel is None and not self.channels:
            self.channels.append(grpc.insecure_channel(self.address))
        method = (channel or self.channels[0]).unary_unary(METHODS[signal])
        return bytes(method(body, compression=compression, metadata=metadata, timeout=60))

    def kept(self) -> list[Record]:
        """Everything in the inbox, by span id; each log record after its span."""
        found: list[Record] = []
        for claim in self.inbox.claim("test", now=2**62, settle=0, cap=0, cap_spans=1, lease=1, limit=10_000):
            found += self.inbox.records(claim, 0)
        self.inbox.release("test")
        unique = {record.ref if isinstance(record, Span) else repr(record): record for record in found}
        return sorted(unique.values(), key=lambda record: (record.span_id, isinstance(record, LogRecord)))

    def span_ids(self) -> list[str]:
        """Of the spans in the inbox."""
        return [record.span_id for record in self.kept() if isinstance(record, Span)]

    def spans_kept(self) -> int:
        """How many spans are in the inbox, of interest or not."""
        return self.inbox.counts(0, settle=0, cap=0, cap_spans=1).spans


@contextmanager
def receiving(
    folder: Path, *, token: str | None = None, tls: tuple[Path, Path] | None = None, **settings: Any
) -> Iterator[Desk]:
    """Run a receiver on free loopback ports."""
    telemetry = CountedTelemetry()
    addresses = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "min_free_disk_mb": 0}
    if tls is not None:
        addresses |= {"tls_certificate": str(tls[0]), "tls_key": str(tls[1])}
    with Ledger.open(folder / "ledger.sqlite3") as ledger:
        inbox = WatchedInbox(ledger)
        receiver = Receiver(inbox, ServeSettings(**addresses | settings), token=token, telemetry=telemetry)
        receiver.start()
        url = receiver.addresses.get("http", "http://127.0.0.1")
        with httpx.Client(base_url=url, timeout=60, verify=False) as http:
            desk = Desk(receiver, inbox, ledger, telemetry, http)
            try:
                yield desk
            finally:
                for channel in desk.channels:
                    channel.close()
                inbox.go_on.set()
                receiver.stop(5)


def status(answer: httpx.Response) -> Status:
    """The body of an HTTP error, in the encoding it says it has."""
    if answer.headers["content-type"] == PROTOBUF:
        return Status.FromString(answer.content)
    assert answer.headers["content-type"] == JSON
    return json_format.Parse(answer.content, Status())


def delay(given: Status) -> float | None:
    """Seconds of the status' RetryInfo."""
    info = RetryInfo()
    return info.retry_delay.ToMilliseconds() / 1000 if any(one.Unpack(info) for one in given.details) else None


def rpc_status(error: grpc.RpcError) -> Status:
    """The status in the trailer of a gRPC error."""
    return Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for this machine, and its key."""
    if shutil.which("openssl") is None:
        assert os.environ.get("OTEL_DRIFT_CI") != "1", "openssl is not installed"
        pytest.skip("openssl is not installed")
    made, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(made), "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return made, key
