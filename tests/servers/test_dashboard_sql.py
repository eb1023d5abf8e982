"""The dashboard's SQL on the tables of a real ledger on PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dashboard import FILE, statements
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


def test_the_role_for_grafana_reads_and_changes_nothing(postgres: PostgresCluster) -> None:
    """As the container does at its first start: the script first, then otel-drift makes its tables."""
    psql = shutil.which("psql")
    assert psql, "comes with the server"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE otel_drift LOGIN SUPERUSER PASSWORD 's3cret'")
        connection.execute("CREATE DATABASE otel_drift OWNER otel_drift")
    place = {"PGHOST": "127.0.0.1", "PGPORT": str(postgres.port), "PGPASSWORD": "s3cret"}
    who = {"POSTGRES_USER": "otel_drift", "POSTGRES_DB": "otel_drift", "POSTGRES_PASSWORD": "reader's"}
    script = FILE.parents[1] / "docker-compose" / "reader.sh"
    subprocess.run(["sh", script], env={**os.environ, **place, **who}, check=True, timeout=60)
    Ledger.open(f"postgresql://otel_drift:s3cret@127.0.0.1:{postgres.port}/otel_drift").close()

    reader = {"host": "127.0.0.1", "port": postgres.port, "user": "otel_drift_reader", "password": "reader's"}
    with psycopg.connect(dbname="otel_drift", autocommit=True, **reader) as connection:  # type: ignore[arg-type]
        for statement in statements():
            assert connection.execute(statement).fetchall() == []  # type: ignore[arg-type]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM otel_drift_finding")
