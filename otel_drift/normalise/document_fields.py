"""Normalise: one document's fields, under whatever names retrievers, vector stores and tools give them."""

from __future__ import annotations

from typing import Any

from otel_drift.normalise.step import Document
from otel_drift.normalise.values import load, number, structured, text_of

_NAMES: dict[str, tuple[str, ...]] = {
    "text": (
        "page_content", "pageContent", "text", "content", "body", "chunk", "chunk_text", "chunkText", "snippet",
        "passage", "passage_text", "document", "excerpt", "document_content", "raw_content", "paragraph", "fragment",
        "page_text", "content_text",
    ),
    "id": (
        "id", "doc_id", "_id", "document_id", "documentId", "docId", "chunk_id", "chunkId", "passage_id", "node_id",
        "id_", "source_id", "uuid", "key", "ref", "passageId", "document_key",
    ),
    "score": ("relevance_score", "score", "similarity", "_score", "relevanceScore", "similarity_score",
              "@search.score"),
    "distance": ("distance",),
    "nested": ("metadata", "_source", "payload", "fields", "attributes", "properties", "meta"),
    "title": ("title", "document_title", "name", "heading"),
    "source": ("source", "url", "uri", "file_name", "filename", "file_path", "path", "link"),
    "author": ("author", "authors", "creator"),
    "date": (
        "date", "effective", "effective_date", "published", "published_at", "publication_date", "updated_at",
        "last_modified", "modified", "created_at", "year",
    ),
    "document_type": ("document_type", "doc_type", "documentType", "category", "file_type", "mime_type"),
}  # fmt: skip
_FIELDS = {key: (name, place) for name, keys in _NAMES.items() for place, key in enumerate(keys)}
MARKS = frozenset(
    (*_NAMES["id"], *_NAMES["score"], "distance", "source", "title", "metadata", "url", "score_", "rank", "_source")
)
"""Keys that tell a document from any other mapping with a text in it."""
_IDS = frozenset(_NAMES["id"])
_WORDS = frozenset({"id", "title", "source", "author", "date", "document_type"})
"""Fields whose value is taken as it is where it is text."""

Fields = dict[str, tuple[int, Any]]


def document(value: dict[str, Any]) -> Document | None:
    """One document of any shape, or None where the mapping is none (a chat message, say)."""
    if "lc" in value and isinstance(value.get("kwargs"), dict):
        value = value["kwargs"]
    if "role" in value and MARKS.isdisjoint(value):
        return None
    inner = _node(value) if not _WRAPPING.isdisjoint(value) else None
    fields = _read(value)
    if inner is not None:
        score = _score(fields)
        if inner.id is None and "id" in fields:
            inner = inner._replace(id=fields["id"][1])
        return inner.with_score(score) if score is not None else inner
    nested = fields["nested"][1] if "nested" in fields else {}
    below = _read(nested) if nested else {}
    text = fields["text"][1] if "text" in fields else below["text"][1] if "text" in below else None
    own = fields["id"][1] if "id" in fields else below["id"][1] if "id" in below else None
    if own is None and isinstance(value.get("file_id"), str):
        own = value["file_id"]
    score = _score(fields)
    if score is None:
        score = _score(below)
    if text is None and (
        own is None or (score is None and "score" not in value and MARKS.isdisjoint(value.keys() - _IDS))
    ):
        return None
    return _document(own, text, score, fields, below)


def document_from_parts(own: Any, content: Any, score: float | None, metadata: Any) -> Document:
    """A document given as separate values: id, content, score, and metadata as a mapping or JSON text."""
    details = structured(metadata)
    below = _read(details) if isinstance(details, dict) else {}
    text = content if isinstance(content, str) else text_of(content)
    if not text and "text" in below:
        text = below["text"][1]
    if score is None:
        score = _score(below)
    own = text_of(own) or (below["id"][1] if "id" in below else None)
    return _document(own, text or None, score, {}, below)


def document_from_flat(own: Any, content: Any, score: Any, metadata: Any) -> Document:
    """The same with a score of any type."""
    return document_from_parts(own, content, number(score), metadata)


_WRAPPED = (
    "node", "document", "chunk", "record", "doc", "item", "passage", "entity", "hit", "source_document", "segment",
)  # fmt: skip
_WRAPPING = frozenset(_WRAPPED)


def _node(value: dict[str, Any]) -> Document | None:
    """The document inside a wrapper that adds a score or an id (LlamaIndex, vector stores, search services)."""
    for key in _WRAPPED:
        inner = value.get(key)
        if isinstance(inner, dict):
            found = document(inner) or _bare(inner)
            if found is not None:
                return found
    return None


def _bare(value: dict[str, Any]) -> Document | None:
    """A wrapped mapping with a text and nothing else that is known."""
    fields = _read(value)
    return _document(None, fields["text"][1], None, fields, {}) if "text" in fields else None


def _read(mapping: dict[str, Any]) -> Fields:
    """The best value of each field; of several names for one the first in `_NAMES` wins."""
    found: Fields = {}
    for key, raw in mapping.items():
        field = _FIELDS.get(key)
        if field is None or raw is None or raw == "":
            continue
        name, place = field
        if name in found and found[name][0] < place:
            continue
        value = raw if isinstance(raw, str) and name in _WORDS else _usable(name, raw)
        if value is not None:
            found[name] = (place, value)
    return found


def _usable(name: str, raw: Any) -> Any:
    if name == "text":
        if isinstance(raw, str):
            return raw if not raw.isspace() else None
        if isinstance(raw, list) and raw and all(isinstance(i, dict) and isinstance(i.get("text"), str) for i in raw):
            return "\n".join(i["text"] for i in raw)
        if isinstance(raw, dict) and isinstance(raw.get("text"), str):
            return raw["text"]
        return None
    if name in ("score", "distance"):
        return number(raw)
    if name == "nested":
        if isinstance(raw, str) and raw[:1] == "{":
            raw, _ = load(raw)
        return raw if isinstance(raw, dict) and raw else None
    if isinstance(raw, str):
        return raw
    if isinstance(raw, bool | dict):
        return None
    if isinstance(raw, list):
        return ", ".join(i for i in raw if isinstance(i, str)) or None if name != "id" else None
    return str(raw)


def _score(fields: Fields) -> float | None:
    if "score" in fields:
        return float(fields["score"][1])
    return 1.0 - float(fields["distance"][1]) if "distance" in fields else None


def _document(own: str | None, text: str | None, score: float | None, fields: Fields, below: Fields) -> Document:
    about = {**below, **fields} if below else fields
    if _ABOUT.isdisjoint(about):
        return Document(own, text, score)
    return Document(own, text, score, *[about[name][1] if name in about else None for name in _ABOUT_IN_ORDER])


_ABOUT_IN_ORDER = ("title", "source", "author", "date", "document_type")
_ABOUT = frozenset(_ABOUT_IN_ORDER)
