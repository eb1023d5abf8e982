"""Normalise: documents that a chat message carries as parts of their own (Anthropic, Bedrock, Cohere)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import structured

BLOCKS = frozenset({"document", "search_result"})
"""Types of the parts that hold a document; Bedrock's parts have no type but a key `document` or `searchResult`."""


def attached(parts: Sequence[Any]) -> tuple[Document, ...]:
    """The documents among the parts of a message, in order."""
    found = [block for part in parts if isinstance(part, dict) and (block := _block(part)) is not None]
    return read_documents(found) or () if found else ()


def _block(part: dict[str, Any]) -> dict[str, Any] | None:
    """One part as a plain mapping of a document's fields, None where it holds no document's text."""
    if part.get("type") == "search_result":
        return part
    if isinstance(part.get("searchResult"), dict):
        return {**part["searchResult"], "type": "search_result"}
    inner = part.get("document")
    if not isinstance(inner, dict):
        if part.get("type") != "document":
            return None
        inner = part
    data = structured(inner["data"]) if "data" in inner else None  # Cohere
    if data is not None:
        fields = data if isinstance(data, dict) else {"text": data}
        return {**fields, "id": inner.get("id") or fields.get("id")}
    source = inner.get("source")
    if not isinstance(source, dict):
        return None
    for key in ("data", "text", "content"):
        text = source.get(key)
        if text and source.get("type") not in ("base64", "url", "file"):
            return {"text": text, "title": inner.get("title") or inner.get("name")}
    return None
