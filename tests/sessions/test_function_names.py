"""Which names of an application's own functions say that it fetches texts, and how long it takes to tell."""

from __future__ import annotations

import pytest

from otel_drift.sessions.sources import _fetches


@pytest.mark.parametrize(
    "name",
    ["get_context", "fetchTopDocs", "load the_policy", "search.my_own_passages", "vector_search", "my_retriever"],
)  # fmt: skip
def test_names_of_functions_that_fetch_texts(name: str) -> None:
    assert _fetches(name)


@pytest.mark.parametrize("name", ["get_user", "research", "chat", "vector_search_settings", "chat_history_retriever"])
def test_names_of_other_functions(name: str) -> None:
    assert not _fetches(name)


def test_no_name_takes_long() -> None:
    for name in ("search" + "a_" * 120, "get" * 85, "find" + "_" * 250, "top_" * 100_000):  # the first took for ever
        assert not _fetches(name)
