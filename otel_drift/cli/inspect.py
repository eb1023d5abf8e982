"""``otel-drift inspect``: what is in these traces, and what is missing for an audit."""

from __future__ import annotations

from otel_drift.cli import app
from otel_drift.cli.common import (
    ConfigOption,
    FormatOption,
    OutputFormat,
    Paths,
    reading,
    session_options,
    stderr_console,
    stdout_console,
    write_json_line,
)


@app.command()
def inspect(paths: Paths, output: FormatOption = OutputFormat.text, config: ConfigOption = None) -> None:
    """Show sessions, turns and passages, where each was read, and what is missing. The first thing to run."""
    from otel_drift import sessions
    from otel_drift.config import load_settings
    from otel_drift.report import inspection
    from otel_drift.spool import SpanSpool

    options = session_options(load_settings(config).sessions)
    console = stdout_console()
    turns = count = 0
    with reading(paths, output) as (source, on_sessions), SpanSpool() as spool:
        records = (record for page, _cursor in source.read() for record in page)
        for session in sessions.stream(records, spool, options):
            count += 1
            turns += len(session.turns)
            on_sessions(count)
            if output is OutputFormat.json:
                write_json_line(sessions.session_json(session))
            else:
                inspection.print_session(console, session)
    inspection.print_inspection_totals(
        stderr_console(), spans=source.span_count, sessions=count, turns=turns, problems=source.problem_count
    )
