"""A run in miniature for the kill tests: commits thirty units and delivers after each few; says each step it takes."""

from __future__ import annotations

import sys
from dataclasses import replace

from ledger_samples import ANSWER, TASK, finding, session, unit
from otel_drift import findings
from otel_drift.delivery import deliver
from otel_drift.ledger import Ledger
from otel_drift_connectors.jsonl import JsonlSink


def main(place: str, output: str) -> None:
    sink = JsonlSink(output)
    with Ledger.open(place) as ledger:
        for number in range(30):
            one = replace(
                unit(finding(3), finding(4, severity="MINOR")),
                unit_id=f"unit-{number:02}",
                session=session(key=f"shop|s{number}", session_id=f"s{number}"),
            )
            ledger.remember(f"key-{number}", TASK, ANSWER)
            print("asked", number, flush=True)
            known = ledger.find_unit(one.unit_id, one.content_sha256, one.session)
            own = [replace(a, id=f"{number:04}{a.id[4:]}") for a in findings.annotations(one)]
            ledger.commit_unit(None, known or one, own, [sink.name])
            print("committed", number, flush=True)
            if number % 5 == 4:
                deliver(ledger, {sink.name: sink}, batch=7, on_progress=lambda _, count: print(count, flush=True))
        assert not deliver(ledger, {sink.name: sink}).problems
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
