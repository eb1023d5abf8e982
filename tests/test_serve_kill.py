"""`kill -9` of a service under load: what it acknowledged is there, and each finding is seen once in the sink."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import sqlalchemy as sa

from free_ports import free_address
from otel_drift.ledger import Ledger
from otel_drift.model import Span
from otel_drift.testing import conversation
from service_process import QUICK, Serving, wait_until

KILLS = 200 if os.environ.get("OTEL_DRIFT_SOAK") else 20
SENDERS = 3


class Sender(threading.Thread):
    """Sends sessions until told to stop, each again and again until it is acknowledged, as a Collector does."""

    def __init__(self, service: Serving, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"sender {number}")
        self.acknowledged: dict[str, set[str]] = {}
        self.tried = 0
        self._service = service
        self._number = number
        self._stop_sending = stop

    def run(self) -> None:
        while not self._stop_sending.is_set():
            name = f"s{self._number}-{len(self.acknowledged):04}"
            spans = conversation(name, ends=time.time_ns())
            if self._is_taken(spans):
                self.acknowledged[name] = {span.span_id for span in spans}
            time.sleep(0.1)

    def _is_taken(self, spans: list[Span]) -> bool:
        while True:
            self.tried += 1
            try:
                if self._service.send(spans, timeout=5).status_code == 200:
                    return True
            except httpx.TransportError:
                pass
            if self._stop_sending.is_set():
                return False
            time.sleep(0.1)


def test_killed_under_load_nothing_acknowledged_is_lost_and_nothing_found_is_doubled(tmp_path: Path) -> None:
    rng = random.Random(11)
    port = free_address()  # senders go on sending to the same address
    service = Serving(tmp_path, QUICK.replace('http = "127.0.0.1:0"', f'http = "{port}"') + _SINK)
    service.start()
    stop = threading.Event()
    senders = [Sender(service, number, stop) for number in range(SENDERS)]
    try:
        for sender in senders:
            sender.start()
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.2, 1.2))
            service.kill()
            service.start()
    finally:
        stop.set()
        for sender in senders:
            sender.join()
    acknowledged = {name: spans for sender in senders for name, spans in sender.acknowledged.items()}
    assert acknowledged

    wait_until(lambda: all_done(service), "all is audited and written", 180)
    assert service.stop() == 0

    assert stored(tmp_path / "ledger.db") >= {span for spans in acknowledged.values() for span in spans}
    written = [json.loads(line) for line in (tmp_path / "findings.jsonl").read_text().splitlines()]
    keys = Counter((record["otel_drift.result.id"], record["revision"]) for record in written)
    assert [key for key, times in keys.items() if times > 1] == []
    found = {record["session_id"] for record in written if record["name"] == "factual_drift.contradiction"}
    assert set(acknowledged) <= found


_SINK = '\n[output]\nsinks = ["jsonl:findings.jsonl"]\n'


def all_done(service: Serving) -> bool:
    told = service.status()
    owed = sum(counts.get("owed", 0) for counts in told["sinks"].values())
    return told["sessions"]["open"] == 0 and owed == 0


def stored(file: Path) -> set[str]:
    """The span ids that an inbox keeps."""
    from otel_drift.inbox.packing import unpack
    from otel_drift.inbox.tables import chunk, trace

    query = sa.select(trace.c.trace_id, chunk.c.payload).join(chunk, chunk.c.trace_number == trace.c.trace_number)
    with Ledger.open(file) as ledger, ledger.database.reading() as connection:
        records = [one for row in connection.execute(query) for one in unpack(row.trace_id, row.payload)]
    return {one.span_id for one in records if isinstance(one, Span)}
