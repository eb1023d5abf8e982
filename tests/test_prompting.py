"""Prompts are loaded, refused when they do not add up, and rendered with data apart from instructions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_drift import prompting
from otel_drift.errors import ConfigError
from otel_drift.prompting import fingerprint, follow_up, load, new_nonce, render

PROMPTS = Path(__file__).parent.parent / "prompts"
HEAD = '+++\nid = "mine/step"\nversion = "v1"\nsettings = ["tone"]\ninputs = ["one", "two"]\n+++\n'
VALUES = {"tone": "calm", "one": "first text", "two": "second text"}


def write(folder: Path, text: str, name: str = "v1.md") -> Path:
    place = folder / "mine" / "step"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text, encoding="utf-8")
    return folder


def test_a_released_prompt_never_changes() -> None:
    """A changed prompt is a new version: add a file ``vN.md`` and its hash to ``prompts/lock.json``."""
    assert prompting.released() == json.loads((PROMPTS / "lock.json").read_text())


@pytest.mark.parametrize("name", sorted(prompting.released()))
def test_every_released_prompt_loads_and_says_who_it_is(name: str) -> None:
    prompt_id, version = name.rsplit("/", 1)
    prompt = load(prompt_id, version)
    assert (prompt.ref.id, prompt.ref.version) == (prompt_id, version)
    assert prompt.ref.sha256 == prompting.released()[name]
    assert prompt.inputs


def test_instructions_come_first_and_data_stand_between_marker_lines(tmp_path: Path) -> None:
    prompt = load("mine/step", folder=write(tmp_path, HEAD + "Be {{tone}}, {{ tone }}."))
    system, user = render(prompt, VALUES, "abc123")
    assert (system.role, system.content) == ("system", "Be calm, calm.")
    assert user.role == "user"
    assert "<<<one abc123>>>\nfirst text\n<<<end of one abc123>>>" in user.content
    assert user.content.index("first text") < user.content.index("second text")
    assert "abc123" not in system.content


def test_nothing_is_expanded_twice(tmp_path: Path) -> None:
    prompt = load("mine/step", folder=write(tmp_path, HEAD + "Be {{tone}}."))
    hostile = {"tone": "{{one}}", "one": "{{two}} {{tone}} $two {two}", "two": "x"}
    system, user = render(prompt, hostile, "abc123")
    assert system.content == "Be {{one}}."
    assert "{{two}} {{tone}} $two {two}" in user.content


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tone": "calm", "one": "x"}, "no value for two"),
        ({**VALUES, "three": "x"}, "does not take three"),
        ({**VALUES, "one": "holds abc123 itself"}, "nonce occurs"),
    ],
)
def test_values_that_do_not_match_are_refused(tmp_path: Path, values: dict[str, str], message: str) -> None:
    prompt = load("mine/step", folder=write(tmp_path, HEAD + "Be {{tone}}."))
    with pytest.raises(ConfigError, match=message):
        render(prompt, values, "abc123")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Be {{tone}}.", "no TOML front matter"),
        ("+++\nid = \n+++\nBe.", "no TOML"),
        (HEAD.replace("mine/step", "other/step") + "Be {{tone}}.", "must say id"),
        (HEAD.replace('"v1"', '"v2"') + "Be {{tone}}.", "must say id"),
        (HEAD + "Be {{tone}} with {{turns}}.", "unknown variable turns"),
        (HEAD + "Be {{tone}} with {{one}}.", "one is data"),
        (HEAD + "Be.", "no place"),
        (HEAD.replace('["one", "two"]', '"one"') + "Be {{tone}}.", "list of lower-case names"),
        (HEAD.replace('"one"', '"O N E"') + "Be {{tone}}.", "list of lower-case names"),
    ],
)
def test_prompts_that_do_not_add_up_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load("mine/step", folder=write(tmp_path, text))


@pytest.mark.parametrize("prompt_id", ["../secrets", "a//b", "/etc/passwd", "", "A/B", "a/../b", "nothing/here"])
def test_ids_that_are_no_prompt_are_refused(prompt_id: str) -> None:
    with pytest.raises(ConfigError):
        load(prompt_id)


def test_a_version_is_a_version() -> None:
    for version in ("1", "v0", "v1/../v1", "latest"):
        with pytest.raises(ConfigError, match="version"):
            load("repair", version)


def test_a_users_folder_goes_first_and_the_highest_version_counts(tmp_path: Path) -> None:
    write(tmp_path, HEAD + "Be {{tone}} one.")
    write(tmp_path, HEAD.replace('"v1"', '"v2"') + "Be {{tone}} two.", "v2.md")
    write(tmp_path, HEAD.replace('"v1"', '"v10"') + "Be {{tone}} ten.", "v10.md")
    assert load("mine/step", folder=tmp_path).ref.version == "v10"
    assert load("mine/step", "v2", folder=tmp_path).text == "Be {{tone}} two."
    assert load("repair", folder=tmp_path) == load("repair")


def test_line_ends_do_not_change_a_prompt(tmp_path: Path) -> None:
    unix = load("mine/step", folder=write(tmp_path / "a", HEAD + "Be {{tone}}.\nGo."))
    place = tmp_path / "b" / "mine" / "step"
    place.mkdir(parents=True)
    (place / "v1.md").write_bytes((HEAD + "Be {{tone}}.\nGo.").replace("\n", "\r\n").encode())
    assert load("mine/step", folder=tmp_path / "b") == unix


def test_the_fingerprint_knows_content_and_not_the_nonce(tmp_path: Path) -> None:
    prompt = load("mine/step", folder=write(tmp_path, HEAD + "Be {{tone}}."))
    prints = [fingerprint(render(prompt, VALUES, nonce), nonce) for nonce in ("0f0f0f0f", "a1b2c3d4e5")]
    assert prints[0] == prints[1]
    other = {**VALUES, "one": "first text."}
    assert fingerprint(render(prompt, other, "0f0f0f0f"), "0f0f0f0f") != prints[0]
    moved = {**VALUES, "one": "first", "two": "text\nsecond text"}
    assert fingerprint(render(prompt, moved, "0f0f0f0f"), "0f0f0f0f") != prints[0]


def test_a_follow_up_keeps_what_was_sent_as_its_beginning(tmp_path: Path) -> None:
    prompt = load("mine/step", folder=write(tmp_path, HEAD + "Be {{tone}}."))
    first = render(prompt, VALUES, "abc123")
    second = follow_up(first, load("repair"), {"answer": "{}", "errors": "1. No."}, "def456")
    assert second[0] == first[0]
    assert second[1].content.startswith(first[1].content)
    assert "<<<answer def456>>>\n{}\n<<<end of answer def456>>>" in second[1].content


def test_a_nonce_is_free_of_the_data_and_never_the_same() -> None:
    assert new_nonce({"a": "x"}, "wanted1") == "wanted1"
    assert new_nonce({"a": "has wanted1"}, "wanted1") != "wanted1"
    assert len({new_nonce({}) for _ in range(50)}) == 50
