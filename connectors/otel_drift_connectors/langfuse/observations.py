"""Observations of Langfuse as the spans they were: original attribute names, resource, scope and status restored.

Langfuse keeps a span's attributes in the observation's metadata, but takes some out: input, output, user, session.
Which attributes these came from is told by what is left (measured on the captures that 4.16 was sent).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from otel_drift.model import Span

if TYPE_CHECKING:
    from langfuse.api.commons.types.observation_v2 import ObservationV2

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ATTRIBUTE, _RESOURCE, _SCOPE = "attributes.", "resourceAttributes.", "scope."
_OWN = "langfuse.observation.metadata."
_SDK_SCOPES = ("langfuse-sdk",)
_NAMES = ("session_id", "sessionId", "conversation_id", "thread_id")
SESSION_KEYS = (
    *(f"{_ATTRIBUTE}traceloop.association.properties.{name}" for name in (*_NAMES, "chat_id")),
    *_NAMES,
    *(_ATTRIBUTE + name for name in ("mlflow.trace.session", "conversation.id", *_NAMES)),
)
"""Metadata keys that name a session Langfuse does not know (measured: it reads ``session.id``, ``langfuse.session.id``
and ``gen_ai.conversation.id``)."""


class _Content(NamedTuple):
    """The attributes that an observation's input and output came from."""

    input: str
    output: str


_LANGFUSE = _Content("langfuse.observation.input", "langfuse.observation.output")
_MLFLOW = _Content("mlflow.spanInputs", "mlflow.spanOutputs")
_TRACELOOP = _Content("traceloop.entity.input", "traceloop.entity.output")
_OPENINFERENCE = _Content("input.value", "output.value")
_VERCEL_STEP = _Content("ai.prompt.messages", "ai.response.text")
_VERCEL_RUN = _Content("ai.prompt", "ai.response.text")
_VERCEL_TOOL = _Content("ai.toolCall.args", "ai.toolCall.result")
_GEN_AI = _Content("gen_ai.input.messages", "gen_ai.output.messages")
_GEN_AI_TOOL = _Content("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
_PYDANTIC_RUN = _Content("pydantic_ai.all_messages", "final_result")


def spans_of(observations: Sequence[ObservationV2]) -> list[Span]:
    """The spans of one trace, the root first, then in the order in which they happened.

    Langfuse keeps milliseconds, so that parents and children often begin together, and siblings too. Nanoseconds are
    added that order them: by depth in the tree, then by end.

    Args:
        observations: All of one trace, each once, in any order.
    """
    depths = _depths(observations)
    ordered = sorted(
        observations, key=lambda one: (one.start_time, depths[one.id], one.end_time or one.start_time, one.id)
    )
    spans = []
    place, moment = 0, None
    for observation in ordered:
        place, moment = (place + 1 if observation.start_time == moment else 0), observation.start_time
        span = span_of(observation)
        start = span.start + place
        spans.append(replace(span, start=start, end=max(span.end, start)))
    roots = [place for place, one in enumerate(ordered) if one.is_root_observation]
    root = spans.pop(min(roots, key=lambda place: (depths[ordered[place].id], place), default=0))
    return [root, *spans]


def session_of(observation: ObservationV2) -> tuple[str, str] | None:
    """Under which metadata key an observation names its session, and the session.

    The key is empty where Langfuse itself knows the session. It does not know those of some instrumentations.
    """
    if observation.session_id:
        return "", observation.session_id
    metadata = observation.metadata or {}
    for key in SESSION_KEYS:
        value = metadata.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return key, str(value)
    return None


def span_of(observation: ObservationV2) -> Span:
    """The span that an observation was."""
    attributes, resource, scope = _unpacked(observation.metadata or {})
    start = _nanoseconds(observation.start_time)
    _restore_content(observation, attributes, scope)
    _restore_facts(observation, attributes, resource)
    return Span(
        trace_id=observation.trace_id or "",
        span_id=observation.id,
        parent_id=observation.parent_observation_id or None,
        name=observation.name or "",
        start=start,
        end=_nanoseconds(observation.end_time) if observation.end_time else start,
        attributes=attributes,
        resource=resource,
        scope=scope,
        status=_status(observation),
        status_message=observation.status_message or "",
    )


def _depths(observations: Sequence[ObservationV2]) -> dict[str, int]:
    """How deep each observation is; a parent that is missing, or a circle, ends the way up."""
    parents = {one.id: one.parent_observation_id for one in observations}
    depths: dict[str, int] = {}
    for start in parents:
        way: dict[str, None] = {}
        one: str | None = start
        while one in parents and one not in depths and one not in way:
            way[one] = None
            one = parents[one]
        known = depths.get(one, -1) if one is not None else -1
        for number, passed in enumerate(reversed(way), start=1):
            depths.setdefault(passed, known + number)
    return depths


def _unpacked(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Attributes, resource and scope name of an observation's metadata."""
    attributes: dict[str, Any] = {}
    resource: dict[str, Any] = {}
    for key, value in metadata.items():
        if key.startswith(_ATTRIBUTE):
            attributes[key[len(_ATTRIBUTE) :]] = _as_sent(value)
        elif key.startswith(_RESOURCE):
            resource[key[len(_RESOURCE) :]] = _as_sent(value)
        elif not key.startswith(_SCOPE):
            attributes[_OWN + key] = _as_sent(value)
    scope = metadata.get("scope.name")
    return attributes, resource, scope if isinstance(scope, str) else ""


def _as_sent(value: Any) -> Any:
    """Langfuse parses metadata as JSON on reading; an attribute that holds objects was sent as text."""
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict | list) for one in value)):
        return json.dumps(value, ensure_ascii=False)
    return value


