"""Claims are held on to while their sessions are judged, however long a judge takes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from otel_drift.errors import LedgerError
from otel_drift.inbox import Claim, Inbox

log = logging.getLogger(__name__)

RENEWALS = 3
"""How often a lease is renewed before it would run out."""


@contextmanager
def holding(
    inbox: Inbox, claims: Sequence[Claim], owner: str, lease: float, clock: Callable[[], int]
) -> Iterator[None]:
    """Renew the leases (of `lease` seconds) of claims in a thread of its own until the block ends.

    A lease that was lost all the same (the process or the database stood still for longer) does no harm: what another
    process has audited by then is found in the ledger, and what both say is the same.
    """
    done = threading.Event()

    def renew() -> None:
        while not done.wait(lease / RENEWALS):
            try:
                inbox.renew(claims, owner, clock() + int(lease * 1e9))
            except LedgerError as error:
                log.debug("leases were not renewed: %s", error)

    thread = threading.Thread(target=renew, name="leases")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
