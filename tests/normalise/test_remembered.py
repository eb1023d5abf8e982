"""What `per_session` remembers lives no longer than the session."""

from __future__ import annotations

from otel_drift.normalise.remembered import forget, per_session


def test_a_text_is_worked_on_once_a_session() -> None:
    worked_on = []

    @per_session
    def length(text: str) -> int:
        worked_on.append(text)
        return len(text)

    assert [length("one"), length("three"), length("one")] == [3, 5, 3]
    assert worked_on == ["one", "three"]
    forget()
    assert length("one") == 3
    assert worked_on == ["one", "three", "one"]
