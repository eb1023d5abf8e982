"""What a person reads of a connector: one line, not too long, and no secret in it."""

from __future__ import annotations

from collections.abc import Collection

LONGEST_ERROR = 400


def is_one_safe_line(secrets: Collection[str], text: str, what: str) -> None:
    """Assert that a text is a line a person reads, and shows no secret."""
    shows_no_secret(secrets, text, what)
    assert text.strip(), f"{what} is empty"
    assert "\n" not in text, f"{what} is more than one line: {text!r}"
    assert len(text) <= LONGEST_ERROR, f"{what} is no line a person reads: {len(text)} characters"


def shows_no_secret(secrets: Collection[str], text: str, what: str) -> None:
    """Assert that a text shows no secret."""
    assert not any(secret in text for secret in secrets), f"{what} shows a secret"
