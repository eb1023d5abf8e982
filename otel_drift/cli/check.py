"""``otel-drift check``: whether a connector can read and write, before a judge call is paid for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from otel_drift.cli import app
from otel_drift.cli.common import ConfigOption, stdout_console


@app.command()
def check(
    connector: Annotated[
        str,
        typer.Argument(help="A source or sink: langfuse, phoenix:URL?project=NAME, jsonl:FILE …", show_default=False),
    ],
    config: ConfigOption = None,
) -> None:
    """Ask a platform whether URL, key, project and version are right, for reading and for writing."""
    from otel_drift import plugins
    from otel_drift.cli.sources import FILES, answering
    from otel_drift.config import load_settings
    from otel_drift.errors import ConfigError
    from otel_drift.report.escape import terminal_safe

    name, _, target = connector.partition(":")
    kinds = [kind for kind in ("sources", "sinks") if name in plugins.installed(kind) and name != FILES]
    if not kinds:
        known = sorted({*plugins.installed("sources"), *plugins.installed("sinks")} - {FILES})
        raise ConfigError(f"no connector called {name!r}; installed: {', '.join(known)}")
    settings = load_settings(config)
    console = stdout_console()
    with ExitStack() as stack:
        for kind in kinds:
            one = plugins.opened(kind, name, target, settings.connectors)
            if close := getattr(one, "close", None):
                stack.callback(close)
            ask = getattr(one, "check", None)
            with answering(one.name):
                said = ask() if ask else f"{one.name}: its options are right; it has nothing to ask"
            console.print(f"{'read ' if kind == 'sources' else 'write'}  ok  {terminal_safe(said)}", soft_wrap=True)
