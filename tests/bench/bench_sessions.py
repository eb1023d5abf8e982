"""Benchmark of reconstruction: OTLP JSON from file to sessions, one process, one core.

Run as ``python tests/bench/bench_sessions.py [SPANS]``: SPANS (default 500,000) against a tenth of it. Each
measurement is a process of its own; rates are medians of five at the small size. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bench_reading import peak_mib
from synthetic import write_synthetic

RUNS = 5


def main() -> None:
    """Measure, or (as a child) be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spans", nargs="?", type=int, default=500_000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure)))
        return
    with tempfile.TemporaryDirectory(prefix="otel-drift-bench-") as folder:
        print(json.dumps(compared(Path(folder), options.spans)))


def compared(folder: Path, spans: int) -> dict[str, Any]:
    """Time and memory at `spans` and a tenth of it."""
    small, large = folder / "small.json", folder / "large.json"
    write_synthetic(small, spans // 10)
    at_small = [child(small) for _ in range(RUNS)]  # before the system has a large file to write back
    write_synthetic(large, spans)
    at_large = child(large)
    per_second = statistics.median(run["spans"] / run["cpu_seconds"] for run in at_small)
    seconds = statistics.median(run["cpu_seconds"] / run["spans"] for run in at_small)
    time_ratio = 10 * at_large["cpu_seconds"] / at_large["spans"] / seconds
    memory_ratio = at_large["peak_mib"] / statistics.median(run["peak_mib"] for run in at_small)
    print(f"{at_large['spans']:,} spans, {at_large['sessions']:,} sessions, {large.stat().st_size / 1e6:,.0f} MB")
    print(f"spans per second (CPU)      {per_second:,.0f}, at ten times as many {at_large['rate']:,.0f}")
    print(f"time for ten times as many  {time_ratio:.2f} ×")
    print(f"peak memory                 {at_large['peak_mib']:.0f} MiB, {memory_ratio:.2f} × that at a tenth")
    return {
        "spans_per_second": round(per_second),
        "time_ratio_10x": round(time_ratio, 2),
        "peak_mib": at_large["peak_mib"],
        "memory_ratio_10x": round(memory_ratio, 3),
        "budgets": {
            "spans to sessions per second": [per_second, ">=", 15_000],
            "time for ten times the spans": [time_ratio, "<=", 11],
            "memory for ten times the spans": [memory_ratio, "<=", 1.5],
        },
    }


def child(path: Path) -> dict[str, Any]:
    """Measure `path` in a fresh process."""
    run = subprocess.run(
        [sys.executable, __file__, "--measure", str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def measured(path: Path) -> dict[str, Any]:
    """Reconstruct every session of `path`; CPU time, since it is one core's work and the machine may be shared."""
    from otel_drift import sessions
    from otel_drift.sessions import ReconstructOptions
    from otel_drift.spool import SpanSpool
    from otel_drift_connectors.otlp_file import OtlpFileSource

    source = OtlpFileSource([path])
    began = time.process_time()
    with SpanSpool() as spool:
        records = (record for page, _ in source.read() for record in page)
        turns = [len(session.turns) for session in sessions.stream(records, spool, ReconstructOptions())]
    seconds = time.process_time() - began
    if source.problem_count:
        raise SystemExit(f"{source.problem_count} broken records in a good file")
    return {
        "spans": source.span_count,
        "sessions": len(turns),
        "turns": sum(turns),
        "cpu_seconds": seconds,
        "rate": source.span_count / seconds,
        "peak_mib": peak_mib(),
    }


if __name__ == "__main__":
    main()
