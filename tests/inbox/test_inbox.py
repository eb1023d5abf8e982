"""The inbox on SQLite: the contract of every inbox, and what a file, a disk or a kill can do to it."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from disk_quota import files_at_most
from inbox_contract import DAY, Clock, Desk, InboxContract, turn
from otel_drift.errors import LedgerError
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger, database

WORKER = Path(__file__).parents[1] / "inbox_worker.py"
KILLS = 40 if os.environ.get("OTEL_DRIFT_SOAK") else 4


class TestSqlite(InboxContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "ledger.sqlite3")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


def stored(file: Path) -> list[str]:
    """The ids of the traces kept, one a span."""
    with Ledger.open(file) as ledger:
        inbox = Inbox(ledger)
        claims = inbox.claim(
            "test", now=time.time_ns() + DAY, settle=0, cap=DAY, cap_spans=1, lease=1, limit=1_000_000
        )  # fmt: skip
        return [record.trace_id for claim in claims for record in inbox.records(claim, 0)]


def test_what_was_accepted_survives_a_kill(file: Path) -> None:
    """At random moments under load: what it said to have is there, whole; at most the calls under way are more."""
    rng = random.Random(3)
    accepted: set[int] = set()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(WORKER.parent), *sys.path])}
    for number in range(KILLS):
        command = [sys.executable, str(WORKER), str(file), str(1 + number * 1_000_000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            threading.Timer(rng.uniform(0.05, 0.4), process.kill).start()
            lines += process.stdout.readlines()
        accepted |= {int(line) for line in lines if line.endswith("\n")}

    kept: dict[int, int] = {}
    for trace in stored(file):
        kept[int(trace, 16)] = kept.get(int(trace, 16), 0) + 1
    assert accepted <= kept.keys()
    assert set(kept.values()) == {3}
    assert len(kept) - len(accepted) <= 3 * KILLS
    assert len(accepted) > 3 * KILLS
    with Ledger.open(file) as ledger:
        assert Desk(ledger, Clock()).counts().spans == 3 * len(kept)


def test_a_full_disk_is_told_and_what_comes_after_is_kept(file: Path) -> None:
    def big(number: int) -> list[object]:
        return [turn(number, "s", answer=random.Random(number).randbytes(20_000).hex())]

    with Ledger.open(file) as ledger:
        inbox = Inbox(ledger)
        accepted, refused = [], []
        with files_at_most(file.stat().st_size + 600_000):
            for number in range(1, 60):
                try:
                    inbox.add(big(number))  # type: ignore[arg-type]
                except LedgerError as error:
                    refused.append(str(error))
                else:
                    accepted.append(number)
        inbox.add(big(99))  # type: ignore[arg-type]
    assert accepted
    assert refused
    assert all(said.startswith(f"ledger {file} cannot be written: ") for said in refused)
    assert sorted(int(trace, 16) for trace in stored(file)) == sorted([*accepted, 99])


def test_a_full_disk_refuses_all_who_share_a_transaction(file: Path) -> None:
    with Ledger.open(file) as ledger:
        inbox = Inbox(ledger)
        inbox.add([turn(1, "s")])
        with ledger.database._engine.connect() as connection:
            pages = connection.execute(sa.text("PRAGMA page_count")).scalar()
            connection.connection.dbapi_connection.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[union-attr]
        outcomes = []

        def work(number: int) -> None:
            try:
                inbox.add([turn(number, "s", answer=random.Random(number).randbytes(9000).hex())])
            except LedgerError as error:
                outcomes.append(str(error))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == 4
    assert all("the disk is full; make room" in said for said in outcomes)
    assert stored(file) == [f"{1:032x}"]


def test_a_locked_database_is_told_and_the_next_call_works(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    with Ledger.open(file) as ledger:
        inbox = Inbox(ledger)
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another process has held it"):
            inbox.add([turn(1)])
        other.execute("ROLLBACK")
        other.close()
        assert inbox.add([turn(1)]) == 1
    assert stored(file) == [f"{1:032x}"]


def test_damaged_payload_is_told(file: Path) -> None:
    with Ledger.open(file) as ledger:
        desk = Desk(ledger, Clock())
        desk.inbox.add([turn(1, "s")])
        with ledger.database.writing() as connection:
            connection.execute(sa.text("UPDATE otel_drift_inbox_chunk SET payload = x'50DEAD'"))
        (claim,) = desk.later(desk.settle).claim()
        with pytest.raises(LedgerError, match=f"of trace {1:032x} cannot be read"):
            list(desk.inbox.records(claim, DAY))


def test_nothing_is_left_in_the_file_of_what_was_forgotten(file: Path) -> None:
    with Ledger.open(file) as ledger:
        desk = Desk(ledger, Clock())
        for number in range(1, 40):
            answer = random.Random(number).randbytes(2000).hex()
            desk.inbox.add([turn(number, "theirs" if number % 2 else "other", user=f"u{number % 2}", answer=answer)])
        desk.later(DAY).audit_all()
        with ledger.database.reading() as connection:
            payloads = connection.execute(sa.text("SELECT trace_number, payload FROM otel_drift_inbox_chunk")).all()

        assert desk.inbox.forget(user="u1") == 20

        left = b"".join(one.read_bytes() for one in file.parent.glob("ledger.sqlite3*"))
        for number, payload in payloads:
            assert (payload[200:400] in left) == (number % 2 == 0)
        assert b'"u1"' not in left
        assert b"theirs" not in left


def test_retention_lets_the_file_grow_no_further(file: Path) -> None:
    """Freed pages are used again."""
    sizes = []
    with Ledger.open(file) as ledger:
        desk = Desk(ledger, Clock())
        for day in range(8):
            for number in range(1, 21):
                answer = random.Random(100 * day + number).randbytes(4000).hex()
                desk.inbox.add([turn(100 * day + number, f"s{day}", answer=answer)])
            desk.later(DAY).audit_all()
            desk.inbox.forget(before=desk.clock.now - 2 * DAY)
            with ledger.database.reading() as connection:
                sizes.append(connection.execute(sa.text("PRAGMA page_count")).scalar_one())
    assert max(sizes[4:]) <= sizes[3] * 1.05
