"""Benchmark of reading: OTLP JSON from file to spool and back, trace by trace.

Run as ``python tests/bench/bench_reading.py [SPANS]``: SPANS (default 500,000) against a tenth of it. Each measurement
is a process of its own. Its time is processor time, since the target is spans a second on one core; the rate by wall
clock is printed beside it. Figures are medians of three, small and large runs taking turns. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from synthetic import write_synthetic

RUNS = 3


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
    """Time and memory at `spans` and a tenth of it, and the rates of the other shapes at a tenth."""
    small, large, document, packed = (folder / name for name in ("small.json", "large.json", "one.json", "packed.gz"))
    write_synthetic(small, spans // 10)
    write_synthetic(large, spans)
    write_synthetic(document, spans // 10, shape="document")
    write_synthetic(packed, spans // 10, compress=True)
    pairs = [(child(small), child(large)) for _ in range(RUNS)]
    at_large = [run for _, run in pairs]
    rate = statistics.median(run["spans"] / run["seconds"] for run in at_large)
    wall_rate = statistics.median(run["spans"] / run["wall_seconds"] for run in at_large)
    into_spool = statistics.median(run["spans"] / run["read_seconds"] for run in at_large)
    time_ratio = statistics.median(
        10 * (ten["seconds"] / ten["spans"]) / (one["seconds"] / one["spans"]) for one, ten in pairs
    )
    memory = [statistics.median(run["peak_mib"] for run in runs) for runs in zip(*pairs, strict=True)]
    others = {
        path.stem: statistics.median(run["spans"] / run["seconds"] for run in [child(path) for _ in range(RUNS)])
        for path in (document, packed)
    }
    figures = {
        "spans": at_large[0]["spans"],
        "spans_per_second": round(rate),
        "spans_per_second_by_wall_clock": round(wall_rate),
        "spans_per_second_into_spool": round(into_spool),
        "spans_per_second_one_document": round(others["one"]),
        "spans_per_second_gzip": round(others["packed"]),
        "megabytes_per_second": round(large.stat().st_size / 1e6 * rate / at_large[0]["spans"], 1),
        "time_ratio_10x": round(time_ratio, 2),
        "peak_mib": memory[1],
        "memory_ratio_10x": round(memory[1] / memory[0], 3),
    }
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):32} {value:>12,}")
    return {
        **figures,
        "budgets": {
            "spans into spool per second": [figures["spans_per_second_into_spool"], ">=", 20_000],
            "time for ten times the spans": [figures["time_ratio_10x"], "<=", 12],
            "memory for ten times the spans": [figures["memory_ratio_10x"], "<=", 1.5],
        },
    }


def child(path: Path) -> dict[str, Any]:
    """Measure reading `path` in a fresh process."""
    run = subprocess.run(
        [sys.executable, __file__, "--measure", str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def measured(path: Path) -> dict[str, Any]:
    """Read `path` into a spool and load every trace."""
    from otel_drift.spool import SpanSpool
    from otel_drift_connectors.otlp_file import OtlpFileSource

    source = OtlpFileSource([path])
    began, began_by_wall_clock = time.process_time(), time.perf_counter()
    with SpanSpool() as spool:
        for page, _ in source.read():
            for record in page:
                spool.add(record)
        read = time.process_time()
        loaded = sum(len(spool.load(trace_id)) for trace_id in spool.trace_ids())
        ended = time.process_time()
    if loaded != source.span_count or source.problem_count:
        raise SystemExit(f"{loaded} of {source.span_count} spans came back, {source.problem_count} problems")
    return {
        "spans": loaded,
        "seconds": ended - began,
        "read_seconds": read - began,
        "wall_seconds": time.perf_counter() - began_by_wall_clock,
        "peak_mib": peak_mib(),
    }


def peak_mib() -> float:
    """The most memory this process had; getrusage alone would count what its parent had before exec."""
    try:
        return round(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024, 1)
    except OSError:
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


if __name__ == "__main__":
    main()
