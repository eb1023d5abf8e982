"""Sessions: passages found in prompt text, where no span holds them, and in the text that tools return."""

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
    r"^[ \t]*(?:[-*•][ \t]+)?\[(?P<label>[^\[\]\n]{1,160})\](?!\()[ \t]*:?[ \t]*(?:\n)?", re.MULTILINE
)
_NAMED = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*|-{2,}[ \t]*)?\[?(?P<label>(?:document|doc|passage|source|chunk|excerpt|snippet|"
    r"context|result|article|reference)[ \t]*(?:no\.?|nr\.?|#|id)?[ \t]*[\[(#]?(?P<number>[\w.-]{1,60})[\])]?)"
    r"[ \t]*(?:\((?P<note>[^()\n]{0,200})\))?\]?(?:\*\*)?[ \t]*(?:(?:-{2,}|:)(?:\*\*)?|(?<=\)))[ \t]*\n?",
    re.MULTILINE | re.IGNORECASE,
)
_LABEL_ID = re.compile(r"\((?:id|doc_id|source|ref)[ \t]*[:=][ \t]*([^()]{1,120})\)", re.IGNORECASE)
_NUMBERED = re.compile(r"^[ \t]*(?P<label>\d{1,3})[.)][ \t]+", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+", re.MULTILINE)
_KEY_LINE = re.compile(r"^[ \t]*(?P<key>[A-Za-z][\w -]{0,30})[ \t]*:[ \t]*(?P<value>\S.*)$")
_CONTENT_BLOCK = re.compile(
    r"^[ \t]*(?:Source|Title|Id|Document|Doc|Metadata|Url|Score)[ \t]*:.*\n(?:^[ \t]*[A-Z][\w ]{0,30}:.*\n){0,6}?"
    r"^[ \t]*(?:Content|Text|Page content|Passage|Snippet|Body)[ \t]*:[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)
_HEADER = re.compile(
    r"^(?=[^\n]*\b(?:contexts?|passages?|documents?|docs|sources?|excerpts?|snippets?|search results?|results|"
    r"knowledge(?: base)?|references?|information|articles?|evidence|material|kontext|quellen|dokumente)\b)"
    r"[^\n]{0,400}?(?::|\bbelow\b[^\n]{0,80}|\bfollowing\b[^\n]{0,80})[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_END = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*)?(?:instructions?|rules|note|question|query|human|answer|helpful answer|"
    r"user(?:'s)?(?: question| query| message| input)?|response|assistant|task|chat history|history|"
    r"conversation(?: history)?|last user message|frage|antwort)(?:\*\*)?[ \t]*:"
    r"|^[ \t]*(?:given (?:the|this)|based on (?:the|this)|using (?:the|this)|answer the|please answer|respond )[^\n]*"
    r"|^[ \t]*(?:-{3,}|={3,}|\*{3,}|`{3,}|\"{3})[ \t]*$"
    r"|^[ \t]*</[a-z_]+>",
    re.MULTILINE | re.IGNORECASE,
)
_RULE = re.compile(r"^[ \t]*(?:-{3,}|={3,}|\*{3,}|`{3,}\w*|\"{3})[ \t]*$", re.MULTILINE)
_GUILLEMETS = ("«", "»")
_NO_ID = re.compile(
    r"(?:\d{1,4}|[a-z]|(?:document|doc|passage|source|chunk|excerpt|snippet|context|result)[ _#-]*\d{1,4})", re.I
)
MAX_PROMPT = 2_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """Passages in a text, and where in the text they lie."""

    documents: tuple[Document, ...]
    start: int
    end: int
    form: str


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
    for form in (_tags, _json_list, _content_blocks, _brackets, _named):
        found = form(text)
        if found is not None and found.documents:
            return found
    if section is None:
        return None
    for form_in in (_numbered, _key_blocks, _bullets, _paragraphs):
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


def own_id(label: str | None) -> str | None:
    """The label as a passage id, or None where it is only a number in a list."""
    label = (label or "").strip()
    return None if not label or _NO_ID.fullmatch(label) or len(label) > 160 else label


def _tags(text: str) -> Found | None:
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
    found = _tags(body)
    return Found(found.documents, found.start + offset, found.end + offset, found.form) if found else None


def _inside(text: str, start: int, end: int) -> Found | None:
    """Passages between ``<context>`` and ``</context>``: any other form, else its paragraphs."""
    body = text[start:end]
    for form in (_json_list, _content_blocks, _brackets, _named):
        found = form(body)
        if found is not None and found.documents:
            return Found(found.documents, start, end, found.form)
    for form_in in (_numbered, _key_blocks, _bullets, _paragraphs):
        found = form_in(body, 0, len(body))
        if found is not None and found.documents:
            return Found(found.documents, start, end, found.form)
    return Found((), start, end, "empty")


def _json_list(text: str) -> Found | None:
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


def _brackets(text: str) -> Found | None:
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


def _named(text: str) -> Found | None:
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
        body = _RULE.sub("", body).strip()
        if body[:1] == _GUILLEMETS[0] and body[-1:] == _GUILLEMETS[1]:
            body = body[1:-1].strip()
        label = mark["label"]
        title, source, score = None, None, None
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
    end = _END.search(body)
    if end is not None and end.start() > 0:
        body = body[: end.start()]
    if not may_have_blank:
        body = body.split("\n\n", 1)[0]
    return body


def _content_blocks(text: str) -> Found | None:
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
    fence = _RULE.match(text, start + 1) if start + 1 < len(text) else None
    if fence is not None:
        start = fence.end()
    for end in _END.finditer(text, start):
        if fence is None and _RULE.match(text, end.start()):
            rest = text[end.end() :].lstrip()
            if rest and not _END.match(rest):
                continue  # a rule between two passages
        return start, end.start()
    return start, len(text)


def _numbered(text: str, start: int, end: int) -> Found | None:
    body = text[start:end]
    marks = list(_NUMBERED.finditer(body))
    if not marks or marks[0]["label"] != "1" or body[: marks[0].start()].strip():
        return None
    expected = [m for i, m in enumerate(marks) if int(m["label"]) == i + 1]
    if len(expected) != len(marks):
        return None
    found = _between(body, marks, "numbered")
    return Found(found.documents, start, end, "numbered") if found else None


def _bullets(text: str, start: int, end: int) -> Found | None:
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


def _key_blocks(text: str, start: int, end: int) -> Found | None:
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


def _paragraphs(text: str, start: int, end: int) -> Found | None:
    body = _RULE.sub("\n\n", text[start:end])
    pieces = [p.strip() for p in re.split(r"\n[ \t]*\n", body) if p.strip()]
    return Found(tuple(Document(None, p) for p in pieces), start, end, "paragraphs") if pieces else None
