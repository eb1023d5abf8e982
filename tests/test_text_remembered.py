"""What is remembered of texts is bounded in characters, over all functions together."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import otel_drift.audits
import otel_drift.citation
import otel_drift.judges
import otel_drift.longform
import otel_drift.text
from otel_drift import validation
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.judges.rules import RulesJudge
from otel_drift.text import remembered as room
from otel_drift.text.remembered import make_room, remembered
from report import samples

READERS = (otel_drift.text, otel_drift.judges, otel_drift.citation, otel_drift.audits, otel_drift.longform)
"""The packages whose functions read texts of sessions."""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred characters may be remembered, and none are."""
    monkeypatch.setattr(room, "_characters", room.MOST_CHARACTERS + 1)
    make_room()
    monkeypatch.setattr(room, "MOST_CHARACTERS", 100)


@pytest.mark.usefixtures("narrow")
def test_a_text_is_read_once_until_too_much_was_read() -> None:
    asked: list[object] = []

    @remembered(10)
    def length(text: str | tuple[str, ...]) -> int:
        asked.append(text)
        return len(text)

    for _ in range(3):
        make_room()
        assert (length("word" * 10), length(("a" * 30, "b" * 30))) == (40, 2)
    assert len(asked) == 2, "a hundred characters are not too much"

    length("!")
    length("word" * 10)
    assert len(asked) == 3, "within a unit nothing is forgotten"
    make_room()
    length("word" * 10)
    assert len(asked) == 4


@pytest.mark.usefixtures("narrow")
def test_each_unit_makes_room() -> None:
    units, read = [], []
    for _ in range(4):  # the first reads the judge's lexicon, too
        units.append(validation.audit_session(FactualDrift(), samples.session(), RulesJudge()))
        read.append(room._characters)
    assert read[1] == read[2] == read[3] > 100, "what the unit before had read is forgotten, so that it is counted anew"
    assert len({(one.outcome, one.severity, repr(one.report)) for one in units}) == 1


def test_no_function_of_a_text_remembers_without_that_bound() -> None:
    """A cache bounded in entries alone holds as much as the longest words that somebody sends."""
    unbounded = [
        f"{module.__name__}.{name}"
        for package in READERS
        for module in (
            importlib.import_module(one.name) for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        )
        for name, function in vars(module).items()
        if hasattr(function, "cache_clear")
        and "str" in getattr(function, "__annotations__", {}).values()
        and function.cache_clear not in room._forget
    ]
    assert unbounded == []
