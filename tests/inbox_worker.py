"""A receiver in miniature for the kill test: adds spans from several threads and says which were accepted."""

from __future__ import annotations

import sys
import threading

from inbox_contract import turn
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger


def main(place: str, first: int) -> None:
    said = threading.Lock()

    def work(number: int, inbox: Inbox) -> None:
        for one in range(10_000):
            trace = first + 100_000 * number + one
            inbox.add([turn(trace, f"s{trace % 50}", span=span) for span in (1, 2, 3)])
            with said:
                print(trace, flush=True)

    with Ledger.open(place) as ledger:
        inbox = Inbox(ledger)
        threads = [threading.Thread(target=work, args=(number, inbox)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
