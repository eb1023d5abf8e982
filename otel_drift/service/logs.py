"""How the service logs: one line an event, as text or JSON, on stderr; ids and numbers, never text of traces."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

REPEAT_SECONDS = 600.0


def set_up(form: Literal["text", "json"]) -> None:
    """Log what the service does (info) and what other libraries warn of."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger()
    root.handlers = [handler]
    handler.addFilter(_Seldom())
    root.setLevel(logging.WARNING)
    logging.getLogger("otel_drift").setLevel(logging.INFO)


class _Seldom(logging.Filter):
    """What another library says over and over (an exporter whose endpoint is down) is said every `REPEAT_SECONDS`."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("otel_drift"):
            return True
        place = (record.name, record.lineno)
        last = self._said.get(place)
        if last is not None and record.created - last < REPEAT_SECONDS:
            return False
        self._said[place] = record.created
        return True


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname.lower()} {record.getMessage()}".replace("\n", " ")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        return json.dumps(said)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
