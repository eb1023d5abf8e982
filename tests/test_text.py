"""Reading a text without understanding it: sentences, words, numbers, dates, qualifiers, quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_drift import text


def split(source: str) -> list[str]:
    return [sentence.text for sentence in text.sentences(source)]


# --- sentences ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("One is here. Two is there.", ["One is here.", "Two is there."]),
        ("Dr. Valkova signed permit No. 77/26. It holds.", ["Dr. Valkova signed permit No. 77/26.", "It holds."]),
        ("It costs 3.5 EUR, e.g. for adults. Fine!", ["It costs 3.5 EUR, e.g. for adults.", "Fine!"]),
        ("See J. R. Smith et al. for more. Done.", ["See J. R. Smith et al. for more.", "Done."]),
        ("In the U.S. and the U.K. it is open. Yes.", ["In the U.S. and the U.K. it is open.", "Yes."]),
        ("Is it? Yes. “Surely.” Then go.", ["Is it?", "Yes.", "“Surely.”", "Then go."]),
        ("Three months [3]. Grapefruit [1][2]. Bye.", ["Three months [3].", "Grapefruit [1][2].", "Bye."]),
        ("Three months. [3] Grapefruit.", ["Three months. [3]", "Grapefruit."]),
        ("a word . another word .", ["a word .", "another word ."]),
        ("Wait… what happens now? Nothing", ["Wait… what happens now?", "Nothing"]),
        ("保修期为24个月。电池除外！真的吗？", ["保修期为24个月。", "电池除外！", "真的吗？"]),
        ("هل هذا صحيح؟ نعم.", ["هل هذا صحيح؟", "نعم."]),
        ("Wrapped\nover two lines. Next.", ["Wrapped\nover two lines.", "Next."]),
        ("", []),
        (" \n\t ", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(source: str, expected: list[str]) -> None:
    assert split(source) == expected


def test_layout_is_told_apart() -> None:
    source = (
        "# Heading\n\nIntro line:\n\n- First item. It has two sentences.\n2. Second item\n   wrapped\n\n"
        "| Plan | Price |\n|---|---|\n| Basic | 2 EUR |\n\n"
        "**Bold heading**\n\n```python\nx = 1. y\n```\n> Quoted text.\n"
    )
    assert [(s.kind, s.text) for s in text.sentences(source)] == [
        ("heading", "Heading"),
        ("sentence", "Intro line:"),
        ("item", "First item."),
        ("item", "It has two sentences."),
        ("item", "Second item\n   wrapped"),
        ("table", "| Plan | Price |"),
        ("table", "| Basic | 2 EUR |"),
        ("heading", "**Bold heading**"),
        ("code", "```python\nx = 1. y\n```"),
        ("sentence", "Quoted text."),
    ]
    assert {s.kind for s in text.statements(source)} == {"sentence", "item", "table"}


@given(st.text(alphabet=st.sampled_from("aB1. !?\n\r\t-*#|`>[]()“”'。؟\u00a0é漢"), max_size=200))
def test_sentences_are_verbatim_ordered_and_lose_no_word(source: str) -> None:
    found = text.sentences(source)
    assert all(source[s.start : s.end] == s.text and s.text.strip() == s.text for s in found)
    edges = [0, *(edge for s in found for edge in (s.start, s.end)), len(source)]
    assert edges == sorted(edges)
    outside = "".join(source[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    assert not {"é", "漢"} & set(outside)


def test_splitting_is_linear_in_hostile_text() -> None:
    for piece in (". ", "a.b.", "- ", "|", "(", "1. ", "“", "**", "x;"):
        text.sentences(piece * 50_000)
        text.clauses(piece * 2_000)


def test_clauses_keep_conditions_apart() -> None:
    sentence = "Should you stay, the charge will fall to 0.35%, and the fund closes if assets drop; see below."
    assert text.clauses(sentence) == [
        "Should you stay",
        "the charge will fall to 0.35%",
        "and the fund closes",
        "if assets drop",
        "see below.",
    ]


# --- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("reduction", "reduced"), ("carry", "carried"), ("contribution", "contribute"), ("paid", "pay"),
        ("membership", "members"), ("employees", "employee"), ("children", "child"), ("Matches", "matched"),
        ("résumé", "resume"), ("employer's", "employer"),
    ],
)  # fmt: skip
def test_stems_bring_forms_together(a: str, b: str) -> None:
    assert text.stem(a) == text.stem(b)


def test_stems_keep_different_words_apart() -> None:
    found = [text.stem(w) for w in ("include", "exclude", "increase", "decrease", "charge", "change", "X100", "X200")]
    assert len(set(found)) == len(found)


def test_content_words_leave_function_words_out() -> None:
    assert text.content_words("You can carry over up to 10 of the carried-over days.") == [
        "carry", "10", "carried", "days",
    ]  # fmt: skip


def test_names_are_capitalised_words_within_a_sentence() -> None:
    assert text.names("The Lifecycle fund is run by Hollis Ltd. from Lyon with iPads and the X200.") == [
        "Lifecycle", "Hollis", "Ltd", "Lyon", "iPads", "X200",
    ]  # fmt: skip
    assert text.names("Charging takes long.") == []
    assert text.names("ALL CAPITALS SAY NOTHING") == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("The warranty is valid for 24 months.", True),
        ("Costs 3 EUR per month", True),
        ("Patients may die", True),
        ("Naïve café owners' 25 °C", True),
        ("Die Garantie gilt 24 Monate ab Kauf, der Akku ist ausgenommen.", False),
        ("La garantie est de 24 mois et la batterie est exclue.", False),
        ("保修期为24个月。", False),
        ("مدة الضمان 24 شهرا.", False),
        ("Гарантия 24 месяца.", False),
        ("", True),
    ],
)
def test_other_languages_are_recognised(source: str, expected: bool) -> None:
    assert text.is_english(source) is expected


# --- numbers and dates --------------------------------------------------------------------------


def figures(source: str) -> list[tuple[float, str, str, str, str]]:
    return [(q.value, q.unit, q.per, q.label, q.role) for q in text.quantities(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("up to 5% of pay", [(5, "%", "", "", "most")]),
        ("5 per cent", [(5, "%", "", "", "")]),
        ("at least four months", [(4, "month", "", "", "least")]),
        ("about 2,300 colleagues", [(2300, text.stem("colleagues"), "", "", "approx")]),
        ("costs 3 EUR per day", [(3, "eur", "day", "", "")]),
        ("€30,000 or EUR 12", [(30000, "eur", "", "", ""), (12, "eur", "", "", "")]),
        ("1.2 million USD", [(1_200_000, "usd", "", "", "")]),
        ("2 weeks", [(14, "day", "", "", "")]),
        ("one year", [(12, "month", "", "", "")]),
        ("250 mg and 0.25 g", [(0.25, "g", "", "", ""), (0.25, "g", "", "", "")]),
        ("below 60 ng/ml", [(60, "ng/ml", "", "", "most")]),
        ("Zone 2 has 18 GB", [(2, "", "", "zon", ""), (18, "gb", "", "", "")]),
        ("form ER-2", [(2, "", "", "er", "")]),
        ("from age 55 onwards", [(55, "age", "", "", "")]),
        ("below 180/105 mmHg", [(180, "", "", "/", "most"), (105, "", "", "/", "")]),
        ("ten unused vacation days", [(10, "day", "", "", "")]),
        ("open at 16:00 and 10 p.m.", [(960, "clock", "", "", ""), (1320, "clock", "", "", "")]),
        ("see [1][2] and X200", []),
        ("one of them is the first", []),
        ("on 30 June 2026, in 2019", []),
        ("2 mg once daily", [(0.002, "g", "day", "", "")]),
    ],
)
def test_numbers_carry_unit_denominator_label_and_role(
    source: str, expected: list[tuple[float, str, str, str, str]]
) -> None:
    assert figures(source) == expected


def test_a_thousands_point_is_read_both_ways() -> None:
    assert {30000.0, 30.0} <= text.number_values("30.000 EUR")
    assert 21.0 in text.number_values("twenty-one days")


@given(st.text(max_size=80))
def test_numbers_and_dates_are_verbatim(source: str) -> None:
    for found in (*text.quantities(source), *text.dates(source)):
        assert found.text in source


def test_dates_are_read_in_the_usual_forms() -> None:
    found = text.dates("by 30 June, on June 30th, 2026, as of April 2026, in Q2 2026, 2026-07-01 and since 2019")
    assert [(d.day, d.month, d.quarter, d.year) for d in found] == [
        (30, 6, None, None),
        (30, 6, None, 2026),
        (None, 4, None, 2026),
        (None, None, 2, 2026),
        (1, 7, None, 2026),
        (None, None, None, 2019),
    ]
    assert [d.role for d in found] == ["deadline", "", "start", "", "", "start"]


def test_dates_differ_only_where_both_give_the_same_parts() -> None:
    june, march, april_2026, june_2026 = text.dates("30 June; 31 March; April 2026; 30 June 2026")
    assert june.differs(march)
    assert not june.differs(june_2026)
    assert not june.differs(april_2026)


# --- qualifiers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("In most cases the reduction is 3.8%.", [("frequency", "In most cases")]),
        ("As of April 2026 a transfer takes two weeks.", [("time_scope", "As of April 2026")]),
        ("As of release 2026.3 each account has a limit.", [("time_scope", "As of release 2026.3")]),
        ("It is free, provided that the form is signed.", [("condition", "provided that")]),
        ("It is likely to appear.", [("likelihood", "likely")]),
        ("It costs about 5 EUR.", [("approximation", "about")]),
        ("The charge is expected to fall.", [("estimate", "is expected to")]),
        ("You may carry over ten days.", []),
        ("He talked about the plan.", []),
        ("Meals are provided by the hotel.", []),
        ("It is not usually open.", []),
    ],
)
def test_explicit_qualifiers_are_found_with_their_class(source: str, expected: list[tuple[str, str]]) -> None:
    assert [(q.kind, q.text) for q in text.qualifiers(source)] == expected


def test_soft_markers_count_as_kept() -> None:
    assert text.keeps("It will probably fall.", "likelihood")
    assert text.keeps("It may fall.", "estimate")
    assert not text.keeps("It will fall to about 5%.", "estimate")


# --- quotes -------------------------------------------------------------------------------------


def test_quotes_are_compared_after_folding_white_space_and_typographic_quotes_only() -> None:
    source = "The scheme’s\n  “normal” age\u00a0is 65."
    assert text.holds(source, 'scheme\'s "normal" age is 65')
    assert not text.holds(source, "Scheme's")
    assert not text.holds(source, "age is sixty-five")
    assert not text.holds(source, "  ")


def test_a_quote_is_located_in_the_unfolded_text() -> None:
    source = "Yes: the “normal”\n age is 65."
    span = text.locate(source, '"normal" age')
    assert span is not None
    assert source[slice(*span)] == "“normal”\n age"
    assert text.locate(source, "abnormal") is None


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_every_piece_of_a_text_is_held_and_located(source: str, a: int, b: int) -> None:
    piece = source[min(a, b) : max(a, b)]
    if text.fold(piece):
        assert text.holds(source, piece)
        span = text.locate(source, piece)
        assert span is not None
        assert text.fold(source[slice(*span)]) == text.fold(piece)
