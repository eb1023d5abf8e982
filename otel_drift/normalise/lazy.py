"""An attribute computed when first asked for: `functools.cached_property` without the lock it takes in Python 3.11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """Non-data descriptor: the value is kept in the instance's ``__dict__``, from where it is read ever after."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        """Compute and keep."""
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
