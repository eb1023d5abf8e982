"""``otel-drift status``: what the services on a ledger are doing, and what is wrong."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.cli import app
from otel_drift.cli.common import ConfigOption, FormatOption, OutputFormat, stdout_console, write_json_line
from otel_drift.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LISTED_SECONDS = 86_400
"""Processes that ended longer ago are told of in JSON only."""


@app.command()
def status(
    output: FormatOption = OutputFormat.text,
    ledger: Annotated[str | None, typer.Option(help="File or postgresql:// URL of the service.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit 3 if anything is wrong, for monitors.")] = False,
    config: ConfigOption = None,
) -> None:
    """Say what the services are doing: sessions, budget, sources, sinks, alerts, and what is wrong."""
    from otel_drift.config import default_ledger, load_settings
    from otel_drift.inbox import Inbox
    from otel_drift.ledger import Ledger
    from otel_drift.service.status import status as state_of

    if ledger and "://" not in ledger and not Path(ledger).is_file():
        raise ConfigError(f"--ledger {ledger}: there is no such file; the service makes it where its settings say")
    settings = load_settings(config, {"ledger": {"url": ledger}})
    with Ledger.open(settings.ledger.url or default_ledger()) as opened:
        told = state_of(opened, Inbox(opened), settings, time.time_ns())
    if output is OutputFormat.json:
        write_json_line(told)
    else:
        console = stdout_console()
        for line in _lines(told):
            console.print(line, soft_wrap=True)
    if check and told["problems"]:
        raise typer.Exit(3)


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    from otel_drift.report.escape import terminal_safe
    from otel_drift.report.wording import outcome_words

    yield f"ledger    {terminal_safe(told['ledger'])}"
    for one in told["processes"]:
        if one["state"] != "running" and one["heard_seconds_ago"] > LISTED_SECONDS:
            continue
        ended = {
            "running": " ".join(str(address) for address in one.get("addresses", {}).values()),
            "stopped": f"stopped {one['stopped']}",
            "silent": f"last heard of {one['heard_seconds_ago']:.0f} s ago",
        }[one["state"]]
        yield f"process   {one['process_id']} {one['state']}, started {one['started']}, {terminal_safe(ended)}"
        done = one.get("done") or {}
        if done:
            counted = ", ".join(f"{number} {outcome_words(name)}" for name, number in sorted(done.items()))
            yield f"          sessions it audited: {counted}"
    sessions, kept = told["sessions"], told["kept"]
    late = f", the oldest due for {sessions['oldest_due_seconds']:.0f} s" if sessions["oldest_due_seconds"] else ""
    yield f"sessions  {sessions['open']} open, {sessions['due']} due{late}, {sessions['held']} being audited"
    for reason, number in sessions["put_off"].items():
        yield f"          {number} put off: {reason}"
    yield f"kept      {kept['spans']:,} spans, {kept['bytes'] / 1e6:,.1f} MB"
    today = told["today"]
    outcomes = ", ".join(f"{number} {outcome_words(name)}" for name, number in sorted(today["outcomes"].items()))
    yield f"today     {today['results']} results{': ' if outcomes else ''}{outcomes}"
    budget = told["budget"]
    spent = f"{budget['cost']:.2f} $, {budget['tokens']:,} tokens, {budget['calls']} calls"
    limits = ", ".join(f"{name} {limit}" for name, limit in budget["limits"].items() if limit is not None)
    yield f"budget    {spent}{f' of {limits}' if limits else ''}"
    for source in told["sources"]:
        yield f"source    {terminal_safe(source['name'])} read until {source['read_until']}"
    for name, counts in told["sinks"].items():
        owed = counts.get("owed", 0)
        since = f" (the oldest for {counts['oldest_owed_seconds']:.0f} s)" if owed else ""
        later = f", {counts['put_off']} of them put off by it" if counts["put_off"] else ""
        yield f"sink      {terminal_safe(name)}: {owed} owed{since}{later}, {counts.get('written', 0)} written today"
    for name, counts in told["alerts"].items():
        failing = f", failing: {counts['reason']}" if counts["failures"] else ""
        said = f"{counts.get('firing', 0)} firing, {counts['waiting']} to be told{failing}"
        yield f"alerts    {terminal_safe(name)}: {terminal_safe(said)}"
    for problem in told["problems"]:
        yield f"problem   {terminal_safe(problem)}"
    if not told["problems"]:
        yield "all in order"
