"""A span that is made quickly is a span like any other."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from otel_drift.model import Span
from otel_drift.new_span import new_span

FIELDS = ("t", "s", None, "name", 1, 2, {"a": 1}, {"b": 2}, "scope", 3, "ok", "fine", (), ())


def test_it_equals_one_made_by_its_class() -> None:
    made = new_span(*FIELDS)
    assert type(made) is Span
    assert made == Span(*FIELDS) == new_span(*FIELDS[:-2])
    assert made == pickle.loads(pickle.dumps(made)) == dataclasses.replace(made)


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        new_span(*FIELDS).name = "other"  # type: ignore[misc]


def test_it_knows_every_field_of_a_span() -> None:
    """A field that is added to `Span` must be added there too."""
    made = new_span(*FIELDS)
    assert [getattr(made, field.name) for field in dataclasses.fields(Span)] == list(FIELDS)
