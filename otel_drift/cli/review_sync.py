"""``otel-drift review sync``: review on a platform: items into its queue, verdicts back into the ledger."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from otel_drift.cli.common import ConfigOption
from otel_drift.cli.ledgers import LedgerOption, SinkOption, deliver_now, open_ledger, settings_with
from otel_drift.cli.review import review


@review.command("sync")
def sync(
    connector: Annotated[str, typer.Argument(help="A platform: langfuse, langfuse:URL.", show_default=False)],
    queue: Annotated[str | None, typer.Option("--queue", help="The name of its review queue.")] = None,
    triage: Annotated[bool, typer.Option("--triage", help="Also push items that may wait.")] = False,
    sink: SinkOption = None,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Push open items to a platform's review queue, once each, and record what was decided there."""
    from otel_drift import plugins, review_sync
    from otel_drift.errors import ConfigError
    from otel_drift.report.escape import terminal_safe

    settings = settings_with(config, ledger, sink)
    settings.output.sinks = settings.output.sinks or [connector]
    name, _, target = connector.partition(":")
    with ExitStack() as stack:
        platform = plugins.opened("sinks", name, target, settings.connectors)
        stack.callback(platform.close)
        make = getattr(platform, "review_queue", None)
        if make is None:
            raise ConfigError(f"{name} has no review queue; use `otel-drift review list` and `review resolve`")
        platform.check()
        opened_ledger = open_ledger(settings, stack)
        done = review_sync.exchange(opened_ledger, make(queue), triage=triage)
        problems = deliver_now(opened_ledger, settings) if done.decided else []
    for one in done.decided:
        by = one["resolved"]["by"]
        typer.echo(terminal_safe(f"{one['item_id']} {one['status']} by {by}: {one['type'] or one['audit']}"))
    said = [f"{done.added} added to the queue", f"{len(done.decided)} decided there"]
    said += [f"{done.elsewhere} not held by this platform"] * bool(done.elsewhere)
    said += [f"{done.unmatched} verdicts match no item"] * bool(done.unmatched)
    for note in (", ".join(said), *problems):
        typer.echo(terminal_safe(f"otel-drift: {note}"), err=True)
    if problems:
        raise typer.Exit(3)
