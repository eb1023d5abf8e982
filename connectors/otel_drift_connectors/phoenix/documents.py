"""Passages that contradict each other, as annotations of the documents on the retriever spans they came from.

Written and read by GraphQL, as Phoenix's own pages do it: the REST API reads none, and writes them under no identifier,
where ours would replace those of a person who chose the same name (arize-phoenix 20.26.1). Never with a score: Phoenix
takes a document's score for its relevance and makes retrieval metrics of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from otel_drift.errors import PlatformError, RetryablePlatformError
from otel_drift.model import SEVERITY_SCORES, Annotation
from otel_drift_connectors.phoenix.server import BATCH, IDENTIFIER, Server, annotator_kind

CONFLICTS = "source_conflict"
"""The audit whose values on answers say which passages they concern."""
ARRIVES_WITHIN = 3600 * 10**9
"""Nanoseconds after the end of an answer in which its retriever's span may still arrive."""
_PAGE = 100
_WITHDRAWN = {"label": "NONE", "explanation": "Withdrawn: no longer found."}

_READ = """
query ($condition: String, $after: String) {
  node(id: %s) { ... on Project { spans(first: %d, after: $after, filterCondition: $condition) {
    pageInfo { hasNextPage endCursor }
    edges { node {
      id spanId spanKind attributes
      documentEvaluations {
        id name identifier documentPosition annotatorKind label score explanation metadata
      }
    } }
  } } }
}
"""
_THERE = """
query ($condition: String) {
  node(id: %s) { ... on Project { spans(first: %d, filterCondition: $condition) { edges { node { spanId } } } } }
}
"""
_WRITE = """
mutation ($input: [CreateDocumentAnnotationInput!]!) {
  createDocumentAnnotations(input: $input) { __typename }
}
"""
_HOLDS_DOCUMENTS = "(retrieval.documents is not None or reranker.output_documents is not None)"


class _Place(NamedTuple):
    """A document: Phoenix's id of its span, and its position there."""

    span: str
    position: int


@dataclass(slots=True)
class _Retrievals:
    """What some traces retrieved: the documents (id, text) of the spans in `about`, and our annotations of any.

    Spans by OpenTelemetry's id; a trace may have many that no annotation is about.
    """

    about: frozenset[str]
    ids: dict[str, str] = field(default_factory=dict)
    documents: dict[str, list[tuple[str | None, str | None]]] = field(default_factory=dict)
    standing: dict[_Place, dict[str, Any]] = field(default_factory=dict)


def update(server: Server, annotations: Sequence[Annotation]) -> tuple[list[str], list[str]]:
    """Annotate the documents that `annotations` concern, and make ``NONE`` what they no longer concern.

    Only what differs is written, and of several answers on one document the worst. A passage that is not one document
    of its span for certain is left out, and so is what Phoenix refuses: the value on the answer's span stands without.

    Args:
        server: The project; other projects' spans are not looked at.
        annotations: Values on answer spans, withdrawn ones too.

    Returns:
        Phoenix's ids of those made ``NONE``, to be deleted; and the ids of `annotations` that are to be written again,
        as a span they speak of has not arrived.

    Raises:
        ConfigError: there is no such project.
        PlatformError: the server cannot be asked for documents.
    """
    refs = [mark.span_ref.partition(":") for one in annotations for mark in one.passages]
    found = _Retrievals(frozenset(span_id for _, _, span_id in refs))
    traces = {trace_id for trace_id, _, _ in refs} | {one.trace_id for one in annotations if one.trace_id}
    _read(server, sorted(traces), found)
    wanted = _wanted(annotations, found)
    results = {one.id for one in annotations}
    ours = {
        place: stands
        for place, stands in found.standing.items()
        if _text(_metadata(stands).get("result_id")) in results
    }
    gone = {place: stands for place, stands in ours.items() if place not in wanted}
    rows = [
        row
        for place, row in wanted.items()
        if _differs(row, stands := found.standing.get(place))
        and (stands is None or place in ours or _severity(stands) < _severity(row))
    ]
    rows += [
        _row(place, CONFLICTS, stands["annotatorKind"], _WITHDRAWN, _metadata(stands))
        for place, stands in gone.items()
        if stands["label"] != _WITHDRAWN["label"]
    ]
    for at in range(0, len(rows), BATCH):
        _write(server, rows[at : at + BATCH])
    return [stands["id"] for stands in gone.values()], _early(server, annotations, found)


