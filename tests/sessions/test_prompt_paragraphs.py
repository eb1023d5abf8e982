"""A passage of several paragraphs stays one: headings, lists, tables, code, transcripts inside it are its own."""

from __future__ import annotations

import pytest

from otel_drift.sessions.prompt import find_passages

RULES = (
    "§ 3 Quiet hours\n\n(1) From 22:00 to 6:00 keep it down.\n(2) Drilling is allowed:\n   a) in the morning,\n"
    "   b) in the afternoon."
)
TABLE = (
    "Notice the landlord has to give:\n\n| years | months |\n|---|---|\n| 5 | 3 |\n\nTenants always have three months."
)
CODE = "Going back takes two steps:\n\n```bash\nkubectl rollout undo shop\n\n# wait\n```\n\n2. Wait until it is done."
CHAT = "Transcript of May\nUser: did it hold?\nAssistant: Yes, no restarts for two weeks."
PLAIN = "Small pets may be kept without asking. Dogs and cats need the landlord's consent in writing."


@pytest.mark.parametrize("passage", [RULES, TABLE, CODE])
def test_in_a_section_without_marks(passage: str) -> None:
    found = find_passages(f"Answer only from these excerpts:\n\n{PLAIN}\n\n{passage}")
    assert found is not None
    assert [d.text for d in found.documents] == [PLAIN, passage]


@pytest.mark.parametrize("passage", [RULES, TABLE, CODE])
def test_behind_the_last_mark(passage: str) -> None:
    found = find_passages(f"Answer with the documents.\n\nDOCUMENTS\n\n[r-7]\n{PLAIN}\n\n[r-3]\n{passage}")
    assert found is not None
    assert [(d.id, d.text) for d in found.documents] == [("r-7", PLAIN), ("r-3", passage)]


@pytest.mark.parametrize("passage", [RULES, TABLE, CODE, CHAT])
def test_in_what_a_tool_returned_nothing_follows_the_last_passage(passage: str) -> None:
    found = find_passages(f"[r-7] {PLAIN}\n\n[r-3] {passage}", whole=True)
    assert found is not None
    assert [(d.id, d.text) for d in found.documents] == [("r-7", PLAIN), ("r-3", passage)]


def test_instructions_behind_the_last_mark_are_no_passage() -> None:
    found = find_passages(f"Documents:\n\n[1] {PLAIN}\n[2] Hamsters are small pets.\n\nAnswer politely and cite them.")
    assert found is not None
    assert [d.text for d in found.documents] == [PLAIN, "Hamsters are small pets."]


@pytest.mark.parametrize("cut", ["Hamsters are small pets,", "Small pets", "These may be kept:", "| pets | small |"])
def test_the_question_behind_a_passage_that_was_cut_is_no_part_of_it(cut: str) -> None:
    question = "May I keep a hamster in my flat on the second floor?"
    found = find_passages(f"[1] {PLAIN}\n[2] {cut}\n\n{question}")
    assert found is not None
    assert [d.text for d in found.documents] == [PLAIN, cut]


@pytest.mark.parametrize("marks", [("> ", "> "), ("a) ", "b) "), ("(1) ", "(2) ")])
def test_items_that_are_all_there_is_stay_apart(marks: tuple[str, str]) -> None:
    texts = [mark + text for mark, text in zip(marks, (PLAIN, "Hamsters are small pets."), strict=True)]
    found = find_passages("Answer only from these excerpts:\n\n" + "\n\n".join(texts))
    assert found is not None
    assert [d.text for d in found.documents] == texts


def test_paragraphs_that_stand_alone_stay_apart() -> None:
    texts = [PLAIN, "Hamsters are small pets, and so are budgerigars.", "Horses are not."]
    found = find_passages("Answer only from these excerpts:\n\n" + "\n\n".join(texts))
    assert found is not None
    assert [d.text for d in found.documents] == texts


def test_lines_without_full_stops_are_no_headings_of_each_other() -> None:
    texts = [
        "Budgerigars are allowed in every flat of the house",
        "Horses are allowed in none of the flats of the house",
    ]
    found = find_passages("Answer only from these excerpts:\n\n" + "\n\n".join(texts))
    assert found is not None
    assert [d.text for d in found.documents] == texts


def test_a_source_line_below_a_titled_mark_is_no_text() -> None:
    found = find_passages(
        f"Search results:\n\nResult 1: Pets\nURL: rules/7\n{PLAIN}\n\nResult 2: Quiet\nURL: rules/3\n{RULES}"
    )
    assert found is not None
    assert [(d.title, d.source, d.text) for d in found.documents] == [
        ("Pets", "rules/7", PLAIN),
        ("Quiet", "rules/3", RULES),
    ]
