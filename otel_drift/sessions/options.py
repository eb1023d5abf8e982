"""Sessions: what a user may choose about reconstruction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from otel_drift.errors import ConfigError
from otel_drift.normalise.remembered import of_names

_WORDS = frozenset(
    [
        "search",
        "searches",
        "searching",
        "retrieve",
        "retrieves",
        "retrieval",
        "retriever",
        "lookup",
        "query",
        "knowledge",
        "kb",
        "rag",
        "docs",
        "documents",
        "document",
        "passages",
        "passage",
        "faq",
        "wiki",
        "semantic",
        "vector",
        "context",
        "chunks",
        "snippets",
        "excerpts",
        "article",
        "articles",
        "paragraphs",
        "sections",
        "evidence",
        "manual",
        "manuals",
        "handbook",
        "guidelines",
        "regulations",
        "policy",
        "policies",
        "rules",
        "faqs",
        "wikipedia",
    ]
)
_WRITES = frozenset(
    ["add", "book", "cancel", "create", "delegate", "delete", "escalate", "hand", "handoff", "route", "transfer",
      "insert", "post", "remember", "remove", "save", "send", "set",
     "store", "submit", "update", "upload", "upsert", "write"]
)  # fmt: skip
_GETS = frozenset(["fetch", "find", "get", "load"])
_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class ReconstructOptions:
    """How sessions are put together.

    Attributes:
        gap_seconds: longest pause between two turns that only their history links.
        passage_pattern: a regular expression with the group ``text`` (and ``id``, ``title``, ``source``, ``score`` if
            wanted) that finds the passages in a prompt, one match each. It runs with a time limit.
        pattern_seconds: that time limit, for one prompt.
        retrieval_tools: globs of tool names that are retrieval; empty = names that speak of searching. Results that
            look like lists of documents are retrieval in any case.
        session_attributes: attribute names that hold the session id, tried before every convention.
        max_text: longest text (characters) kept of a passage, message or result.
        max_passages: most passages kept of one turn.
        known_tools: names of tools that returned documents in another turn of the session; reconstruction fills it in.
    """

    gap_seconds: float = 24 * 3600.0
    passage_pattern: str | None = None
    pattern_seconds: float = 0.25
    retrieval_tools: tuple[str, ...] = ()
    session_attributes: tuple[str, ...] = ()
    max_text: int = 200_000
    max_passages: int = 500
    known_tools: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse a pattern that cannot work."""
        if self.passage_pattern is not None:
            import regex

            try:
                compiled = regex.compile(self.passage_pattern)
            except regex.error as error:
                raise ConfigError(f"passage_pattern is not a regular expression: {error}") from error
            if "text" not in compiled.groupindex:
                raise ConfigError("passage_pattern needs a named group (?P<text>…) for the passage's text")

    def is_retrieval_tool(self, name: str | None) -> bool:
        """Whether a tool of this name retrieves."""
        if not name:
            return False
        if self.retrieval_tools:
            return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in self.retrieval_tools)
        if name in self.known_tools:
            return True
        return _speaks_of_searching(name)


@of_names(1024)
def _speaks_of_searching(name: str) -> bool:
    words = [word.lower() for word in _SPLIT.split(name) if word]
    if not words or words[0] in _WRITES:
        return False
    said_of_texts = "relevant" in words or words[1:] == ["information"]  # of others it is asked whether they are so
    return not _WORDS.isdisjoint(words) or (said_of_texts and words[0] in _GETS)
