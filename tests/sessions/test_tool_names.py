"""Which names of tools say that a tool retrieves."""

from __future__ import annotations

import pytest

from otel_drift.sessions import ReconstructOptions


@pytest.mark.parametrize(
    "name", ["search_docs", "getInformation", "findRelevantContent", "get_relevant", "knowledge-base", "lookup"]
)
def test_names_of_retrieval_tools(name: str) -> None:
    assert ReconstructOptions().is_retrieval_tool(name)


@pytest.mark.parametrize(
    "name", ["is_relevant", "check_relevant_topic", "update_document", "getInformationDesk", "get_weather", "__", ""]
)
def test_names_of_other_tools(name: str) -> None:
    assert not ReconstructOptions().is_retrieval_tool(name)
