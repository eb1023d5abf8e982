"""What is read, files or a platform, and what is shown while reading."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otel_drift.cli.common import OutputFormat, stderr_console
from otel_drift.errors import ConfigError, OtelDriftError, PlatformError, SinkError, SourceError
from otel_drift.model import Record, Span

if TYPE_CHECKING:
    from rich.console import Console

    from otel_drift.config import Settings
    from otel_drift.errors import RecordError
    from otel_drift.links import Links
    from otel_drift.protocols import Sink, Source, Window

log = logging.getLogger(__name__)

FILES = "otlp-file"
SHOWN_PROBLEMS = 100
SHOWN_OF_A_FILE = 5

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH... | PLATFORM[:URL]",
        help="Files, folders or globs of OTLP JSON, JSON lines, protobuf or MLflow traces, gzipped or not, all one "
        "input: spans and log records join across them. Or one platform: langfuse, phoenix:URL?project=NAME, "
        "mlflow:URL?experiment=NAME, tempo:URL, jaeger:URL?service=NAME.",
        show_default=False,
    ),
]


class Reading:
    """A source that is being read: counts its spans and the problems in it, and shows both.

    Itself a `Source`, so that the pipeline reads through it.
    """

    def __init__(self, given: Sequence[str], settings: Settings) -> None:
        from otel_drift import plugins

        self.span_count = 0
        self.problem_count = 0
        self.lost_count = 0
        """Problems for which something was passed over that should have been read."""
        self._shown: Counter[str] = Counter()
        self._console = stderr_console()
        self._on_read: Callable[[int, int], None] = lambda _read, _total: None
        self.platform = platform_of(given)
        if self.platform is None:
            self.source: Source = plugins.load("sources", FILES)(
                given, on_problem=self._problem, on_progress=lambda read, total: self._on_read(read, total)
            )
        else:
            name, target = self.platform
            self.source = plugins.opened("sources", name, target, settings.connectors, on_problem=self._problem)
        self.name = self.source.name

    @property
    def windowed(self) -> bool:
        """Whether it is a platform, of which a part is read."""
        return getattr(self.source, "windowed", False)

    def check(self) -> None:
        """Ask a platform whether it can be read.

        Raises:
            ConfigError: a key, a URL or a project is wrong.
            SourceError: it is down.
        """
        if check := getattr(self.source, "check", None):
            with answering(self.name):
                check()

    def links(self, settings: Settings) -> Links:
        """Where people see what was read."""
        return links_of(self.source, settings)

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """As the source does, counted."""
        with answering(self.name) if self.platform else nullcontext():
            for page, after in self.source.read(cursor, window):
                self.span_count += sum(isinstance(record, Span) for record in page)
                if self.platform is not None:
                    self._on_read(self.span_count, 0)
                yield page, after

    def close(self) -> None:
        """Release what the source holds."""
        if close := getattr(self.source, "close", None):
            close()

    @contextmanager
    def shown(self, output: OutputFormat) -> Iterator[Callable[[int], None]]:
        """A progress display on a terminal, and after it what was wrong with the input.

        Where results are printed as text on the same terminal, they are the progress: the display ends with the first.

        Yields:
            a function that shows how many sessions are done.

        Raises:
            SourceError: on leaving, when there were problems and not one span.
        """
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as progress:
            reading = progress.add_task(f"reading {self.name if self.platform else ''}".strip(), total=None, detail="")
            done = progress.add_task("sessions", total=None, detail="", visible=False)

            def on_read(read: int, total: int) -> None:
                detail = f"{read:,} spans" if self.platform else f"{read / 1e6:.0f} MB"
                progress.update(reading, completed=read, total=total or None, detail=detail)

            results_show = output is OutputFormat.text and sys.stdout.isatty()

            def on_sessions(count: int) -> None:
                if results_show:
                    progress.stop()
                progress.update(done, visible=True, detail=f"{count} done")

            self._console, self._on_read = progress.console, on_read
            yield on_sessions
        self._say_problems()

    def _problem(self, problem: RecordError) -> None:
        self.problem_count += 1
        self.lost_count += problem.lost
        if self._shown.total() < SHOWN_PROBLEMS and self._shown[problem.file] < SHOWN_OF_A_FILE:
            self._shown[problem.file] += 1
            warn(self._console, str(problem))

    def _say_problems(self) -> None:
        if own := getattr(self.source, "own_results", 0):
            warn(self._console, f"{own} of otel-drift's own results lie among the input and were passed over")
        if self.span_count and (further := self.problem_count - self._shown.total()):
            warn(self._console, f"{further} further problems like these are not shown")
        if self.span_count and self.lost_count:
            warn(self._console, f"{self.lost_count} broken records or files were passed over; the rest was read")
        if not self.span_count and (self.lost_count if self.platform else self.problem_count):
            raise SourceError(f"nothing could be read: no {'trace' if self.platform else 'file'} given holds a span")


def links_of(source: Source, settings: Settings) -> Links:
    """Where people see what was read: as the settings say, else as the source knows, some only after `check`."""
    from otel_drift.links import Links

    known = Links(settings.output.trace_url, settings.output.session_url)
    try:
        return Links(
            known.trace_url or getattr(source, "trace_url", ""),
            known.session_url or getattr(source, "session_url", ""),
        )
    except SourceError:  # it is down, which whoever reads it is told
        return known


@contextmanager
def answering(platform: str) -> Iterator[None]:
    """Whatever else a connector raises while its platform is asked, as one clear error.

    Raises:
        PlatformError: mostly, the platform answered in a form that the connector does not know.
    """
    try:
        yield
    except (OtelDriftError, OSError):
        raise
    except Exception as error:  # the per-source boundary, as `delivery` has one for sinks
        log.debug("connector failed", exc_info=error)
        raise PlatformError(
            f"{platform} answered in an unknown form ({type(error).__name__}); is the URL right, the server of a "
            "version that the guide names? Else it is a fault of the connector: run with debug logging"
        ) from None


def platform_of(given: Sequence[str]) -> tuple[str, str] | None:
    """The platform and its target where one is named (``phoenix:URL``, ``langfuse``), None for files.

    A file of that name is read as ``./langfuse``.

    Raises:
        ConfigError: a platform among other things.
    """
    from otel_drift import plugins

    known = plugins.installed("sources")
    named = [one for one in given if (name := one.partition(":")[0]) in known and name != FILES]
    if named and len(given) > 1:
        raise ConfigError(f"{named[0].partition(':')[0]} is read alone: one platform a command, or files")
    if not named:
        for one in given:
            name, colon, rest = one.partition(":")
            if colon and rest.startswith(("http://", "https://")) and not Path(one).exists():
                raise ConfigError(f"no source called {name!r}; installed: {', '.join(sorted(known))}")
        return None
    name, _, target = named[0].partition(":")
    return name, target


def with_write_back(settings: Settings, given: Sequence[str]) -> Settings:
    """The settings with the platform that is read as the sink, unless they name sinks; ``none`` is no sink."""
    sinks = settings.output.sinks or back_to(given)
    settings.output.sinks = [sink for sink in sinks if sink != "none"]
    return settings


def back_to(given: Sequence[str]) -> list[str]:
    """The platform that is read, as a sink; nothing where files are, or where it takes no findings."""
    from otel_drift import plugins

    platform = platform_of(given)
    return [given[0]] if platform and platform[0] in plugins.installed("sinks") else []


def check_sinks(sinks: Mapping[str, Sink]) -> list[str]:
    """Ask the sinks whether they can be written to, before anything is paid for; returns which are down for now.

    One that is down stops nothing: it gets what it is owed later.

    Raises:
        ConfigError: a key, a URL or a project is wrong.
    """
    down = []
    for name, sink in sinks.items():
        if check := getattr(sink, "check", None):
            try:
                with answering(name):
                    check()
            except SinkError as error:
                down.append(f"sink {name}: {error}; what it is owed is written by a later run")
    return down


def warn(console: Console, message: str) -> None:
    """Print one line of warning; what it quotes cannot steer the terminal."""
    from rich.text import Text

    from otel_drift.report.escape import terminal_safe

    console.print(Text(f"otel-drift: {terminal_safe(message)}", style="yellow"), soft_wrap=True)
