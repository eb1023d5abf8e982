"""`quick` makes what the frozen dataclass itself makes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from otel_drift.model import Passage, Turn
from otel_drift.sessions.quick import quick


@pytest.mark.parametrize("frozen", [Passage, Turn])
def test_a_quickly_made_one_is_the_same_and_as_frozen(frozen: type[Any]) -> None:
    values = {part.name: f"a {part.name}" for part in fields(frozen)}
    one, other = quick(frozen)(**values), frozen(**values)
    assert type(one) is frozen
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    with pytest.raises(FrozenInstanceError):
        setattr(one, fields(frozen)[0].name, "changed")


def test_defaults_and_required_fields_are_those_of_the_dataclass() -> None:
    assert quick(Passage)("c1", "text", 1) == Passage("c1", "text", 1)
    with pytest.raises(TypeError, match="text"):
        quick(Passage)("c1")  # type: ignore[call-arg]
