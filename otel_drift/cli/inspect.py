"""``otel-drift inspect``: what is in these traces, and what is missing for an audit."""

from __future__ import annotations

import time

import typer

from otel_drift.cli import app
from otel_drift.cli.choice import (
    EnvironmentOption,
    SessionOption,
    SinceOption,
    TagOption,
    UntilOption,
    UserOption,
)
from otel_drift.cli.common import (
    ConfigOption,
    FormatOption,
    OutputFormat,
    session_options,
    stderr_console,
    stdout_console,
    write_json_line,
)
from otel_drift.cli.sources import Sources


@app.command()
def inspect(
    sources: Sources,
    output: FormatOption = OutputFormat.text,
    since: SinceOption = None,
    until: UntilOption = None,
    session: SessionOption = None,
    environment: EnvironmentOption = None,
    user: UserOption = None,
    tag: TagOption = None,
    config: ConfigOption = None,
) -> None:
    """Show sessions, turns and passages, where each was read, and what is missing. The first thing to run."""
    from otel_drift import sessions
    from otel_drift.cli.choice import left_out, pull_overrides, window
    from otel_drift.cli.sources import Reading
    from otel_drift.config import load_settings
    from otel_drift.report import inspection
    from otel_drift.selection import Choice, Selection
    from otel_drift.spool import SpanSpool

    given = pull_overrides(since=since, environment=environment, user=user, tag=tag)
    settings = load_settings(config, {"pull": given})
    options = session_options(settings.sessions)
    console = stdout_console()
    turns = count = 0
    source = Reading(sources, settings)
    source.check()
    chosen = Selection(window(source, settings, given=given, until=until, sessions=session or ()))
    choice = Choice(chosen, time.time_ns())
    with source.shown(output) as on_sessions, SpanSpool() as spool:
        records = (record for page, _cursor in source.read(None, chosen.window) for record in page)
        for one in choice.of(sessions.stream(records, spool, options)):
            count += 1
            turns += len(one.turns)
            on_sessions(count)
            if output is OutputFormat.json:
                write_json_line(sessions.session_json(one))
            else:
                inspection.print_session(console, one)
    explained = bool(choice.left_out or choice.missing or (source.windowed and not source.span_count))
    inspection.print_inspection_totals(
        stderr_console(),
        spans=source.span_count,
        sessions=count,
        turns=turns,
        problems=source.lost_count,
        explained=explained,
    )
    for why in left_out(choice, spans=source.span_count, audited=count) if explained else ():
        stderr_console().print(f"otel-drift: {why}", soft_wrap=True)
    if source.lost_count:
        raise typer.Exit(3)
