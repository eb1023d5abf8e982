"""``otel-drift init``: write a commented settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otel_drift.cli import app


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("otel-drift.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a settings file with every setting, its default and its environment variable."""
    from otel_drift.errors import ConfigError
    from otel_drift.sample_config import sample_config

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(sample_config())
    except FileExistsError:
        raise ConfigError(f"{path}: is there already; --force overwrites it") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    typer.echo(f"{path}: written; edit what you need, all settings are optional", err=True)
