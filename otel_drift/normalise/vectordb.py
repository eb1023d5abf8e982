"""Normalise: vector store spans (Chroma and others, through OpenLLMetry, OpenLIT or plain database conventions)."""

from __future__ import annotations

from typing import Any

from otel_drift.normalise.document_fields import document_from_flat
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import Document, Kind, Step
from otel_drift.normalise.values import number

STORES = frozenset(
    {
        "chroma",
        "pinecone",
        "qdrant",
        "weaviate",
        "milvus",
        "lancedb",
        "marqo",
        "astra",
        "pgvector",
        "faiss",
        "redis_vector",
        "vespa",
        "turbopuffer",
    }
)
_READS = ("query", "search", "get", "select", "peek", "recommend", "scroll", "retrieve", "fetch", "similarity")
_WRITES = ("add", "insert", "upsert", "update", "delete", "create", "modify", "drop", "write", "count", "flush", "load")


class VectorStore(Reader):
    """Spans of a vector store."""

    name = "vectordb"

    def kind(self, step: Step) -> Kind:
        """A read is a retrieval, anything else index maintenance."""
        a = step.span.attributes
        operation = str(a.get("db.operation") or a.get("db.operation.name") or step.span.name.rpartition(".")[2] or "")
        word = operation.lower()
        if word.startswith(_WRITES):
            return "index"
        if word.startswith(_READS) or any(e.name == "db.query.result" for e in step.span.events):
            return "retriever"
        return "index"

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """Hits in span events (`db.query.result`); none where the instrumentation does not record them."""
        if step.kind != "retriever":
            return None
        found: list[Document] = []
        for event in step.span.events:
            a = event.attributes
            if event.name in ("db.query.result", "db.search.result", "vector_db.result"):
                found.append(_hit(a))
        if found:
            return tuple(found)
        rows = step.span.attributes.get("db.response.returned_rows")
        if number(rows) == 0:
            return ()
        for key in ("db.query.results", "db.response.documents", "db.vector.query.results"):
            if key in step.span.attributes:
                return read_documents(step.json(key), strings=True)
        return None


def _hit(a: Any) -> Document:
    prefix = next((key.rpartition(".")[0] for key in a if key.endswith((".id", ".document"))), "db.query.result")
    score = number(a.get(prefix + ".score"))
    distance = number(a.get(prefix + ".distance"))
    if score is None and distance is not None:
        score = 1.0 - distance
    return document_from_flat(a.get(prefix + ".id"), a.get(prefix + ".document"), score, a.get(prefix + ".metadata"))
