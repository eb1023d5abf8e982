"""Sessions: the forms in which prompts and tool results list passages, one function a form."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import literal, number

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
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*|-{2,}[ \t]*)?\[?(?P<label>(?:document|doc|passage|source|chunk|excerpt|snippet|"
    r"context|result|article|reference)[ \t]*(?:no\.?|nr\.?|#|id)?[ \t]*[\[(#]?(?P<number>[\w.-]{1,60})[\])]?)"
    r"[ \t]*(?:\((?P<note>[^()\n]{0,200})\))?\]?(?:\*\*)?[ \t]*(?:(?:-{2,}|:)(?:\*\*)?|(?<=\)))[ \t]*\n?",
    re.MULTILINE | re.IGNORECASE,
)
_LABEL_ID = re.compile(r"\((?:id|doc_id|source|ref)[ \t]*[:=][ \t]*([^()]{1,120})\)", re.IGNORECASE)
_NUMBERED = re.compile(r"^[ \t]*(?P<label>\d{1,3})[.)][ \t]+", re.MULTILINE)
_LABELLED = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?:\*\*)?(?:\((?P<inner>[^\s()]{2,80})\)|(?P<outer>[A-Za-z0-9][\w./#-]{1,79}))"
    r"(?P<closing>(?:\*\*)?[ \t]*(?::|\||–|—|-(?= ))?(?:\*\*)?)[ \t]+",
    re.MULTILINE,
)
_IDENTIFIER = re.compile(r"(?=[^\d]*\d)(?=.*[-_./#])[\w./#-]+")
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
END = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*)?(?:instructions?|rules|note|question|query|human|answer|helpful answer|"
    r"user(?:'s)?(?: question| query| message| input)?|response|assistant|task|chat history|history|"
    r"conversation(?: history)?|last user message|frage|antwort)(?:\*\*)?[ \t]*:"
    r"|^[ \t]*(?:given (?:the|this)|based on (?:the|this)|using (?:the|this)|answer the|please answer|respond )[^\n]*"
    r"|^[ \t]*(?:-{3,}|={3,}|\*{3,}|`{3,}|\"{3})[ \t]*$"
    r"|^[ \t]*</[a-z_]+>",
    re.MULTILINE | re.IGNORECASE,
)
RULE = re.compile(r"^[ \t]*(?:-{3,}|={3,}|\*{3,}|`{3,}\w*|\"{3})[ \t]*$", re.MULTILINE)
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
    for form_in in (numbered, labelled, key_blocks, bullets, paragraphs):
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
    if "##" in label:  # DSPy's field names
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
        body = RULE.sub("", body).strip()
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
    return Found(tuple(documents), marks[0].start(), last_end, form) if documents else None


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
        return None
    documents = []
    for index, (mark, label) in enumerate(marks):
        stop = marks[index + 1][0].start() if index + 1 < len(marks) else end
        body = text[mark.end() : stop].strip()
        if body:
            documents.append(Document(own_id(label), body))
    return Found(tuple(documents), start, end, "labelled")


def bullets(text: str, start: int, end: int) -> Found | None:
    """``- text``, inside a section of passages."""
    body = text[start:end]
    marks = list(_BULLET.finditer(body))
    if len(marks) < 2 or body[: marks[0].start()].strip():
        return None
    documents = []
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else len(body)
        piece = body[mark.end() : stop].strip()
        if piece:
            documents.append(Document(None, piece))
    return Found(tuple(documents), start, end, "bullets")


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
    return Found(tuple(Document(None, p) for p in pieces), start, end, "paragraphs") if pieces else None
