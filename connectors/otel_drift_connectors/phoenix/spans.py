"""From a span as Phoenix's REST API gives it back to the span that the instrumentation sent.

On arrival Phoenix parses some JSON attributes and adds OpenInference attributes to spans of the GenAI conventions; on
the way out it flattens everything to dotted keys. All three are undone here (arize-phoenix 20.26.1,
`phoenix/trace/otel.py`, `trace/attributes.py`, `trace/gen_ai/conversion.py`). What it does not keep cannot come back:
the resource, the scope, OTLP's span kind, links, log records, empty lists and maps, times below a microsecond.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from otel_drift.errors import RecordError
from otel_drift.model import Span, SpanEvent
from otel_drift.otlp.values import Decoding, identifier, optional_identifier, plain_value, text_of

KIND = "openinference.span.kind"
PROJECT = "openinference.project.name"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STATUSES: Mapping[str, Literal["unset", "ok", "error"]] = {"OK": "ok", "ERROR": "error"}
_JSON = re.compile(
    r"(metadata|(?:.+\.)?(?:document\.metadata|llm\.prompt_template\.variables|tool\.parameters))(?:\.(.+))?"
)
"""Attributes that OpenInference writes as JSON and Phoenix parses, and what is below them."""

_MADE_FROM: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), sources)
    for pattern, sources in (
        (r"llm\.input_messages\.", ("gen_ai.input.messages", "gen_ai.system_instructions")),
        (r"llm\.output_messages\.", ("gen_ai.output.messages",)),
        (r"(?:llm|embedding)\.model_name\Z", ("gen_ai.request.model",)),
        (r"llm\.(?:provider|system)\Z", ("gen_ai.provider.name", "gen_ai.system")),
        (r"(?:llm|embedding)\.invocation_parameters\Z", ("gen_ai.request.", "gen_ai.output.type")),
        (r"llm\.token_count\.", ("gen_ai.usage.",)),
        (r"llm\.finish_reason\Z", ("gen_ai.response.finish_reasons",)),
        (r"llm\.tools\.", ("gen_ai.tool.definitions",)),
        (r"tool\.(?:name|description|id)\Z", ("gen_ai.tool.",)),
        (r"tool\.parameters(?:\.|\Z)", ("gen_ai.tool.call.arguments",)),
        (r"retrieval\.documents\.", ("gen_ai.retrieval.documents",)),
    )
)
"""OpenInference keys that Phoenix adds, and the GenAI keys (or their beginnings) it makes them from."""

_LITELLM = "metadata.user_api_key"
"""LiteLLM writes ``metadata.…`` keys flat, and nothing that Phoenix parses."""
_OPENINFERENCE = (
    "input.value",
    "output.value",
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.model_name",
    "llm.prompt",
    "retrieval.documents.",
    "reranker.",
    "embedding.embeddings.",
    "tool.name",
)
"""What a span has that OpenInference's own instrumentations wrote: its kind is then theirs, not Phoenix's guess."""


def span_of(item: Any, project: str, decoding: Decoding) -> Span:
    """Restore one span of ``GET /v1/projects/{project}/spans``.

    Args:
        item: An element of ``data``.
        project: The project's name; the only part of the resource that Phoenix keeps.
        decoding: Limits for texts, and where cuts are reported.

    Raises:
        RecordError: it has no ids or no times.
    """
    if not isinstance(item, dict):
        raise RecordError("a span that is no object")
    context = item.get("context")
    context = context if isinstance(context, dict) else {}
    trace_id = identifier(context.get("trace_id"), 16, "trace id")
    span_id = identifier(context.get("span_id"), 8, "span id")
    start = nanoseconds(item.get("start_time"))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=optional_identifier(item.get("parent_id"), 8),
        name=text_of(item.get("name"), decoding, "name"),
        start=start,
        end=max(start, nanoseconds(item.get("end_time"))),
        attributes=_attributes(item, decoding),
        resource={PROJECT: project},
        status=_STATUSES.get(str(item.get("status_code")), "unset"),
        status_message=text_of(item.get("status_message"), decoding, "status message"),
        events=tuple(_events(item.get("events"), decoding)),
    )


def nanoseconds(text: Any) -> int:
    """A time of the API as nanoseconds since the epoch.

    Raises:
        RecordError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
        return (moment - _EPOCH) // _MICROSECOND * 1_000
    except (TypeError, ValueError):
        raise RecordError("a time that is none") from None


