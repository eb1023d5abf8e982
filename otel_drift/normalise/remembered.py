"""Normalise: work on texts that a session repeats with every turn, done once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

MOST = 2048
"""Most results that are remembered of one function."""

_forget: list[Callable[[], None]] = []


def per_session(compute: Callable[P, T]) -> Callable[P, T]:
    """`compute`, whose results are remembered until the next session is begun: a history is resent with every turn."""
    remembering = lru_cache(maxsize=MOST)(compute)
    _forget.append(remembering.cache_clear)
    return cast(Callable[P, T], remembering)


def kept_per_session() -> dict[Any, Any]:
    """A mapping that is empty again when the next session is begun."""
    kept: dict[Any, Any] = {}
    _forget.append(kept.clear)
    return kept


def forget() -> None:
    """Begin the next session."""
    for clear in _forget:
        clear()
