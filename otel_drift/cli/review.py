"""``otel-drift review``: what people are asked to look at, with its evidence; their decision, written back."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from otel_drift.cli.ledgers import (
    LedgerOption,
    SinkOption,
    deliver_now,
    link,
    open_ledger,
    settings_with,
    still_owed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

review = typer.Typer(no_args_is_help=True, help="What people are asked to look at, and what they decided.")
app.add_typer(review, name="review")

ItemArgument = Annotated[
    str, typer.Argument(metavar="ITEM", help="An item's id, the beginning of it, or an event id.", show_default=False)
]


class StatusChoice(StrEnum):
    """Which items are listed."""

    open = "open"
    triage = "triage"
    confirmed = "confirmed"
    rejected = "rejected"
    all = "all"


class SeverityChoice(StrEnum):
    """The least severity that is listed."""

    critical = "critical"
    major = "major"
    minor = "minor"


@review.command("list")
def list_items(
    status: Annotated[StatusChoice, typer.Option(help="Which items.")] = StatusChoice.open,
    audit: Annotated[str | None, typer.Option(help="Only items of this audit.")] = None,
    severity: Annotated[SeverityChoice | None, typer.Option(help="Only this severe or worse.")] = None,
    output: FormatOption = OutputFormat.text,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """List review items: those a person has to see first, then the worst."""
    from otel_drift.report import desk

    settings = settings_with(config, ledger)
    with ExitStack() as stack:
        opened = open_ledger(settings, stack)
        statuses = () if status is StatusChoice.all else (status.value,)
        items = opened.review_items(statuses, audit=audit, severity=severity.value.upper() if severity else None)
    if output is OutputFormat.json:
        for item in items:
            write_json_line({**item, "link": link(settings, item["span_ref"])})
    else:
        desk.print_items(stdout_console(), items)
        stderr_console().print(f"{len(items)} {'item' if len(items) == 1 else 'items'} ({status.value})")


@review.command()
def show(
    item: ItemArgument,
    output: FormatOption = OutputFormat.text,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Show one item with claims, quotes, passages and its history."""
    from otel_drift.report import desk

    settings = settings_with(config, ledger)
    with ExitStack() as stack:
        found = open_ledger(settings, stack).review_item(item)
    found["link"] = link(settings, found["span_ref"])
    if output is OutputFormat.json:
        write_json_line(found)
    else:
        desk.print_item(stdout_console(), found)


@review.command()
def resolve(
    item: ItemArgument,
    by: Annotated[str, typer.Option(help="Who decides.")],
    why: Annotated[str, typer.Option(help="Why, in a sentence.")],
    confirm: Annotated[bool, typer.Option("--confirm", help="It is so.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="It is not; what the machine said is set to NONE.")] = False,
    sink: SinkOption = None,
    output: FormatOption = OutputFormat.text,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Confirm or reject an item; the decision is kept over later audits and written back."""
    from otel_drift.errors import ConfigError

    if confirm == reject:
        raise ConfigError("say either --confirm or --reject")
    if not by.strip() or not why.strip():
        raise ConfigError("--by and --why may not be empty: the record names who decided, and why")
    settings = settings_with(config, ledger, sink)
    with ExitStack() as stack:
        opened = open_ledger(settings, stack)
        decided, owed_to = opened.resolve(item, "confirmed" if confirm else "rejected", by=by.strip(), why=why.strip())
        problems = deliver_now(opened, settings)
        waiting = still_owed(opened, owed_to)
    if output is OutputFormat.json:
        write_json_line({**decided, "owed_to": waiting})
    else:
        from otel_drift.report.escape import terminal_safe

        what = decided["type"] or decided["audit"]
        typer.echo(terminal_safe(f"{decided['item_id']} {decided['status']}: {what}"))
    _tell(
        problems or [f"sink {name} is owed the change; the next run with it, or --sink, writes it" for name in waiting]
    )
    if problems:
        raise typer.Exit(3)


@review.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the labels, one JSON object a line.")],
    audit: Annotated[str | None, typer.Option(help="Only items of this audit.")] = None,
    as_labels: Annotated[
        bool, typer.Option("--as-labels", help="Export every decision of the audit (source_conflict), not only items.")
    ] = False,
    reviewed: Annotated[bool, typer.Option("--reviewed", help="Only decisions a person has decided about.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Write decided items as labels for calibration; with --as-labels the gate's decisions as an evaluation set."""
    from otel_drift import labels
    from otel_drift.errors import ConfigError

    if as_labels and audit is None:
        raise ConfigError("--as-labels needs --audit source_conflict: only an audit that decides has decisions")
    with ExitStack() as stack:
        opened = open_ledger(settings_with(config, ledger), stack)
        if as_labels:
            found = [labels.of_decision(one) for one in opened.decisions(audit or "")]
            made = [one for one in found if not reviewed or one["raw_label"]["labelled_by"] == "person"]
        else:
            decided = [labels.of_item(one) for one in opened.decided_items(audit)]
            made = [one for one in decided if one is not None]
    _write(file, made, force)
    notes = [f"{file}: {len(made)} {'label' if len(made) == 1 else 'labels'} written"]
    if as_labels:
        people = sum(one["raw_label"]["labelled_by"] == "person" for one in made)
        notes.append(f"{people} of them are a person's; the others repeat the machine's decision and prove nothing")
    _tell(notes)


def _write(file: Path, made: Iterable[dict[str, Any]], force: bool) -> None:
    from otel_drift.errors import ConfigError
    from otel_drift.output_file import regular_target

    regular_target(file)
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8") as opened:
            opened.writelines(json.dumps(one) + "\n" for one in made)
    except FileExistsError:
        raise ConfigError(f"{file}: is there already; --force overwrites it") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from None


def _tell(notes: Iterable[str]) -> None:
    from otel_drift.report.escape import terminal_safe

    for note in notes:
        typer.echo(terminal_safe(f"otel-drift: {note}"), err=True)
