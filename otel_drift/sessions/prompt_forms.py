"""Sessions: the forms in which prompts and tool results list passages, one function a form."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import literal, number
from otel_drift.sessions.prompt_sections import END, RULE

_TAG = re.compile(
    r"<(?P<tag>document|doc|passage|source|chunk|item|result|excerpt|snippet|context|article|reference)"
    r"(?P<attributes>\s[^<>]{0,500})?>(?P<body>.*?)</(?P=tag)>",
    re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_INNER = re.compile(r"<(?P<tag>[a-z_]+)>(?P<body>.*?)</(?P=tag)>", re.DOTALL | re.IGNORECASE)
_BRACKET = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?:\*\*)?\[(?P<label>[^\[\]\n]{1,160})\](?!\()(?:\*\*)?[ \t]*:?[ \t]*(?:\n)?",
    re.MULTILINE,
)
_NAMED = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*|[-=]{2,}[ \t]*)?\[?(?P<label>(?:document|doc|passage|source|chunk|excerpt|snippet|"
    r"context|result|article|reference|extract|section|dokument|quelle|auszug|abschnitt|textstelle|extrait|fragmento|"
    r"documento|fuente|fonte|estratto|trecho)[ \t]*(?:no\.?|nr\.?|#|id)?[ \t]*[\[(#]?(?P<number>[\w.-]{1,60})[\])]?)"
    r"[ \t]*(?:\((?P<note>[^()\n]{0,200})\))?\]?(?:\*\*)?[ \t]*(?:(?:[-=]{2,}|:)(?:\*\*)?|(?<=\)))[ \t]*\n?",
    re.MULTILINE | re.IGNORECASE,
)
_LABEL_ID = re.compile(r"\((?:id|doc_id|source|ref)[ \t]*[:=][ \t]*([^()]{1,120})\)", re.IGNORECASE)
_NUMBERED = re.compile(r"^[ \t]*(?P<label>\d{1,3})[.)][ \t]+", re.MULTILINE)
_LABELLED = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?:\*\*)?(?:\((?P<inner>[^\s()]{2,80})\)|(?P<outer>[A-Za-z0-9][\w./#-]{1,79}))"
    r"(?P<closing>(?:\*\*)?[ \t]*(?::|\||–|—|-(?= ))?(?:\*\*)?)[ \t]+",
    re.MULTILINE,
)
_IDENTIFIER = re.compile(r"(?=[^\d]*\d)(?=.*[-_./#§])[\w./#§-]+")
_SCORED = re.compile(
    r"\((?=[^()\n]{0,20}(?:score|similarity|relevance|distance))[^()\n]{0,60}?(?P<score>\d*\.?\d+)"
    r"[^()\n]{0,20}\)[ \t]*:?[ \t]*",
    re.I,
)
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+", re.MULTILINE)
_KEY_LINE = re.compile(r"^[ \t]*(?P<key>[A-Za-z][\w -]{0,30})[ \t]*:[ \t]*(?P<value>\S.*)$")
_CONTENT_BLOCK = re.compile(
    r"^[ \t]*(?:Source|Title|Id|Document|Doc|Metadata|Url|Score)[ \t]*:.*\n(?:^[ \t]*[A-Z][\w ]{0,30}:.*\n){0,6}?"
    r"^[ \t]*(?:Content|Text|Page content|Passage|Snippet|Body)[ \t]*:[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSING = re.compile(r"\n?[ \t]*\[(?:/|END[ \t])[^\[\]\n]{1,80}\][ \t]*\Z", re.IGNORECASE)
_GUILLEMETS = ("«", "»")
_NO_ID = re.compile(
    r"(?:\d{1,4}|[a-z]|(?:document|doc|passage|source|chunk|excerpt|snippet|context|result)[ _#-]*\d{1,4})", re.I
)


_NOTHING = re.compile(
    r"(?:(?:no|0|zero|keine?|aucune?|ningun[ao]s?|nessun[ao]?)(?: [a-z]+){0,3} (?:results?|documents?|docs|passages?|"
    r"match(?:es)?|hits?|sources?|excerpts?|entries|articles?|context|information|chunks?|records?|treffer|dokumente?|"
    r"ergebnisse?|r[ée]sultats?|resultados?|risultat[oi])|"
    r"(?:no|0) (?:results?|documents?|docs|passages?|match(?:es)?|hits?|sources?|excerpts?|entries|articles?|"
    r"relevant|context|chunks?|records?)|nothing(?: \w+){0,2} found|nothing|not found|none(?: found)?|null|nil|n/a|"
    r"empty|nichts gefunden|rien trouvé|leer|\(?keine?\)?)\b[^\n]{0,60}",
    re.IGNORECASE,
)


def says_nothing(text: str) -> bool:
    """Whether a text only says that nothing was found: a placeholder, no passage."""
    if len(text) > 120:
        return False
    folded = " ".join(text.split()).strip(" .!\"'[](){}<>-–—*_")
    return not folded or (len(folded) <= 80 and _NOTHING.fullmatch(folded) is not None and folded.count(". ") == 0)


@dataclass(frozen=True, slots=True)
class Found:
    """Passages in a text, and where in the text they lie."""

    documents: tuple[Document, ...]
    start: int
    end: int
    form: str


def own_id(label: str | None) -> str | None:
    """The label as a passage id, or None where it is only a number in a list."""
    label = (label or "").strip()
    return None if not label or _NO_ID.fullmatch(label) or len(label) > 160 else label


def tags(text: str) -> Found | None:
    """``<document id="…">…</document>`` and its relatives, with fields as attributes or inner tags."""
    if "</" not in text:
        return None
    documents, start, end = [], None, 0
    for match in _TAG.finditer(text):
        body = match["body"]
        attributes = {name.lower(): a or b for name, a, b in _ATTRIBUTE.findall(match["attributes"] or "")}
        inner_found = list(_TAG.finditer(body))
        if inner_found and not attributes and match["tag"].lower() in ("context", "documents"):
            return _tags_inside(body, match.start("body"))
        fields = {m["tag"].lower(): m["body"].strip() for m in _INNER.finditer(body)}
        content = next(
            (fields[k] for k in ("document_content", "content", "text", "passage_content", "body") if k in fields), None
        )
        if content is None:
            content = body.strip()
            if match["tag"].lower() == "context" and not attributes:
                return _inside(text, match.start("body"), match.end("body"))
        label = next((attributes[k] for k in ("id", "doc_id", "name", "key", "source_id") if k in attributes), None)
        label = label or fields.get("id") or fields.get("doc_id")
        if content:
            documents.append(
                Document(
                    own_id(label),
                    content,
                    number(attributes.get("score") or fields.get("score")),
                    attributes.get("title") or fields.get("title"),
                    attributes.get("source") or fields.get("source") or fields.get("url"),
                    date=attributes.get("date") or fields.get("date"),
                )
            )
            start, end = match.start() if start is None else start, match.end()
    return Found(tuple(documents), start or 0, end, "tags") if documents else None


def _tags_inside(body: str, offset: int) -> Found | None:
    found = tags(body)
    return Found(found.documents, found.start + offset, found.end + offset, found.form) if found else None


def _inside(text: str, start: int, end: int) -> Found | None:
    """Passages between ``<context>`` and ``</context>``: any other form, else its paragraphs."""
    body = text[start:end]
    for form in (json_list, content_blocks, brackets, named):
        found = form(body)
        if found is not None and found.documents:
            return Found(found.documents, start, end, found.form)
    for form_in in IN_SECTION:
        found = form_in(body, 0, len(body))
        if found is not None and found.documents:
            return Found(found.documents, start, end, found.form)
    return Found((), start, end, "empty")


def json_list(text: str) -> Found | None:
    """A JSON list of documents inside the text."""
    for opener in ("[{", "[ {", "[\n"):
        start = text.find(opener)
        while start >= 0:
            try:
                value, end = json.JSONDecoder().raw_decode(text, start)
            except (ValueError, RecursionError):
                value, end = None, start + 1
            found = read_documents(value) if isinstance(value, list) and value else None
            if found and any(d.text for d in found):
                return Found(found, start, end, "json")
            start = text.find(opener, end) if end > start else -1
            if start > 100_000:
                break
    return None


def brackets(text: str) -> Found | None:
    """``[id] text``, ``[n] text`` at the start of lines."""
    if "[" not in text:
        return None
    marks = [m for m in _BRACKET.finditer(text) if _is_label(m["label"])]
    return _between(text, marks, "brackets")


def _is_label(label: str) -> bool:
    label = label.strip()
    if not label or label in ("x", "X") or label.startswith("[") or label.endswith("]"):
        return False
    if "##" in label or label.upper().startswith(("END ", "/")):  # DSPy's field names, closing marks
        return False
    words = label.split()
    return (
        len(words) <= 2 or bool(re.match(r"(?i)(document|source|passage|doc|chunk|excerpt)\b", label)) or ":" in label
    )


def named(text: str) -> Found | None:
    """``Document n: text``, ``Source id: text``, ``[Passage n (id: …)]: text``."""
    marks = [
        m
        for m in _NAMED.finditer(text)
        if any(c.isdigit() for c in m["number"]) and (not m[0].rstrip().endswith(")") or ":" in (m["note"] or ""))
    ]
    if not marks:
        return None
    return _between(text, marks, "named")


def _between(text: str, marks: list[re.Match[str]], form: str) -> Found | None:
    if not marks:
        return None
    documents = []
    last_end = marks[-1].end()
    inner_blank = any("\n\n" in text[a.end() : b.start()].strip() for a, b in itertools.pairwise(marks))
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        body = text[mark.end() : stop]
        if index + 1 == len(marks):
            body = _until_end(body, inner_blank or len(marks) == 1)
            last_end = mark.end() + len(body)
        body = _CLOSING.sub("", RULE.sub("", body).strip()).strip()
        if body[:1] == _GUILLEMETS[0] and body[-1:] == _GUILLEMETS[1]:
            body = body[1:-1].strip()
        label = mark["label"]
        title, source, score = None, None, None
        scored = _SCORED.match(body)
        if scored is not None:
            body, score = body[scored.end() :].strip(), number(scored["score"])
        groups = mark.groupdict()
        if form == "named":
            label = mark["number"]
            note = groups.get("note")
            if note:
                key, _, value = note.partition(":")
                if key.strip().lower() == "source":
                    source = value.strip()
                elif key.strip().lower() == "id":
                    label = value.strip()
                else:
                    title = value.strip() or note
        elif (inner := _LABEL_ID.search(label)) is not None:
            label = inner[1].strip()
        elif ":" in label and label.split(":")[0].strip().lower() in ("id", "source", "doc", "document", "doc_id"):
            label = label.split(":", 1)[1].strip()
        if body:
            documents.append(Document(own_id(label), body, score, title, source))
    documents = _without_notes(documents)
    return Found(tuple(documents), marks[0].start(), last_end, form) if documents else None


_NOTE = re.compile(r"\((?P<note>[^()\n]{2,80})\):?[ \t]+(?=\S)")


def _without_notes(documents: list[Document]) -> list[Document]:
    """Where every text begins with a note in parentheses (``[1] (file.md) text``), the notes are the sources."""
    notes = [_NOTE.match(d.text or "") for d in documents]
    if not all(notes):
        return documents
    return [
        d._replace(text=(d.text or "")[m.end() :].strip(), source=d.source or m["note"])
        for d, m in zip(documents, notes, strict=True)
        if m
    ]


def _until_end(body: str, may_have_blank: bool) -> str:
    """`body` up to where the prompt's template goes on."""
    end = END.search(body)
    if end is not None and end.start() > 0:
        body = body[: end.start()]
    if not may_have_blank:
        body = body.split("\n\n", 1)[0]
    return body


