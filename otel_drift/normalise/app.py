"""Normalise: an application's own spans: ids it set for itself, and searches it recorded by hand."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, ClassVar

from otel_drift.model import Span
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.names import SESSION_APP
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.remembered import of_names
from otel_drift.normalise.step import Document, Kind, Step

_SESSION = re.compile(r"(?:^|[._])(?:(?:session|conversation|chat|dialog(?:ue)?)[._]?|thread_)id$|[._]thread[._]id$")
"""Names of a chat's id, below any prefix; `thread.id` alone is the operating system's thread."""
_OF_ANOTHER = frozenset(
    {
        *("parent", "previous", "prev", "last", "next"),
        *("auth", "code", "database", "db", "java", "jvm", "login", "mcp", "oauth", "os", "process", "python"),
        *("socket", "sql", "ssh", "ssl", "tcp", "tls", "websocket", "worker", "ws"),
    }
)
"""Words in the name of a session or thread that is not this chat's: another chat's, or one of a lower layer."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_JOINT = re.compile(r"[._-]")
_SEARCH = re.compile(r"retriev|search|rerank|knn|similarity|vector|lookup", re.IGNORECASE)
_HITS = re.compile(
    r"(?:^|[._])(hits|documents|docs|results|passages|chunks|matches|document_ids|doc_ids|ids|contexts?|sources)$"
)
_COUNT = re.compile(
    r"(?:^|[._])(?:(?:n|num|number_of)_?(?:results|hits|documents|docs|matches|chunks|passages)|"
    r"(?:results?|hits?|documents?|docs?|match(?:es)?|chunks?|passages?)_?count)$"
)
_QUERY = re.compile(r"(?:^|[._])(query|q|question|query_text|text)$")
_OUTSIDE = (
    "http.", "db.", "rpc.", "messaging.", "url.", "net.", "server.", "network.", "faas.", "aws.", "k8s.",
)  # fmt: skip
_FOREIGN = (*_OUTSIDE, "gen_ai.")


class Application(Reader):
    """Spans of no known convention."""

    name = "app"
    facts: ClassVar = {
        "feedback": (
            "feedback", "feedback.comment", "feedback.score", "feedback.value", "user.feedback", "user_feedback",
        ),
        "tags": ("tag.tags", "langfuse.trace.tags", "tags"),
    }  # fmt: skip
    """What the application recorded on its span, whatever convention the span follows."""
    last_resort = True

    def kind(self, step: Step) -> Kind:
        """A span whose name speaks of searching and that records hits is a retrieval."""
        if _names_search(step.span.name) and (self._hits(step) is not None or self._query(step) is not None):
            return "reranker" if "rerank" in step.span.name.lower() else "retriever"
        return "other"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """Session ids under the names applications use."""
        return [(SESSION_APP, key) for key in keys if _is_session(key)]

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """Recorded hits: whole documents, or only ids."""
        if step.kind not in {"retriever", "reranker"}:
            return None
        key = self._hits(step)
        if key is None:
            return () if self._counts_nothing(step) else None
        value: Any = step.json(key)
        texts = isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value)
        if texts and (key.endswith("ids") or all(len(item) <= 80 and " " not in item for item in value)):
            return tuple(Document(item, None) for item in value)
        return read_documents(value, strings=True)

    def query(self, step: Step) -> str | None:
        """The recorded query."""
        return self._query(step) if step.kind in {"retriever", "reranker"} else None

    def _counts_nothing(self, step: Step) -> bool:
        return any(value in (0, "0") for key, value in step.span.attributes.items() if _is_count(key))

    def _hits(self, step: Step) -> str | None:
        for key in step.span.attributes:
            if _is_hits(key):
                return key
        return None

    def _query(self, step: Step) -> str | None:
        for key, value in step.span.attributes.items():
            if isinstance(value, str) and value and _is_query(key):
                return value
        return None


def is_search(span: Span) -> bool:
    """Whether an application's span looks like a search that it recorded by hand."""
    return _names_search(span.name)


@of_names(4096)
def _is_session(key: str) -> bool:
    name = _HUMP.sub("_", key).lower()
    if _SESSION.search(name) is None or key.startswith(_OUTSIDE):
        return False
    return _OF_ANOTHER.isdisjoint(_JOINT.split(name))


@of_names(4096)
def _is_count(key: str) -> bool:
    return bool(_COUNT.search(key))


@of_names(4096)
def _is_hits(key: str) -> bool:
    return bool(_HITS.search(key)) and not _is_count(key) and not key.startswith(_FOREIGN)


@of_names(4096)
def _is_query(key: str) -> bool:
    return bool(_QUERY.search(key)) and not key.startswith(_FOREIGN)


@of_names(4096)
def _names_search(name: str) -> bool:
    return bool(_SEARCH.search(name))
