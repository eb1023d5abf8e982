"""Telemetry of any size for benchmarks: captures repeated with fresh ids, sessions and times."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

Shape = Literal["lines", "document"]

_SESSION_KEYS = frozenset(
    (
        "session.id", "gen_ai.conversation.id", "ai.telemetry.metadata.sessionId", "ai.settings.context.sessionId",
        "traceloop.association.properties.session_id", "thread_id", "group_id", "conversation_id",
        "langfuse.trace.metadata.thread_id",
    )
)  # fmt: skip
_SLOT = re.compile(
    r'"(?P<key>traceId|spanId|parentSpanId)":"(?P<id>[0-9a-f]+)"'
    r'|"(?P<timekey>startTimeUnixNano|endTimeUnixNano|timeUnixNano)":"(?P<time>\d+)"'
)
_IN_METADATA = re.compile(rf'"(?:{"|".join(map(re.escape, _SESSION_KEYS))})": ?"([^"\\]+)"')
"""Session names in an attribute that is a JSON object."""
_HOUR = 3600 * 10**9
_SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835


class Template:
    """One captured session as literal pieces of JSON with slots for ids, times and session names between them."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.spans = sum(
            len(scope.get("spans", ())) for entry in request["resourceSpans"] for scope in entry["scopeSpans"]
        )
        sessions = sorted(set(_session_names(request)), key=len, reverse=True)
        text = json.dumps(request["resourceSpans"], separators=(",", ":"), ensure_ascii=False)[1:-1]
        names = "".join(f"|(?P<s{number}>{re.escape(name)})" for number, name in enumerate(sessions))
        self._pieces: list[str] = []
        self._slots: list[tuple[str, str, Any]] = []
        position = 0
        for match in re.compile(_SLOT.pattern + names).finditer(text):
            self._pieces.append(text[position : match.start()])
            position = match.end()
            if match["key"]:
                self._slots.append(("id", match["key"], match["id"]))
            elif match["timekey"]:
                self._slots.append(("time", match["timekey"], int(match["time"])))
            else:
                self._slots.append(("session", "", match[0]))
        self._pieces.append(text[position:])

    def entries(self, number: int) -> str:
        """The ``ResourceSpans`` of replica `number`, separated by commas."""
        parts = []
        for piece, (kind, key, value) in zip(self._pieces, self._slots, strict=False):
            parts.append(piece)
            if kind == "id":
                width = len(value)
                fresh = int(value, 16) ^ (number * _SPREAD & (1 << 4 * width) - 1)
                parts.append(f'"{key}":"{fresh or 1:0{width}x}"')
            elif kind == "time":
                parts.append(f'"{key}":"{value + number * _HOUR if value else 0}"')
            else:
                parts.append(f"{value}-{number}")
        parts.append(self._pieces[-1])
        return "".join(parts)


def capture_folder() -> Path:
    """The given captures where they lie beside the checkout, else the project's examples."""
    root = Path(__file__).parents[2]
    shared = Path(os.environ.get("OTEL_DRIFT_SHARED", root.parent / "shared")) / "traces"
    return shared if shared.is_dir() else root / "examples" / "traces"


def templates(folder: Path | None = None) -> list[Template]:
    """The captured sessions of a folder, by name."""
    found = []
    for path in sorted((folder or capture_folder()).rglob("*.json*")):
        if ".logs." in path.name or ".mlflow." in path.name or path.parent.name == "labels":
            continue
        raw = path.read_bytes()
        document = json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
        if isinstance(document, dict) and "resourceSpans" in document:
            found.append(Template(document))
    if not found:
        raise SystemExit(f"no captures in {folder or capture_folder()}")
    return found


def write_synthetic(
    path: Path, spans: int, *, shape: Shape = "lines", compress: bool = False, captures: Path | None = None
) -> int:
    """Write OTLP JSON of at least `spans` spans: sessions after one another, each with ids of its own.

    Args:
        path: the file to write.
        spans: how many spans at least; less than one more session's worth is added.
        shape: ``lines`` as the Collector's file exporter writes, a request a line, or one ``document``.
        compress: whether to gzip it.
        captures: a folder of captures to repeat (`capture_folder` if None).

    Returns:
        How many spans it wrote.
    """
    written = 0
    with (
        gzip.open(path, "wt", compresslevel=1, encoding="utf-8")
        if compress
        else path.open("w", encoding="utf-8") as out
    ):
        out.write('{"resourceSpans":[' if shape == "document" else "")
        for number, (template, entries) in enumerate(_replicas(templates(captures))):
            if shape == "lines":
                out.write('{"resourceSpans":[' + entries + "]}\n")
            else:
                out.write(("," if number else "") + entries)
            written += template.spans
            if written >= spans:
                break
        out.write("]}" if shape == "document" else "")
    return written


def _replicas(sessions: list[Template]) -> Iterator[tuple[Template, str]]:
    """Each with a number of its own: captures of one conversation share their session's name."""
    for number in itertools.count():
        session = sessions[number % len(sessions)]
        yield session, session.entries(number)


def _session_names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for member in value:
            yield from _session_names(member)
    elif isinstance(value, dict):
        if value.get("key") in _SESSION_KEYS and isinstance(value.get("value"), dict):
            name = value["value"].get("stringValue")
            name = (name or "").strip('"')  # some instrumentations write the id as JSON
            if len(name) > 3:
                yield name
        for member in value.values():
            yield from _session_names(member)
    elif isinstance(value, str):
        yield from _IN_METADATA.findall(value)