def written_attributes(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes as they were sent, from Phoenix's flat ones: JSON texts whole again, nothing added."""
    kept = {key: value for key, value in flat.items() if value is not None and not _is_added(key, flat)}
    if any(key.startswith("gen_ai.") for key in kept) and not any(key.startswith(_OPENINFERENCE) for key in kept):
        kept.pop(KIND, None)
    if any(key.startswith(_LITELLM) for key in kept):
        return kept
    found: dict[str, Any] = {}
    parsed: dict[str, dict[str, Any]] = {}
    for key, value in kept.items():
        match = _JSON.fullmatch(key)
        if match is None:
            found[key] = value
        elif match[2] is None:
            found[key] = value if isinstance(value, str) else _json(value)
        else:
            parsed.setdefault(match[1], {})[match[2]] = value
            found.setdefault(match[1], None)  # keeps its place
    for key, below in parsed.items():
        found[key] = _json(_nested(below))
    return found


def _attributes(item: Mapping[str, Any], decoding: Decoding) -> dict[str, Any]:
    given = item.get("attributes")
    flat = dict(given) if isinstance(given, dict) else {}
    kind = item.get("span_kind")
    if isinstance(kind, str) and kind != "UNKNOWN":
        flat[KIND] = kind
    return {
        text_of(key, decoding): plain_value(value, decoding, key) for key, value in written_attributes(flat).items()
    }


def _events(items: Any, decoding: Decoding) -> list[SpanEvent]:
    found = []
    for event in items if isinstance(items, list) else []:
        if isinstance(event, dict):
            values = event.get("attributes")
            attributes = {k: v for k, v in values.items() if v is not None} if isinstance(values, dict) else {}
            found.append(
                SpanEvent(
                    text_of(event.get("name"), decoding, "event name"),
                    nanoseconds(event.get("timestamp")),
                    {text_of(key, decoding): plain_value(value, decoding, key) for key, value in attributes.items()},
                )
            )
    return found


def _is_added(key: str, flat: Mapping[str, Any]) -> bool:
    """Whether Phoenix made this attribute from GenAI ones; theirs say the same."""
    if key == "session.id":
        return bool(flat[key] == flat.get("gen_ai.conversation.id"))
    if key == "input.value":
        return bool(flat[key] == flat.get("gen_ai.retrieval.query.text"))
    if key == "output.value":
        return _is_response_stub(flat[key], flat) or flat[key] == flat.get("gen_ai.tool.call.result")
    if key in ("input.mime_type", "output.mime_type"):
        value = key.replace("mime_type", "value")
        return value in flat and _is_added(value, flat)
    for pattern, sources in _MADE_FROM:
        if pattern.match(key):
            return any(other.startswith(sources) for other in flat)
    return False


def _is_response_stub(value: Any, flat: Mapping[str, Any]) -> bool:
    """Whether an output is nothing but the response's id and model, which Phoenix writes where it finds these."""
    if not isinstance(value, str) or not ("gen_ai.response.id" in flat or "gen_ai.response.model" in flat):
        return False
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return False
    return isinstance(parsed, dict) and parsed.keys() <= {"id", "model"}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _nested(flat: Mapping[str, Any]) -> Any:
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        node = tree
        *path, last = key.split(".")
        for part in path:
            inner = node.setdefault(part, {})
            if not isinstance(inner, dict):  # a key of the original that held a dot
                inner = node[part] = {"": inner}
            node = inner
        node[last] = value
    return _lists(tree)


def _lists(node: Any) -> Any:
    """Maps keyed 0, 1, 2 … whose values are maps were lists of maps."""
    if not isinstance(node, dict):
        return node
    if node and all(isinstance(value, dict) for value in node.values()) and all(key.isdecimal() for key in node):
        return [_lists(node[key]) for key in sorted(node, key=int)]
    return {key: _lists(value) for key, value in node.items()}
