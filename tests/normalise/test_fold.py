"""Texts are compared with all white space folded, whatever character it is written with."""

from __future__ import annotations

import sys

import pytest

from otel_drift.normalise.values import fold

SPACES = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]


@pytest.mark.parametrize("space", SPACES, ids=ascii)
def test_every_white_space_is_folded(space: str) -> None:
    assert fold(f"one{space}two") == "one two"
    assert fold(f"one{space}{space}two") == "one two"
    assert fold(f"one{space} two") == "one two"
    assert fold(f"{space}one") == fold(f"one{space}") == "one"
    assert fold(space) == ""


def test_other_characters_stay() -> None:
    text = "été – “x” \N{ZERO WIDTH SPACE}\N{SOFT HYPHEN}\x00 日本"
    assert fold(text) == text
    assert fold("") == ""
