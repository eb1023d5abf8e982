"""The ledger on PostgreSQL: the contract of every ledger, and what a server can do wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy as sa

from audit_budget_contract import AuditBudgetContract
from audit_duty_contract import AuditDutyContract
from inbox_contract import InboxContract
from ledger_contract import LedgerContract, commit
from ledger_desk_contract import DeskContract
from ledger_samples import finding, session, unit
from otel_drift.errors import LedgerError
from otel_drift.ledger import Ledger
from otel_drift.ledger.database import check_database

if TYPE_CHECKING:
    from conftest import PostgresCluster

pytestmark = pytest.mark.server("postgres")


@pytest.fixture
def place(postgres: PostgresCluster) -> str:
    return postgres.new_schema()


class TestPostgres(LedgerContract):
    @pytest.fixture
    def place(self, postgres: PostgresCluster) -> str:
        return postgres.new_schema()

    def test_a_broken_connection_is_replaced(self, ledger: Ledger, postgres: PostgresCluster) -> None:
        commit(ledger, unit(finding(3)))
        admin = sa.create_engine(postgres.url().replace("postgresql:", "postgresql+psycopg:"))
        with admin.connect() as connection:
            connection.execute(
                sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            )
        admin.dispose()

        assert ledger.find_unit("unit-1", "fingerprint-1", session()) is not None

    def test_a_connection_lost_while_it_is_asked_whether_it_lives_is_replaced(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The driver is left in the middle of that question, and says so instead of what happened."""
        commit(ledger, unit(finding(3)))
        real = psycopg.waiting.wait
        lost = []

        def wait(asking: Any, *args: Any, **options: Any) -> Any:
            if lost:
                return real(asking, *args, **options)
            try:
                lost.append(next(asking))
            except StopIteration as done:  # nothing was to be asked
                return done.value
            raise psycopg.OperationalError("connection socket closed")

        monkeypatch.setattr(psycopg.waiting, "wait", wait)

        assert ledger.find_unit("unit-1", "fingerprint-1", session()) is not None
        assert lost

    def test_tables_of_others_do_not_matter(self, place: str) -> None:
        engine = sa.create_engine(place.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE alembic_version (version_num TEXT)"))
            connection.execute(sa.text("INSERT INTO alembic_version VALUES ('theirs')"))
        engine.dispose()

        with Ledger.open(place) as ledger:
            commit(ledger, unit(finding(3)))


class TestPostgresInbox(InboxContract):
    @pytest.fixture
    def place(self, postgres: PostgresCluster) -> str:
        return postgres.new_schema()


class TestPostgresAudits(AuditDutyContract, AuditBudgetContract):
    @pytest.fixture
    def place(self, postgres: PostgresCluster) -> str:
        return postgres.new_schema()


class TestPostgresDesk(DeskContract):
    @pytest.fixture
    def place(self, postgres: PostgresCluster) -> str:
        return postgres.new_schema()


@pytest.mark.parametrize("prefix", ["postgresql", "postgresql+psycopg"])
def test_both_forms_of_the_url_work(postgres: PostgresCluster, prefix: str) -> None:
    with Ledger.open(postgres.new_schema().replace("postgresql", prefix, 1)) as ledger:
        commit(ledger, unit(finding(3)))
        assert "s3cret" not in ledger.name
        assert "drift:" not in ledger.name


def test_a_wrong_password_is_told_without_it(postgres: PostgresCluster) -> None:
    with pytest.raises(LedgerError, match="refused the user or password") as caught:
        Ledger.open(postgres.url(password="hunter2"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_all_text_is_told(postgres: PostgresCluster, encoding: str) -> None:
    import psycopg

    name = f"of_{encoding.lower()}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")  # type: ignore[arg-type]
    for look in (check_database, Ledger.open):
        with pytest.raises(LedgerError, match=rf"stores text as {encoding}: name a database made with ENCODING 'UTF8'"):
            look(postgres.url(name))


def test_a_server_whose_machine_is_gone_is_given_up_within_a_minute(place: str) -> None:
    with Ledger.open(place) as ledger, ledger.database.reading() as connection:
        driver: Any = connection.connection.dbapi_connection
        told = driver.info.get_parameters()
    waited = int(told["keepalives_idle"]) + int(told["keepalives_interval"]) * int(told["keepalives_count"])
    assert (waited, int(told["tcp_user_timeout"])) == (60, 60_000)


def test_the_url_may_say_otherwise(place: str) -> None:
    with Ledger.open(f"{place}&tcp_user_timeout=5000") as ledger, ledger.database.reading() as connection:
        driver: Any = connection.connection.dbapi_connection
        assert driver.info.get_parameters()["tcp_user_timeout"] == "5000"


def test_a_missing_database_is_told(postgres: PostgresCluster) -> None:
    with pytest.raises(LedgerError, match="the database or role does not exist"):
        Ledger.open(postgres.url("nowhere"))


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(LedgerError, match="no PostgreSQL server answers there") as caught:
        Ledger.open("postgresql://drift:hunter2@127.0.0.1:1/db")
    assert "hunter2" not in str(caught.value)
