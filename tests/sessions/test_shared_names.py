"""Steps and units share the names of their attributes, which Python gives up silently when there are too many."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from otel_drift.normalise import Step, read
from otel_drift.normalise.lazy import lazy, with_lazies
from otel_drift.sessions.build import Trace
from otel_drift.sessions.unit import Unit
from otel_drift.testing import conversation


def of_a_trace() -> tuple[Step, Unit]:
    spans = conversation("s1")
    trace = Trace([read(span, ()) for span in spans if span.trace_id == spans[0].trace_id])
    return trace.steps[0], trace.units[0]


def shares_its_names(one: object, names: Sequence[str]) -> bool:
    """Whether an object that has all these attributes still has no table of names of its own.

    A dict that shares its names is smaller than one with the same content that does not.
    """
    for name in reversed(names):
        setattr(one, name, None)
    return sys.getsizeof(vars(one)) < sys.getsizeof(dict(vars(one).items()))


@pytest.mark.parametrize("one", of_a_trace(), ids=["step", "unit"])
def test_an_object_with_all_its_lazy_attributes_shares_their_names(one: object) -> None:
    assert shares_its_names(one, [name for name, value in vars(type(one)).items() if isinstance(value, lazy)])


def test_with_more_names_than_python_shares_it_would_show() -> None:
    names = [f"name_{number}" for number in range(40)]
    many = type("Many", (), {name: lazy(lambda _: None) for name in names})

    assert not shares_its_names(with_lazies(many)(), names)