def content_blocks(text: str) -> Found | None:
    r"""``Source: …\\nContent: …`` blocks, as LangChain's retriever tool and many search tools write them."""
    if (
        "ontent" not in text
        and "ext:" not in text
        and "assage" not in text
        and "nippet" not in text
        and "ody:" not in text
    ):
        return None
    marks = list(_CONTENT_BLOCK.finditer(text))
    first = _CONTENT_FIRST.search(text)
    if first is not None and (not marks or first.start() < marks[0].start()):
        found = _content_first(text)
        if found is not None or not marks:
            return found
    if not marks:
        return None
    documents = []
    last = marks[-1].end()
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        body = text[mark.end() : stop]
        if index + 1 == len(marks):
            body = _until_end(body, True)
            last = mark.end() + len(body)
        fields = _fields(mark[0])
        own = next((fields[k] for k in ("id", "doc_id", "document_id") if k in fields), None)
        title, source = fields.get("title"), fields.get("source") or fields.get("url")
        mapping = literal(source) if source and source[:1] == "{" else None
        if isinstance(mapping, dict):
            merged = read_documents([{**mapping, "text": body.strip()}])
            if merged:
                documents.append(merged[0])
                continue
        if body.strip():
            documents.append(
                Document(own, body.strip(), number(fields.get("score")), title, source, date=fields.get("date"))
            )
    return Found(tuple(documents), marks[0].start(), last, "content") if documents else None


