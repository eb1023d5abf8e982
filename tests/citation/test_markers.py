"""Citation marks in answers: what is one, what is none, and what each points at."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_drift.citation.markers import find_marks
from otel_drift.citation.scope import scopes, unmarked
from otel_drift.model import Passage

PASSAGES = tuple(
    Passage(id, text, rank, title=title, source=source, author=author, date=date)
    for rank, (id, text, title, source, author, date) in enumerate(
        [
            ("gl-start-01", "Venarel is started at 2 mg once daily, as several studies [37] show.", "Starting venarel",
             "formulary/venarel-start.md", "Formulary Committee", "2026-01-20"),
            ("gl-start-02", "Adults are started on 2 mg of venarel.", "Starting venarel (ward copy)",
             "wards/medical/venarel-start-copy.docx", "Ward Pharmacy", "2026-01-27"),
            ("gl-diet-04", "Venarel can be taken with food.", "Food and venarel",
             "https://example.org/venarel-food", "Dietetics", "2025-07-02"),
        ],
        1,
    )
)  # fmt: skip
NAMELESS = tuple(Passage(f"t1.p{n}", f"Text number {n}.", n, own_id=False) for n in (1, 2, 3))


def pointed(answer: str, passages: tuple[Passage, ...] = PASSAGES) -> list[tuple[str, list[tuple[int, ...] | str]]]:
    """Each mark with the passages its targets mean, ``dangling`` or ``unknown``."""
    return [
        (mark.text, [t.passages or ("dangling" if t.dangling else "unknown") for t in mark.targets])
        for mark in find_marks(answer, passages).marks
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It is 2 mg [1].", [("[1]", [(0,)])]),
        ("It is 2 mg [1][3].", [("[1]", [(0,)]), ("[3]", [(2,)])]),
        ("It is 2 mg [1, 3].", [("[1, 3]", [(0,), (2,)])]),
        ("It is 2 mg [1–3].", [("[1–3]", [(0,), (1,), (2,)])]),
        ("It is 2 mg [2-3]; yes.", [("[2-3]", [(1,), (2,)])]),
        ("It is 2 mg [7].", [("[7]", ["dangling"])]),
        ("It is 2 mg [1, 9].", [("[1, 9]", [(0,), "dangling"])]),
        ("It is 2 mg 【2】.", [("【2】", [(1,)])]),
        ("It is 2 mg 【2†source】.", [("【2†source】", [(1,)])]),
        ("It is 2 mg 【4:1†venarel-start-copy.docx】.", [("【4:1†venarel-start-copy.docx】", [(1,)])]),
        ("It is 2 mg【9†source】.", [("【9†source】", ["unknown"])]),
        ("It is 2 mg 【4:0†source】.", [("【4:0†source】", ["unknown"])]),
        ("See the results[1] and vitamin C[2].", [("[1]", [(0,)]), ("[2]", [(1,)])]),
        ("It is 2 mg[0] or so[1].", [("[0]", [(0,)]), ("[1]", [(1,)])]),
        ("It is 2 mg [gl-start-02].", [("[gl-start-02]", [(1,)])]),
        ("It is 2 mg [GL-START-02; gl-diet-04].", [("[GL-START-02; gl-diet-04]", [(1,), (2,)])]),
        ("It is 2 mg [gl-start-09].", [("[gl-start-09]", ["dangling"])]),
        ("It is 2 mg (Source: Food and venarel).", [("(Source: Food and venarel)", [(2,)])]),
        ("It is 2 mg (source: Starting venarel (ward copy)).", [("(source: Starting venarel (ward copy))", [(1,)])]),
        ("It is 2 mg (Source: venarel-start-copy.docx).", [("(Source: venarel-start-copy.docx)", [(1,)])]),
        ("It is 2 mg (Sources: 1, 3).", [("(Sources: 1, 3)", [(0,), (2,)])]),
        ("It is 2 mg (Source: a leaflet on shoes).", [("(Source: a leaflet on shoes)", ["dangling"])]),
        ("It is 2 mg [Source: Dietetics, 2025].", [("[Source: Dietetics, 2025]", [(2,)])]),
        ("It is 2 mg (Doc 2).", [("(Doc 2)", [(1,)])]),
        ("It is 2 mg [doc3].", [("[doc3]", [(2,)])]),
        ("It is 2 mg daily.¹ Also with food.³", [("¹", [(0,)]), ("³", [(2,)])]),
        ("It is 2 mg daily.¹,³", [("¹,³", [(0,), (2,)])]),
        ("It is 2 mg daily.⁷", [("⁷", ["dangling"])]),
        ("It is 2 mg daily<sup>2</sup>.", [("<sup>2</sup>", [(1,)])]),
        ("See [the leaflet](https://example.org/venarel-food).", [("[the leaflet](https://example.org/venarel-food)",
                                                                 [(2,)])]),
        ("It is 2 mg[^1].\n\n[^1]: Food and venarel, https://example.org/venarel-food", [("[^1]", [(2,)])]),
        ("It is 2 mg[^a].\n\n[^a]: Formulary Committee (2026)", [("[^a]", [(0,)])]),
        ("It is 2 mg[^2].\n\n[^1]: Food and venarel", [("[^2]", ["dangling"])]),
        ("It is 2 mg[^2].", [("[^2]", [(1,)])]),
        ("It is 2 mg [1].\n\nSources:\n[1] Food and venarel", [("[1]", [(2,)]), ("[1] Food and venarel", [(2,)])]),
        ("It is 2 mg [1].\n\n## References\n1. gl-diet-04", [("[1]", [(2,)]), ("1. gl-diet-04", [(2,)])]),
        ("It is 2 mg.\n\n**Sources:**\n- Food and venarel\n- A book of maps",
         [("- Food and venarel", [(2,)]), ("- A book of maps", ["dangling"])]),
        ("It is 2 mg [0] or so [1].", [("[0]", [(0,)]), ("[1]", [(1,)])]),
    ],
)  # fmt: skip
def test_marks_point_where_they_say(answer: str, expected: list[tuple[str, list[tuple[int, ...] | str]]]) -> None:
    assert pointed(answer) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "It holds [sic] and [...] and [emphasis added].",
        "In [2019] and on [2024-01-01] and at [12:30].",
        "- [ ] book a visit\n- [x] bring the card",
        "See [our page](https://example.com/7) and ![a picture](x.png).",
        "Use `rows[9]` or\n```python\nfirst = rows[9]\n```\nto read it.",
        "Call rows_of[9] or table.rows[9] or f(x)[9] or getRows[9].",
        "The values lie in the interval [4, 9], in [0, 1] or between [5, 7] mg.",
        "It takes [5, 7] days.",
        "The area is 5 m² and the volume 10³ cm³, so R² is high.",
        "The array [9]= 3 is not a mark.",
        "As several studies [37] show, it works.",
        "He wrote [a] letter to [his] doctor (see below) (cf. above).",
        "The list is [\"a\", \"b\"] and {\"x\": [1.5]}.",
        "It holds for x in [10-20] and for [20–10].",
    ],
)  # fmt: skip
def test_brackets_that_are_no_citations_are_never_dangling(answer: str) -> None:
    marks = find_marks(answer, PASSAGES).marks
    assert [mark.text for mark in marks for target in mark.targets if target.dangling] == []


@pytest.mark.parametrize(
    "answer", ["The first is items[0], then items[1].", "Swap a[1] and b[2].", "Read data[0] [sic]."]
)
def test_an_element_of_a_list_is_no_mark(answer: str) -> None:
    assert pointed(answer) == pointed(answer, NAMELESS) == []


def test_a_name_is_not_dangling_where_the_trace_has_no_names() -> None:
    """Passages without title or source cannot show that a named source is none of them."""
    assert pointed("It is so (Source: the big handbook).", NAMELESS) == [("(Source: the big handbook)", ["unknown"])]
    assert pointed("It is so [t1.p2].", NAMELESS) == []


def test_parts_of_one_document_are_all_meant() -> None:
    parts = tuple(Passage(f"c{n}", f"Part {n}.", n, title="Handbook", source="handbook.pdf") for n in (1, 2))
    assert pointed("It is so (Source: handbook.pdf).", parts) == [("(Source: handbook.pdf)", [(0, 1)])]


def test_the_answer_without_marks_reads_on_and_keeps_its_places() -> None:
    answer = "It is 2 mg daily [1][2]. As [2] says, take it with food [3].\n\nSources:\n[1] Food and venarel"
    bare = unmarked(answer, find_marks(answer, PASSAGES))
    assert bare.text == "It is 2 mg daily. As [2] says, take it with food."
    start = bare.text.index("take it")
    assert answer[slice(*bare.original(start, len(bare.text)))] == "take it with food [3]."


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("One thing [1]. Another thing [2].", ["One thing", "Another thing"]),
        ("One thing [1] and another [2].", ["One thing", "and another"]),
        ("One thing. [1] Another thing. [2]", ["One thing.", "Another thing."]),
        ("One thing. [gl-diet-04] Another thing. [gl-start-01]", ["One thing.", "Another thing."]),
        ("One thing.¹ Another thing.²", ["One thing.", "Another thing."]),
        ("- One thing [1]\n- Another thing (Source: Food and venarel)", ["One thing", "Another thing"]),
        ("| One thing [1] | Another thing [2] |", ["| One thing", "| Another thing"]),
    ],
)
def test_a_mark_speaks_for_the_words_before_it(answer: str, expected: list[str]) -> None:
    marks = find_marks(answer, PASSAGES)
    assert [answer[slice(*scope.near)].strip() for scope in scopes(answer, marks)] == expected


def test_the_last_mark_of_a_paragraph_may_stand_for_its_unmarked_sentences() -> None:
    answer = "Apart.\n\nFirst thing. Second thing. Third thing [1]."
    (scope,) = scopes(answer, find_marks(answer, PASSAGES))
    assert answer[slice(*scope.wide)] == "First thing. Second thing. Third thing [1]."


def test_words_after_a_list_of_sources_are_text_again() -> None:
    answer = "It is 2 mg [1].\n\nSources:\n- Food and venarel\n- A book of maps\n\nTell me if you need more [2]."
    marks = find_marks(answer, PASSAGES)
    assert [mark.text for mark in marks.marks] == ["[1]", "- Food and venarel", "- A book of maps", "[2]"]
    assert unmarked(answer, marks).text == "It is 2 mg.\n\n\n\nTell me if you need more."


def test_sources_as_a_word_of_the_text_begin_no_list() -> None:
    answer = (
        "Sources of iron\n\nIron stands in many foods. Lentils have a lot of it.\n\nSources: many and varied\n\nMore."
    )
    assert find_marks(answer, PASSAGES).marks == ()
    assert find_marks("It is so.\n\n## Sources\n\nThe figures come from a report.", PASSAGES).marks == ()


@given(st.text(alphabet="ab1239 .,;:[](){}^-–`\n#|¹²SourceDc", max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_without_loss(answer: str) -> None:
    """Marks stand where they say, do not overlap, and all else stays in the answer without marks."""
    marks = find_marks(answer, PASSAGES)
    end = 0
    for mark in marks.marks:
        assert answer[mark.start : mark.end] == mark.text
        assert mark.start >= end
        end = mark.end
        assert all(0 <= index < len(PASSAGES) for target in mark.targets for index in target.passages)
        assert not any(target.dangling and target.passages for target in mark.targets)
    bare = unmarked(answer, marks)
    assert "".join(answer[place] for place in bare.places) == bare.text
    for scope in scopes(answer, marks):
        assert 0 <= scope.wide[0] <= scope.near[0] <= scope.near[1] <= len(answer)


@pytest.mark.parametrize(
    "piece", ["[", "[1", "(Source: ", "[^", "[1, ", "¹", "Sources:\n- ", "`", "$", "[a](", "```\n"]
)
def test_long_hostile_answers_are_read_in_time(piece: str) -> None:
    find_marks(piece * 40_000, PASSAGES)
