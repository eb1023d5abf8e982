"""Sessions: the forms of lists that are told anywhere in a prompt or tool result: tags, JSON, fields, blocks."""

from __future__ import annotations

import json
import re

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import literal, number
from otel_drift.sessions.prompt_blocks import in_section, json_lines
from otel_drift.sessions.prompt_enclosed import enclosed
from otel_drift.sessions.prompt_found import MATERIAL, Found, fields_of, own_id
from otel_drift.sessions.prompt_marks import brackets, named, until_end

_TAG = re.compile(
    r"<(?P<tag>(?:document|doc|passage|source|chunk|item|result|excerpt|snippet|context|article|reference)"
    r"(?:[_-]?\d{1,3})?)(?P<attributes>\s[^<>]{0,500})?>(?P<body>.*?)</(?P=tag)>",
    re.DOTALL | re.IGNORECASE,
)


_ATTRIBUTE = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


_INNER = re.compile(r"<(?P<tag>[a-z_]+)>(?P<body>.*?)</(?P=tag)>", re.DOTALL | re.IGNORECASE)


_CONTENT_BLOCK = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?:Source|Title|Id|Document|Doc|Metadata|Url|Score)[ \t]*:.*\n"
    r"(?:^[ \t]*[A-Z][\w ]{0,30}:.*\n){0,6}?"
    r"^[ \t]*(?:Content|Text|Page content|Passage|Snippet|Body)[ \t]*:[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)


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
    found = enclosed(body, in_section) or in_section(body, 0, len(body))
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
    lines = json_lines(text, 0, len(text))
    marked = lines is not None and all(d.id or d.source or d.score is not None for d in lines.documents)
    return lines if marked else None  # else it may be a log or a request's body that the user asks about


def content_blocks(text: str) -> Found | None:
    r"""``Source: …\\nContent: …`` blocks, as LangChain's retriever tool and many search tools write them."""
    if ":" not in text or (
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
            body = until_end(body, True)
            last = mark.end() + len(body)
        fields = fields_of(mark[0])
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
        fields = fields_of(after[0])
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


def dspy(text: str) -> Found | None:
    """DSPy's ``[[ ## name ## ]]`` fields: those that are named as material; a field of a template holds none."""
    documents: list[Document] = []
    start, end = None, 0
    for match in _FIELD.finditer(text):
        body = match["body"].strip()
        if not MATERIAL.search(match["name"]) or not body or re.fullmatch(r"\{\w+\}", body):
            continue
        inner = _inside(text, match.start("body"), match.end("body"))
        if inner is not None:
            documents.extend(inner.documents)
            start, end = match.start() if start is None else start, match.end()
    return Found(tuple(documents), start, end, "dspy") if start is not None else None


_FIELD = re.compile(r"\[\[ ## (?P<name>\w+) ## \]\](?P<body>.*?)(?=\[\[ ## |\Z)", re.DOTALL)
