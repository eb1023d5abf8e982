"""Connections to a model, each with one call at a time, and an end to every call.

HTTP time-outs are per read: a server that drips a byte a second never meets one. So a call runs in a thread of its
own, and when its time is up the connection is closed under it and the caller goes on.
"""

from __future__ import annotations

import contextvars
import importlib
import queue
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from otel_drift.judges import litellm_library as library


class OutOfTimeError(Exception):
    """The call did not end within its time."""


class Line:
    """One connection; kept open from call to call."""

    def __init__(self) -> None:
        self._client: Any = None
        self._closing: weakref.finalize[[], Any] | None = None

    def complete(self, arguments: Mapping[str, Any], seconds: float, *, own_client: bool) -> Any:
        """Call ``litellm.completion`` and return its response.

        Args:
            arguments: For litellm.
            seconds: The call ends by then.
            own_client: Use an OpenAI client of this line's own, which follows no redirects: the text goes where the
                user said and nowhere else.

        Raises:
            OutOfTimeError: it did not end in time.
            Exception: whatever litellm raised.
        """
        if own_client:
            arguments = {**arguments, "client": self._open(arguments)}
        outcome: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(_run, arguments, outcome), name="judge call", daemon=True)
        thread.start()
        try:
            response, error = outcome.get(timeout=seconds)
        except BaseException as interruption:
            self.close()
            if isinstance(interruption, queue.Empty):
                raise OutOfTimeError from None
            raise
        if error is not None:
            try:
                raise error
            finally:
                del error  # else traceback and frame hold each other, and with them the connection
        return response

    def close(self) -> None:
        """Close the connection; a read that still waits on it fails."""
        self._client = None
        if self._closing is not None:
            self._closing()
            self._closing = None

    def _open(self, arguments: Mapping[str, Any]) -> Any:
        if self._client is None:
            openai = importlib.import_module("openai")
            connection = openai.DefaultHttpxClient(follow_redirects=False)
            self._closing = weakref.finalize(self, connection.close)  # nobody has to remember to close a judge
            self._client = openai.OpenAI(
                api_key=arguments["api_key"],
                base_url=arguments["api_base"],
                max_retries=0,
                http_client=connection,
            )
        return self._client


class Lines:
    """A fixed number of lines, shared by threads."""

    def __init__(self, count: int) -> None:
        self._free: queue.LifoQueue[Line] = queue.LifoQueue()
        for _ in range(count):
            self._free.put(Line())

    @contextmanager
    def one(self) -> Iterator[Line]:
        """Take a line, waiting until one is free."""
        line = self._free.get()
        try:
            yield line
        finally:
            self._free.put(line)

    def close(self) -> None:
        """Close the lines that are free."""
        free = []
        while True:
            try:
                free.append(self._free.get_nowait())
            except queue.Empty:
                break
        for line in free:
            line.close()
            self._free.put(line)


def _run(arguments: Mapping[str, Any], outcome: queue.SimpleQueue[tuple[Any, Exception | None]]) -> None:
    try:
        response = library.load().completion(**arguments)
    except Exception as error:
        outcome.put((None, error))
    else:
        outcome.put((response, None))