_CONTENT_FIRST = re.compile(r"^[ \t]*(?:content|page content|text|passage|excerpt|snippet):[ \t]*", re.MULTILINE | re.I)
_AFTER = re.compile(
    r"(?:\n[ \t]*(?:source|sources|link|url|uri|id|doc_id|title|page|score|metadata|name)[ \t]*:[^\n]*){1,6}"
    r"\s*(?=\n|\Z)",
    re.IGNORECASE,
)


def _content_first(text: str) -> Found | None:
    r"""``Content: …\\nSource: …`` blocks: what describes a passage stands below it."""
    marks = list(_CONTENT_FIRST.finditer(text))
    documents, last = [], 0
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        after = _AFTER.search(text, mark.end(), stop)
        if after is None:
            return None
        fields = _fields(after[0])
        body = text[mark.end() : after.start()].strip()
        if body:
            documents.append(
                Document(
                    own_id(fields.get("id") or fields.get("doc_id")),
                    body,
                    number(fields.get("score")),
                    fields.get("title") or fields.get("name"),
                    fields.get("source") or fields.get("link") or fields.get("url") or fields.get("uri"),
                )
            )
            last = after.end()
    return Found(tuple(documents), marks[0].start(), last, "content") if documents else None


def _fields(block: str) -> dict[str, str]:
    fields = {}
    for line in block.splitlines():
        match = _KEY_LINE.match(line)
        if match:
            fields[match["key"].strip().lower().replace(" ", "_")] = match["value"].strip()
    return fields


