"""Benchmark of the inbox: keeping spans durably, what they take on disk, and claiming among many open sessions.

Run as ``python tests/bench/bench_inbox.py [SPANS]`` (default 100,000, of 3.2 kB of OTLP JSON each; five a trace). What
decoding costs is not in it: `bench_reading` has that, and the receiver's benchmark both. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bench_reading import peak_mib
from synthetic import write_synthetic

from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.model import Record, Span

SAMPLE = 10_000
"""Different spans; more are copies of them with ids of their own."""
REQUEST = 200
"""Spans in a request."""
SENDERS = 4
OPEN = 10_000
SECOND = 10**9
DUE: dict[str, int] = {"settle": 900 * SECOND, "cap": 14_400 * SECOND, "cap_spans": 20_000}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spans", nargs="?", type=int, default=100_000)
    spans = parser.parse_args().spans
    with tempfile.TemporaryDirectory(prefix="otel-drift-bench-") as folder:
        given = sample(Path(folder))
        kept = keeping(Path(folder) / "spans.sqlite3", given, spans)
        claimed = claiming(Path(folder) / "open.sqlite3", given)
    print(json.dumps({**kept, **claimed, "budgets": budgets(kept, claimed)}))


def budgets(kept: dict[str, float], claimed: dict[str, float]) -> dict[str, Any]:
    """What has to hold."""
    return {
        "CPU to keep a span (us)": [kept["cpu_us_per_span"], "<=", 60],
        "claim among 10,000 open sessions (ms)": [claimed["claim_ms"], "<=", 250],
        "memory with 10,000 open sessions (MiB)": [claimed["peak_mib"], "<=", 500],
    }


def sample(folder: Path) -> list[Record]:
    """Spans as a receiver decodes them."""
    from otel_drift_connectors.otlp_file import OtlpFileSource

    file = folder / "synthetic.json"
    write_synthetic(file, SAMPLE)
    return [record for page, _ in OtlpFileSource([file]).read() for record in page]


def keeping(file: Path, given: Sequence[Record], spans: int) -> dict[str, float]:
    """Durable adds from several threads, a request at a time."""
    waiting = iter(list(requests(given, spans)))
    lock = threading.Lock()
    seconds: list[float] = []

    def send() -> None:
        while True:
            with lock:
                request = next(waiting, None)
            if request is None:
                return
            began = time.perf_counter()
            inbox.add(request)
            seconds.append(time.perf_counter() - began)

    with Ledger.open(file) as ledger:
        inbox = Inbox(ledger)
        wall, cpu = time.perf_counter(), time.process_time()
        threads = [threading.Thread(target=send) for _ in range(SENDERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        kept = inbox.counts(time.time_ns(), **DUE).spans
    size = file.stat().st_size
    p99 = sorted(seconds)[int(0.99 * len(seconds))]
    print(f"{kept:,} spans in requests of {REQUEST} from {SENDERS} senders")
    print(f"durable spans per second    {kept / wall:,.0f} ({cpu / kept * 1e6:.0f} us of CPU a span)")
    print(f"a request, 99th percentile  {p99 * 1e3:.0f} ms")
    print(f"on disk, a million spans    {size / kept:,.0f} MB")
    return {
        "spans_per_second": round(kept / wall),
        "cpu_us_per_span": round(cpu / kept * 1e6, 1),
        "p99_ms": round(p99 * 1e3, 1),
        "mb_per_million_spans": round(size / kept),
    }


def claiming(file: Path, given: Sequence[Record]) -> dict[str, float]:
    """What is asked again and again while many sessions are open."""
    trace = [record for record in given if record.trace_id == given[0].trace_id]
    before = time.time_ns()
    with Ledger.open(file) as ledger:
        inbox = Inbox(ledger)
        for first in range(0, OPEN, 100):
            inbox.add([one for number in range(first, first + 100) for one in renamed(trace, number, f"s{number}")])
        now = before + 2000 * SECOND
        counting = timed(lambda: inbox.counts(now, **DUE))
        claims = timed(lambda: inbox.claim("bench", now=now, lease=60 * SECOND, limit=8, **DUE))
        idle = timed(lambda: inbox.claim("bench", now=before, lease=60 * SECOND, limit=8, **DUE))
    peak = peak_mib()
    print(f"{OPEN:,} open sessions: counts {counting:.0f} ms, a claim {claims:.0f} ms, nothing due {idle:.0f} ms")
    print(f"peak memory                 {peak:.0f} MiB")
    return {"counts_ms": round(counting, 1), "claim_ms": round(claims, 1), "peak_mib": peak}


def timed(call: Any) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def requests(given: Sequence[Record], spans: int) -> Iterator[list[Record]]:
    """So many spans, a request at a time, traces whole."""
    copies = -(-spans // len(given))
    everything = [one for number in range(copies) for one in (renamed(given, number) if number else given)]
    for first in range(0, spans, REQUEST):
        yield everything[first : min(first + REQUEST, spans)]


def renamed(given: Sequence[Record], number: int, session: str | None = None) -> list[Record]:
    """The same records as other traces, of another session if one is given."""
    return [
        replace(
            one,
            trace_id=f"{number:08x}{one.trace_id[8:]}",
            attributes=one.attributes if session is None else {**one.attributes, "session.id": session},
        )
        for one in given
        if isinstance(one, Span)
    ]


if __name__ == "__main__":
    main()
