"""Files the user names for output: private, whole or not there, and never in place of a device or a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from otel_drift.errors import ConfigError, SinkError

PRIVATE = 0o600
"""Reports hold trace text: only their owner reads them, like the ledger."""


def regular_target(path: str | os.PathLike[str]) -> Path:
    """The file that `path` means, links followed.

    Raises:
        ConfigError: it is there and no regular file (a folder, device, pipe or socket).
    """
    try:
        target = Path(os.path.realpath(path))
        there: os.stat_result | None = Path(path).stat()
    except FileNotFoundError:
        there = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be written there ({reason}).") from error
    if there is not None and not stat.S_ISREG(there.st_mode):
        kind = "a folder" if stat.S_ISDIR(there.st_mode) else "a device, pipe or socket"
        raise ConfigError(f"{path}: is {kind}; name a file that is not there yet, or one to replace.")
    return target


class OutputFile:
    """A file that appears whole at the end of a ``with`` block, readable by its owner only.

    Until then a file of the same name with ``.partial`` grows beside it; after an exception that is removed and what
    was there stays as it was.

    Args:
        path: The file; a link is followed.

    Raises:
        ConfigError: on entering, when the file cannot be written there.
        SinkError: on writing or leaving, when the disk does not take it (full, gone, a limit).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._target = Path()
        self._partial = Path()
        self._file: BinaryIO | None = None

    def __enter__(self) -> OutputFile:
        """Open the file beside."""
        self._target = regular_target(self._path)
        self._partial = self._target.with_name(self._target.name + ".partial")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            self._file = os.fdopen(os.open(self._partial, flags, PRIVATE), "wb")
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file.close()
                raise ConfigError(f"{self._partial}: is in the way and no regular file; remove it.")
            self._partial.chmod(PRIVATE)
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be written there ({error.strerror or error}).") from error
        return self

    def write(self, data: str | bytes) -> int:
        """Append text (as UTF-8) or bytes."""
        assert self._file is not None, "use OutputFile in a with statement"
        try:
            return self._file.write(data.encode("utf-8", "replace") if isinstance(data, str) else data)
        except OSError as error:
            raise self._lost(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put the file in place, or remove what was begun."""
        assert self._file is not None
        failed: OSError | None = None
        try:
            self._file.close()
            if kind is None:
                self._partial.replace(self._target)
        except OSError as problem:
            failed = problem
        if kind is not None or failed is not None:
            self._partial.unlink(missing_ok=True)
        if failed is not None and kind is None:
            raise self._lost(failed) from failed

    def _lost(self, error: OSError) -> SinkError:
        return SinkError(f"{self._path}: cannot be written ({error.strerror or error}); nothing was put there.")
