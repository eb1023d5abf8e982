"""Audits of the service on SQLite: what holds on any database."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit_budget_contract import AuditBudgetContract
from audit_duty_contract import AuditDutyContract


class TestSqlite(AuditDutyContract, AuditBudgetContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "ledger.sqlite3")
