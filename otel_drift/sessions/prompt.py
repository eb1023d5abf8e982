"""Sessions: passages found in prompt text, where no span holds them, and in the text that tools return."""

from __future__ import annotations

import re

from otel_drift.normalise.remembered import per_session
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import number
from otel_drift.sessions.prompt_blocks import in_section
from otel_drift.sessions.prompt_enclosed import enclosed
from otel_drift.sessions.prompt_forms import content_blocks, dspy, json_list, tags
from otel_drift.sessions.prompt_found import SHORTEST, Found, says_nothing
from otel_drift.sessions.prompt_marks import brackets, named
from otel_drift.sessions.prompt_sections import sections

MAX_PROMPT = 2_000_000


@per_session
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
    if "[[ ## " in text:
        fields = dspy(text)
        return _placed(fields, 0) if fields is not None else None
    offset = 0 if whole else _past_example(text)
    body = text[offset:] if offset else text
    for form in (tags, json_list, content_blocks, brackets, named):
        found = form(body, whole) if form in (brackets, named) else form(body)
        if found is not None and found.documents:
            return _placed(found, offset)
    within = enclosed(body, in_section)
    if within is not None:
        return _placed(within, offset)
    empty = _EMPTY_TAG.search(text) if not whole and "</" in text else None
    if empty is not None:
        return Found((), empty.start("body"), empty.end("body"), "empty")
    parts = [(0, len(text))] if whole else sections(text)
    for start, end in parts:
        if not text[start:end].strip():
            continue
        found = in_section(text, start, end)
        if found is not None and _are_passages(found):
            return _placed(found, 0)
    return Found((), *parts[0], "empty") if any(not text[a:b].strip() for a, b in parts) else None


_EXAMPLE = re.compile(
    r"^[^\n]{0,400}\b(?:for example|examples?|e\.g\.|beispiel)[ \t]*:[ \t]*$", re.IGNORECASE | re.MULTILINE
)


def _past_example(text: str) -> int:
    """Where the material begins that is announced below an example's own lines, 0 where there is no example."""
    low = text.lower()
    if "example" not in low and "e.g." not in low and "beispiel" not in low:
        return 0
    example = _EXAMPLE.search(text)
    if example is None:
        return 0
    end = example.end()
    return max((at for at, _ in sections(text) if at > end and text[end:at].strip()), default=0)


_EMPTY_TAG = re.compile(
    r"^[ \t]*<(?P<tag>documents?|contexts?|sources|passages|excerpts|(?:search_)?results|knowledge)>"
    r"(?P<body>\s*)</(?P=tag)>[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


def _placed(found: Found, offset: int) -> Found | None:
    documents = tuple(d for d in found.documents if not says_nothing(d.text or ""))
    return Found(documents, found.start + offset, found.end + offset, found.form if documents else "empty")


def _are_passages(found: Found) -> bool:
    """Whether a plain list holds texts, not the catchwords that a person lists in a message."""
    if found.form not in ("numbered", "bullets"):
        return True
    return max(len(d.text or "") for d in found.documents) >= SHORTEST


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
