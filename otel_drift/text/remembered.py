"""Text: what functions say of texts that come again, remembered within a bound of characters.

A number of entries alone is no bound of memory: whoever writes the passages may write words as long as a request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

MOST_CHARACTERS = 4_000_000
"""Characters that may be remembered, over all functions, when a unit is begun; prose takes some 15 bytes each."""

_forget: list[Callable[[], None]] = []
_characters = 0


def remembered(most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Remember what a function says of the last `most` texts, at most until `make_room` has to make room."""

    def remembering(compute: Callable[P, T]) -> Callable[P, T]:
        @wraps(compute)
        def anew(*args: P.args, **kwargs: P.kwargs) -> T:
            global _characters
            _characters += sum(map(_length, args))
            return compute(*args, **kwargs)

        known = lru_cache(maxsize=most)(anew)
        _forget.append(known.cache_clear)
        return cast(Callable[P, T], known)

    return remembering


def make_room() -> None:
    """Before a unit: forget everything where too much was remembered. Within a unit texts come again and again."""
    global _characters
    if _characters > MOST_CHARACTERS:
        _characters = 0
        for clear in _forget:
            clear()


def _length(argument: Any) -> int:
    if isinstance(argument, str):
        return len(argument)
    return sum(map(_length, argument)) if isinstance(argument, tuple) else 0
