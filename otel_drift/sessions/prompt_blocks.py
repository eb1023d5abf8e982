"""Sessions: the forms of lists that are told only inside a part known to be retrieved material, one function a form."""

from __future__ import annotations

import itertools
import re

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import structured
from otel_drift.sessions.prompt_found import (
    IDENTIFIER,
    KEY_LINE,
    PIECE_KEY,
    SHORTEST,
    Found,
    described,
    fields_of,
    own_id,
)
from otel_drift.sessions.prompt_marks import between
from otel_drift.sessions.prompt_paragraphs import has_code, together
from otel_drift.sessions.prompt_sections import RULE, names_material

_NUMBERED = re.compile(r"^[ \t]*(?P<label>\d{1,3})[.)][ \t]+", re.MULTILINE)


_LABELLED = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?:\*\*)?(?:\((?P<inner>[^\s()]{2,80})\)|(?P<outer>[A-Za-z0-9][\w./#-]{1,79}))"
    r"(?P<closing>(?:\*\*)?[ \t]*(?::|\||–|—|-(?= ))?(?:\*\*)?)[ \t]+",
    re.MULTILINE,
)


_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+", re.MULTILINE)


def numbered(text: str, start: int, end: int) -> Found | None:
    """``1. text``, inside a section of passages."""
    body = text[start:end]
    marks = list(_NUMBERED.finditer(body))
    if not marks or marks[0]["label"] != "1" or body[: marks[0].start()].strip():
        return None
    expected = [m for i, m in enumerate(marks) if int(m["label"]) == i + 1]
    if len(expected) != len(marks):
        return None
    found = between(body, marks, "numbered")
    return Found(found.documents, start, end, "numbered") if found else None


def labelled(text: str, start: int, end: int) -> Found | None:
    """``id: text``, ``(id) text`` or ``- id: text`` lines, where every label looks like an identifier."""
    marks = []
    for mark in _LABELLED.finditer(text, start, end):
        label = mark["inner"] or (mark["outer"] if mark["closing"].strip("* \t") else None)
        if label and IDENTIFIER.fullmatch(label):
            marks.append((mark, label))
    if not marks or text[start : marks[0][0].start()].strip():
        return _labelled_lines(text, start, end)
    documents = []
    for index, (mark, label) in enumerate(marks):
        stop = marks[index + 1][0].start() if index + 1 < len(marks) else end
        body = text[mark.end() : stop].strip()
        if body:
            documents.append(Document(own_id(label), body))
    return Found(tuple(documents), start, end, "labelled")


_LINE_LABEL = re.compile(r"[ \t]*(?P<label>(?=[^:\n]*[\d._/#§])[^:\n]{2,60}):[ \t]+(?P<body>\S[^\n]{19,})")


def _labelled_lines(text: str, start: int, end: int) -> Found | None:
    """``label: text`` lines where every line is one and the labels name files, sections or the like."""
    lines = [line for line in text[start:end].splitlines() if line.strip()]
    marks = [_LINE_LABEL.fullmatch(line) for line in lines]
    if not lines or not all(marks):
        return None
    documents = tuple(
        Document(own_id(m["label"].strip()) if IDENTIFIER.fullmatch(m["label"].strip()) else None, m["body"].strip(),
                 source=m["label"].strip())
        for m in marks if m
    )  # fmt: skip
    return Found(documents, start, end, "labelled")


def bullets(text: str, start: int, end: int) -> Found | None:
    """``- text``, inside a section of passages."""
    body = text[start:end]
    marks = list(_BULLET.finditer(body))
    if not marks or body[: marks[0].start()].strip():
        return None
    marks = [m for m in marks if m[0] == marks[0][0]]  # what a passage lists itself is indented or marked otherwise
    key = _YAML_KEY.match(body, marks[0].end())
    if key is not None:
        marks = [m for m in marks if body.startswith(key[0], m.end())]
    elif len(marks) < 2 and len(body.strip()) < 40:
        return None
    stops = [*(m.start() for m in marks[1:]), len(body)]
    pieces = [p for m, stop in zip(marks, stops, strict=True) if (p := body[m.end() : stop].strip())]
    titles = [_BOLD.match(piece) for piece in pieces]
    if all(titles):
        documents = [
            Document(None, piece[m.end() :].strip(), title=m["title"], source=m["source"])
            for m, piece in zip(titles, pieces, strict=True)
            if m
        ]
    else:
        documents = [(key is not None and described(piece)) or Document(None, piece) for piece in pieces]
    return Found(tuple(documents), start, end, "bullets")


_BOLD = re.compile(
    r"\*\*(?P<title>[^*\n]{2,120}?):?\*\*[ \t]*(?:\((?P<source>[^()\n]{2,160})\))?[ \t]*[:–—-]?\s*(?=\S)"
)
"""What stands before a passage in a list of titled ones."""


_YAML_KEY = re.compile(r"(?:id|doc_id|title|source|name|text|content)[ \t]*:", re.IGNORECASE)


def listed(text: str, start: int, end: int) -> Found | None:
    """A list of texts in JSON or as Python prints it, each perhaps behind its id."""
    body = text[start:end].strip()
    if body[:1] != "[" or body[-1:] != "]":
        return None
    items = structured(body)
    if not isinstance(items, list) or not items or not all(isinstance(item, str) and item.strip() for item in items):
        return None
    documents = read_documents(items, strings=True) or ()
    return Found(documents, start, end, "labelled" if all(d.id for d in documents) else "listed")


_JSON_LINES = re.compile(r"^[ \t]*\{\"[^\n]*\}[ \t]*$(?:\n[ \t]*\{\"[^\n]*\}[ \t]*$)*", re.MULTILINE)


def json_lines(text: str, start: int, end: int) -> Found | None:
    """A JSON object of a document on each line."""
    if text.find('{"', start, end) < 0:
        return None
    for lines in _JSON_LINES.finditer(text, start, end):
        values = [structured(line.strip()) for line in lines[0].splitlines()]
        found = read_documents(values) if all(isinstance(value, dict) for value in values) else None
        if found and max(len(d.text or "") for d in found) >= SHORTEST:
            return Found(found, lines.start(), lines.end(), "json")
    return None


def ruled(text: str, start: int, end: int) -> Found | None:
    """Passages with a rule (``---``, ``=====``) between them."""
    if has_code(text[start:end]):
        return None
    pieces = [p for p in RULE.split(text[start:end]) if p.strip() and not _ANNOUNCING.fullmatch(p.strip())]
    if len(pieces) < 2 and (
        not pieces or RULE.search(text, start, end) is None or not PIECE_KEY.match(pieces[0].strip())
    ):
        return None
    headed = all(_HEAD.match(piece.strip("\n")) for piece in pieces)  # else a heading is one of the passage's own
    documents = tuple(d for piece in pieces if (d := described(piece, headed=headed)) is not None)
    return Found(documents, start, end, "ruled") if documents else None


_ANNOUNCING = re.compile(r"[^\n]{1,100}:")


_HEAD = re.compile(
    r"^(?:(?P<level>#{1,6})[ \t]+\S[^\n]*|\*\*[^*\n]{2,120}\*\*[ \t]*(?:\([^()\n]*\))?:?[ \t]*)$", re.MULTILINE
)


def headed(text: str, start: int, end: int) -> Found | None:
    """Sections with a heading each: ``## Title``, ``**Title** (source)``, the text below it."""
    first = _HEAD.search(text, start, end)
    if first is None or text[start : first.start()].strip():
        return None
    marks = [m for m in _HEAD.finditer(text, start, end) if m["level"] == first["level"]]
    documents = []
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else end
        found = described(text[mark.start() : stop])
        if found is not None:
            documents.append(found)
    return Found(tuple(documents), start, end, "headed") if documents else None


def key_blocks(text: str, start: int, end: int) -> Found | None:
    """Blocks of ``key: value`` lines, a blank line, the text: how LlamaIndex writes a node's metadata."""
    paragraphs = [p for p in re.split(r"\n[ \t]*\n", text[start:end]) if p.strip()]
    documents: list[Document] = []
    fields: dict[str, str] | None = None
    body: list[str] = []

    def flush() -> None:
        if fields is not None and body:
            value = {"metadata": fields, "text": "\n\n".join(body)}
            found = read_documents([value])
            if found:
                documents.append(found[0])

    for paragraph in paragraphs:
        lines = [line for line in paragraph.strip("\n").splitlines() if line.strip()]
        matches = [KEY_LINE.match(line) for line in lines]
        if all(matches) and all(m and m["key"][:1].islower() and " " not in m["key"].strip() for m in matches):
            flush()
            fields, body = fields_of(paragraph), []
        elif fields is None:
            return None
        else:
            body.append(paragraph.strip())
    flush()
    return Found(tuple(documents), start, end, "metadata") if documents else None


_VALUE = re.compile(
    r"\A[ \t]*(?:name|id|title|source|key|url|link)[ \t]*:[^\n]*\n(?:[^\n]*\n){0,4}?"
    r"[ \t]*(?:value|content|text)[ \t]*:",
    re.IGNORECASE,
)


def _is_passage(line: str) -> bool:
    """Whether a line is sentences, not a line of a longer text that was broken."""
    return (len(line) >= 30 and line[-1] in ".!?…)\"'") or (len(line) >= 12 and line[-1] in "。！？」")


def paragraphs(text: str, start: int, end: int) -> Found | None:
    """Paragraphs (or whole lines) of a section of passages."""
    body = text[start:end]
    body = body if has_code(body) else RULE.sub("\n\n", body)
    pieces = [p.strip() for p in re.split(r"\n[ \t]*\n", body) if p.strip()]
    lines = [line.strip() for line in pieces[0].splitlines()] if len(pieces) == 1 else []
    if len(lines) > 1 and all(map(_is_passage, lines)):
        pieces = lines  # one passage a line
    if len(pieces) > 1:
        pieces = [p for p in pieces if not (_ANNOUNCING.fullmatch(p) and names_material(p))] or pieces
    if all(len(p) > 2 and (p[0], p[-1]) in _QUOTES for p in pieces):
        pieces = [p[1:-1] for p in pieces]
    elif pieces is not lines:
        pieces = together(pieces)
    documents = tuple((_VALUE.search(p) and described(p)) or Document(None, p) for p in pieces)
    return Found(documents, start, end, "paragraphs") if pieces else None


_QUOTES = frozenset({('"', '"'), ("“", "”"), ("«", "»"), ("„", "“"), ("'", "'")})
_SAID_BELOW = re.compile(
    r"\n[ \t]*[(\[]?[ \t]*(?:source|url|link|uri|file|ref(?:erence)?)[ \t]*:[ \t]*\S[^\n]*(?=\n|\Z)", re.IGNORECASE
)


def said_below(text: str, start: int, end: int) -> Found | None:
    """Blocks that each end with a ``(Source: …)`` line."""
    body = text[start:end].strip("\n")
    marks = [m for m in _SAID_BELOW.finditer(body) if body[m.start() - 1 : m.start()] not in ("", "\n")]
    if not marks or body[marks[-1].end() :].strip() or _SAID.match(body):
        return None
    pieces = [body[a:b] for a, b in itertools.pairwise([0, *(m.end() for m in marks)])]
    headed = all(_HEAD.match(piece.strip("\n")) for piece in pieces)
    documents = tuple(d for piece in pieces if (d := described(piece, headed=headed)) is not None)
    return Found(documents, start, end, "labelled") if documents else None


_SAID = re.compile(
    r"^[ \t]*(?P<key>source|document|title|file|url|id|reference|article|page)[ \t]*:[ \t]*\S[^\n]*\n", re.I | re.M
)


def lead_lines(text: str, start: int, end: int) -> Found | None:
    """Blocks that each begin with the same ``Source: …`` line, the text right below it."""
    first = _SAID.match(text.lstrip("\n")) if start == 0 else _SAID.search(text, start, end)
    if first is None:
        return None
    key = first["key"].lower()
    marks = [
        m
        for m in _SAID.finditer(text, start, end)
        if m["key"].lower() == key
        and (not text[start : m.start()].strip() or text[m.start() - 2 : m.start()] == "\n\n")
    ]
    if not marks or text[start : marks[0].start()].strip():
        return None
    documents = []
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else end
        found = described(text[mark.start() : stop])
        if found is not None:
            inner = re.search(r"[ \t]*[(\[]([^()\[\]]{2,80})[)\]]\Z", found.source or found.title or "")
            if found.id is None and inner is not None and IDENTIFIER.fullmatch(inner[1]):
                source = found.source[: inner.start()] if found.source else None
                found = found._replace(id=inner[1], source=source)
            documents.append(found)
    return Found(tuple(documents), start, end, "labelled") if documents else None


_FORMS = (
    *(listed, json_lines, ruled, said_below, headed, lead_lines),
    *(numbered, labelled, key_blocks, bullets, paragraphs),
)
"""Forms that are told only inside a part that is known to be retrieved material, in the order they are tried."""


def in_section(text: str, start: int, end: int) -> Found | None:
    """The passages in a part of `text` that is known to be retrieved material."""
    for form in _FORMS:
        found = form(text, start, end)
        if found is not None and found.documents:
            return found
    return None
