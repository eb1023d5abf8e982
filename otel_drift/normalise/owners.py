"""Normalise: whose a span is, the user and the tenant, in the names that conventions and applications use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from otel_drift.model import Attributes
from otel_drift.normalise.names import scalar
from otel_drift.normalise.remembered import of_names
from otel_drift.normalise.values import load

Owner: TypeAlias = tuple[str, str]
"""What kind of owner (`USERS` or `TENANTS`), and its id."""

USERS = ("user", "enduser", "pseudonym", "provider_user")
TENANTS = ("tenant", "organisation", "account", "workspace", "customer")

_KINDS = {
    "userid": "user",
    **dict.fromkeys(("enduserid", "enduser"), "enduser"),
    "enduserpseudoid": "pseudonym",
    **dict.fromkeys(("tenantid", "tenant", "tenantname", "tenantkey"), "tenant"),
    **dict.fromkeys(
        ("organizationid", "organisationid", "orgid", "organization", "organisation", "org", "orgname"), "organisation"
    ),
    **dict.fromkeys(("accountid", "account"), "account"),
    **dict.fromkeys(("workspaceid", "workspace"), "workspace"),
    **dict.fromkeys(("customerid", "customer"), "customer"),
}
_ONLY_NAMESPACED = {"user": "user", "username": "user"}
"""Names that hold the user's text or something else where they stand alone."""
_EXACT = {
    "langfuse.user.id": "user",
    "langfuse.trace.user_id": "user",
    "mlflow.trace.user": "user",
    "llm.user": "provider_user",
    "llm.openai.user": "provider_user",
    "metadata.user_api_key_end_user_id": "provider_user",
    "user.id": "user",
    "enduser.id": "enduser",
    "tenant": "tenant",
    "enduser.pseudo.id": "pseudonym",
}
_NAMESPACES = (
    "langfuse.trace.metadata.",
    "langfuse.observation.metadata.",
    "langsmith.metadata.",
    "traceloop.association.properties.",
    "ai.telemetry.metadata.",
    "ai.settings.context.",
    "ai.settings.runtimeContext.",
    "mlflow.trace.metadata.",
    "mlflow.trace.tags.",
    "llm.metadata.",
    "metadata.",
    "baggage.",
)
_APPLICATION = ("app.", "application.", "custom.", "context.", "attributes.", "request.", "session.", "auth.", "x.")
_DOCUMENTS = ("metadata", "langfuse.trace.metadata", "langfuse.observation.metadata", "llm.metadata", "ai.metadata")
"""Attributes that hold metadata as one JSON object."""
_TOOLS = frozenset(
    {"tool.name", "gen_ai.tool.name", "db.system", "db.system.name", "retrieval.documents.0.document.content"}
)
_TOOL_KINDS = frozenset({"tool", "retriever", "reranker", "execute_tool"})
_SAID_KIND = (
    "openinference.span.kind",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "langsmith.span.kind",
    "gen_ai.operation.name",
)
_NOT_WORD = re.compile(r"[^a-z0-9]")
_WORTH_READING = ("user", "tenant", "org", "account", "workspace", "customer")
_MAX_REMEMBERED = 20_000
"""Longest names (characters, together) of a resource that are remembered."""
_MAX_METADATA = 20_000
"""Longest metadata (characters) that is read for ids in the first pass."""


class OwnerKeys:
    """Where a set of attribute keys names owners; made once for thousands of spans of the same keys.

    A tool or a search records whose data it looked up under the same names; what it names freely is no owner.
    """

    __slots__ = ("certain", "documents", "free", "looked_up", "named", "said_kind")

    def __init__(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        certain: list[tuple[str, str]] = []
        free: list[tuple[str, str]] = []
        for key in keys:
            kind, sure = _kind_of(key)
            if kind is not None:
                (certain if sure else free).append((kind, key))
        self.certain, self.free = tuple(certain), tuple(free)
        self.documents = tuple(key for key in _DOCUMENTS if key in keys)
        self.named = bool(certain or free or self.documents)
        self.looked_up = bool(free) and not _TOOLS.isdisjoint(keys)
        self.said_kind = tuple(key for key in _SAID_KIND if key in keys) if free else ()

    def read(self, attributes: Attributes) -> tuple[Owner, ...]:
        """The owners that a span of these keys names."""
        found: list[Owner] = []
        for kind, key in self.certain:
            own = scalar(attributes[key])
            if own is not None:
                found.append((kind, own))
        if self.free and not self.looked_up and not self._is_lookup(attributes):
            found += [(kind, own) for kind, key in self.free if (own := scalar(attributes[key])) is not None]
        for key in self.documents:
            found += _in_metadata(attributes[key])
        return tuple(found)

    def _is_lookup(self, attributes: Attributes) -> bool:
        return any(str(attributes[key]).lower() in _TOOL_KINDS for key in self.said_kind)


def owners_in(attributes: Mapping[str, Any]) -> tuple[Owner, ...]:
    """The owners that a resource or a log record names."""
    global _latest
    if attributes is _latest[0]:  # the spans of a process share their resource
        return _latest[1]
    if not attributes:
        return ()
    known = _RESOURCES.get(key := tuple(attributes))
    if known is None:
        known = OwnerKeys(attributes)
        if sum(map(len, key)) <= _MAX_REMEMBERED:
            if len(_RESOURCES) >= 1024:
                _RESOURCES.clear()
            _RESOURCES[key] = known
    found = known.read(attributes) if known.named else ()
    _latest = attributes, found
    return found


_RESOURCES: dict[tuple[str, ...], OwnerKeys] = {}
_latest: tuple[Mapping[str, Any] | None, tuple[Owner, ...]] = (None, ())


@of_names(8192)
def _kind_of(key: str) -> tuple[str | None, bool]:
    """The kind of owner a key names, and whether the key says so wherever it stands."""
    exact = _EXACT.get(key)
    if exact is not None:
        return exact, True
    for prefix in _NAMESPACES:
        if key.startswith(prefix):
            return _named(key[len(prefix) :]), True
    for prefix in _APPLICATION:
        if key.startswith(prefix):
            return _KINDS.get(_fold(key[len(prefix) :])), False
    return (_KINDS.get(_fold(key)) if key.lower().endswith("id") else None), False


def _named(name: str) -> str | None:
    folded = _fold(name.removeprefix("app."))
    return _KINDS.get(folded) or _ONLY_NAMESPACED.get(folded)


def _fold(name: str) -> str:
    return _NOT_WORD.sub("", name.lower())


def _in_metadata(value: Any) -> tuple[Owner, ...]:
    if not isinstance(value, str):
        return tuple(_of_mapping(value)) if isinstance(value, Mapping) else ()
    return _of_text(value) if len(value) <= _MAX_METADATA else ()


@lru_cache(maxsize=1024)
def _of_text(text: str) -> tuple[Owner, ...]:
    low = text.lower()
    if not any(word in low for word in _WORTH_READING):
        return ()
    details, _ = load(text)
    return tuple(_of_mapping(details)) if isinstance(details, dict) else ()


def _of_mapping(details: Mapping[Any, Any]) -> Iterable[Owner]:
    for name, value in details.items():
        kind = _EXACT.get(name) or _named(name) if isinstance(name, str) else None
        own = scalar(value) if kind is not None else None
        if kind is not None and own is not None:
            yield kind, own
