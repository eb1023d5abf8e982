"""Sink ``jsonl:FILE``: one JSON record a line, appended, never twice.

A record holds ``otel_drift.result.id`` and ``revision``; of several with one id the highest revision counts, and one
with ``withdrawn`` takes the value back.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import orjson

from otel_drift.errors import ConfigError, SinkError
from otel_drift.model import Annotation, WriteReport

try:
    import fcntl
except ImportError:  # Windows: one writer a file, by the operator's care
    fcntl = None  # type: ignore[assignment]

_BEGINNING = b'{"otel_drift.result.id":'
_BLOCK = 1 << 20


class JsonlSink:
    """Appends annotations to a file that only its owner may read.

    Safe against a crash between writing and settling (a line that is there is not written again), against half a last
    line (cut off before the next write) and against a second process (a lock on the file).

    Args:
        path: The file; its folder must exist.

    Raises:
        ConfigError: the path cannot be a file to append to.
    """

    upserts = False

    def __init__(self, path: str) -> None:
        if not path:
            raise ConfigError("sink jsonl needs a file: jsonl:FILE")
        self._path = Path(path).expanduser().absolute()
        self.name = f"jsonl:{self._path}"
        self._lines: set[bytes] = set()
        self._read_to = 0
        self._file: tuple[int, int] | None = None
        if not self._path.parent.is_dir():
            raise ConfigError(f"sink jsonl: the folder of {self._path} does not exist; create it")
        if self._path.exists() and not self._path.is_file():
            raise ConfigError(f"sink jsonl: {self._path} is not a regular file")

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Append the records that are not in the file yet, and have them on the disk before returning.

        Raises:
            SinkError: the file cannot be written or holds something else; it is left as it was.
        """
        try:
            with self._locked() as handle:
                return self._append(handle, annotations)
        except OSError as error:
            raise SinkError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Nothing is held between writes."""

    @contextmanager
    def _locked(self) -> Iterator[int]:
        is_new = not self._path.exists()
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            if is_new:
                _sync_folder(self._path.parent)
            yield handle
        finally:
            os.close(handle)

    def _append(self, handle: int, annotations: Sequence[Annotation]) -> WriteReport:
        self._catch_up(handle)
        written, unchanged, new = [], [], []
        for annotation in annotations:
            line = _line(annotation)
            key = _key(line)
            if key in self._lines:
                unchanged.append(annotation.id)
            else:
                self._lines.add(key)
                new.append(line)
                written.append(annotation.id)
        try:
            _write_all(handle, b"".join(new))
            os.fsync(handle)
        except BaseException:  # an interrupt too must not leave lines that are known but not there
            os.ftruncate(handle, self._read_to)
            self._lines.clear()
            self._read_to = 0
            raise
        self._read_to += sum(map(len, new))
        return WriteReport(written=tuple(written), unchanged=tuple(unchanged))

    def _catch_up(self, handle: int) -> None:
        """Learn the lines that others, or an earlier run, have written; leave the file ending with a whole line."""
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise SinkError(f"{self._path} is not a regular file")
        if (state.st_dev, state.st_ino) != self._file or state.st_size < self._read_to:
            self._file, self._read_to = (state.st_dev, state.st_ino), 0
            self._lines.clear()
        rest = b""
        while block := os.pread(handle, _BLOCK, self._read_to + len(rest)):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._lines.add(_key(line + b"\n"))
                self._read_to += len(line) + 1
        if rest:
            self._repair(handle, rest)

    def _repair(self, handle: int, rest: bytes) -> None:
        if not (rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)):
            raise SinkError(f"{self._path} ends with half a line that is no record of otel-drift; name another file")
        try:
            orjson.loads(rest)
        except ValueError:
            os.ftruncate(handle, self._read_to)
        else:
            _write_all(handle, b"\n")
            self._lines.add(_key(rest + b"\n"))
            self._read_to += len(rest) + 1


def _line(annotation: Annotation) -> bytes:
    record: dict[str, Any] = {"otel_drift.result.id": annotation.id}
    record |= {field.name: getattr(annotation, field.name) for field in fields(annotation) if field.name != "id"}
    record["links"] = list(annotation.links)
    record["metadata"] = dict(annotation.metadata)
    if annotation.passages:
        record["passages"] = [asdict(one) for one in annotation.passages]
    else:
        del record["passages"]
    try:
        return orjson.dumps(record) + b"\n"
    except TypeError:  # lone surrogates, huge integers
        return json.dumps(record, separators=(",", ":"), default=str).encode() + b"\n"


def _key(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable too (not possible on every system)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)