def _read(server: Server, trace_ids: Sequence[str], found: _Retrievals) -> None:
    """What the traces retrieved, in one request where it is not more than a page."""
    query = _READ % (json.dumps(server.project.id), _PAGE)
    values = {"condition": f"trace_id in {list(trace_ids)!r} and {_HOLDS_DOCUMENTS}", "after": None}
    while trace_ids:
        spans = (server.graphql(query, **values).get("node") or {}).get("spans") or {}
        for edge in spans.get("edges") or ():
            _note(edge["node"], found)
        if not (spans.get("pageInfo") or {}).get("hasNextPage"):
            break
        values = {**values, "after": spans["pageInfo"]["endCursor"]}


def _early(server: Server, annotations: Sequence[Annotation], found: _Retrievals) -> list[str]:
    """The ids of values of which a span is not there, with or without documents, and may still arrive."""
    recent = time.time_ns() - ARRIVES_WITHIN
    missing = {
        one.id: absent
        for one in annotations
        if not one.withdrawn and (one.end or 0) > recent
        if (absent := {mark.span_ref.partition(":")[2] for mark in one.passages} - found.ids.keys())
    }
    asked = sorted(set().union(*missing.values()))
    there: set[str] = set()
    for at in range(0, len(asked), _PAGE):
        query = _THERE % (json.dumps(server.project.id), _PAGE)
        some = server.graphql(query, condition=f"span_id in {asked[at : at + _PAGE]!r}")
        edges = ((some.get("node") or {}).get("spans") or {}).get("edges") or ()
        there.update(edge["node"]["spanId"] for edge in edges)
    return [one for one, absent in missing.items() if absent - there]


def _note(span: dict[str, Any], found: _Retrievals) -> None:
    if span["spanId"] in found.about:
        keys = ("reranker", "output_documents") if span["spanKind"] == "reranker" else ("retrieval", "documents")
        items = _below(_attributes(span), *keys)
        found.ids[span["spanId"]] = span["id"]
        found.documents[span["spanId"]] = [
            (_text(_below(item, "document", "id")), _text(_below(item, "document", "content")))
            for item in (items if isinstance(items, list) else ())
        ]
    for one in span["documentEvaluations"]:
        if one["name"] == CONFLICTS and one["identifier"] == IDENTIFIER:
            found.standing[_Place(span["id"], one["documentPosition"])] = one


def _attributes(span: dict[str, Any]) -> Any:
    """What the span's application wrote; None where it cannot be read, which must not hold up the other spans."""
    try:
        return json.loads(span["attributes"])
    except (TypeError, ValueError, RecursionError):
        return None


def _wanted(annotations: Sequence[Annotation], found: _Retrievals) -> dict[_Place, dict[str, Any]]:
    """What is to stand, the worst where several answers concern one document."""
    wanted: dict[_Place, dict[str, Any]] = {}
    for one in annotations:
        for mark in () if one.withdrawn else one.passages:
            span_id = mark.span_ref.partition(":")[2]
            position = mark.place_among(found.documents.get(span_id, []))
            if position is None:
                continue
            place = _Place(found.ids[span_id], position)
            said = {"label": mark.label, "explanation": mark.explanation}
            row = _row(place, one.name, annotator_kind(one), said, {"audit": one.audit, "result_id": one.id})
            if place not in wanted or _severity(row) > _severity(wanted[place]):
                wanted[place] = row
    return wanted


def _row(place: _Place, name: str, kind: str, said: dict[str, str], metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "spanId": place.span,
        "documentPosition": place.position,
        "name": name,
        "identifier": IDENTIFIER,
        "annotatorKind": kind,
        "source": "API",
        **said,
        "metadata": metadata,
    }


def _differs(row: dict[str, Any], stands: dict[str, Any] | None) -> bool:
    """Whether a row says something else than what stands; Phoenix strips texts."""
    if stands is None or stands["score"] is not None:
        return True
    texts = any(row[key].strip() != (stands[key] or "") for key in ("label", "explanation"))
    return texts or row["annotatorKind"] != stands["annotatorKind"] or row["metadata"] != _metadata(stands)


def _write(server: Server, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows; of some that are refused together the others are written."""
    try:
        server.graphql(_WRITE, input=rows)
    except RetryablePlatformError:
        raise
    except PlatformError:
        if len(rows) > 1:
            for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                _write(server, half)


def _metadata(stands: dict[str, Any]) -> dict[str, Any]:
    metadata = stands["metadata"]
    return metadata if isinstance(metadata, dict) else {}


def _severity(said: dict[str, Any]) -> float:
    return SEVERITY_SCORES.get(said["label"], 0.0)


def _below(value: Any, *keys: str) -> Any:
    """What lies below some keys; None where there is nothing: attributes may hold anything."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None if value is None else str(value)
