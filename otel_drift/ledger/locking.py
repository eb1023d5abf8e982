"""One deliverer at a time: a lock that the operating system or the server frees when its holder dies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

from otel_drift.errors import LedgerError
from otel_drift.ledger.database import Database

try:
    import fcntl
except ImportError:  # Windows: one process a ledger delivers, by the operator's care
    fcntl = None  # type: ignore[assignment]


@contextmanager
def delivery_lock(database: Database, sink: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold the right to deliver to one sink, or to do what else only one may do under that name.

    Yields whether it is held; False only where it is not waited for and another process holds it.
    """
    digest = hashlib.sha256(sink.encode("utf-8", "backslashreplace")).digest()
    if not database.is_sqlite:
        with database.session_lock(int.from_bytes(digest[:8], "big", signed=True), wait=wait) as held:
            yield held
    elif database.file is None or fcntl is None:
        yield True
    else:
        # Never deleted: who waits on a deleted file and who makes a new one would both hold "the" lock.
        path = f"{database.file}-delivery-{digest[:4].hex()}"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerError(f"ledger lock file {path} cannot be opened: {error.strerror}") from error
        try:
            yield _locked(handle, wait)
        finally:
            os.close(handle)


def _locked(handle: int, wait: bool) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
