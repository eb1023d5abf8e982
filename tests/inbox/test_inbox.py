"""The inbox on SQLite: the contract of every inbox, and what a file can do wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from inbox_contract import InboxContract


class TestSqlite(InboxContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "ledger.sqlite3")
