"""The ledger on SQLite: the contract of every ledger, and what a file can do wrong."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger_contract import LedgerContract, commit, rows
from ledger_samples import ANSWER, TASK, finding, session, unit
from otel_drift.config import default_ledger
from otel_drift.errors import ConfigError, LedgerError
from otel_drift.ledger import Ledger
from otel_drift.protocols import AnswerCache


class TestSqlite(LedgerContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "ledger.sqlite3")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_only_the_owner_may_read_the_files(file: Path) -> None:
    before = os.umask(0)
    try:
        with Ledger.open(file) as ledger:
            commit(ledger, unit(finding(3)))
            with ledger.delivering("x"):
                made = sorted(file.parent.iterdir())
            assert len(made) == 4
            assert {0o600} == {mode(path) for path in made}
    finally:
        os.umask(before)


def test_the_users_own_ledger_is_in_a_private_folder() -> None:
    before = os.umask(0)
    try:
        with Ledger.open() as ledger:
            assert str(default_ledger()) == ledger.name
        assert (mode(default_ledger().parent), mode(default_ledger())) == (0o700, 0o600)
    finally:
        os.umask(before)


def test_paths_and_urls_name_the_same_file(file: Path) -> None:
    with Ledger.open(file) as ledger:
        ledger.remember("key", TASK, ANSWER)
    for where in (str(file), f"sqlite:///{file}"):
        with Ledger.open(where) as ledger:
            assert ledger.lookup("key") == ANSWER


def test_a_ledger_in_memory_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for where in (":memory:", "sqlite://"):
        with Ledger.open(where) as ledger:
            commit(ledger, unit(finding(3)))
            assert ledger.find_unit("unit-1", "fingerprint-1", session()) is not None
        with Ledger.open(where) as ledger:
            assert ledger.find_unit("unit-1", "fingerprint-1", session()) is None
    assert list(tmp_path.iterdir()) == []


def test_it_is_an_answer_cache(file: Path) -> None:
    with Ledger.open(file) as ledger:
        assert isinstance(ledger, AnswerCache)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"is a directory: name a file"):
        Ledger.open(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"missing.*its folder does not exist"):
        Ledger.open(tmp_path / "missing" / "ledger")


def test_a_file_of_another_kind_is_refused_and_left_alone(file: Path) -> None:
    file.write_text("customer,amount\n" * 1000)

    with pytest.raises(LedgerError, match="not a SQLite database"):
        Ledger.open(file)

    assert file.read_text() == "customer,amount\n" * 1000


def test_a_database_of_another_program_is_refused_and_left_alone(file: Path) -> None:
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE customers (name TEXT)")
    other.close()

    with pytest.raises(LedgerError, match="another program"):
        Ledger.open(file)

    other = sqlite3.connect(file)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]
    other.close()


def test_a_damaged_ledger_is_refused(file: Path) -> None:
    with Ledger.open(file) as ledger:
        commit(ledger, unit(finding(3)))
    content = bytearray(file.read_bytes())
    content[100:4096] = os.urandom(3996)
    file.write_bytes(content)

    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(file)


def test_a_read_only_ledger_is_refused() -> None:
    with _a_ledger_of_nobody() as file:
        file.chmod(0o444)
        with pytest.raises(LedgerError, match="cannot be opened for writing: Permission denied"):
            Ledger.open(file)


def test_a_read_only_folder_is_refused() -> None:
    with _a_ledger_of_nobody() as file:
        file.parent.chmod(0o555)
        with pytest.raises(LedgerError, match="folder is read-only"):
            Ledger.open(file)


def test_a_process_that_holds_the_ledger_for_too_long_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.open(file).close()
    monkeypatch.setattr("otel_drift.ledger.database.BUSY_SECONDS", 0.1)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with Ledger.open(file) as ledger:
        assert ledger.lookup("reading goes on") is None
        with pytest.raises(LedgerError, match="another process"):
            ledger.remember("key", TASK, ANSWER)
        other.close()
        ledger.remember("key", TASK, ANSWER)


def test_a_full_disk_is_told_and_what_was_committed_stays(file: Path) -> None:
    with Ledger.open(file) as ledger:
        commit(ledger, unit(finding(3)))
        with ledger._database.writing() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 5}")
        large = unit(finding(3), unit_id="unit-2", report={"text": "x" * 500_000})
        with pytest.raises(LedgerError, match=r"the disk is full; make room"):
            commit(ledger, large)

        assert ledger.find_unit("unit-1", "fingerprint-1", session()) is not None
        assert ledger.find_unit("unit-2", "fingerprint-1", session()) is None
        assert [
            tuple(row) for row in rows(ledger, "SELECT count(*) FROM otel_drift_contribution WHERE unit_id = 'unit-2'")
        ] == [(0,)]


def test_an_error_never_shows_trace_text(file: Path) -> None:
    with Ledger.open(file) as ledger:
        with ledger._database.writing() as connection:
            connection.exec_driver_sql("DROP TABLE otel_drift_finding")
        with pytest.raises(LedgerError) as caught:
            commit(ledger, unit(finding(3, explanation="private words")))

    chain: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__
    assert "private words" not in " ".join(chain)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://host/db", "not mysql"),
        ("postgresql://user:hun@ter2@host/db", "write it as %40"),
        ("postgresql://user:hunter2@host:port/db", "malformed"),
    ],
)
def test_a_wrong_url_is_explained_without_its_password(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Ledger.open(url)
    assert not {"hun", "ter2", "hunter2"} & set(re.split(r"\W", str(caught.value)))


def test_postgresql_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"otel-drift\[postgres\]"):
        Ledger.open("postgresql://127.0.0.1:1/db")


def test_the_expected_revision_is_the_migrations_head() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    from otel_drift.ledger.schema import REVISION

    config = Config()
    config.set_main_option("script_location", "otel_drift:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == REVISION


def test_an_up_to_date_ledger_opens_fast_and_without_alembic(file: Path) -> None:
    Ledger.open(file).close()
    code = (
        "import sys, otel_drift.ledger as l, otel_drift.delivery, otel_drift.findings\n"
        "print('sqlalchemy' in sys.modules)\n"
        f"l.Ledger.open({str(file)!r}).close(); print('alembic' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "False"]

    times = []
    for _ in range(5):
        began = time.process_time()
        Ledger.open(file).close()
        times.append(time.process_time() - began)
    assert min(times) < 0.1


@contextmanager
def _a_ledger_of_nobody() -> Iterator[Path]:
    """A closed ledger of an unprivileged user, with that user's rights: root may write everything."""
    folder = Path(tempfile.mkdtemp())
    file = folder / "ledger"
    Ledger.open(file).close()
    root = os.geteuid() == 0
    if root:
        for path in (folder, *folder.iterdir()):
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
    try:
        yield file
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_new_ledgers_may_be_opened_at_once_in_one_process(tmp_path: Path) -> None:
    """Two gates with ledgers of their own start together in one application."""
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def open_one(number: int) -> None:
        start.wait()
        try:
            Ledger.open(tmp_path / f"{number}.sqlite3").close()
        except BaseException as error:  # a test that must see everything
            failures.append(error)

    threads = [threading.Thread(target=open_one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


def test_no_statement_of_a_commit_reads_a_whole_table(file: Path) -> None:
    """What a unit costs must not grow with the ledger; SQLite says how it would find the rows."""
    import sqlalchemy as sa

    said: list[tuple[str, object]] = []
    with Ledger.open(file) as ledger:

        def note(_connection: object, _cursor: object, sql: str, values: object, *_more: object) -> None:
            said.append((sql, values))

        sa.event.listen(ledger._database._engine, "before_cursor_execute", note)
        one = unit(finding(3))
        for result in (one, one, unit(finding(2))):
            ledger.find_unit(result.unit_id, result.content_sha256, result.session)
            commit(ledger, result)
    plans: list[str] = []
    with sqlite3.connect(file) as connection:
        for sql, values in said:
            if isinstance(values, tuple):  # many rows at once are only added
                plans += [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    connection.close()

    assert [plan for plan in plans if plan.startswith("SEARCH otel_drift_unit ")]
    assert not [plan for plan in plans if plan.startswith("SCAN otel_drift")]
