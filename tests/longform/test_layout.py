"""Sentences of long answers: where they begin and end, and what is none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_drift.longform.layout import count_words, read_layout


def texts(answer: str) -> list[str]:
    return [sentence.text for sentence in read_layout(answer).sentences]


def test_the_labelled_answers_are_split_as_labelled(shared: Path) -> None:
    label = json.loads((shared / "traces" / "labels" / "labreport.json").read_text())
    assert len(label["long_form"]) == 2
    for one in label["long_form"]:
        layout = read_layout(label["turns"][one["turn"] - 1]["answer"])
        found = [(s.index, s.text, s.start, s.kind == "item") for s in layout.sentences]
        assert found == [(s["index"], s["text"], s["char"], s["list_item"]) for s in one["sentences"]]
        assert [s.title for s in layout.sections if s.title] == one["headings"]


@pytest.mark.parametrize(
    "expected",
    [
        ["The field values, i.e. temperature and pH, were read.", "It is 12% for metals vs. 18% for others."],
        ["According to Dr. Valkova, permit No. 77/26 holds.", "See Fig. 3 and J. R. Smith et al. for more."],
        ["At 8.7 µg/l it is below 1,920.5.", "The fee is $5.00, approx. 20 EUR.", "Really?!", "Yes..."],
        ["He works at Acme Inc. in the U.S. today.", "She left at 5 p.m. yesterday."],
        ["Use v1.2.3 of example.com.", "Then stop."],
        ["She said “It works.”", "Then she left [1][2].", "**It is bold.**", "So *is this.*", "End."],
        ["Der Vertrag gilt z. B. für Dr. Maier.", "Am 3. Mai endet er."],
        ["First line ends\nhere.", "Second starts."],
        ["It lost 1.5 mm.", "Bridges took 3 h.", "It is 12 mg/l.", "Of 5 kg.", "All."],
        ["“Really?” he asked.", 'He said "it is open.', "This goes on.", "And on."],
        ["An (unclosed one.", "It goes on.", "See (a. b.) here."],
    ],
)
def test_full_stops_inside_a_sentence_do_not_end_it(expected: list[str]) -> None:
    assert texts(" ".join(expected)) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["这是第一句。", "这是第二句！", "真的吗？"],
        ["これは一つ目です。", "次です。"],
        ["هل هذا صحيح؟", "نعم."],
        ["यह पहला वाक्य है।", "यह दूसरा है।"],
        ["یہ پہلا جملہ ہے۔", "یہ دوسرا ہے۔"],
        ["Это первое.", "Это второе?", "И третье!"],
        ["😀 It is fine.", "𝔘nicode is too."],
    ],
)
def test_full_stops_of_other_scripts(expected: list[str]) -> None:
    wide = "\u3000" < expected[0][0] < "\ua000"
    assert texts(("" if wide else " ").join(expected)) == expected


def test_a_list_item_is_one_sentence_and_what_follows_in_it_is_prose() -> None:
    answer = (
        "- One. And two.\n  - Nested item\n- It wraps\n  onto a line\n\n  A second paragraph. It has two.\n1) Third"
    )
    found = [(s.kind, s.text) for s in read_layout(answer).sentences]
    assert found == [
        ("item", "One. And two."),
        ("item", "Nested item"),
        ("item", "It wraps\n  onto a line"),
        ("sentence", "A second paragraph."),
        ("sentence", "It has two."),
        ("item", "Third"),
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("<!-- Hidden. Twice. -->\nShown.", ["Shown."]),
        ("One.\n<!--\nHidden.\n\nHidden too.\n-->\nTwo.", ["One.", "Two."]),
        (
            "One line\r\n<!--\r\nHidden.\r\n-->\r\nTwo <!-- a\r\nb -->\r\nlines.",
            ["One line", "Two <!-- a\r\nb -->\r\nlines."],
        ),
        ("One. <!-- Hidden. --> Two.", ["One.", "Two."]),
        ("- One.\n- <!-- Hidden. -->\n- Two.", ["One.", "Two."]),
        ("<!-- note -->Shown here. <!-- note -->\nAnd here.", ["Shown here.", "And here."]),
        ("It is <!-- 7? --> 8\ndays. <!-- a --> <!-- b -->", ["It is <!-- 7? --> 8\ndays."]),
    ],
)
def test_comments_are_none(answer: str, expected: list[str]) -> None:
    assert texts(answer) == expected


@pytest.mark.parametrize(
    "links",
    [
        "- [Annual report](https://a.example/r.pdf)\n- [Rules, second edition](https://b.example/x?y=1#z)",
        "[1] https://a.example/r\n\n[2]: <https://b.example/x_y>\n\n3. www.c.example",
        '[One](https://a.example) | [Two](/two "Title"), [Three][3]',
        "https://a.example/one\nhttps://b.example/two",
        "| Where |\n|---|\n| [One](https://a.example) |",
        "![Chart of rainfall](chart.png)",
    ],
)
def test_lines_of_nothing_but_links_are_none(links: str) -> None:
    assert texts(f"Before.\n\n{links}\n\nAfter.") == ["Before.", "After."]


def test_a_link_among_words_is_part_of_its_sentence() -> None:
    expected = ["The fee is in [the rules](https://a.example).", "See https://b.example for 2024."]
    assert texts(" ".join(expected)) == expected
    assert texts("- [The rules](https://a.example): 5 EUR") == ["[The rules](https://a.example): 5 EUR"]


def test_indented_code_after_a_blank_line_is_none() -> None:
    answer = "Run this:\n\n    pip install x\n    x --now\n\nThen stop.\n\n\tx = open. end;\n\n- item\n\n  Its second."
    assert texts(answer) == ["Run this:", "Then stop.", "item", "Its second."]


def test_headings_are_titles_of_sections() -> None:
    answer = (
        "Opening.\n\n# One #\nFirst.\n\nTwo\n===\nSecond.\n\n**Three**\nThird.\n\n## Empty\n\n4. Four\nFourth. Again.\n"
    )
    layout = read_layout(answer)
    assert [s.text for s in layout.sentences] == ["Opening.", "First.", "Second.", "Third.", "Fourth.", "Again."]
    sections = [(s.title, s.first, s.last) for s in layout.sections]
    assert sections == [(None, 0, 0), ("One", 1, 1), ("Two", 2, 2), ("Three", 3, 3), ("Four", 4, 5)]


def test_a_paragraph_above_a_rule_is_no_heading() -> None:
    """Markdown would make a title of it; the sentences must not be lost by that."""
    assert texts("One sentence here. And a second.\n---\nA third.\n***\n") == [
        "One sentence here.",
        "And a second.",
        "A third.",
    ]


def test_code_is_none_and_a_table_row_is_one() -> None:
    table = "| a | b |\n|---|---|\n| x. y | 1 |\n| z | 2 |"
    answer = f"Before.\n```py\nprint('a. b. c.')\n```\n{table}\n\nAfter.\n\n~~~\nopen. end."
    assert texts(answer) == ["Before.", "| x. y | 1 |", "| z | 2 |", "After."]


@pytest.mark.parametrize(
    "answer",
    [
        "    indented like code.",
        "[1]: http://example.com 'claim.'",
        "<!-- unclosed claim.",
        "Begun <!-- here.\n\nA claim. -->",
        "`<!--` is a claim. -->",
        "```\n<!--\n```\nA claim. -->",
        "[A claim.](http://example.com)",
        "[1]: http://example.com says a claim",
        "Text.\n\n    An indented claim.\n    It goes on with one more.",
        "<div>\nhidden claim.\n</div>",
        "> " * 60 + "deep claim.",
        "\r\nold line ends.\r\rmore.\r",
        "nul\0byte here.",
    ],
)
def test_nothing_but_titles_and_code_escapes(answer: str) -> None:
    found = " ".join(texts(answer))
    for word in ("like", "claim", "more", "here"):
        assert (word in answer) == (word in found)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "<!-- x. y -->",
                    "<!--",
                    "-->",
                    "    code.",
                    "[a](http://b)",
                    "# H",
                    "- item. two",
                    "1. x",
                    "```",
                    "| a | b |",
                    "|--|--|",
                    "> q.",
                    "***",
                    "===",
                    "\\",
                    "  ",
                    "\t- t",
                ]
            ),
            st.text(max_size=30),
            st.sampled_from(["A sentence. Another one!", "这是。那是？", "e.g. this, No. 5.", "**Bold.** Done [1]."]),
        ),
        max_size=12,
    ),
    st.sampled_from(["\n", "\n\n", "\r\n", "\r", " "]),
)
def test_places_are_exact_in_order_and_sections_cover_every_sentence(lines: list[str], end: str) -> None:
    answer = end.join(lines)
    layout = read_layout(answer)
    at = 0
    for number, sentence in enumerate(layout.sentences):
        assert sentence.index == number
        assert answer[sentence.start : sentence.end] == sentence.text
        assert sentence.text == sentence.text.strip()
        assert sentence.start >= at
        at = sentence.end
    covered = [index for section in layout.sections for index in range(section.first, section.last + 1)]
    assert covered == list(range(len(layout.sentences)))


def test_words_are_counted_without_blanks_too() -> None:
    assert count_words("One two, three-four 1,920 it's.") == 5
    assert count_words("这是第一句话") == 3


@pytest.mark.parametrize(
    "answer",
    [
        "a" + " " * 100_000 + "b.",
        "Abc. " + "x. " * 50_000,
        "> " * 10_000 + "a.",
        "[" * 100_000 + "a.",
        "a [1][2]. " * 10_000,
        "*" * 100_000 + " a.",
        "1." * 100_000,
        "<!--" * 30_000 + "a.",
        "`<!-- x " * 20_000 + "-->",
        "a <!-- b --> `<!--` " * 5_000,
        "```\n<!-- a -->\n```\n" * 3_000,
        "[a](b " * 20_000,
        "http://" * 15_000,
    ],
    ids=[
        "blanks",
        "joins",
        "quotes",
        "brackets",
        "cites",
        "stars",
        "digits",
        "comments",
        "skipped",
        "ticks",
        "fences",
        "links",
        "urls",
    ],
)
def test_hostile_layouts_take_no_quadratic_time(answer: str) -> None:
    """A second or two on a busy machine; minutes where something is quadratic."""
    started = time.process_time()
    read_layout(answer)
    assert time.process_time() - started < 10
