"""Sessions: passages between lines that say where each begins and ends (`[BEGIN DOCUMENT 1]` … `[END DOCUMENT]`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from otel_drift.normalise.step import Document
from otel_drift.normalise.values import lowered
from otel_drift.sessions.prompt_found import Found, own_id

_OF = r"(?:[ \t_]+of)?(?:[ \t_]+the)?[ \t_]+(?:(?:retrieved|search|relevant|provided)[ \t_]+)?"
_BEGIN = re.compile(
    rf"^[ \t]*[\[<({{*=#~-]*[ \t]*(?:begin(?:ning)?|start){_OF}"
    r"(?P<noun>document|doc|passage|source|chunk|excerpt|snippet|article|result|context|knowledge|information|material|"
    r"reference)(?P<many>s|[ \t_]+(?:block|section|documents|results|data|base|information|material)s?)?"
    r"(?:[ \t]*[:#]?[ \t]*(?P<label>[^\s\])>}*=#~-][^\n\])>}*=~]{0,80}?))?[ \t]*[\])>}*=#~-]*[ \t]*:?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_END = rf"^[ \t]*[\[<({{*=#~-]*[ \t]*end{_OF}%s[^\n]{{0,90}}$"
_WHOLE = frozenset({"context", "knowledge", "information", "material"})
"""What is one part that holds all passages."""


def enclosed(text: str, inside: Callable[[str, int, int], Found | None]) -> Found | None:
    """Each passage between two such lines; all of them where the lines enclose the whole context.

    Args:
        text: the prompt.
        inside: finds the passages in a part that holds all of them.
    """
    low = lowered(text)
    if ("begin" not in low and "start" not in low) or "end" not in low:
        return None
    documents: list[Document] = []
    begin, last = None, 0
    while (mark := _BEGIN.search(text, last)) is not None:
        close = re.compile(_END % mark["noun"], re.MULTILINE | re.IGNORECASE).search(text, mark.end())
        if close is None:
            break
        if mark["many"] or mark["noun"].lower() in _WHOLE:
            if not text[mark.end() : close.start()].strip():
                return Found((), mark.start(), close.end(), "empty")
            found = inside(text, mark.end(), close.start())
            return found._replace(start=mark.start(), end=close.end()) if found is not None else None
        body = text[mark.end() : close.start()].strip()
        if body:
            documents.append(Document(own_id(mark["label"]), body))
        begin, last = mark.start() if begin is None else begin, close.end()
    return Found(tuple(documents), begin, last, "enclosed") if begin is not None and documents else None
