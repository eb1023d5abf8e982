"""Which document of a list a passage is: only where it is one for certain."""

from __future__ import annotations

import pytest

from otel_drift.passage_mark import PassageMark, text_sha256

DESK, LAB = "Cameras are lent for seven days.", "Cameras are lent for 48 hours."
MARK = PassageMark("t:s", "desk", text_sha256(DESK), "MAJOR", "")


@pytest.mark.parametrize(
    ("documents", "place"),
    [
        ([("lab", LAB), ("desk", DESK)], 1),
        ([("lab", LAB), (None, DESK)], 1),
        ([(None, LAB), (None, "Cameras are\n lent for seven days. ")], 1),
        ([("desk", LAB), ("desk", DESK)], 1),
        ([("desk", None), ("lab", LAB)], 0),
        ([("desk", "Cameras are lent for [redacted].")], 0),
        ([("desk", DESK), ("desk", DESK)], None),
        ([(None, DESK), (None, DESK)], None),
        ([("desk", LAB), ("desk", "Another part.")], None),
        ([("desk", LAB), ("lab", DESK)], None),
        ([("lab", LAB), (None, None)], None),
        ([], None),
    ],
    ids=[
        "id and text", "text without id", "text but for white space", "id of several parts, text of one",
        "id without text", "id of a text that was redacted", "twice the same", "twice the same text",
        "id of several parts, text of none", "id of one, text of another", "neither", "nothing",
    ],
)  # fmt: skip
def test_a_passage_is_the_one_document_that_id_and_text_speak_for(
    documents: list[tuple[str | None, str | None]], place: int | None
) -> None:
    assert MARK.place_among(documents) == place


def test_any_text_has_a_digest() -> None:
    assert text_sha256("\ud800") != text_sha256("") == text_sha256(" \n")
