"""Untrusted text becomes harmless and stays readable wherever it is shown."""

from __future__ import annotations

import html
import re
import sys
import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_drift.cli.common import write_json_line
from otel_drift.report.escape import html_safe, inert, json_safe, spreadsheet_safe, terminal_safe

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)
VISIBLE_FORMAT = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2}
"""Format characters that have a glyph of their own (Arabic and Syriac number signs)."""


def test_no_control_format_separator_or_surrogate_character_survives() -> None:
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    left = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if code not in VISIBLE_FORMAT
        and unicodedata.category(chr(code)) in hidden
        and terminal_safe(chr(code)) != " "
        and any(unicodedata.category(c) in hidden for c in terminal_safe(chr(code)))
    ]
    assert left == []


@pytest.mark.parametrize("blank", ["\u3164", "\u115f", "\u1160", "\uffa0", "\u2800", "\u034f", "\u17b4", "\U000e0101"])
def test_blank_letters_and_smuggling_selectors_become_visible(blank: str) -> None:
    assert terminal_safe(f"a{blank}b").startswith("a\\")


def test_what_was_hidden_can_be_read() -> None:
    assert terminal_safe("a\x1b[31mb\x07\x9b\u202e\ud800\U000e0041") == r"a␛[31mb␇\x9b\u202e\ud800\U000e0041"


def test_line_breaks_show_as_a_sign_or_stay_on_request() -> None:
    assert terminal_safe("a\r\nb\nc\td\re") == "a⏎ b⏎ c d␍e"
    assert terminal_safe("a\r\nb\nc\td\re", multiline=True) == "a\nb\nc d␍e"


@pytest.mark.parametrize("text", ["naïve — “quoted” 日本語 العربية हिन्दी 🏔 ✔️ 25 °C", "[bold]x[/]", ":smile:", ""])
def test_visible_text_of_any_script_is_left_alone(text: str) -> None:
    assert terminal_safe(text) == text


@given(ANY_TEXT)
def test_terminal_text_can_be_encoded_and_escaping_twice_changes_nothing(text: str) -> None:
    once = terminal_safe(text, multiline=True)
    once.encode("utf-8")
    assert terminal_safe(once, multiline=True) == once
    assert "\x1b" not in once


@given(ANY_TEXT, st.integers(0, 200), st.integers(0, 200))
def test_a_quote_of_a_text_stays_a_quote_of_the_escaped_text(text: str, start: int, length: int) -> None:
    text = text.replace("\r", "")
    assert terminal_safe(text[start : start + length]) in terminal_safe(text)


@given(ANY_TEXT)
def test_json_says_the_same_and_steers_no_terminal(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    raw = orjson.dumps({text: [text, "\x1b[31m\x9b31m\u202e\u200b\U000e0041 ü 🏔"]})
    safe = json_safe(raw)
    assert orjson.loads(safe) == orjson.loads(raw)
    assert terminal_safe(safe.decode().replace("\x7f", "")) == safe.decode().replace("\x7f", "")
    assert "ü 🏔" in safe.decode()


def test_lines_of_json_are_printed_so(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_json_line({"said": "\x9b31m \u202e ü"})
    assert capfdbinary.readouterr().out == '{"said":"\\u009b31m \\u202e ü"}\n'.encode()


@given(ANY_TEXT)
def test_html_text_holds_no_markup_and_reads_back_as_the_terminal_text(text: str) -> None:
    safe = html_safe(text)
    assert not re.search("[<>\"']", safe)
    assert html.unescape(safe) == terminal_safe(text, multiline=True)


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "  =1", "\n=HYPERLINK()", "＝1", "\u200b=1", "\ufeff@a"],
)
def test_formulas_are_defused(cell: str) -> None:
    assert spreadsheet_safe(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["24 EUR", "a=b", "Members pay half", "", "ü"])
def test_plain_cells_are_left_alone(cell: str) -> None:
    assert spreadsheet_safe(cell) == cell


def test_chat_text_mentions_nobody_and_links_nowhere() -> None:
    text = inert(
        "@everyone <!channel> <@U024BE7LH> <https://evil.example|click> [x](https://evil.example) "
        "![i](//evil.example/i.png) "
        "see www.evil.example, mailto:a@b.example, javascript:alert(1), tel:+491234 `code` \u202e"
    )
    assert not re.search(r"[@<>`|]|\]\(|!\[|://|\w\.example|javascript:|mailto:|tel:|\u202e", text)
    assert "evil[.]example" in text


def test_names_that_programs_compare_keep_their_dots_and_lose_the_rest() -> None:
    assert inert("shop.example", domains=True) == "shop.example"
    assert inert("@here <https://shop.example|x>", domains=True) == "＠here ‹https[:]//shop.example¦x›"


@pytest.mark.parametrize("text", ["note: at 12:30, e.g. 3.8% (v1.2)", "Yes. It is."])
def test_chat_text_without_links_reads_as_before(text: str) -> None:
    assert inert(text) == text
