"""What people said of traces: the HUMAN annotations and notes of a project, as the text of `user.feedback`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from otel_drift.model import Span
from otel_drift_connectors.phoenix.filters import FOREIGN, chunks, moment
from otel_drift_connectors.phoenix.server import IDENTIFIER, Server

KEY = "user.feedback"
_TRACES = 1_000
_ANNOTATIONS = 1_000


def annotated(server: Server, began: int, ended: int) -> set[str]:
    """Ids of the traces begun in [`began`, `ended`] (nanoseconds) of which someone else annotated a span or the trace.

    One request where there are fewer than a thousand: it spares asking for the annotations of all others.
    """
    params = [("start_time", moment(began)), ("end_time", moment(ended + 1_000)), ("filter", FOREIGN)]
    found = server.pages(f"{server.project.path}/traces", params, limit=_TRACES)
    return {str(trace.get("trace_id")) for trace in found}


def of_sessions(server: Server, session_ids: Collection[str]) -> dict[str, list[str]]:
    """What people said of sessions as such, by session id, as lines ``name: value``."""
    return _lines(server, "session", session_ids)


def of_traces(server: Server, spans: Sequence[Span]) -> dict[str, list[str]]:
    """What people said of the traces that `spans` are whole, or of a span of them, by trace id."""
    found = _lines(server, "trace", dict.fromkeys(span.trace_id for span in spans))
    trace_of = {span.span_id: span.trace_id for span in spans}
    for span_id, lines in _lines(server, "span", trace_of).items():
        if span_id in trace_of:
            found.setdefault(trace_of[span_id], []).extend(lines)
    return found


def with_feedback(spans: Sequence[Span], lines: Mapping[str, Sequence[str]]) -> list[Span]:
    """`spans` (whole traces), with the `lines` of each trace on its root span, below what the application recorded."""
    roots: dict[str, Span] = {}
    for span in spans:
        root = roots.get(span.trace_id)
        if root is None or (span.parent_id is not None, span.start) < (root.parent_id is not None, root.start):
            roots[span.trace_id] = span
    return [
        _told(span, lines[span.trace_id]) if lines.get(span.trace_id) and roots[span.trace_id] is span else span
        for span in spans
    ]


def _told(span: Span, lines: Sequence[str]) -> Span:
    own = span.attributes.get(KEY)
    text = "\n".join(dict.fromkeys([*([str(own)] if own is not None else []), *lines]))
    return replace(span, attributes={**span.attributes, KEY: text})


def _lines(server: Server, target: str, ids: Collection[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = f"{target}_ids"
    for some in chunks(ids, overhead=len(name) + 2):
        params = [(name, one) for one in some]
        for item in server.pages(f"{server.project.path}/{target}_annotations", params, limit=_ANNOTATIONS):
            if item.get("annotator_kind") == "HUMAN" and item.get("identifier") != IDENTIFIER:
                found.setdefault(str(item.get(f"{target}_id")), []).extend(_said(item))
    return found


def _said(item: Mapping[str, Any]) -> Iterator[str]:
    """A label, a number and a comment are a line each: any of them may be the complaint."""
    result = item.get("result")
    for value in (result or {}).values() if isinstance(result, dict) else ():
        text = " ".join(str(value).split()) if value is not None else ""
        if text:
            yield f"{item.get('name')}: {text}"
