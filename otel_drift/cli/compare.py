"""``otel-drift compare``, ``runs`` and ``findings``: over many sessions, what is there and what has changed."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from typing import Annotated

import typer

from otel_drift.cli import app
from otel_drift.cli.common import ConfigOption, FormatOption, OutputFormat, stdout_console, write_json_line
from otel_drift.cli.ledgers import LedgerOption, nanoseconds, open_ledger, settings_with

RunArgument = Annotated[int, typer.Argument(help="A run's number, from `otel-drift runs`.", show_default=False)]


class GroupBy(StrEnum):
    """What findings are grouped by."""

    passage = "passage"
    type = "type"
    session = "session"


@app.command()
def runs(output: FormatOption = OutputFormat.text, ledger: LedgerOption = None, config: ConfigOption = None) -> None:
    """List the runs in the ledger."""
    from otel_drift.report import desk

    with ExitStack() as stack:
        found = open_ledger(settings_with(config, ledger), stack).runs()
    if output is OutputFormat.json:
        for one in found:
            write_json_line(one)
    else:
        desk.print_runs(stdout_console(), found)


@app.command()
def compare(
    run_a: RunArgument,
    run_b: RunArgument,
    output: FormatOption = OutputFormat.text,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Compare the drift rates of two runs: did the release make it worse, and can the samples tell?"""
    from otel_drift import comparison
    from otel_drift.errors import ConfigError
    from otel_drift.report import desk

    if run_a == run_b:
        raise ConfigError(f"run {run_a} is named twice; `otel-drift runs` lists the others")
    with ExitStack() as stack:
        opened = open_ledger(settings_with(config, ledger), stack)
        known = {one["run_id"] for one in opened.runs()}
        for run_id in (run_a, run_b):
            if run_id not in known:
                raise ConfigError(f"the ledger has no run {run_id}; `otel-drift runs` lists them")
        compared = comparison.compare(opened.members(run_a), opened.members(run_b))
    if output is OutputFormat.json:
        write_json_line({"run_a": run_a, "run_b": run_b, **compared})
    else:
        desk.print_comparison(stdout_console(), run_a, run_b, compared)


@app.command()
def findings(
    by: Annotated[GroupBy, typer.Option(help="What is one line.")] = GroupBy.passage,
    since: Annotated[str | None, typer.Option(help="Only of results committed since this date or time.")] = None,
    output: FormatOption = OutputFormat.text,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Group findings by the passage behind them: one wrong document in 300 sessions is one line."""
    from otel_drift.grouping import grouped
    from otel_drift.report import desk

    start = nanoseconds(since, "--since")
    with ExitStack() as stack:
        found = open_ledger(settings_with(config, ledger), stack).current_findings(start)
    groups = grouped(found, by.value)
    if output is OutputFormat.json:
        for group in groups:
            write_json_line(group)
    else:
        desk.print_groups(stdout_console(), groups, by.value)