def numbered(text: str, start: int, end: int) -> Found | None:
    """``1. text``, inside a section of passages."""
    body = text[start:end]
    marks = list(_NUMBERED.finditer(body))
    if not marks or marks[0]["label"] != "1" or body[: marks[0].start()].strip():
        return None
    expected = [m for i, m in enumerate(marks) if int(m["label"]) == i + 1]
    if len(expected) != len(marks):
        return None
    found = _between(body, marks, "numbered")
    return Found(found.documents, start, end, "numbered") if found else None


def labelled(text: str, start: int, end: int) -> Found | None:
    """``id: text``, ``(id) text`` or ``- id: text`` lines, where every label looks like an identifier."""
    marks = []
    for mark in _LABELLED.finditer(text, start, end):
        label = mark["inner"] or (mark["outer"] if mark["closing"].strip("* \t") else None)
        if label and _IDENTIFIER.fullmatch(label):
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
        Document(own_id(m["label"].strip()) if _IDENTIFIER.fullmatch(m["label"].strip()) else None, m["body"].strip(),
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
    documents = []
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else len(body)
        piece = body[mark.end() : stop].strip()
        if piece:
            documents.append((key is not None and described(piece)) or Document(None, piece))
    return Found(tuple(documents), start, end, "bullets")


_YAML_KEY = re.compile(r"(?:id|doc_id|title|source|name|text|content)[ \t]*:", re.IGNORECASE)
_PIECE_KEY = re.compile(
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


def described(piece: str) -> Document | None:
    """One passage with what describes it: a heading, ``key: value`` lines before or after the text."""
    lines = piece.strip("\n").split("\n")
    about: dict[str, str] = {}
    body: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index].strip()
        heading = _PIECE_HEADING.fullmatch(line) if "title" not in about else None
        match = _PIECE_KEY.fullmatch(line)
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
        elif match is not None and key in _ABOUT:
            about.setdefault(_ABOUT[key], match["value"].strip())
        elif line:
            break
        index += 1
    body.extend(lines[index:])
    while len(body) > 1:
        match = _PIECE_KEY.fullmatch(body[-1].strip())
        key = match["key"].strip().lower().replace("_", " ") if match else ""
        if body[-1].strip() and (match is None or key not in _ABOUT):
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


def ruled(text: str, start: int, end: int) -> Found | None:
    """Passages with a rule (``---``, ``=====``) between them."""
    pieces = [p for p in RULE.split(text[start:end]) if p.strip() and not _ANNOUNCING.fullmatch(p.strip())]
    if len(pieces) < 2 and (
        not pieces or RULE.search(text, start, end) is None or not _PIECE_KEY.match(pieces[0].strip())
    ):
        return None
    documents = tuple(d for d in map(described, pieces) if d is not None)
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


def dspy(text: str) -> Found | None:
    """DSPy's ``[[ ## name ## ]]`` fields: those that are named as material; a field of a template holds none."""
    documents: list[Document] = []
    start, end = None, 0
    for match in _FIELD.finditer(text):
        body = match["body"].strip()
        if not _MATERIAL.search(match["name"]) or not body or re.fullmatch(r"\{\w+\}", body):
            continue
        inner = _inside(text, match.start("body"), match.end("body"))
        if inner is not None:
            documents.extend(inner.documents)
            start, end = match.start() if start is None else start, match.end()
    return Found(tuple(documents), start, end, "dspy") if start is not None else None


_FIELD = re.compile(r"\[\[ ## (?P<name>\w+) ## \]\](?P<body>.*?)(?=\[\[ ## |\Z)", re.DOTALL)
_MATERIAL = re.compile(
    r"context|passage|document|docs|excerpt|source|snippet|chunk|evidence|knowledge|reference|retriev|material|result|fact",
    re.IGNORECASE,
)
"""Names of fields and variables that hold retrieved material."""


def is_material(name: str) -> bool:
    """Whether a field or template variable of this name holds what was retrieved."""
    if _OTHER.search(name):
        return False
    return _MATERIAL.search(name) is not None or name.lower() in ("ctx", "kb", "info", "hits")


_OTHER = re.compile(r"question|query|history|instruction|format|template|schema|prompt|answer|output", re.IGNORECASE)


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
        matches = [_KEY_LINE.match(line) for line in lines]
        if all(matches) and all(m and m["key"][:1].islower() and " " not in m["key"].strip() for m in matches):
            flush()
            fields, body = _fields(paragraph), []
        elif fields is None:
            return None
        else:
            body.append(paragraph.strip())
    flush()
    return Found(tuple(documents), start, end, "metadata") if documents else None


def paragraphs(text: str, start: int, end: int) -> Found | None:
    """Paragraphs (or whole lines) of a section of passages."""
    body = RULE.sub("\n\n", text[start:end])
    pieces = [p.strip() for p in re.split(r"\n[ \t]*\n", body) if p.strip()]
    lines = [line.strip() for line in pieces[0].splitlines()] if len(pieces) == 1 else []
    if len(lines) > 1 and all(len(line) >= 30 and line[-1] in ".!?…)\"'" for line in lines):
        pieces = lines  # one passage a line
    if len(pieces) > 1:
        pieces = [p for p in pieces if not _ANNOUNCING.fullmatch(p)] or pieces
    documents = tuple((_VALUE.search(p) and described(p)) or Document(None, p) for p in pieces)
    return Found(documents, start, end, "paragraphs") if pieces else None


_VALUE = re.compile(
    r"\A[ \t]*(?:name|id|title|source|key|url|link)[ \t]*:[^\n]*\n(?:[^\n]*\n){0,4}?"
    r"[ \t]*(?:value|content|text)[ \t]*:",
    re.IGNORECASE,
)


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
            if found.id is None and inner is not None and _IDENTIFIER.fullmatch(inner[1]):
                source = found.source[: inner.start()] if found.source else None
                found = found._replace(id=inner[1], source=source)
            documents.append(found)
    return Found(tuple(documents), start, end, "labelled") if documents else None


IN_SECTION = (ruled, headed, lead_lines, headed, numbered, labelled, key_blocks, bullets, paragraphs)
"""Forms that are told only inside a part that is known to be retrieved material, in the order they are tried."""
