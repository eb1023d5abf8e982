"""Receiver: whether there is room for a request: in memory, in what is kept, on the disk. Else senders wait."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any

from otel_drift.errors import LedgerError
from otel_drift.receiver.refusals import Refusal

if TYPE_CHECKING:
    from pathlib import Path

    from otel_drift.config import ServeSettings
    from otel_drift.inbox import Inbox

log = logging.getLogger(__name__)

MB = 1_000_000
MOST_BODY = 16 * 1024 * 1024
"""Bytes of a request as sent. Collectors send up to 4 MiB over gRPC, SDKs 512 spans."""
MOST_UNPACKED = 32 * 1024 * 1024
"""Bytes of it after decompression."""
MOST_REQUESTS = 256
"""Requests under way at the same time."""
LOOK_SECONDS = 2.0
"""Between two looks at what is kept and at the disk."""
_SAY_SECONDS = 60.0
_LONG = 10**18
"""What is due is not asked for, which spares looking for it."""


class Admission:
    """Counts the bytes in flight, and looks at the backlog and the disk; safe to use from threads.

    Args:
        inbox: What is kept, and where.
        settings: The limits.
    """

    def __init__(self, inbox: Inbox, settings: ServeSettings) -> None:
        self.stopping = False
        self._inbox = inbox
        self._most_inflight = int(settings.max_inflight_mb * MB)
        self._most_backlog = settings.max_backlog_mb * MB
        self._least_disk = settings.min_free_disk_mb * MB
        self._file = inbox.file
        self._identity = _identity(inbox.file)
        self.most_body = min(MOST_BODY, self._most_inflight // 2)
        self.most_unpacked = min(MOST_UNPACKED, self._most_inflight // 2)
        self._lock = threading.Lock()
        self._all_left = threading.Condition(self._lock)
        self._inflight = 0
        self._requests = 0
        self._looking = threading.Lock()
        self._looked: float | None = None
        self._full: tuple[str, str] | None = None
        self._said: tuple[str, float] | None = None

    def ticket(self, size: int = 0) -> Ticket:
        """Let a request in that has `size` bytes; to be entered and left (``with``).

        Raises:
            Refusal: there is no room, or the service stops.
        """
        if self.stopping:
            raise Refusal("stopping", "the service stops")
        with self._lock:
            if self._requests >= MOST_REQUESTS:
                raise Refusal("busy", f"{MOST_REQUESTS} requests are under way")
            self._reserve(size)
            self._requests += 1
        return Ticket(self, size)

    def stop(self, grace: float) -> None:
        """Let nothing in any more, and wait up to `grace` seconds for what is under way."""
        self.stopping = True
        with self._lock:
            self._all_left.wait_for(lambda: not self._requests, grace)

    def look(self) -> None:
        """See that there is room to keep more. May wait for the database: call it in a worker thread.

        Raises:
            Refusal: there is none.
        """
        if self._is_stale() and self._looking.acquire(blocking=self._looked is None):
            try:
                if self._is_stale():
                    self._full = self._fullness()
                    self._looked = time.monotonic()
            finally:
                self._looking.release()
        full = self._full
        if full is not None:
            raise Refusal(*full)

    def say(self, error: LedgerError) -> None:
        """Log what the database says, but not with every request."""
        said, now = str(error), time.monotonic()
        with self._lock:
            if self._said is not None and self._said[0] == said and now - self._said[1] < _SAY_SECONDS:
                return
            self._said = said, now
        log.warning("receiver: %s", said)

    def _is_stale(self) -> bool:
        return self._looked is None or time.monotonic() - self._looked > LOOK_SECONDS

    def _fullness(self) -> tuple[str, str] | None:
        """Code and message of what is full."""
        if _identity(self._file) != self._identity:  # what is written to the one that is open would be lost
            return "ledger", "the database's file was deleted or replaced: put it back, or restart to begin a new one"
        if self._file is not None and shutil.disk_usage(self._file.parent).free < self._least_disk:
            return "disk", f"less than {self._least_disk / MB:g} MB are free on the disk"
        try:
            kept = self._inbox.counts(time.time_ns(), settle=_LONG, cap=_LONG, cap_spans=_LONG).bytes
        except LedgerError as error:
            self.say(error)
            return "ledger", "the database cannot be read"
        if kept > self._most_backlog:
            return "backlog", f"more than {self._most_backlog / MB:g} MB are kept"
        return None

    def _reserve(self, size: int) -> None:
        if self._inflight + size > self._most_inflight:
            raise Refusal("busy", f"{self._most_inflight / MB:g} MB are being taken in")
        self._inflight += size

    def _resize(self, before: int, after: int) -> None:
        with self._lock:
            self._reserve(after - before) if after > before else self._give_back(before - after)

    def _give_back(self, size: int) -> None:
        self._inflight -= size

    def _leave(self, size: int) -> None:
        with self._lock:
            self._give_back(size)
            self._requests -= 1
            if not self._requests:
                self._all_left.notify_all()


def _identity(file: Path | None) -> tuple[int, int] | None:
    """Which file is there, if any, whatever its name."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return found and (found.st_dev, found.st_ino)


class Ticket:
    """The room that one request takes up, until it is left (``with``) or what it was handed over to is done."""

    def __init__(self, admission: Admission, size: int) -> None:
        self._admission = admission
        self._size = size
        self._handed_over = False

    def resize(self, size: int) -> None:
        """The request takes up `size` bytes now.

        Raises:
            Refusal: there is no room for so many.
        """
        self._admission._resize(self._size, size)
        self._size = size

    def hand_over(self, work: Future[Any]) -> None:
        """The room is taken up until `work` is done, also where nobody waits for it any more."""
        self._handed_over = True
        work.add_done_callback(lambda _: self._admission._leave(self._size))

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._handed_over:
            self._admission._leave(self._size)
