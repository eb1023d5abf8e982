"""``otel-drift setup``: what a platform needs once, before people search, review and are alerted there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from otel_drift.cli import app
from otel_drift.cli.common import ConfigOption, stdout_console


@app.command("setup")
def set_up(
    connector: Annotated[str, typer.Argument(help="A platform: langfuse, langfuse:URL.", show_default=False)],
    queue: Annotated[str | None, typer.Option("--queue", help="Also make a review queue of this name.")] = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Also make a dashboard.")] = False,
    config: ConfigOption = None,
) -> None:
    """Make score configs, a review queue and a dashboard on a platform that has these; twice changes nothing."""
    from otel_drift import plugins
    from otel_drift.config import load_settings
    from otel_drift.errors import ConfigError
    from otel_drift.report.escape import terminal_safe

    name, _, target = connector.partition(":")
    with ExitStack() as stack:
        sink = plugins.opened("sinks", name, target, load_settings(config).connectors)
        stack.callback(sink.close)
        make = getattr(sink, "set_up", None)
        if make is None:
            raise ConfigError(f"{name} needs no setting up")
        sink.check()
        for line in make(sorted(plugins.installed("audits")), queue=queue, dashboard=dashboard):
            stdout_console().print(terminal_safe(line), soft_wrap=True, highlight=False, markup=False)