def _restore_content(observation: ObservationV2, attributes: dict[str, Any], scope: str) -> None:
    content = _content_keys(observation, attributes, scope)
    if content is _GEN_AI and (variables := _variables(observation.input)) is not None:
        attributes |= {f"gen_ai.prompt.variable.{name}": _as_sent(value) for name, value in variables.items()}
        return
    given = dict(zip(content, (observation.input, observation.output), strict=True))
    said = {key: _as_sent(value) for key, value in given.items() if value is not None and value != ""}
    attributes |= {key: value for key, value in said.items() if key not in attributes}
    # An application's plain span becomes none of the Langfuse SDK for having been stored there.
    if content is _LANGFUSE and (said or scope in _SDK_SCOPES or not attributes):
        attributes["langfuse.observation.type"] = observation.type.lower()


def _variables(given: Any) -> dict[str, Any] | None:
    """The variables of a prompt template, which Langfuse takes for the messages; messages and answer are lost then."""
    if not isinstance(given, str) or not given.startswith('{"variable":'):
        return None
    try:
        parsed = json.loads(given)
    except ValueError:
        return None
    variables = parsed["variable"] if len(parsed) == 1 else None
    return variables if isinstance(variables, dict) else None


def _content_keys(observation: ObservationV2, a: Mapping[str, Any], scope: str) -> _Content:
    """Which convention wrote the span: the first that Langfuse looks for, of those whose marks are there."""
    if scope in _SDK_SCOPES:
        return _LANGFUSE
    if "mlflow.spanType" in a:
        return _MLFLOW
    if "traceloop.span.kind" in a:
        return _TRACELOOP
    if "openinference.span.kind" in a:
        return _OPENINFERENCE
    if "ai.operationId" in a:
        operation = str(a["ai.operationId"])
        if operation == "ai.toolCall":
            return _VERCEL_TOOL
        return _VERCEL_STEP if operation.endswith((".doGenerate", ".doStream")) else _VERCEL_RUN
    if scope.startswith("openlit") or any(key.startswith("gen_ai.") for key in a):
        if observation.type == "TOOL" or a.get("gen_ai.operation.name") == "execute_tool":
            return _GEN_AI_TOOL
        return _PYDANTIC_RUN if scope == "pydantic-ai" and observation.type == "AGENT" else _GEN_AI
    return _LANGFUSE


def _restore_facts(observation: ObservationV2, attributes: dict[str, Any], resource: dict[str, Any]) -> None:
    """Session, user, environment, tags, versions, prompt and model, where nothing that is left says them."""
    if observation.session_id and not any(
        str(attributes.get(key)) == observation.session_id
        for key in ("session.id", "langfuse.session.id", "gen_ai.conversation.id")
    ):
        attributes["session.id"] = observation.session_id
    if observation.user_id and "user.id" not in attributes:
        attributes["user.id"] = observation.user_id
    if observation.environment:
        attributes.setdefault("langfuse.environment", observation.environment)
    for key, value in (
        ("langfuse.trace.tags", list(observation.tags or ())),
        ("langfuse.version", observation.version),
        ("langfuse.release", observation.release),
        ("langfuse.observation.prompt.name", observation.prompt_name),
        ("langfuse.observation.prompt.version", observation.prompt_version),
    ):
        if value:
            attributes.setdefault(key, value)
    if observation.model and "langfuse.observation.type" in attributes:
        attributes["langfuse.observation.model.name"] = observation.model


def _status(observation: ObservationV2) -> Literal["unset", "error"]:
    level = getattr(observation.level, "value", observation.level)
    return "error" if level == "ERROR" else "unset"


def _nanoseconds(time: datetime) -> int:
    passed = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000_000 + passed.microseconds * 1000
