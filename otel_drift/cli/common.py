"""What the commands share: options and where they print."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from otel_drift.config import SessionSettings
    from otel_drift.sessions import ReconstructOptions


class OutputFormat(StrEnum):
    """How results are printed."""

    text = "text"
    json = "json"


FormatOption = Annotated[OutputFormat, typer.Option("--format", help="text for people, json for machines.")]
AskAgainOption = Annotated[
    bool, typer.Option("--ask-again", help="Ask the judge anew where a stored answer could not be used.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file. Default: $OTEL_DRIFT_CONFIG, else ./otel-drift.toml if there."),
]


def stderr_console() -> Console:
    """A console on stderr, for people; wraps on a terminal only."""
    from rich.console import Console

    return _unwrapped_when_piped(Console(stderr=True, highlight=False, markup=False, emoji=False))


def stdout_console() -> Console:
    """A console on stdout, for results as text; when its reader goes away the command still finishes.

    Lines wrap on a terminal only: a file or another program gets each line whole.
    """
    from rich.console import Console

    from otel_drift.cli import mute_stdout

    class Results(Console):
        def on_broken_pipe(self) -> None:
            mute_stdout()

    return _unwrapped_when_piped(Results(highlight=False, markup=False, emoji=False))


def _unwrapped_when_piped(console: Console) -> Console:
    console.soft_wrap = not console.is_terminal
    return console


def write_json_line(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own, at once; when the reader goes away the command still finishes."""
    import orjson

    from otel_drift.cli import mute_stdout
    from otel_drift.report.escape import json_safe

    line = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
    try:
        sys.stdout.buffer.write(json_safe(line))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        mute_stdout()


def session_options(settings: SessionSettings) -> ReconstructOptions:
    """Turn the settings into what reconstruction takes."""
    from otel_drift.sessions import ReconstructOptions

    return ReconstructOptions(
        gap_seconds=settings.time_gap_minutes * 60,
        passage_pattern=settings.passage_pattern or None,
        retrieval_tools=tuple(settings.retrieval_tools),
        session_attributes=tuple(settings.session_id_attributes),
    )
