"""The page's view of ``citation_conflict``: claims stand at their places, with the passages for and against them."""

from __future__ import annotations

from citation_cases import ANSWER, loans, right, run
from otel_drift.report.citation_data import cited_claims
from otel_drift.report.page_data import detail
from otel_drift.report.timeline import print_unit
from report.terminal import printed


def test_claims_stand_at_their_places_with_both_sides() -> None:
    unit = run(loans(ANSWER), right())
    first, second = cited_claims(unit)
    assert ANSWER[slice(*first["span"])] == first["quote"] == "You may keep tools for ten days [1]."
    assert [one["passage_id"] for one in first["evidence"]] == ["doc-1-1", "doc-1-2"]
    assert first["explanation"] == "doc-1-2 contradicts it (direct factual)"
    assert second["explanation"].endswith("resolved by recency")


def test_the_page_finds_the_claim_of_a_finding() -> None:
    data = detail(run(loans(ANSWER), right()))
    assert [claim["turn"] for claim in data["claims"]] == [1, 1]
    assert data["events"][0]["later"] == 0


def test_the_timeline_shows_what_the_passages_say_on_both_sides() -> None:
    unit = run(loans(ANSWER), right())
    text = printed(lambda on: print_unit(on, unit), terminal=False)
    shown = [" ".join(line.split()).split("“")[0] for line in text.splitlines()]
    at = shown.index("claim turn 1 ")
    assert shown[at + 1 : at + 3] == ["evidence doc-1-1 ", "evidence doc-1-2 "]
