"""Runs a printing function on a console as wide and as capable as asked, and gives back what was written."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from rich.console import Console

ANSI = re.compile(r"\x1b\[[0-9;]*m")
HIDDEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def printed(
    show: Callable[[Console], None],
    *,
    width: int = 80,
    terminal: bool = True,
    colour: bool = True,
    encoding: str = "utf-8",
) -> str:
    """What `show` writes: on a terminal with its colour codes, or piped."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    console = Console(
        file=stream,
        width=width,
        force_terminal=terminal,
        color_system="truecolor" if colour and terminal else None,
        no_color=not colour,
        legacy_windows=False,
        _environ={},
    )
    show(console)
    stream.flush()
    return raw.getvalue().decode(encoding)


def uncoloured(text: str) -> str:
    """The text without the colour codes that rich wrote."""
    return ANSI.sub("", text)
