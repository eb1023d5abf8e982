"""The command line: it parses, calls the pipeline, prints. Results on stdout, people-text and progress on stderr.

Exit status: 0 done, 1 findings at or above ``--fail-on``, 2 usage or configuration, 3 a source, a sink or the ledger
failed or broken records were passed over, 5 something could not be audited (inconclusive), 130 interrupted. (4 is for
results that await a sign-off.)
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from otel_drift import __version__
from otel_drift.errors import ConfigError, OtelDriftError


class _Commands(TyperGroup):
    """Turns every expected error of a command into one clear line and an exit status, before typer sees it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except ConfigError as error:
            _fail(str(error), 2)
        except OtelDriftError as error:
            _fail(str(error), 3)
        except KeyboardInterrupt:
            _fail("interrupted; what was finished is kept, the same command goes on from there", 130)
        except BrokenPipeError:
            mute_stdout()
            raise SystemExit(141) from None
        except OSError as error:
            mute_stdout()
            _fail(f"the results cannot be written: {error.strerror or error}", 3)
        return result


app = typer.Typer(
    name="otel-drift",
    cls=_Commands,
    help="Find factual drift in the traces of RAG chats.",
    epilog="Start with: otel-drift inspect PATH",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they would print local variables, which hold private trace text
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"otel-drift {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def main() -> None:
    """Run the command line; every expected error becomes one clear line and an exit status."""
    from otel_drift.cli import (  # noqa: F401 - importing registers the commands
        audit,
        calibrate,
        check,
        cite,
        compare,
        gate,
        init,
        inspect,
        longform,
        mute,
        prompts,
        record,
        review,
        review_sync,
        serve,
        setup,
        status,
    )

    for name in ("stdout", "stderr"):  # None where the descriptor was closed
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as we do
    app()


def mute_stdout() -> None:
    """Send what is still to be printed nowhere: the reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int) -> NoReturn:
    from otel_drift.report.escape import terminal_safe

    typer.echo(f"otel-drift: {terminal_safe(message)}", err=True)
    raise SystemExit(status)
