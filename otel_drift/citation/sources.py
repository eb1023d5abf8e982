"""What a citation mark names: a passage by its number, or by an id, a title, a source, a URL or an author."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from otel_drift.model import Passage
from otel_drift.text import content_stems, content_words, fold
from otel_drift.text.remembered import remembered

_SHARE_OF_TITLE = 0.75
_HEAD_OF_TEXT = 300


@dataclass(frozen=True, slots=True)
class Target:
    """One name inside a mark and the passages (0-based) it can stand for: several where documents are cut in parts.

    Without passages it is `dangling` where the trace shows that it points nowhere, else it cannot be told.
    """

    name: str
    passages: tuple[int, ...]
    dangling: bool = False


def numbered_target(digits: str, passages: Sequence[Passage], numbers_from: int = 1) -> Target:
    """The n-th passage, or a dangling target."""
    index = int(digits) - numbers_from
    if 0 <= index < len(passages):
        return Target(digits, (index,))
    return Target(digits, (), dangling=True)


def named_target(name: str, passages: Sequence[Passage], *, exact: bool = False) -> Target:
    """The passages that `name` means: by id, source or URL, title, author, or a heading at the top of the text.

    Where nothing matches it is dangling only if every passage has a title or a source that it could have named.

    Args:
        name: what a mark, a footnote or an entry of a list of sources says.
        passages: the passages of the turn.
        exact: only an id, a title or a source that is all of `name`.
    """
    wanted = _plain(name)
    if not wanted:
        return Target(name, ())
    for names_it in (_is_exactly,) if exact else (_is_exactly, _names_part):
        found = tuple(index for index, passage in enumerate(passages) if names_it(wanted, passage))
        if found:
            return Target(name, found)
    if exact:
        return Target(name, ())
    scored = [_title_share(wanted, passage) for passage in passages]
    best = max(scored, default=0.0)
    if best >= _SHARE_OF_TITLE:
        return Target(name, tuple(index for index, score in enumerate(scored) if score == best))
    found = tuple(index for index, passage in enumerate(passages) if _named_otherwise(wanted, passage))
    if found:
        return Target(name, found)
    nameable = bool(passages) and all(passage.title or passage.source for passage in passages)
    return Target(name, (), dangling=nameable and bool(content_words(name)))


def same_shape(name: str, ids: Collection[str]) -> bool:
    """Whether `name` has the form of one of `ids`: the same letters before the digits, the same separators."""
    shape = _shape(name)
    return shape is not None and any(_shape(known) == shape for known in ids)


@remembered(4096)
def _shape(name: str) -> str | None:
    """``gl-start-07`` → ``gl-a-9``; None for what has no digits or could be anything."""
    folded = name.strip().casefold()
    if not re.search(r"\d", folded) or re.search(r"\s", folded) or len(folded) > 80:
        return None
    if re.fullmatch(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", folded):
        return "uuid"
    first = re.match(r"[^\W\d_]+", folded)
    if not first:
        return None
    return first[0] + re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", folded[first.end() :]))


@remembered(8192)
def _plain(text: str) -> str:
    return fold(text).casefold().strip(" .,;:*_\"'()<>`")


def _is_exactly(wanted: str, passage: Passage) -> bool:
    own = [passage.id if passage.own_id else "", passage.title or "", passage.source or ""]
    return wanted in {_plain(name) for name in own if name} or wanted in _file_names(passage.source)


def _names_part(wanted: str, passage: Passage) -> bool:
    """Whether the name holds a passage's id, source or file name as a word of its own."""
    own = [passage.id if passage.own_id and len(passage.id) >= 4 else "", passage.source or ""]
    parts = [_plain(name) for name in own if name] + [name for name in _file_names(passage.source) if "." in name]
    return any(
        len(part) >= 4 and re.search(rf"(?<![\w/-]){re.escape(part)}(?![\w-])", wanted) for part in parts if part
    )


@remembered(4096)
def _file_names(source: str | None) -> tuple[str, ...]:
    """``guides/start.md`` → ``start.md``, ``start``."""
    if not source:
        return ()
    last = re.sub(r"[?#].*$", "", source).rstrip("/").rsplit("/", 1)[-1]
    plain = _plain(last)
    bare = re.sub(r"\.\w{1,5}$", "", plain)
    return tuple(name for name in (plain, bare) if len(name) >= 4)


def _title_share(wanted: str, passage: Passage) -> float:
    """How much of the title's words `wanted` holds, in 0..1; more where the title is all that it says."""
    title = frozenset(content_stems(passage.title or ""))
    said = frozenset(content_stems(wanted))
    if not title or not said:
        return 0.0
    if len(title) < 2 and not (said <= title):
        return 0.0
    return len(title & said) / len(title) + 0.1 * len(title & said) / len(said)


def _named_otherwise(wanted: str, passage: Passage) -> bool:
    """An author named with or without the year, or the words with which the passage begins."""
    author = _plain(passage.author or "")
    if author and len(author) >= 4 and author in wanted:
        year = (passage.date or "")[:4]
        years = re.findall(r"\b(?:19|20)\d\d\b", wanted)
        return not years or not year or year in years
    head = _plain((passage.text or "")[:_HEAD_OF_TEXT])
    return len(content_words(wanted)) >= 2 and wanted in head
