"""The TraceQL that is sent: conditions, with text from outside only inside quoted strings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

CHAT_ATTRIBUTES = (
    "openinference.span.kind",
    "gen_ai.operation.name",
    "gen_ai.system",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "ai.operationId",
    "mlflow.spanType",
    "langsmith.span.kind",
    "haystack.component.name",
)
"""Span attributes that only spans of LLM applications have."""

ENVIRONMENT_ATTRIBUTES = ("deployment.environment.name", "deployment.environment", "langfuse.environment")
USER_ATTRIBUTES = (
    "user.id",
    "enduser.id",
    "langfuse.user.id",
    "langfuse.trace.user_id",
    "mlflow.trace.user",
    "traceloop.association.properties.user_id",
    "ai.telemetry.metadata.userId",
    "ai.telemetry.metadata.user_id",
    "ai.settings.context.userId",
    "langsmith.metadata.user_id",
    "llm.user",
    "enduser.pseudo.id",
)
TAG_ATTRIBUTES = ("tag.tags", "langfuse.trace.tags", "langfuse.tags", "langsmith.span.tags")

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


def literal(value: str | int) -> str:
    """A value as TraceQL writes it: a number, or a string with Go's escapes (JSON's are among them)."""
    if isinstance(value, int):
        return str(value)
    return json.dumps(value.encode("utf-8", "replace").decode("utf-8"), ensure_ascii=False).replace("\x7f", "\\u007f")


def attribute(scope: str, name: str) -> str:
    """An attribute: ``span.session.id``; odd names in quotes; an empty scope means span or resource."""
    return f"{scope}.{name}" if _PLAIN_NAME.match(name) else f"{scope}.{literal(name)}"


def exists(attributes: Iterable[str]) -> str:
    """A condition: a span has one of the attributes."""
    return " || ".join(f"{attribute('span', name)} != nil" for name in attributes)


def equals(pairs: Iterable[tuple[str, str | int]], scope: str = "span") -> str:
    """A condition: a span has one of the attributes with that value."""
    return " || ".join(f"{attribute(scope, name)} = {literal(value)}" for name, value in pairs)


def one_of(attributes: Iterable[str], values: Sequence[str]) -> str:
    """A condition: one of the attributes, of span or resource, has one of the values."""
    return equals(((name, value) for name in attributes for value in values), scope="")


def search(conditions: Sequence[str], selected: Sequence[str]) -> str:
    """A query for traces in which each condition holds on some span, with attributes of the spans that match.

    A condition may be a whole span set (``{ … }``) of a user's.
    """
    sets = [one if one.startswith("{") else f"{{ {one} }}" for one in (text.strip() for text in conditions)]
    named = ", ".join(attribute("span", name) for name in selected)
    return " && ".join(sets) + (f" | select({named})" if named else "")
