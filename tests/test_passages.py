"""Passages from JSON lines: what is read, and what is refused with file and line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_drift import passages
from otel_drift.errors import ConfigError
from otel_drift.model import Passage
from otel_drift.passages import as_passages, read_passages

GOOD = '{"id": "a", "text": "One."}'


def test_lines_become_passages_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(
        '\ufeff{"id": 7, "text": "One.", "title": "T", "author": "A", "date": 2024, "document_type": "memo", '
        '"source": "s.md", "score": 0.5, "colour": "red"}\n\n{"id": "b", "text": "Zwei.", "title": null, "date": ""}'
        "\r\n",
        encoding="utf-8",
    )
    first, second = read_passages(file)
    assert first == Passage("7", "One.", 1, score=0.5, title="T", source="s.md", author="A", date="2024",
                            document_type="memo")  # fmt: skip
    assert (second.id, second.rank, second.title, second.date) == ("b", 2, None, None)
    assert read_passages(io.BytesIO(file.read_bytes())) == read_passages(io.StringIO(file.read_text("utf-8-sig")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no passage"),
        (f"{GOOD}\n{{", "line 2: is no JSON"),
        ("[1]", "line 1: is no object"),
        ('{"text": "x"}', "line 1: id is missing"),
        ('{"id": "a", "text": " "}', "line 1: text is missing"),
        ('{"id": "a", "text": 3}', "line 1: text is a int"),
        ('{"id": true, "text": "x"}', "line 1: id is a bool"),
        ('{"id": "a", "text": "x", "title": ["y"]}', "line 1: title is a list"),
        (f"{GOOD}\n\n{GOOD}", "line 3: id 'a' was given at line 1"),
        ('{"id": "a", "text": "x", "score": NaN}', "line 1: is no JSON"),
        ('{"id": "a", "text": "\\ud800"}', "line 1: is no JSON"),
        (json.dumps({"id": "a" * 501, "text": "x"}), "line 1: id has 501 characters"),
    ],
)
def test_broken_files_are_refused_with_file_and_line(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message) as error:
        read_passages(file)
    assert "p.jsonl" in str(error.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_passages(path)
    with pytest.raises(ConfigError, match="line 1: is no JSON"):
        read_passages(io.BytesIO(b"\xff\xfe{}"))


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "LONGEST_LINE", 60)
    with pytest.raises(ConfigError, match="line 2: too large"):
        read_passages(io.BytesIO(f'{GOOD}\n{{"id": "b", "text": "{"x" * 60}"}}'.encode()))
    monkeypatch.setattr(passages, "MOST_PASSAGES", 2)
    with pytest.raises(ConfigError, match="more than 2"):
        as_passages([{"id": str(n), "text": "x"} for n in range(3)])
    monkeypatch.setattr(passages, "LONGEST_FILE", 40)
    with pytest.raises(ConfigError, match="line 2: too large"):
        read_passages(io.BytesIO(b'{"id": "a", "text": "x"}\n{"id": "b", "text": "x"}'))


def test_passages_of_a_program_are_checked_alike() -> None:
    own = Passage("a", "One.", 9, title="T")
    assert as_passages([own, {"id": "b", "text": "Two."}]) == (own, Passage("b", "Two.", 2))
    with pytest.raises(ConfigError, match="body: number 2: id 'a' was given at number 1"):
        as_passages([own, own], "body")
    with pytest.raises(ConfigError, match="number 1: text is missing"):
        as_passages([Passage("a", None, 1)])


@given(st.binary(max_size=200))
def test_any_bytes_are_passages_or_one_clear_error(data: bytes) -> None:
    try:
        found = read_passages(io.BytesIO(data))
    except ConfigError:
        return
    assert all(one.id and one.text for one in found)
