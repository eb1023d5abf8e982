"""Files as what the audit takes: a text and its sources become a session of one turn."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_drift.errors import ConfigError
from otel_drift.model import Passage, Session, Turn

STDIN = "-"
MOST_BYTES = 2_000_000
"""A text file larger than this is refused: no judge reads it, and it was hardly meant."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text file as it is, line ends kept: places in `text` are places in the file (behind a byte order mark)."""

    name: str
    text: str


def read_document(name: str) -> Document:
    """Read a text or Markdown file, or standard input for ``-``.

    Raises:
        ConfigError: it is missing, too large, no UTF-8 text, or empty.
    """
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read ({error.strerror})") from error
    shown = "standard input" if name == STDIN else name
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{shown}: larger than {MOST_BYTES // 1_000_000} MB; give a text file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown}: byte {error.start} is no UTF-8; give text or Markdown, saved as UTF-8") from error
    if "\0" in text:
        raise ConfigError(f"{shown}: holds NUL bytes, so it is no text file; give text or Markdown")
    if not text.strip():
        raise ConfigError(f"{shown}: empty; give the text to be audited and its sources")
    return Document(name, text)


def session_of(output: Document, sources: Sequence[Document], question: str | None = None) -> Session:
    """A session with one turn: `output` is the answer, `sources` are its passages, named by their files."""
    folder = hashlib.sha256(str(Path.cwd()).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    turn = Turn(
        turn_id=output.name,
        number=1,
        started=0,
        ended=0,
        user=question,
        answer=output.text,
        answer_state="captured",
        retrieval="captured",
        passages=tuple(
            Passage(id=source.name, text=source.text, rank=rank, title=source.name)
            for rank, source in enumerate(sources, 1)
        ),
    )
    return Session(f"file/{folder}/{output.name}", output.name, (turn,), ())
