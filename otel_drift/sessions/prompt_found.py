"""Sessions: a passage found in text, its id and what describes it, and texts that only say that nothing was found."""

from __future__ import annotations

import re
from typing import NamedTuple

from otel_drift.normalise.remembered import of_names
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import number

IDENTIFIER = re.compile(r"(?=[^\d]*\d)(?=.*[-_./#§])[\w./#§-]+")


KEY_LINE = re.compile(r"^[ \t]*(?:[-*•][ \t]+)?(?P<key>[A-Za-z][\w -]{0,30})[ \t]*:[ \t]*(?P<value>\S.*)$")


SHORTEST = 25
"""How long (characters) the longest text of a plain list is at least, for it to be one of passages."""

_NO_ID = re.compile(
    r"(?:\d{1,2}|[a-z]|(?:document|doc|passage|source|chunk|excerpt|snippet|context|result)[ _#-]*\d{1,4})", re.I
)
"""Numbers up to 99 are places in a list; longer ones are a database's keys."""


_NOTHING = re.compile(
    r"(?:(?:no|0|zero|keine?|aucune?|ningun[ao]s?|nessun[ao]?)(?: [a-z]+){0,3} (?:results?|documents?|docs|passages?|"
    r"match(?:es)?|hits?|sources?|excerpts?|entries|articles?|context|information|chunks?|records?|treffer|dokumente?|"
    r"ergebnisse?|r[ée]sultats?|resultados?|risultat[oi])|"
    r"(?:no|0) (?:results?|documents?|docs|passages?|match(?:es)?|hits?|sources?|excerpts?|entries|articles?|"
    r"relevant|context|chunks?|records?)|nothing(?: \w+){0,2} found|nothing|not found|none(?: found)?|null|nil|n/a|"
    r"empty|nichts gefunden|rien trouvé|leer|\(?keine?\)?|"
    r"(?:(?:i'm )?sorry[,.!]? )?(?:but )?(?:(?:i|we|the (?:search|tool)) )?(?:was |were )?"
    r"(?:unable to|could ?n[o']t|cannot|can't|did ?n[o']t) (?:find|locate|return|retrieve) "
    r"(?:any(?: [a-z]+){0,3} (?:results?|documents?|docs|passages?|match(?:es)?|hits?|sources?|excerpts?|entries|"
    r"articles?|context|information|info|content|data|chunks?|records?|answers?|details)|"
    r"anything(?=$|[.,;!]| (?:about|for|matching|on|regarding|related|relevant|to)\b)))"
    r"\b[^\n]{0,60}",
    re.IGNORECASE,
)


def says_nothing(text: str) -> bool:
    """Whether a text only says that nothing was found: a placeholder, no passage."""
    if len(text) > 120:
        return False
    folded = " ".join(text.split()).strip(" .!\"'[](){}<>-–—*_")
    return not folded or (len(folded) <= 80 and _NOTHING.fullmatch(folded) is not None and folded.count(". ") == 0)


class Found(NamedTuple):
    """Passages in a text, and where in the text they lie."""

    documents: tuple[Document, ...]
    start: int
    end: int
    form: str


def own_id(label: str | None) -> str | None:
    """The label as a passage id, or None where it is only a number in a list."""
    label = (label or "").strip()
    return None if not label or _NO_ID.fullmatch(label) or len(label) > 160 else label


def fields_of(block: str) -> dict[str, str]:
    """The values of a block of ``key: value`` lines by lower-case name."""
    fields = {}
    for line in block.splitlines():
        match = KEY_LINE.match(line)
        if match:
            fields[match["key"].strip().lower().replace(" ", "_")] = match["value"].strip()
    return fields


PIECE_KEY = re.compile(
    r"[ \t]*(?:\*\*)?(?P<key>[A-Za-z][A-Za-z _-]{0,24}?)(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*(?P<value>[^\n]*)"
)


_PIECE_HEADING = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]+(?P<title>[^\n]+?)|\*\*(?P<bold>[^*\n]+)\*\*[ \t]*(?:\((?P<note>[^()\n]*)\))?:?)[ \t#]*"
)


_TEXT_KEYS = frozenset({"content", "text", "value", "passage", "body", "snippet", "excerpt", "page content"})


_ABOUT = {
    "id": "id", "doc id": "id", "document id": "id", "name": "id", "key": "id", "ref": "id", "reference": "id",
    "title": "title", "document": "title", "heading": "title",
    "source": "source", "url": "source", "link": "source", "uri": "source", "file": "source", "path": "source",
    "documentation url": "source", "filename": "source", "date": "date", "author": "author", "score": "score",
    "page": "", "section": "", "category": "", "updated": "date", "type": "", "similarity": "score",
}  # fmt: skip


def is_about(line: str) -> bool:
    """Whether a line says what describes a passage (its source, its date)."""
    match = PIECE_KEY.fullmatch(line.strip())
    key = match["key"].strip().lower().replace("_", " ") if match else ""
    return match is not None and key in _ABOUT and bool(match["value"].strip()) and not _PROSE.fullmatch(match["value"])


_PROSE = re.compile(r"\S+(?:[ \t]+\S+){3,}[.!?]")
"""A sentence names no source, file or title."""


def described(piece: str, *, headed: bool = True) -> Document | None:
    """One passage with what describes it: ``key: value`` lines before or after the text, and, if `headed`, a title."""
    lines = piece.strip("\n").split("\n")
    about: dict[str, str] = {}
    body: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index].strip()
        heading = _PIECE_HEADING.fullmatch(line) if headed and "title" not in about else None
        match = PIECE_KEY.fullmatch(line)
        key = match["key"].strip().lower().replace("_", " ") if match else ""
        if heading is not None and heading["title"]:
            about["title"] = heading["title"].strip("* ")
        elif heading is not None:
            about["title"] = heading["bold"].strip()
            if heading["note"]:
                about["source"] = heading["note"].strip()
        elif match is not None and key in _TEXT_KEYS:
            body.append(match["value"])
            index += 1
            break
        elif match is not None and key in _ABOUT and not _PROSE.fullmatch(match["value"]):
            about.setdefault(_ABOUT[key], match["value"].strip())
        elif line:
            break
        index += 1
    body.extend(lines[index:])
    while len(body) > 1:
        match = PIECE_KEY.fullmatch(body[-1].strip(" \t()[]"))
        key = match["key"].strip().lower().replace("_", " ") if match else ""
        if body[-1].strip() and (match is None or key not in _ABOUT or _PROSE.fullmatch(match["value"])):
            break
        if match is not None:
            about.setdefault(_ABOUT[key], match["value"].strip())
        body.pop()
    text = "\n".join(body).strip()
    if not text:
        return None
    return Document(
        own_id(about.get("id")), text, number(about.get("score")), about.get("title"), about.get("source"),
        about.get("author"), about.get("date"),
    )  # fmt: skip


MATERIAL = re.compile(
    r"context|passage|document|docs|excerpt|source|snippet|chunk|evidence|knowledge|reference|retriev|material|result|fact",
    re.IGNORECASE,
)
"""Names of fields and variables that hold retrieved material."""


_OTHER = re.compile(r"question|query|history|instruction|format|template|schema|prompt|answer|output", re.IGNORECASE)


@of_names(1024)
def is_material(name: str) -> bool:
    """Whether a field or template variable of this name holds what was retrieved."""
    if _OTHER.search(name):
        return False
    return MATERIAL.search(name) is not None or name.lower() in ("ctx", "kb", "info", "hits")
