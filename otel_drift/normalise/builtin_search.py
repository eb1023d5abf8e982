"""Normalise: searches a provider runs itself within a model call (`file_search` of the Responses API and its like)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.step import Document, Step
from otel_drift.normalise.values import structured

_KEYS = (
    "output.value", "gen_ai.output.messages", "response", "gen_ai.completion", "langfuse.observation.output",
    "mlflow.spanOutputs", "traceloop.entity.output", "gen_ai.response", "ai.response",
)  # fmt: skip
_TYPES = ("file_search_call", "file_search")
_MARK = "file_search"


def builtin_search(step: Step) -> tuple[Document, ...] | bool | None:
    """What a model call's built-in file search found.

    Returns:
        The documents; an empty tuple where it found nothing; None where the results were not asked for
        (``include=["file_search_call.results"]`` of the Responses API); False where no such search ran.
    """
    if not (step.span.logs or step.span.events or _marked(step)):
        return False
    found: list[Document] = []
    ran = known = False
    for value in _values(step):
        for call in _calls(value, 0):
            ran = True
            results = call.get("results")
            if isinstance(results, list):
                known = True
                found.extend(read_documents(results, strings=True) or ())
        if ran:
            break
    return (tuple(found) if known else None) if ran else False


def _marked(step: Step) -> list[str]:
    """The attributes that may tell of such a search."""
    a = step.span.attributes
    return [key for key in step.shape.among(_KEYS) if isinstance(a[key], str) and _MARK in a[key]]


def _values(step: Step) -> Iterator[Any]:
    for key in _marked(step):
        yield step.json(key)
    for record in step.span.logs:
        yield from _in_event(record.attributes)
        if isinstance(record.body, dict):
            yield record.body
    for event in step.span.events:
        yield from _in_event(event.attributes)


def _in_event(attributes: Any) -> Iterator[Any]:
    value = attributes.get("gen_ai.output.messages")
    if isinstance(value, str):
        if _MARK in value:
            yield structured(value)
    elif value is not None:
        yield value


def _calls(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > 8:
        return
    if isinstance(value, dict):
        if value.get("type") in _TYPES and ("results" in value or "queries" in value):
            yield value
            return
        if value.get("type") in ("response.completed", "function") and depth == 0:
            value = value.get("response", value)
        for key in ("output", "parts", "server_tool_call", "response", "message", "content", "body", "choices"):
            inner = value.get(key)
            if isinstance(inner, list | dict):
                yield from _calls(inner, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _calls(item, depth + 1)
