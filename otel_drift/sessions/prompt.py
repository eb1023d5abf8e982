"""Sessions: passages found in prompt text, where no span holds them, and in the text that tools return."""

from __future__ import annotations

import re

from otel_drift.normalise.step import Document
from otel_drift.normalise.values import number
from otel_drift.sessions.prompt_forms import (
    END,
    RULE,
    Found,
    brackets,
    bullets,
    content_blocks,
    json_list,
    key_blocks,
    labelled,
    named,
    numbered,
    paragraphs,
    tags,
)

_HEADER = re.compile(
    r"^(?=[^\n]*\b(?:contexts?|passages?|documents?|docs|sources?|excerpts?|snippets?|search results?|results|"
    r"knowledge(?: base)?|references?|information|articles?|evidence|material|kontext|quellen|dokumente)\b)"
    r"[^\n]{0,400}?(?::|\bbelow\b[^\n]{0,80}|\bfollowing\b[^\n]{0,80})[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
MAX_PROMPT = 2_000_000


def find_passages(text: str, pattern: str | None = None, seconds: float = 0.25, *, whole: bool = False) -> Found | None:
    """Passages in `text`, or None where nothing in it looks like a list of passages.

    Args:
        text: a system message, a user message with context in it, or the text a tool returned.
        pattern: the user's own pattern; tried first.
        seconds: its time limit.
        whole: whether the whole text is known to be retrieved material (a tool's result).
    """
    if not text or len(text) > MAX_PROMPT:
        return None
    if pattern is not None:
        found = _by_pattern(text, pattern, seconds)
        if found is not None:
            return found
    section = (0, len(text)) if whole else _section(text)
    for form in (tags, json_list, content_blocks, brackets, named):
        found = form(text)
        if found is not None and found.documents:
            return found
    if section is None:
        return None
    for form_in in (numbered, labelled, key_blocks, bullets, paragraphs):
        found = form_in(text, *section)
        if found is not None and found.documents:
            return found
    return Found((), section[0], section[1], "empty")


def _by_pattern(text: str, pattern: str, seconds: float) -> Found | None:
    import regex

    documents, start, end = [], None, 0
    try:
        for match in regex.finditer(pattern, text, timeout=seconds):
            groups = match.groupdict()
            body = (groups.get("text") or "").strip()
            if body:
                documents.append(
                    Document(
                        groups.get("id") or None,
                        body,
                        number(groups.get("score")),
                        groups.get("title"),
                        groups.get("source"),
                    )
                )
                start, end = match.start() if start is None else start, match.end()
    except TimeoutError:
        return None
    return Found(tuple(documents), start or 0, end, "pattern") if documents else None


def _section(text: str) -> tuple[int, int] | None:
    """The part of a prompt that holds the retrieved material, after a line that announces it."""
    header = None
    for match in _HEADER.finditer(text):
        header = match
        if text[match.end() : match.end() + 200].strip():
            break
    if header is None:
        return None
    start = header.end()
    fence = RULE.match(text, start + 1) if start + 1 < len(text) else None
    if fence is not None:
        start = fence.end()
    for end in END.finditer(text, start):
        if fence is None and RULE.match(text, end.start()):
            rest = text[end.end() :].lstrip()
            if rest and not END.match(rest):
                continue  # a rule between two passages
        return start, end.start()
    return start, len(text)
