"""The dashboard's SQL on the tables of a real ledger on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dashboard import statements
from otel_drift.ledger import Ledger

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import PostgresCluster

pytestmark = pytest.mark.server("postgres")


@pytest.fixture
def place(postgres: PostgresCluster, examples: Path, otel_drift: Callable[..., CompletedProcess[str]]) -> str:
    """A ledger with what the embedded judge finds in the example traces."""
    url = postgres.new_schema()
    done = otel_drift("audit", examples, "--ledger", url)
    assert done.returncode == 0, done.stderr
    return url


def asked(place: str) -> list[dict[str, Any]]:
    (statement,) = statements()
    with psycopg.connect(place, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(statement).fetchall()  # type: ignore[arg-type]


def standing(place: str) -> dict[str, int]:
    """Findings by passage, by the ledger's own reading, without those rejected or muted."""
    with Ledger.open(place) as ledger:
        found = [one for one in ledger.current_findings() if one["status"] != "rejected" and not one["muted"]]
    return Counter(passage["passage_id"] for one in found for passage in one["passages"])


def test_passages_behind_most_findings_are_those_of_current_findings(place: str) -> None:
    rows = asked(place)

    assert {row["id"]: row["findings"] for row in rows} == standing(place)
    assert len(rows) > 3
    assert [row["findings"] for row in rows] == sorted((row["findings"] for row in rows), reverse=True)
    assert all(row["passage"] and row["sessions"] and row["types"] and row["last"] for row in rows)


def test_findings_that_people_rejected_or_muted_count_no_more(place: str) -> None:
    with Ledger.open(place) as ledger:
        first, second = [one for one in ledger.current_findings() if one["passages"]][:2]
        ledger.resolve(first["event_id"], "rejected", by="anna", why="the source says so")
        ledger.mute(second["event_id"], why="known")
    before = sum(len(one["passages"]) for one in (first, second))

    rows = asked(place)

    assert {row["id"]: row["findings"] for row in rows} == standing(place)
    assert before > 0
