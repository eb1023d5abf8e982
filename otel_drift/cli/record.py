"""``otel-drift record`` and ``otel-drift forget``: the audit record as JSON lines, and its privacy deletion."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from otel_drift.cli import app
from otel_drift.cli.common import ConfigOption, FormatOption, OutputFormat, write_json_line
from otel_drift.cli.ledgers import LedgerOption, nanoseconds, open_ledger, settings_with

SessionOption = Annotated[str | None, typer.Option(help="Session id, or session key.")]


@app.command()
def record(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Session id, or session key.", show_default=False)
    ] = None,
    since: Annotated[str | None, typer.Option(help="Everything committed since this date or time.")] = None,
    output: Annotated[OutputFormat, typer.Option("--format", help="The record is JSON lines.")] = OutputFormat.json,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the audit record as JSON lines: every result, ask and answer, delivery and review."""
    from otel_drift.errors import ConfigError

    if session is None and since is None:
        raise ConfigError("name a SESSION, or --since DATE")
    if output is not OutputFormat.json:
        raise ConfigError("the record is JSON lines; `otel-drift review show` is for people")
    start = nanoseconds(since, "--since")
    found = 0
    with ExitStack() as stack:
        for entry in open_ledger(settings_with(config, ledger), stack).record(session, start):
            found += 1
            write_json_line(entry)
    if not found and session is not None:
        raise ConfigError(f"the ledger has no result of session {session!r}")


@app.command()
def forget(
    session: SessionOption = None,
    user: Annotated[str | None, typer.Option(help="User, as the sessions name them.")] = None,
    before: Annotated[
        str | None, typer.Option(help="Everything committed or received before this date or time.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    output: FormatOption = OutputFormat.text,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Erase texts in the ledger for good: prompts, answers, reports, evidence. Hashes and a tombstone stay.

    Spans that a service received of it are deleted, open review items are withdrawn, and alerts are told as resolved.
    What is given has to hold all together. Platforms and files that were written to are not touched.
    """
    from otel_drift.errors import ConfigError
    from otel_drift.inbox import Inbox

    if session is None and user is None and before is None:
        raise ConfigError("say whose texts: --session, --user or --before DATE")
    until = nanoseconds(before, "--before")
    with ExitStack() as stack:
        opened = open_ledger(settings_with(config, ledger), stack)
        inbox = Inbox(opened)
        results = len(opened.forgettable(session=session, user=user, before=until))
        traces = inbox.forgettable(session=session, user=user, before=until)
        if not yes and (results or traces):
            what = f"{results} {'result' if results == 1 else 'results'}"
            if traces:
                what += f" and {traces} {'trace' if traces == 1 else 'traces'} received"
            typer.confirm(f"Erase the texts of {what} in {opened.name}, for good?", abort=True, err=True)
        counts = opened.forget(session=session, user=user, before=until)
        counts["spans"] = inbox.forget(session=session, user=user, before=until, for_good=True)
    if output is OutputFormat.json:
        write_json_line(counts)
    else:
        said = ", ".join(f"{count} {name}" for name, count in counts.items())
        typer.echo(f"erased: {said}" if results or traces else "nothing to erase")
