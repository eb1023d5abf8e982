"""An attribute computed when first asked for: `functools.cached_property` without the lock it takes in Python 3.11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
C = TypeVar("C")


class lazy(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """Non-data descriptor: the value becomes an attribute of the instance, which is found first ever after."""

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
        compute = self.compute  # called as a method it would be looked up in the class first
        value = compute(instance)
        setattr(instance, self.name, value)
        return value


def with_lazies(owner: type[C]) -> type[C]:
    """Class decorator: the class's lazy attributes are among those whose names its instances share.

    CPython keeps one table of names for all instances of a class, and closes it after its first thirty instances. A
    name that comes later gives the instance a table of its own: three times the memory, and slower to read.
    """
    first = object.__new__(owner)
    for name, value in vars(owner).items():
        if isinstance(value, lazy):
            setattr(first, name, None)
    return owner
