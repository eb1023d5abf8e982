"""Which files a path, folder or glob means."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_drift.errors import SourceError

SUFFIXES = (".json", ".jsonl", ".ndjson", ".otlp", ".pb", ".binpb", ".proto", ".bin", ".log")
"""Endings of telemetry files in folders, each also with ``.gz``. What a file holds is decided by its content."""

_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read. `named` tells one the user named from one found in a folder or by a glob."""

    path: Path
    named: bool


def input_files(paths: Sequence[str | Path]) -> list[InputFile]:
    """Return the files that `paths` mean, in the order given and by name within a folder or glob, each file once.

    A path that is named may be a symbolic link; links found in folders or by globs are left alone, for they may lead
    outside or round in circles. Hidden files and folders are left alone too.

    Raises:
        SourceError: a path does not exist, a glob matches nothing, or a folder holds no telemetry file.
    """
    if not paths:
        raise SourceError("no input given: name a file, a folder or a glob of OTLP files")
    seen: set[tuple[int, int]] = set()
    files: list[InputFile] = []
    for path in paths:
        for file in _expanded(Path(path).expanduser()):
            identity = _identity(file.path)
            if identity is None or identity not in seen:
                files.append(file)
            if identity is not None:
                seen.add(identity)
    return files


def _expanded(path: Path) -> list[InputFile]:
    try:
        is_folder = path.is_dir()
        exists = is_folder or path.exists()
    except (OSError, ValueError) as problem:
        raise SourceError(f"{path}: cannot be read ({problem})") from problem
    if is_folder:
        found = [InputFile(file, named=False) for file in _walk(path)]
        if not found:
            raise SourceError(
                f"{path}: no telemetry file in this folder; looked for names ending in {', '.join(SUFFIXES)} (or .gz)"
            )
        return found
    if exists:
        return [InputFile(path, named=True)]
    if _MAGIC.intersection(str(path)):
        found = [InputFile(file, named=False) for file in _glob(path)]
        if not found:
            raise SourceError(f"{path}: no file matches; check the pattern, or quote it if the shell changed it")
        return found
    raise SourceError(f"{path}: no such file or folder; check the path")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _walk(folder: Path) -> Iterator[Path]:
    """Telemetry files below a folder, by name, without following links.

    A folder that cannot be listed is given itself, so that opening it says why.
    """
    todo = [folder]
    while todo:
        current = todo.pop()
        if current is not folder and not current.is_dir():
            yield current
            continue
        entries = _entries(current)
        if entries is None:
            yield current
            continue
        todo += [
            Path(entry.path)
            for entry in reversed(entries)
            if entry.is_dir(follow_symlinks=False) or (_is_telemetry_name(entry.name) and not entry.is_symlink())
        ]


def _entries(folder: Path) -> list[os.DirEntry[str]] | None:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError:
        return None


def _folders(folder: Path) -> Iterator[Path]:
    """A folder and all below it, without following links."""
    todo = [folder]
    while todo:
        current = todo.pop()
        yield current
        todo += [Path(entry.path) for entry in reversed(_entries(current) or []) if entry.is_dir(follow_symlinks=False)]


def _is_telemetry_name(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith(SUFFIXES)


def _glob(pattern: Path) -> Iterator[Path]:
    parts = pattern.parts
    first = next(index for index, part in enumerate(parts) if _MAGIC.intersection(part))
    seen: set[Path] = set()
    for path in _matches(Path(*parts[:first]), parts[first:]):
        if path not in seen:
            seen.add(path)
            yield path


def _matches(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    part, rest = parts[0], parts[1:]
    if part == "**":
        if not rest:
            yield from _walk(folder)
            return
        for below in _folders(folder):
            yield from _matches(below, rest)
        return
    for entry in _entries(folder) or []:
        if entry.is_symlink() or not fnmatch.fnmatchcase(entry.name, part):
            continue
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _matches(path, rest) if rest else _walk(path)
        elif not rest:
            yield path
