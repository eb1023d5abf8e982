"""A look at a ledger with very many findings reads only what is new and what fires."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from alerting import Desk, critical, result
from otel_drift.findings import annotations
from otel_drift.ledger import Ledger
from otel_drift.ledger import schema as tables

NUMBER = 2_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Path:
    """A ledger in which one result was copied until it held so many, half of them superseded."""
    file = tmp_path_factory.mktemp("large") / "ledger.sqlite3"
    shutil.copy(empty_ledger, file)
    with Ledger.open(file) as ledger:
        ledger.commit_unit(None, result(1, critical(1)), annotations, [])
        with ledger.database.writing() as connection:
            for table in (tables.unit, tables.finding, tables.evidence, tables.review):
                values = {column.name: column for column in table.columns}
                number = sa.literal_column("n.value")
                values["result_id"] = number
                if table is tables.unit:
                    values["unit_id"] = sa.literal_column("'copy-' || (n.value / 2)")
                    values["session_key"] = sa.literal_column("'copy-' || (n.value / 2)")
                    values["current"] = sa.literal_column("n.value % 2")
                if table is tables.review:
                    values["item_id"] = values["unit_id"] = sa.literal_column("'copy-' || n.value")
                if table in (tables.finding, tables.review):
                    values["event_id"] = sa.literal_column("'copied-' || n.value")
                numbers = sa.text(
                    f"WITH RECURSIVE n(value) AS (SELECT 2 UNION ALL SELECT value + 1 FROM n WHERE value < {NUMBER}) "
                    "SELECT value FROM n"
                ).columns(sa.column("value"))
                copied = sa.select(*[value.label(name) for name, value in values.items()]).select_from(
                    table.join(numbers.subquery("n"), sa.true())
                )
                connection.execute(sa.insert(table).from_select(list(values), copied.where(table.c.result_id == 1)))
            connection.execute(sa.text("ANALYZE"))
    return file


@pytest.fixture
def desk(large: Path) -> Iterator[Desk]:
    made = Desk(large)
    yield made
    made.close()


def test_no_statement_reads_a_whole_table(desk: Desk) -> None:
    plans: dict[str, list[str]] = {}

    @sa.event.listens_for(sa.Engine, "before_cursor_execute")
    def explain(_connection: object, cursor: object, statement: str, parameters: object, *_rest: object) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE")) and "otel_drift" in statement:
            raw = cursor.connection.cursor()  # type: ignore[attr-defined]
            raw.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans[statement] = [row[3] for row in raw.fetchall()]

    try:
        desk.commit(result(2, critical(2)))
        desk.step()
        plans.clear()
        desk.commit(result(3, critical(3)))
        plans.clear()
        desk.step()
        desk.commit(result(2, print_="clean"))
        plans.clear()
        desk.step()
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", explain)
    assert len(plans) >= 5
    whole = [
        (line, statement)
        for statement, lines in plans.items()
        for line in lines
        if line.startswith("SCAN")
        and "CONSTANT ROW" not in line
        and "subquery" not in line.lower()
        and "anon" not in line
    ]
    assert whole == []
