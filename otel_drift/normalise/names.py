"""Normalise: what attribute and tool names mean, wherever an application may choose them freely."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

from otel_drift.normalise.remembered import of_names

SESSION_DELIBERATE, SESSION_NAMESPACED, SESSION_CONVERSATION, SESSION_APP, SESSION_THREAD = 0, 1, 3, 4, 5
"""Ranks of session ids: an id set on purpose on GenAI spans wins over what a framework or an outer span says."""

MAX_ID = 512
"""Longest id (characters) that is kept whole."""

_SESSION_NAMES = {
    "sessionid": 0,
    "session": 1,
    "conversationid": 2,
    "chatsessionid": 3,
    "chatid": 4,
    "conversation": 5,
    "threadid": 6,
    "langfusesessionid": 0,
}
_NOT_WORD = re.compile(r"[^a-z0-9]")

QUESTION_KEYS = (
    "question",
    "query",
    "user_message",
    "user_msg",
    "user_input",
    "user_query",
    "user_prompt",
    "message",
    "input",
    "prompt",
    "text",
    "user",
    "query_str",
    "human_input",
    "content",
    "request",
    "utterance",
    "q",
)
ANSWER_KEYS = (
    "answer",
    "final_answer",
    "response",
    "reply",
    "output",
    "result",
    "text",
    "content",
    "message",
    "output_text",
    "completion",
    "generation",
)
HISTORY_KEYS = frozenset(
    {
        "history",
        "chat_history",
        "message_history",
        "messages",
        "conversation",
        "memory",
        "previous_messages",
        "conversation_history",
    }
)
CONTEXT_KEYS = frozenset(
    {
        "context",
        "documents",
        "docs",
        "passages",
        "sources",
        "context_str",
        "text_chunks",
        "contexts",
        "template",
        "source_nodes",
        "retrieved_docs",
        "kwargs",
        "tags",
        "metadata",
        "config",
        "system",
        "system_prompt",
        "instructions",
    }
)
NOT_ASKED = CONTEXT_KEYS | HISTORY_KEYS
"""Under these no question stands."""


@of_names(4096)
def _rank(name: str) -> int | None:
    return _SESSION_NAMES.get(_NOT_WORD.sub("", name.lower()))


def scalar(value: Any) -> str | None:
    """An id as text: non-empty string, or number; of a very long one the beginning and a hash of the whole.

    It stays as it is, so that the platform finds it again; only an id that was written as JSON text is unquoted.
    """
    if isinstance(value, str):
        return _known_id(value) if len(value) <= MAX_ID else _id(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def _id(value: str) -> str | None:
    value = _unquoted(value)
    if not value.strip() or value.startswith("[Scrubbed"):
        return None
    return value if len(value) <= MAX_ID else _shortened(value)


_known_id = lru_cache(maxsize=4096)(_id)  # every span of a session has it


def _unquoted(value: str) -> str:
    if len(value) < 2 or not value[0] == value[-1] == '"':
        return value
    try:
        loaded = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return loaded if isinstance(loaded, str) else value


def _shortened(value: str) -> str:
    digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{value[: MAX_ID - len(digest) - 1]}~{digest}"


def session_in(values: Mapping[str, Any]) -> str | None:
    """The session id among freely named values (``sessionId``, ``chat_session_id``, ``thread_id``, …)."""
    for _, key in named_sessions(values):
        found = scalar(values[key])
        if found is not None:
            return found
    return None


def named_sessions(keys: Iterable[str], *prefixes: str) -> list[tuple[int, str]]:
    """Keys that name a session below one of `prefixes`, with the rank of the name, best first."""
    found = []
    for key in keys:
        for prefix in prefixes or ("",):
            if key.startswith(prefix):
                rank = _rank(key[len(prefix) :])
                if rank is not None:
                    found.append((rank, key))
    return sorted(found)


def is_thread(key: str) -> bool:
    """Whether the key names a framework's thread, not a session that the application chose."""
    return key.endswith(("thread_id", "threadId"))


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[tuple[int, dict[str, Any]]]:
    """Flattened lists put together: ``prefix.N.rest`` keys grouped by N, in numeric order."""
    groups: dict[int, dict[str, Any]] = {}
    length = len(prefix)
    for key, value in attributes.items():
        if key.startswith(prefix):
            number, dot, rest = key[length:].partition(".")
            if dot and number.isdecimal() and len(number) < 7:
                groups.setdefault(int(number), {})[rest] = value
    return sorted(groups.items())


def numbered(keys: Iterable[str], prefix: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """The keys of `indexed`'s groups: for each N, in numeric order, what follows ``prefix.N.`` and the whole key."""
    groups = indexed({key: key for key in keys}, prefix)
    return tuple(tuple(group.items()) for _, group in groups)


def leaves(value: Any, preferred: Iterable[str], skipped: frozenset[str], depth: int = 0) -> list[str]:
    """Texts in nested data, those under `preferred` keys first, nothing under `skipped` keys."""
    if depth > 6:
        return []
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, list):
        return [text for item in value[:50] for text in leaves(item, preferred, skipped, depth + 1)]
    if not isinstance(value, dict):
        return []
    found: list[str] = []
    rest = dict(value)
    for key in preferred:
        if key in rest:
            found.extend(leaves(rest.pop(key), preferred, skipped, depth + 1))
    for key, inner in rest.items():
        if key not in skipped:
            found.extend(leaves(inner, preferred, skipped, depth + 1))
    return found
