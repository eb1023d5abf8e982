"""What the commands share: options, the file source with its problems on stderr, progress."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.errors import SourceError

if TYPE_CHECKING:
    from rich.console import Console

    from otel_drift.config import SessionSettings
    from otel_drift.errors import RecordError
    from otel_drift.sessions import ReconstructOptions
    from otel_drift_connectors.otlp_file import OtlpFileSource

SHOWN_PROBLEMS = 100
SHOWN_OF_A_FILE = 5


class OutputFormat(StrEnum):
    """How results are printed."""

    text = "text"
    json = "json"


Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Files, folders or globs of OTLP JSON, JSON lines, protobuf or MLflow traces, gzipped or not. "
        "All are one input: spans and log records join across them.",
        show_default=False,
    ),
]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="text for people, json for machines.")]
AskAgainOption = Annotated[
    bool, typer.Option("--ask-again", help="Ask the judge anew where a stored answer could not be used.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file. Default: $OTEL_DRIFT_CONFIG, else ./otel-drift.toml if there."),
]


def stderr_console() -> Console:
    """A console on stderr, for people."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def stdout_console() -> Console:
    """A console on stdout, for results as text; when its reader goes away the command still finishes."""
    from rich.console import Console

    from otel_drift.cli import mute_stdout

    class Results(Console):
        def on_broken_pipe(self) -> None:
            mute_stdout()

    return Results(highlight=False, markup=False, emoji=False)


def write_json_line(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own, at once; when the reader goes away the command still finishes."""
    import orjson

    from otel_drift.cli import mute_stdout

    try:
        sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS))
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


@contextmanager
def reading(paths: list[str], output: OutputFormat) -> Iterator[tuple[OtlpFileSource, Callable[[int], None]]]:
    """Open the file source with a progress display on a terminal.

    Where results are printed as text on the same terminal, they are the progress: the display ends with the first.

    Yields:
        the source, and a function that shows how many sessions are done.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from otel_drift import plugins

    console = stderr_console()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        files = progress.add_task("reading", total=None, detail="")
        done = progress.add_task("sessions", total=None, detail="", visible=False)

        def on_progress(read: int, total: int) -> None:
            progress.update(files, completed=read, total=total or None, detail=f"{read / 1e6:.0f} MB")

        results_show = output is OutputFormat.text and sys.stdout.isatty()

        def on_sessions(count: int) -> None:
            if results_show:
                progress.stop()
            progress.update(done, visible=True, detail=f"{count} done")

        shown: Counter[str] = Counter()

        def on_problem(problem: RecordError) -> None:
            if shown.total() < SHOWN_PROBLEMS and shown[problem.file] < SHOWN_OF_A_FILE:
                shown[problem.file] += 1
                _warn(progress.console, str(problem))

        source = plugins.load("sources", "otlp-file")(paths, on_problem=on_problem, on_progress=on_progress)
        yield source, on_sessions
    if source.own_results:
        _warn(console, f"{source.own_results} of otel-drift's own results lie among the input and were passed over")
    if source.problem_count and source.span_count:
        further = source.problem_count - shown.total()
        named = f", the others like these ({further} further)" if further else ""
        _warn(console, f"{source.problem_count} broken records or files were passed over{named}; the rest was read")
    if source.problem_count and not source.span_count:
        raise SourceError("nothing could be read: no file given holds a span")


def _warn(console: Console, message: str) -> None:
    from rich.text import Text

    from otel_drift.report.escape import terminal_safe

    console.print(Text(f"otel-drift: {terminal_safe(message)}", style="yellow"), soft_wrap=True)
