"""Paths, folders and globs mean the files a person expects, each once, and no link leads astray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from otel_drift.errors import SourceError
from otel_drift.otlp.paths import input_files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in ("b.json", "a.jsonl", "deep/er/c.json.gz", "deep/d.pb", "deep/notes.txt", ".hidden/e.json", ".f.json"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def names(root: Path, *paths: str | Path) -> list[str]:
    return [str(file.path.relative_to(root)) for file in input_files(paths)]


def test_a_folder_is_searched_by_name_for_telemetry_files(tree: Path) -> None:
    assert names(tree, tree) == ["a.jsonl", "b.json", "deep/d.pb", "deep/er/c.json.gz"]


def test_a_named_file_may_have_any_name(tree: Path) -> None:
    assert names(tree, tree / "deep/notes.txt", tree / ".f.json") == ["deep/notes.txt", ".f.json"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.json", ["b.json"]),
        ("*", ["a.jsonl", "b.json", "deep/d.pb", "deep/er/c.json.gz"]),
        ("d*/*", ["deep/d.pb", "deep/er/c.json.gz", "deep/notes.txt"]),
        ("**/*.gz", ["deep/er/c.json.gz"]),
        ("**", ["a.jsonl", "b.json", "deep/d.pb", "deep/er/c.json.gz"]),
        ("**/**/d.pb", ["deep/d.pb"]),
        ("[ab].json*", ["a.jsonl", "b.json"]),
        ("dee?/er/c.*", ["deep/er/c.json.gz"]),
    ],
)
def test_globs(tree: Path, pattern: str, found: list[str]) -> None:
    assert sorted(names(tree, tree / pattern)) == found


def test_a_relative_glob_starts_here(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert [str(file.path) for file in input_files(["*.json"])] == ["b.json"]


def test_a_file_with_glob_characters_in_its_name_is_that_file(tree: Path) -> None:
    (tree / "odd[1].json").write_text("x")
    assert names(tree, tree / "odd[1].json") == ["odd[1].json"]


def test_the_same_file_is_read_once_however_often_it_is_named(tree: Path) -> None:
    (tree.parent / "link.json").symlink_to(tree / "b.json")
    os.link(tree / "b.json", tree / "hard.json")
    files = input_files([tree / "b.json", tree, tree.parent / "link.json", tree / "deep" / ".." / "b.json"])
    assert [file.path.name for file in files].count("b.json") == 1
    assert {file.path.name for file in files} == {"b.json", "a.jsonl", "c.json.gz", "d.pb"}


def test_links_found_on_the_way_are_left_alone(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("x")
    (tree / "outside.json").symlink_to(tmp_path / "secret.json")
    (tree / "round").symlink_to(tree)
    (tree / "deep" / "up").symlink_to(tmp_path)
    expected = ["a.jsonl", "b.json", "deep/d.pb", "deep/er/c.json.gz"]
    assert names(tree, tree) == expected
    assert sorted(names(tree, tree / "**")) == expected
    assert names(tree, tree / "*.json") == ["b.json"]
    assert "secret.json" not in str(input_files([tree / "**/*.json"]))


def test_no_depth_of_folders_is_too_deep(tmp_path: Path) -> None:
    here, depth = Path.cwd(), 1500
    try:
        os.chdir(tmp_path)
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
        (tmp_path / "d" / "a.json").write_text("x")
        assert names(tmp_path, tmp_path) == ["d/a.json"]
        assert names(tmp_path, tmp_path / "**" / "*.json") == ["d/a.json"]
        (tmp_path / "d" / "a.json").unlink()
    finally:
        for _ in range(depth):  # pytest could not delete them
            os.chdir("..")
            os.rmdir("d")
        os.chdir(here)


def test_a_link_the_user_named_is_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(tree)
    assert len(input_files([tmp_path / "named"])) == 4
    assert [file.path.name for file in input_files([tmp_path / "named" / "*.json"])] == ["b.json"]


@pytest.mark.parametrize(
    ("path", "advice"),
    [("nowhere.json", "check the path"), ("*.nothing", "check the pattern"), ("empty", "looked for names")],
)
def test_nothing_to_read_says_what_and_what_to_do(tmp_path: Path, path: str, advice: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=advice) as caught:
        input_files([tmp_path / path])
    assert str(tmp_path / path) in str(caught.value)


def test_no_path_at_all_and_impossible_ones(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no input given"):
        input_files([])
    with pytest.raises(SourceError):
        input_files(["a\0b"])
    with pytest.raises(SourceError):
        input_files(["x" * 5000])
