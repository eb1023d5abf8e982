"""Writes a measured threshold into a settings file, so that a run takes it, without touching anything else there."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from otel_drift.errors import ConfigError

SECTION = "audit.options.source_conflict"
KEY = "min_confidence"

_HEADER = re.compile(rf"^\[\s*{re.escape(SECTION)}\s*\]\s*(?:#.*)?$", re.MULTILINE)
_KEY = re.compile(rf"^[ \t]*{KEY}[ \t]*=.*$", re.MULTILINE)
_NEXT = re.compile(r"^\[", re.MULTILINE)
_EMPTY_OPTIONS = re.compile(r"^options\s*=\s*\{\s*\}[ \t]*(?:#.*)?\n?", re.MULTILINE)


def write_min_confidence(path: Path, value: float, note: str) -> None:
    """Set ``min_confidence`` of source_conflict in a TOML file, which is made if it is not there.

    Args:
        path: the settings file.
        value: 0..1.
        note: one line that says where the value comes from; it becomes a comment.

    Raises:
        ConfigError: the file is no TOML, cannot be written, or is written in a way that cannot be changed safely.
    """
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        known = tomllib.loads(before)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is no TOML: {error}") from error
    after = _changed(before, f"{KEY} = {value!r}  # {' '.join(note.split())}")
    if not _is(after, _wanted(known, value, path)):
        raise ConfigError(f"{path}: cannot be changed safely; write {KEY} = {value!r} under [{SECTION}] yourself")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(after, encoding="utf-8")
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def _changed(text: str, line: str) -> str:
    header = _HEADER.search(text)
    if header is None:
        rest = _EMPTY_OPTIONS.sub("", text)
        gap = "\n" if rest and not rest.endswith("\n\n") else ""
        return f"{rest}{'' if not rest or rest.endswith(chr(10)) else chr(10)}{gap}[{SECTION}]\n{line}\n"
    following = _NEXT.search(text, header.end())
    end = following.start() if following else len(text)
    body = text[header.end() : end]
    known = _KEY.search(body)
    body = body[: known.start()] + line + body[known.end() :] if known else f"\n{line}{body or chr(10)}"
    return text[: header.end()] + body + text[end:]


def _wanted(known: dict[str, Any], value: float, path: Path) -> dict[str, Any]:
    wanted = dict(known)
    place = wanted
    for name in SECTION.split("."):
        below = place.get(name, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{path}: {name} is no table")
        place[name] = dict(below)
        place = place[name]
    place[KEY] = value
    return wanted


def _is(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False
