"""The embedded judge on long answers: what words can show, and that it says what it cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

from otel_drift.audits.longform_drift import LongformMaterial
from otel_drift.audits.longform_drift_answer import SentencesAnswer
from otel_drift.audits.longform_drift_checks import check_sentences
from otel_drift.judges.rules_drift import UnreadableError
from otel_drift.judges.rules_longform import NOT_TOLD, audit_sentences
from otel_drift.longform.layout import read_layout

SOURCE = (
    "The bridge was inspected on 11 and 12 May 2026. Rust was found on four of the eighteen cross beams, most likely "
    "because the drainage holes were blocked by leaves. The timber deck is in good condition, with the exception of "
    "two boards near the east bank. The drainage holes should be cleaned before the end of October 2026. The handrail "
    "is loose in three places and should be fastened within four weeks."
)


def judged(answer: str, question: str | None = None, source: str = SOURCE) -> list[dict[str, Any]]:
    sentences = read_layout(answer).sentences
    said = audit_sentences(LongformMaterial(sentences, (source,), question))
    assert check_sentences(SentencesAnswer.model_validate(said), sentences, (source,)) == [], "its own audit takes it"
    found: list[dict[str, Any]] = said["sentences"]
    return found


@pytest.mark.parametrize(
    ("sentence", "status", "why"),
    [
        ("The bridge was inspected on 11 and 12 May 2026.", "fully_grounded", None),
        ("The timber deck is in good condition apart from two boards near the east bank.", "fully_grounded", None),
        ("Rust on four of the cross beams is most likely due to blocked drainage holes.", "fully_grounded", None),
        ("Rust was found on four of the eighteen cross beams, because the drainage holes were blocked by leaves.",
         "partially_grounded", "the source says “most likely”"),
        ("The drainage holes should be cleaned before the end of July 2026.",
         "partially_grounded", "a date that is not in the source: July 2026"),
        ("The handrail is loose in three places, because vandals removed the anchor bolts overnight.",
         "partially_grounded", "no sentence of the source says “because vandals removed"),
        ("The council of Velden has granted 90,000 EUR for a replacement by Harrow Steel.", "ungrounded", "90,000"),
    ],
)  # fmt: skip
def test_what_words_can_show(sentence: str, status: str, why: str | None) -> None:
    (one,) = judged(sentence)
    assert one["status"] == status, one
    if why is None:
        assert one["explanation"] in (None, NOT_TOLD)
    else:
        assert one["explanation"].startswith("Possible drift: ")
        assert why in one["explanation"]


def test_what_claims_nothing_is_no_claim() -> None:
    assert [one["makes_claim"] for one in judged("Here is the summary. Shall I go on?")] == [False, False]


def test_it_never_says_contradicted() -> None:
    """Another figure in the closest sentence may be another thing: it cannot tell."""
    found = judged("The handrail is loose in nine places. The bridge was not inspected in May 2026.")
    assert all(one["status"] != "contradicted" for one in found)


@pytest.mark.parametrize("source", ["Die Brücke wurde im Mai von beiden Ufern aus geprüft und ist in Ordnung.", SOURCE])
def test_other_languages_get_no_verdict(source: str) -> None:
    with pytest.raises(UnreadableError):
        judged("Die Brücke ist in Ordnung, und die Geländer sind fest. Sie wurde im Mai geprüft.", source=source)


def test_the_source_of_a_date_is_the_whole_source() -> None:
    (one,) = judged("The drainage holes should be cleaned after the inspection of May 2026.")
    assert one["status"] == "fully_grounded"
