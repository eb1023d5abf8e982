"""Inbox: many callers, one transaction: who comes while another writes is written together with all who wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from otel_drift.errors import LedgerError

T = TypeVar("T")

MOST_BYTES = 32 * 1024 * 1024
"""About what one transaction takes in."""


class _Waiting(Generic[T]):
    def __init__(self, item: T, size: int) -> None:
        self.item = item
        self.size = size
        self.done = False
        self.result = 0
        self.error: BaseException | None = None


class GroupCommit(Generic[T]):
    """Writes what threads bring, as few times as it can.

    Args:
        write: Writes items durably, all or none, and returns a result for each.
    """

    def __init__(self, write: Callable[[Sequence[T]], Sequence[int]]) -> None:
        self._write = write
        self._queue: list[_Waiting[T]] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def submit(self, item: T, size: int) -> int:
        """Return the result once `item` is written.

        Raises:
            LedgerError: it was not written, nor anything of it.
        """
        mine = _Waiting(item, size)
        with self._lock:
            self._queue.append(mine)
        while not mine.done:
            with self._turn:
                if not mine.done:
                    self._write_batch(self._next_batch())
        if mine.error is not None:
            raise mine.error
        return mine.result

    def _next_batch(self) -> list[_Waiting[T]]:
        with self._lock:
            taken = total = 0
            while taken < len(self._queue) and (not taken or total + self._queue[taken].size <= MOST_BYTES):
                total += self._queue[taken].size
                taken += 1
            batch, self._queue = self._queue[:taken], self._queue[taken:]
        return batch

    def _write_batch(self, batch: list[_Waiting[T]]) -> None:
        try:
            results = self._write([waiting.item for waiting in batch])
            for waiting, result in zip(batch, results, strict=True):
                waiting.result = result
        except LedgerError as error:
            for waiting in batch:
                waiting.error = LedgerError(str(error))
                waiting.error.__cause__ = error.__cause__
        except BaseException as error:
            for waiting in batch:
                waiting.error = LedgerError(f"what was received could not be kept: {type(error).__name__}")
                waiting.error.__cause__ = error
            raise
        finally:
            for waiting in batch:
                waiting.done = True
