"""The given captures as spans, and their scores, for tests of normalising and reconstruction."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from otel_drift.model import LogRecord, Record, Span
from otel_drift.otlp import decode_logs_json, decode_traces_json


def joined(records: list[Record]) -> list[Span]:
    """The spans among `records`, each with its log records."""
    logs: dict[tuple[str, str], list[LogRecord]] = {}
    for record in records:
        if isinstance(record, LogRecord):
            logs.setdefault((record.trace_id, record.span_id), []).append(record)
    return [
        dataclasses.replace(r, logs=tuple(logs.get((r.trace_id, r.span_id), ())))
        for r in records
        if isinstance(r, Span)
    ]


@functools.cache
def records_of(folder: Path, name: str) -> tuple[Record, ...]:
    """Spans and log records of the capture `name` (``library/conversation-shape``)."""
    found: list[Record] = []
    for path in sorted((folder / "traces").glob(name + ".*")):
        if ".json" not in path.name:
            continue
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        found.extend(decode_logs_json(data) if ".logs.json" in path.name else decode_traces_json(data))
    return tuple(found)


def spans_of(folder: Path, name: str) -> list[Span]:
    """The spans of a capture."""
    return joined(list(records_of(folder, name)))


def names_in(folder: Path) -> list[str]:
    """All captures."""
    return [name for name, _ in scorer(folder).captures(folder / "traces")]


@functools.cache
def scorer(folder: Path) -> ModuleType:
    """The given scoring script as a module."""
    spec = importlib.util.spec_from_file_location("score_captures", folder / "tools" / "score_captures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def label_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """The labelled turns of the conversation a capture holds."""
    conversation = name.split("/")[1].split("-")[0]
    return json.loads((folder / "traces" / "labels" / f"{conversation}.json").read_text())["turns"]  # type: ignore[no-any-return]
