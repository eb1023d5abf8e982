"""What the commands that read a ledger share: opening it, dates, and delivering what a decision changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from otel_drift.config import Settings
    from otel_drift.ledger import Ledger

LAST_YEAR = 2262
"""Nanoseconds since 1970 fit the ledger's columns until then."""

LedgerOption = Annotated[
    str | None, typer.Option("--ledger", help="File or postgresql:// URL. Default: that of the settings.")
]
SinkOption = Annotated[
    list[str] | None, typer.Option("--sink", help="jsonl:FILE or otlp:URL to write to now; default: the settings'.")
]


def open_ledger(settings: Settings, stack: ExitStack) -> Ledger:
    """Open the ledger the settings name; a file that is named has to be there.

    Raises:
        ConfigError: the file is not there.
        LedgerError: it cannot be opened.
    """
    from otel_drift.config import default_ledger
    from otel_drift.errors import ConfigError
    from otel_drift.ledger import Ledger

    named = settings.ledger.url
    if named and "://" not in named and not Path(named).expanduser().exists():
        raise ConfigError(f"{named}: no such ledger; `otel-drift audit … --ledger {named}` makes one")
    return stack.enter_context(Ledger.open(named or default_ledger()))


def settings_with(config: Path | None, ledger: str | None, sink: Sequence[str] | None = None) -> Settings:
    """The settings with what the command line says of ledger and sinks."""
    from otel_drift.config import load_settings

    return load_settings(config, {"ledger": {"url": ledger}, "output": {"sinks": list(sink) if sink else None}})


def nanoseconds(date: str | None, option: str) -> int | None:
    """A date (``2026-11-30``, midnight UTC) or time (ISO 8601) as nanoseconds since 1970.

    Raises:
        ConfigError: it is neither.
    """
    from otel_drift.errors import ConfigError

    if date is None:
        return None
    try:
        given = datetime.fromisoformat(date)
    except ValueError:
        raise ConfigError(f"{option} {date}: write a date as 2026-11-30 or a time as 2026-11-30T14:00+01:00") from None
    when = given if given.tzinfo else given.replace(tzinfo=UTC)
    if not 1970 <= when.year < LAST_YEAR:
        raise ConfigError(f"{option} {date}: dates go from 1970 to {LAST_YEAR - 1}")
    return int(when.timestamp()) * 1_000_000_000


def deliver_now(ledger: Ledger, settings: Settings) -> list[str]:
    """Write what is owed to the sinks of the settings; returns what a person must know of failures."""
    from otel_drift import delivery
    from otel_drift.cli.wiring import open_sinks

    with ExitStack() as stack:
        return delivery.deliver(ledger, open_sinks(settings, stack)).problems


def still_owed(ledger: Ledger, sinks: Sequence[str]) -> list[str]:
    """Those of `sinks` that are owed something."""
    return [name for name in sinks if ledger.owed_to(name)]


def link(settings: Settings, span_ref: str | None) -> str | None:
    """Where a person sees a span on the platform, if the settings say how."""
    from otel_drift.links import Links

    return Links(settings.output.trace_url).span(span_ref)
