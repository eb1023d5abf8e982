"""``otel-drift mute``: findings that are known and accepted stay in the report and disturb nobody."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Annotated

import typer

from otel_drift.cli import app
from otel_drift.cli.common import (
    ConfigOption,
    FormatOption,
    OutputFormat,
    stderr_console,
    stdout_console,
    write_json_line,
)
from otel_drift.cli.ledgers import LedgerOption, SinkOption, deliver_now, nanoseconds, open_ledger, settings_with

mute = typer.Typer(no_args_is_help=True, help="Silence a finding: the same pair of claims on the same passages.")
app.add_typer(mute, name="mute")


@mute.command()
def add(
    finding: Annotated[str, typer.Argument(metavar="EVENT|ITEM", help="Event id or review item.", show_default=False)],
    why: Annotated[str, typer.Option(help="Why it may be ignored.")],
    until: Annotated[str | None, typer.Option(help="Date or time from which it counts again.")] = None,
    sink: SinkOption = None,
    output: FormatOption = OutputFormat.text,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Mute a finding: it stays in reports, marked, and makes no annotation, no alert and no exit status."""
    from otel_drift.errors import ConfigError
    from otel_drift.report import desk

    end = nanoseconds(until, "--until")
    if end is not None and end <= time.time_ns():
        raise ConfigError(f"--until {until} is past")
    if not why.strip():
        raise ConfigError("--why may not be empty: the report shows it beside the finding")
    settings = settings_with(config, ledger, sink)
    with ExitStack() as stack:
        opened = open_ledger(settings, stack)
        made = opened.mute(finding, why=why.strip(), until=end)
        problems = deliver_now(opened, settings)
    if output is OutputFormat.json:
        write_json_line(made)
    else:
        desk.print_mutes(stdout_console(), [made])
    _fail_on(problems)


@mute.command("list")
def list_mutes(
    everything: Annotated[bool, typer.Option("--all", help="Also those expired or taken back.")] = False,
    output: FormatOption = OutputFormat.text,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """List mutes with reason, end and the number of findings they hold for."""
    from otel_drift.report import desk

    with ExitStack() as stack:
        found = open_ledger(settings_with(config, ledger), stack).mutes(everything=everything)
    if output is OutputFormat.json:
        for one in found:
            write_json_line(one)
    else:
        desk.print_mutes(stdout_console(), found)
        stderr_console().print(f"{len(found)} {'mute' if len(found) == 1 else 'mutes'}")


@mute.command()
def remove(
    mute_id: Annotated[int, typer.Argument(metavar="MUTE", help="Its number, from `mute list`.", show_default=False)],
    sink: SinkOption = None,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Take a mute back; its findings count again and are written again."""
    settings = settings_with(config, ledger, sink)
    with ExitStack() as stack:
        opened = open_ledger(settings, stack)
        opened.unmute(mute_id)
        problems = deliver_now(opened, settings)
    typer.echo(f"mute {mute_id} is taken back")
    _fail_on(problems)


def _fail_on(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(f"otel-drift: {problem}", err=True)
    if problems:
        raise typer.Exit(3)
