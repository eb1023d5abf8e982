"""Normalise: lists of documents in every shape that retrievers, vector stores and tools return them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from otel_drift.normalise.document_fields import MARKS, document, document_from_parts
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import literal, number, structured, text_of

_CONTAINERS = (
    "documents",
    "docs",
    "results",
    "hits",
    "matches",
    "passages",
    "chunks",
    "source_documents",
    "source_nodes",
    "nodes",
    "items",
    "records",
    "points",
    "retrieved_documents",
    "retrieved_docs",
    "contexts",
    "context",
    "sources",
    "data",
    "artifact",
    "raw_output",
    "value",
    "output",
    "result",
    "outputs",
    "response",
    "structuredContent",
    "blocks",
    "retrievalResults",
    "retrieval_results",
    "toolResult",
    "json",
)
_LISTS = re.compile(
    r"(?:results?|match(?:es)?|hits?|doc(?:ument)?s|passages?|chunks?|snippets?|excerpts?|articles?|sections?|entries|"
    r"records|sources|paragraphs|citations|references)$",
    re.IGNORECASE,
)
"""Names of lists of documents, whatever a search service puts in front of them."""
_NODE = re.compile(r"<NodeWithScore\(node=\w+\(id_=(?P<id>[^)]*)\), score=(?P<score>[^)>]*)\)>")
MAX_DOCUMENTS = 2_000


def read_documents(value: Any, *, strings: bool = False, depth: int = 0) -> tuple[Document, ...] | None:
    """Documents found in `value`, in order.

    Args:
        value: anything a retriever or tool returned; JSON text and Python reprs are parsed.
        strings: whether a bare list of strings is a list of documents (true for retrievers).
        depth: how deep in the value this is.

    Returns:
        The documents; an empty tuple for an empty list; None where the value is no list of documents.
    """
    if depth > 8 or value is None:
        return None
    if isinstance(value, str):
        return _from_text(value, strings, depth)
    if isinstance(value, list | tuple):
        return _from_list(value, strings, depth)
    if isinstance(value, dict):
        return _from_mapping(value, strings, depth)
    return None


def _from_text(value: str, strings: bool, depth: int) -> tuple[Document, ...] | None:
    inner = structured(value)
    if isinstance(inner, list | dict | tuple):
        return read_documents(inner, strings=strings, depth=depth + 1)
    if value.startswith("content=") and len(value) < 1_000_000:  # repr of a LangChain ToolMessage
        content = repr_content(value)
        if content is not None:
            return read_documents(content, strings=strings, depth=depth + 1)
    return None


def repr_content(value: str) -> str | None:
    """The content of the repr of a LangChain tool message; None where the text is none."""
    quote = value[8:9]
    if quote not in ("'", '"'):
        return None
    match = re.match(r"content=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", value, re.DOTALL)
    loaded = literal(match.group(1)) if match else None
    return loaded if isinstance(loaded, str) else None


def _from_list(value: Sequence[Any], strings: bool, depth: int) -> tuple[Document, ...] | None:
    if not value:
        return ()
    documents: list[Document] = []
    misses = 0
    for item in value[:MAX_DOCUMENTS]:
        part = _part(item)
        if part is not None:
            inner = read_documents(part, strings=strings, depth=depth + 1)
            if inner is not None:
                documents.extend(inner)
                continue
        document = _document_of(item, strings)
        if document is not None:
            documents.append(document)
        elif isinstance(item, list) and len(value) <= 8:
            inner = _from_list(item, strings, depth + 1)
            if inner is None:
                return None
            documents.extend(inner)
        else:
            misses += 1
    if misses and misses >= len(documents):
        return _by_length(value) if not documents else None
    if documents and len(documents) == len(value) and not any(d.id for d in documents):
        if isinstance(value[0], str):
            return _with_labels(documents)
        own = _id_key(value)
        if own is not None:
            return tuple(d._replace(id=item[own]) for d, item in zip(documents, value, strict=True))
    return tuple(documents)


_LABELLED = re.compile(r"(?:\[(?P<inner>[^\s\[\]]{2,80})\]:?|(?P<outer>[^\s:\[\]]{2,80}):)\s+(?=\S)")


_NAMES = re.compile(r"[^\W\d_]|[#§]")
"""A label of digits alone is a date, a time or a version, and part of what is said."""


def _with_labels(documents: list[Document]) -> tuple[Document, ...]:
    """Texts that each begin with another identifier (``id: text``, ``[id] text``), parted from it."""
    marks = [_LABELLED.match(d.text or "") for d in documents]
    ids = [m["inner"] or m["outer"] for m in marks if m]
    if len(set(ids)) < len(documents) or not all(_IDENTIFIER.fullmatch(own) and _NAMES.search(own) for own in ids):
        return tuple(documents)
    return tuple(
        d._replace(id=own, text=(d.text or "")[m.end() :]) for d, m, own in zip(documents, marks, ids, strict=True) if m
    )


_IDENTIFIER = re.compile(r"(?=[^\d]*\d)(?=.*[-_./#§])[^\s:]{2,80}")
_PROSE = 40


def _by_length(items: Sequence[Any]) -> tuple[Document, ...] | None:
    """Mappings of which one value is a text and all others are short: documents under names nobody knows."""
    if not all(isinstance(item, dict) and "role" not in item and "type" not in item for item in items):
        return None
    names: list[str] = []
    for item in items[:MAX_DOCUMENTS]:
        ranked = sorted(((len(v), k) for k, v in item.items() if isinstance(v, str)), reverse=True)
        if not ranked or ranked[0][0] < _PROSE or (len(ranked) > 1 and ranked[1][0] * 2 > ranked[0][0]):
            return None
        if item[ranked[0][1]].count(" ") < 5:
            return None
        names.append(ranked[0][1])
    if len(set(names)) != 1:
        return None
    own = _id_key(items)
    return tuple(
        document_from_parts(
            item.get(own) if own else None, item[names[0]], None, {k: v for k, v in item.items() if k != names[0]}
        )
        for item in items[:MAX_DOCUMENTS]
    )


_NO_ID_KEYS = frozenset({"source", "url", "uri", "link", "path", "date", "filename", "file_name", "file_path"})


def _id_key(items: Sequence[Any]) -> str | None:
    """The key under which every item has another value that looks like an identifier, whatever its name."""
    if not isinstance(items[0], dict):
        return None
    for key, first in items[0].items():
        skipped = key in _NO_ID_KEYS and not (key == "source" and items[0].get("type") == "search_result")
        if not isinstance(first, str) or skipped or not _IDENTIFIER.fullmatch(first):
            continue
        own = [item.get(key) if isinstance(item, dict) else None for item in items]
        if all(isinstance(i, str) and _IDENTIFIER.fullmatch(i) for i in own) and len(set(own)) == len(items):
            return str(key)
    return None


def unwrapped(value: Any) -> Any:
    """What content blocks hold: text blocks become one text, a tool result's envelope its content; else `value`.

    Anthropic, MCP (``[{"type": "text", "text": …}]``) and Bedrock (``{"toolResult": {"content": [{"text": …}]}}``)
    return tool results so.
    """
    for _ in range(4):
        if isinstance(value, dict):
            if isinstance(value.get("output"), dict) and "lc" in value["output"]:
                value = value["output"]
            if value.get("lc") and isinstance(value.get("kwargs"), dict):
                value = value["kwargs"]
            if value.get("type") == "tool" and isinstance(value.get("data"), dict):
                value = value["data"]
            if value.get("artifact"):
                return value
            if isinstance(value.get("raw_output"), str) and "tool_name" in value:  # LlamaIndex
                return structured(value["raw_output"])
            if value.get("type") in ("tool", "ToolMessage") and isinstance(value.get("content"), str):
                return structured(value["content"])
            inner = value.get("toolResult")
            if isinstance(inner, dict):
                value = inner
                continue
            if isinstance(value.get("content"), list) and value.keys() <= _ENVELOPE:
                value = value["content"]
                continue
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            block = value[0]
            if isinstance(block.get("toolResult"), dict):
                value = block["toolResult"]
                continue
            if isinstance(block.get("text"), str) and block.keys() <= _BLOCK:
                return block["text"]
            if block.keys() <= {"type", "json"} and "json" in block:
                return block["json"]
        break
    return value


_BLOCK = frozenset({"type", "text", "annotations", "cache_control", "_meta", "meta", "citations", "block_type"})
_ENVELOPE = frozenset(
    {"content", "isError", "is_error", "status", "toolUseId", "tool_use_id", "type", "_meta", "meta", "role", "name",
     "tool_call_id", "id"}
)  # fmt: skip


def _part(item: Any) -> Any:
    """What a content part (``{"type": "text", "text": "[…]"}``) holds where that is data, not prose."""
    if not isinstance(item, dict) or not MARKS.isdisjoint(item):
        return None
    kind = item.get("type", item.get("block_type", "text" if len(item) == 1 else None))
    if kind not in ("text", "json"):
        return None
    inner = item.get("text") if kind == "text" else item.get("json", item.get("value"))
    if isinstance(inner, str):
        return inner if inner[:1] in ("[", "{") else None
    return inner


def _document_of(item: Any, strings: bool) -> Document | None:
    if isinstance(item, str):
        match = _NODE.match(item)
        if match:
            return Document(match["id"], None, score=number(match["score"]))
        if item.startswith(("Document(", "page_content=")):
            return _document_repr(item)
        if item[:1] == "{":
            inner = structured(item)
            if isinstance(inner, dict):
                return document(inner)
        return Document(None, item) if strings and item.strip() else None
    if isinstance(item, dict):
        return document(item)
    if isinstance(item, list | tuple) and len(item) == 2 and number(item[1]) is not None and isinstance(item[0], dict):
        found = document(item[0])
        return found.with_score(number(item[1])) if found else None
    return None


_REPR_FIELD = re.compile(
    r"\b(id|page_content|content|score)\s*[=:]\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^,)\s]+)", re.DOTALL
)


def _document_repr(item: str) -> Document | None:
    """The repr of a Haystack or LangChain document; a content cut with an ellipsis is no text."""
    if len(item) > 200_000:
        return None
    found: dict[str, str] = {}
    for match in _REPR_FIELD.finditer(item):
        raw = match[2]
        evaluated = literal(raw) if raw[:1] in "'\"" else raw
        if isinstance(evaluated, str):
            found.setdefault(match[1], evaluated)
    text = found.get("page_content") or found.get("content")
    if text is not None and (text.endswith(("...", "…"))):
        text = None
    if text is None and not found.get("id"):
        return None
    return Document(found.get("id"), text, score=number(found.get("score")))


def _from_mapping(value: dict[str, Any], strings: bool, depth: int) -> tuple[Document, ...] | None:
    if isinstance(value.get("ids"), list):
        return _columns(value)
    if isinstance(value.get("data"), dict) and value.get("type") in ("tool", "ToolMessage"):
        return read_documents(value["data"], strings=strings, depth=depth + 1)
    if value.get("lc") and isinstance(value.get("kwargs"), dict):
        return read_documents(value["kwargs"], strings=strings, depth=depth + 1)
    if value.get("artifact") is not None:
        found = read_documents(value["artifact"], strings=strings, depth=depth + 1)
        if found:
            return found
    for key in _CONTAINERS:
        inner = value.get(key)
        if isinstance(inner, list | dict) or (isinstance(inner, str) and inner[:1] in ("[", "{")):
            found = read_documents(inner, strings=strings or key in _CONTAINERS[:9], depth=depth + 1)
            if found is not None and (found or isinstance(structured(inner), list)):
                return found
    for key, inner in value.items():
        if isinstance(inner, list) and key not in _CONTAINERS and _LISTS.search(key):
            found = read_documents(inner, strings=strings, depth=depth + 1)
            if found is not None:
                return found
    content = value.get("content")
    if isinstance(content, list) or (isinstance(content, str) and content[:1] in ("[", "{")):
        found = read_documents(content, strings=strings, depth=depth + 1)
        if found is not None:
            return found
    single = document(value)
    return (single,) if single is not None and single.text and len(MARKS & value.keys()) >= 1 else None


def _columns(value: dict[str, Any]) -> tuple[Document, ...]:
    """Chroma's answer: parallel lists, one row a query."""

    def column(name: str) -> list[Any]:
        cells = value.get(name)
        if not isinstance(cells, list):
            return []
        return [cell for row in cells for cell in row] if cells and isinstance(cells[0], list) else cells

    ids, texts, metadatas = column("ids"), column("documents"), column("metadatas")
    distances = column("distances")
    rows = []
    for index, own in enumerate(ids[:MAX_DOCUMENTS]):
        metadata = metadatas[index] if index < len(metadatas) and isinstance(metadatas[index], dict) else {}
        text = texts[index] if index < len(texts) and isinstance(texts[index], str) else None
        distance = number(distances[index]) if index < len(distances) else None
        score = None if distance is None else 1.0 - distance
        rows.append(document_from_parts(text_of(own), text, score, metadata))
    return tuple(rows)
