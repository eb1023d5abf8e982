"""Benchmark of the receiver: OTLP/HTTP protobuf, gzip, over several connections, into an inbox on SQLite.

Run as ``python tests/bench/bench_receiver.py [SPANS]``: SPANS (default 40,000) as fast as they are accepted, then as
many small sessions as must stay open. Receiver and sender are processes of their own; bodies are made before the clock
starts. A request counts once it was answered, which means that it is durable. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from synthetic import Template, templates

from otlp.samples import protobuf

CONNECTIONS = 4
BATCH = 300
"""Spans of a request, and at most one session's more."""
SESSIONS = 10_000


def main() -> None:
    """Measure, or (as a child) receive or send."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spans", nargs="?", type=int, default=40_000)
    parser.add_argument("--receive", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    parser.add_argument("--sessions", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        receive(options.receive)
    elif options.send:
        bodies = small_sessions(options.sessions) if options.sessions else batches(options.spans)
        print(json.dumps(send(options.send, list(bodies))))
    else:
        print(json.dumps(measured(options.spans)))


def measured(spans: int) -> dict[str, Any]:
    """Both runs, each against a receiver of its own."""
    with tempfile.TemporaryDirectory(prefix="otel-drift-bench-") as folder:
        load, took = against_receiver(Path(folder) / "load.sqlite3", str(spans))
        many, held = against_receiver(Path(folder) / "many.sqlite3", "--sessions", str(SESSIONS))
    rate = load["spans"] / load["seconds"]
    cpu = took["cpu_seconds"] / load["spans"] * 1e6
    print(f"{load['spans']:,} spans of {load['mean_span_bytes']:,} bytes in {load['requests']} requests")
    print(f"spans per second (durable)  {rate:,.0f}; the receiver takes {cpu:.0f} µs of CPU for each")
    print(f"latency of a request        p50 {load['p50']:.2f} s, p99 {load['p99']:.2f} s, {CONNECTIONS} under way")
    print(f"peak memory                 {took['peak_mib']:.0f} MiB")
    print(f"{held['open']:,} open sessions        {held['peak_mib']:.0f} MiB")
    assert took["spans"] == load["spans"], "what was acknowledged is not what is kept"
    assert held["open"] >= SESSIONS
    assert held["spans"] == many["spans"]
    return {
        "spans_per_second": round(rate),
        "p50_seconds": round(load["p50"], 3),
        "p99_seconds": round(load["p99"], 3),
        "peak_mib": took["peak_mib"],
        "open_sessions_peak_mib": held["peak_mib"],
        "budgets": {
            "spans_per_second": [rate, ">=", 5000],
            "p99_seconds": [load["p99"], "<=", 2.0],
            "open_sessions_peak_mib": [held["peak_mib"], "<=", 500],
        },
    }


def against_receiver(database: Path, *sending: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a sender measured, and what the receiver said in the end."""
    me = [sys.executable, str(Path(__file__))]
    with subprocess.Popen(
        [*me, "--receive", str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as receiver:
        assert receiver.stdin is not None
        assert receiver.stdout is not None
        address = receiver.stdout.readline().strip()
        sent = subprocess.run([*me, *sending, "--send", address], stdout=subprocess.PIPE, text=True, check=True)
        receiver.stdin.close()
        return json.loads(sent.stdout), json.loads(receiver.stdout.readline())


def receive(database: Path) -> None:
    """Receive until the standard input ends."""
    from bench_reading import peak_mib

    from otel_drift.config import ServeSettings
    from otel_drift.inbox import Inbox
    from otel_drift.ledger import Ledger
    from otel_drift.receiver import Receiver
    from otel_drift.telemetry import Telemetry

    with Ledger.open(database) as ledger:
        inbox = Inbox(ledger)
        settings = ServeSettings(http="127.0.0.1:0", grpc="", min_free_disk_mb=0)
        receiver = Receiver(inbox, settings, token=None, telemetry=Telemetry.none())
        receiver.start()
        began = os.times()
        print(receiver.addresses["http"].removeprefix("http://"), flush=True)
        sys.stdin.read()
        receiver.stop(10)
        took = os.times()
        counts = inbox.counts(time.time_ns(), settle=10**18, cap=10**18, cap_spans=10**9)
    cpu = took.user - began.user + took.system - began.system
    print(json.dumps({"spans": counts.spans, "open": counts.open, "cpu_seconds": cpu, "peak_mib": peak_mib()}))


def send(address: str, bodies: Sequence[tuple[int, int, bytes]]) -> dict[str, Any]:
    """Send bodies (spans, bytes before compression, body) over `CONNECTIONS` connections."""
    todo = iter(bodies)
    lock = threading.Lock()
    latencies: list[float] = []

    def sender() -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
        while True:
            with lock:
                job = next(todo, None)
            if job is None:
                return
            began = time.perf_counter()
            while True:
                connection.request("POST", "/v1/traces", job[2], headers)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status not in (429, 503):
                    break
                time.sleep(float(answer.headers["Retry-After"]))
            if answer.status != 200 or body:
                raise SystemExit(f"refused: {answer.status} {body!r}")
            latencies.append(time.perf_counter() - began)

    threads = [threading.Thread(target=sender) for _ in range(CONNECTIONS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    assert len(latencies) == len(bodies)
    spans = sum(job[0] for job in bodies)
    return {
        "spans": spans,
        "seconds": seconds,
        "requests": len(bodies),
        "mean_span_bytes": round(sum(job[1] for job in bodies) / spans),
        "p50": statistics.median(latencies),
        "p99": statistics.quantiles(latencies, n=100, method="inclusive")[98],
    }


def batches(spans: int) -> Iterator[tuple[int, int, bytes]]:
    """Requests of at least `spans` spans in all: captured sessions, each with ids of its own."""
    sessions = templates()
    made = number = 0
    while made < spans:
        entries, count = [], 0
        while count < BATCH:
            session = sessions[number % len(sessions)]
            entries.append(session.entries(number))
            count += session.spans
            number += 1
        made += count
        yield packed(count, entries)


def small_sessions(sessions: int) -> Iterator[tuple[int, int, bytes]]:
    """Requests of sessions of three spans each."""
    template = Template(json.loads(SMALL))
    for first in range(0, sessions, 100):
        entries = [template.entries(number) for number in range(first, first + 100)]
        yield packed(100 * template.spans, entries)


def packed(spans: int, entries: Sequence[str]) -> tuple[int, int, bytes]:
    """A request as `send` takes it."""
    plain = protobuf(json.loads(f'{{"resourceSpans":[{",".join(entries)}]}}'))
    return spans, len(plain), gzip.compress(plain, 1)


def _small() -> str:
    def span(number: int, kind: str, **attributes: str) -> dict[str, Any]:
        values = {"openinference.span.kind": kind, "session.id": "the-small-session", **attributes}
        return {
            "traceId": "5b8efff798038103d269b633813fc60c", "spanId": f"{number + 0xEEE19B7EC3C1B000:016x}",
            "parentSpanId": "" if number == 0 else f"{0xEEE19B7EC3C1B000:016x}", "name": kind.lower(), "kind": 1,
            "startTimeUnixNano": str(1_795_994_878_039_736_703 + number),
            "endTimeUnixNano": str(1_795_994_878_039_836_703 + number),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in values.items()],
        }  # fmt: skip

    question, answer = "How long may I keep a borrowed camera? " * 20, "Seven days at a time. " * 40
    spans = [
        span(0, "CHAIN", **{"input.value": question, "output.value": answer}),
        span(1, "RETRIEVER", **{"input.value": question, "retrieval.documents.0.document.content": answer * 3}),
        span(2, "LLM", **{"input.value": question + answer * 3, "output.value": answer}),
    ]
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "s"}, "spans": spans}]}]})


SMALL = _small()

if __name__ == "__main__":
    main()
