"""Sessions: what a tool returned: retrieved passages, or something else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from otel_drift.model import ToolCall
from otel_drift.normalise import Step
from otel_drift.normalise.documents import read_documents, repr_content, unwrapped
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import structured, text_of
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.prompt import find_passages
from otel_drift.sessions.prompt_found import says_nothing
from otel_drift.sessions.source import Source


def tool_source(
    name: str | None,
    result: object,
    ref: str,
    start: int,
    options: ReconstructOptions,
    step: Step | None,
    retrieval: bool = False,
) -> Source | None:
    """A tool run as a source, or None where it is no retrieval; `retrieval`: that it is one is known."""
    retrieval = retrieval or options.is_retrieval_tool(name)
    cut = step.truncated if step is not None else False
    if result is None:
        return Source(None, "tool", ref, start) if retrieval else None
    returned = text_of(result) or ""
    result = unwrapped(structured(result))
    documents = read_documents(result, strings=retrieval)
    if documents and len(documents) == 1 and documents[0] == Document(None, returned):
        documents = None
    if documents is not None and (retrieval or (documents and _looks_retrieved(documents))):
        if all(says_nothing(d.text or "") and not d.id for d in documents):
            documents = ()
        return Source(documents, "tool", ref, start, partial=cut, text=returned)
    text = _plain(result)
    if not text or says_nothing(text):
        if retrieval:
            return Source((), "tool", ref, start)
        return Source(None, "tool", ref, start, unsure=True) if _READS.match(name or "") else None
    found = find_passages(text, options.passage_pattern, options.pattern_seconds, whole=True)
    if (
        found is not None
        and found.documents
        and (retrieval or _all_marked(found.documents, found.form))
        and (found.form != "paragraphs" or len(found.documents) > 1)
    ):
        return Source(found.documents, "tool", ref, start, partial=cut, structured=False, text=text)
    if not retrieval:
        return Source(None, "tool", ref, start, unsure=True) if _is_prose(text) else None
    data = structured(text)
    if isinstance(data, dict | list):
        if cut or not any(len(s) >= 30 for s in _strings(data)):
            return Source(None, "tool", ref, start, partial=cut)
        text, returned = "\n".join(_lines(data)), ""
    else:
        returned = text
    return Source((Document(None, text.strip()),), "tool", ref, start, partial=cut, structured=False, text=returned)


_READS = re.compile(r"(?:find|fetch|get|read|load|look|list|browse|open|consult|check)(?![a-z])", re.IGNORECASE)
_TIME = re.compile(r"\d{1,4}[-:./]\d{1,2}([-:./]\d{1,4})?")


def _all_marked(documents: Sequence[Document], form: str) -> bool:
    """Whether a tool's text is nothing but passages with ids (not a log, whose marks are times)."""
    if form not in ("brackets", "named", "content", "tags", "labelled", "metadata", "headed"):
        return False
    texts = [d.text or "" for d in documents]
    return (
        all(d.id or d.source or d.title for d in documents)
        and not any(d.id and _TIME.match(d.id) for d in documents)
        and sum(map(len, texts)) >= 40 * len(texts)
    )


def _is_prose(text: str) -> bool:
    """Whether a tool's result is text to read, so that it may have been retrieved, and not a value or a record."""
    if len(text) < 120:
        return False
    data = structured(text) if text[:1] in ("{", "[") else None
    longest = max((s for s in _strings(data)), key=len, default="") if isinstance(data, dict | list) else text
    return len(longest) >= 120 and longest.count(" ") >= len(longest) // 12


def _strings(data: object) -> list[str]:
    if isinstance(data, str):
        return [data]
    if isinstance(data, dict):
        return [s for value in data.values() for s in _strings(value)]
    return [s for value in data for s in _strings(value)] if isinstance(data, list) else []


def _lines(data: object, name: str = "") -> list[str]:
    """Structured data as lines of text, so that none of it is lost in escapes."""
    if isinstance(data, dict):
        return [line for key, value in data.items() for line in _lines(value, str(key))]
    if isinstance(data, list):
        return [line for value in data for line in _lines(value, name)]
    text = text_of(data)
    if not text:
        return []
    return [f"{name}: {text}" if name and len(text) < 80 else text]


def _looks_retrieved(documents: Sequence[Document]) -> bool:
    """Whether a tool's result is a list of documents, not of orders or flights: texts of some length, with marks."""
    texts = [d for d in documents if d.text]
    marked = [d for d in texts if d.id or d.score is not None or d.source or d.title]
    return bool(texts) and len(marked) == len(documents) and max(len(d.text or "") for d in texts) >= 30


def _plain(result: object) -> str:
    if isinstance(result, dict):
        for key in ("content", "data", "result", "output", "text"):
            inner = result.get(key)
            if isinstance(inner, str):
                return inner
            if isinstance(inner, dict) and isinstance(inner.get("content"), str):
                return str(inner["content"])
    text = text_of(result) or ""
    return repr_content(text) or text if text.startswith("content=") else text


def tool_call(
    name: str | None, arguments: object, result: object, retrieval: bool, ref: str, options: ReconstructOptions
) -> ToolCall:
    """A tool run as the turn shows it, its texts cut to the longest that are kept."""
    limit = options.max_text
    said, returned = text_of(arguments), text_of(result)
    return ToolCall(
        name or "tool",
        said[:limit] if said is not None else None,
        returned[:limit] if returned is not None else None,
        retrieval,
        ref,
    )
