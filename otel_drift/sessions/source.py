"""Sessions: one search of a turn, and which of two counts where one ran inside the other."""

from __future__ import annotations

from dataclasses import dataclass

from otel_drift.model import ReadFrom
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import fold


@dataclass(slots=True)
class Source:
    """One retriever, reranker or retrieval tool that ran. `documents` is None where its result was not captured."""

    documents: tuple[Document, ...] | None
    stage: ReadFrom
    ref: str
    start: int
    partial: bool = False
    structured: bool = True
    text: str = ""
    shadowed: bool = False
    candidates: tuple[Document, ...] | None = None
    foreign: bool = False
    unsure: bool = False


def settle(outer: Source, inner: Source) -> None:
    """Of a search inside another one (a retriever in a tool, a vector store in a retriever) only one counts."""
    texts = any(d.text for d in inner.documents or ())
    joined = _only_joins(outer, inner)
    if not texts and (named := _with_ids(outer, inner)) is not None:
        outer.documents = named
        inner.shadowed = True
    elif joined is not None:
        inner.text = joined
        outer.shadowed = True
    elif outer.documents is None or (not outer.documents and inner.documents and not outer.structured):
        outer.shadowed = True
    elif not outer.structured and texts:
        inner.text = outer.text
        outer.shadowed = True
    elif outer.documents and texts and not any(d.text for d in outer.documents):
        outer.shadowed = True
    else:
        inner.shadowed = True


def _with_ids(outer: Source, inner: Source) -> tuple[Document, ...] | None:
    """The outer search's texts with the ids of the inner one, where it has just as many ids and no texts."""
    texts, ids = outer.documents or (), inner.documents or ()
    if not texts or len(texts) != len(ids) or not all(d.id for d in ids) or any(d.id or not d.text for d in texts):
        return None
    return tuple(
        d._replace(id=i.id, score=d.score if i.score is None else i.score) for d, i in zip(texts, ids, strict=True)
    )


def _only_joins(outer: Source, inner: Source) -> str | None:
    """The one text of the outer search where it is only the texts that the inner one found, joined."""
    if outer.documents is None or len(outer.documents) != 1 or outer.documents[0].id or not inner.documents:
        return None
    whole = fold(outer.documents[0].text or "")
    return whole if all(d.text and fold(d.text) in whole for d in inner.documents) else None
