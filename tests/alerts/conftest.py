"""Desks on ledgers that are copies of one empty one: to migrate a new one takes a while."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alerting import Desk, Remembering
from otel_drift.ledger import Ledger


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ledger") / "empty.sqlite3"
    Ledger.open(file).close()
    return file


@pytest.fixture
def open_desk(tmp_path: Path, empty_ledger: Path) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def opened(*alerters: Remembering, **options: Any) -> Desk:
        file = tmp_path / f"ledger-{len(made)}.sqlite3"
        shutil.copy(empty_ledger, file)
        made.append(Desk(file, *alerters, **options))
        return made[-1]

    yield opened
    for desk in made:
        desk.close()
