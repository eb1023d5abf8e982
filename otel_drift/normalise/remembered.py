"""Normalise: work on texts that a session repeats with every turn, done once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

MOST = 2048
"""Most results that are remembered of one function."""

LONGEST_NAME = 256
"""Characters of a name for which a result is remembered."""

_forget: list[Callable[[], None]] = []


def of_names(most: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Remember what a function says of the last `most` names; not of those that a sender made as long as a request."""

    def remembering(compute: Callable[[str], T]) -> Callable[[str], T]:
        known = lru_cache(maxsize=most)(compute)

        @wraps(compute)
        def of(name: str) -> T:
            return known(name) if len(name) <= LONGEST_NAME else compute(name)

        return of

    return remembering


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
