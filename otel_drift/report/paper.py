"""Prints untrusted text on a rich console: wrapped beside a gutter on a terminal, one plain line each when piped."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from otel_drift.report.escape import terminal_safe

Part = str | tuple[str, str] | Text
"""Text to show: plain (untrusted is fine), with a style, or already built."""

_ASCII = str.maketrans({
    "─": "-", "│": "|", "╰": "`", "╯": "'", "●": "o", "○": ".", "✖": "X", "▲": "!", "◆": "*", "×": "x", "…": "...",
    "→": "->", "↳": "->", "·": "-", "“": '"', "”": '"', "✓": "ok", "⏎": "/", "█": "#", "├": "|", "└": "`", "☰": "=",
    "►": ">", "–": "-",
})  # fmt: skip


class Paper:
    """A console with a gutter. All text passes `terminal_safe`; rich markup, emoji codes and highlighting stay off.

    `plain` (not a terminal) prints every line whole, for grep and files; otherwise lines wrap at the console's width.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.plain = not console.is_terminal
        self.width = max(40, console.width)
        self._encoding = console.encoding

    def line(self, *parts: Part, gutter: Part = "", then: str | None = None) -> None:
        """Print one paragraph beside a gutter.

        Args:
            parts: What to say.
            gutter: What stands before the first line.
            then: What stands before wrapped lines; by default the gutter with all but its rule blanked.
        """
        text, lead = self.text(*parts), self.text(gutter)
        if self.plain or (lead.cell_len + text.cell_len <= self.width and "\n" not in text.plain):
            self._print(Text.assemble(lead, text))
            return
        if then is None:
            then = "".join(c if c == "│" else " " for c in lead.plain)
        room = max(20, self.width - lead.cell_len)
        for number, wrapped in enumerate(text.wrap(self.console, room, overflow="fold")):
            wrapped.rstrip()
            self._print(Text.assemble(then if number else lead, wrapped))

    def text(self, *parts: Part) -> Text:
        """Assemble escaped text."""
        whole = Text(end="", overflow="fold")
        for part in parts:
            if isinstance(part, Text):
                whole.append_text(part)
            elif isinstance(part, tuple):
                whole.append(terminal_safe(part[0]), style=part[1])
            else:
                whole.append(terminal_safe(part))
        return whole

    def rule(self, left: Iterable[Part], right: Part = "") -> None:
        """Print a heading line: `left`, filled with a rule up to `right`."""
        start, end = self.text(*left), self.text(right)
        if self.plain:
            self._print(Text.assemble(start, "  " if end.plain else "", end))
            return
        if start.cell_len + end.cell_len + 6 > self.width:
            self.line(start)
            if end.plain:
                self.line(end, gutter="   ")
            return
        fill = self.width - start.cell_len - end.cell_len - (2 if end.plain else 1)
        self._print(Text.assemble(start, " ", ("─" * fill, "dim"), " " if end.plain else "", end))

    def blank(self) -> None:
        """Print an empty line."""
        self.console.print()

    def _print(self, text: Text) -> None:
        self.console.print(self._printable(text), soft_wrap=True, markup=False, emoji=False, highlight=False)

    def _printable(self, text: Text) -> Text:
        """Swap what the output's encoding cannot hold: our drawing characters for ASCII, others for escapes."""
        if self._encoding.lower().replace("-", "") in {"utf8", "utf16", "utf32", "utf8sig"}:
            return text
        result = Text(end="", overflow="fold")
        for part in text.split("\n", include_separator=True, allow_blank=True):
            for segment in part.render(self.console):
                piece = segment.text.translate(_ASCII).encode(self._encoding, "backslashreplace")
                result.append(piece.decode(self._encoding), style=segment.style)
        return result


def shorten(text: str, length: int) -> str:
    """Cut `text` at a word to at most `length` characters, marked with ``…``; white space is folded."""
    text = " ".join(text[: length * 8].split()) if len(text) > length * 8 else " ".join(text.split())
    if len(text) <= length:
        return text
    cut = text[: length - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > length * 0.6 else cut).rstrip(" ,;:.") + "…"
