"""From the ledger to Langfuse and again: what a second run, a new turn and a new prompt leave; the whole command."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langfuse_scores import Scores
from langfuse_server import Reply, Server, langfuse_server
from ledger_samples import PROMPT, finding, ref, unit
from otel_drift import findings, retry
from otel_drift.cli import app
from otel_drift.delivery import deliver
from otel_drift.ledger import Ledger
from otel_drift.model import Unit
from otel_drift_connectors.langfuse.scores import SUPERSEDED
from otel_drift_connectors.langfuse.sink import LangfuseSink

OPENAPI = "contracts/langfuse-openapi-4.16.yml"
INGESTION = "/api/public/ingestion"


@pytest.fixture
def server(shared: Path) -> Iterator[Server]:
    with retry.testing(), langfuse_server(shared / OPENAPI) as server:
        yield server


@pytest.fixture
def scores(server: Server) -> Scores:
    return Scores(server)


class Runs:
    """Runs of otel-drift over the same ledger and project, hours apart."""

    def __init__(self, server: Server, ledger: Ledger) -> None:
        self.at = datetime(2026, 11, 30, 12, tzinfo=UTC)
        self._server = server
        self._ledger = ledger

    def audited(self, one: Unit) -> list[str]:
        """Commit a result and deliver; what went wrong."""
        self.at += timedelta(hours=2)
        with self._sink() as sink:
            self._ledger.commit_unit(None, one, findings.annotations, [sink.name])
            return deliver(self._ledger, {sink.name: sink}).problems

    def delivered(self) -> list[str]:
        with self._sink() as sink:
            return deliver(self._ledger, {sink.name: sink}).problems

    @contextmanager
    def _sink(self) -> Iterator[LangfuseSink]:
        keys = {"public_key": self._server.public_key, "secret_key": self._server.secret_key}
        sink = LangfuseSink(self._server.url, clock=lambda: self.at.timestamp(), **keys)
        yield sink
        sink.close()


@pytest.fixture
def runs(server: Server, tmp_path: Path) -> Iterator[Runs]:
    with Ledger.open(tmp_path / "ledger.sqlite3") as ledger:
        yield Runs(server, ledger)


def standing(scores: Scores) -> dict[tuple[str, str], str]:
    """Kind of subject and id, with the name: its one current value."""
    found = [((row["subject"]["id"], row["name"]), row["value"]) for row in scores.rows() if row["value"] != SUPERSEDED]
    assert len(dict(found)) == len(found), "a place has two current values"
    return dict(found)


def test_a_second_run_writes_nothing(server: Server, scores: Scores, runs: Runs) -> None:
    assert runs.audited(unit(finding(3))) == []
    written = standing(scores)
    assert runs.audited(unit(finding(3))) == []
    assert standing(scores) == written
    assert server.count(INGESTION, "POST") == 1


def test_a_clean_session_costs_two_scores(scores: Scores, runs: Runs) -> None:
    runs.audited(unit())
    assert standing(scores) == {("s1", "factual_drift"): "NONE", ("s1", "drift_severity"): "NONE"}


def test_a_new_turn_that_makes_it_worse_is_in_the_monitors_window(scores: Scores, runs: Runs) -> None:
    """The session was MINOR for hours; its CRITICAL counts in the 15 minutes after it was found."""
    runs.audited(unit(finding(3, severity="MINOR")))
    runs.audited(unit(finding(3, severity="MINOR"), finding(4, severity="CRITICAL")))
    since = (runs.at - timedelta(minutes=15)).isoformat().replace("+00:00", "Z")
    counted = [row for row in scores.rows() if row["timestamp"] >= since and row["value"] == "CRITICAL"]
    kinds = {row["subject"]["kind"] for row in counted if row["name"] == "drift_severity"}
    assert kinds == {"observation", "trace", "session"}
    assert standing(scores)["s1", "drift_severity"] == "CRITICAL"


def test_a_finding_that_vanishes_is_withdrawn(scores: Scores, runs: Runs) -> None:
    runs.audited(unit(finding(3)))
    assert runs.audited(unit()) == []
    assert set(standing(scores).values()) == {"NONE"}
    assert runs.audited(unit(finding(3))) == []
    assert standing(scores)[ref(3).partition(":")[2], "drift_severity"] == "MAJOR"


def test_a_new_prompt_version_changes_in_place(scores: Scores, runs: Runs) -> None:
    runs.audited(unit(finding(3)))
    before = standing(scores)
    runs.audited(unit(finding(3), prompts=(replace(PROMPT, version="v2"),)))
    assert standing(scores) == before
    rows = scores.rows()
    assert len(rows) == len(before), "the version is no part of an id"
    assert {row["metadata"]["prompts"][0]["version"] for row in rows} == {"v2"}


def test_a_server_that_is_down_delays_and_loses_nothing(server: Server, scores: Scores, runs: Runs) -> None:
    server.fault = lambda _request: Reply(0)
    (problem,) = runs.audited(unit(finding(3)))
    assert "cannot be reached" in problem
    assert "stay owed" in problem
    server.fault = lambda _request: None
    assert runs.delivered() == []
    assert standing(scores)["s1", "drift_severity"] == "MAJOR"


def test_what_was_accepted_and_lost_is_written_by_the_next_run(scores: Scores, runs: Runs) -> None:
    scores.swallow_names = {"drift_severity"}
    problems = runs.audited(unit(finding(3)))
    assert any("next run tries again" in one for one in problems)
    scores.swallow_names = set()
    assert runs.delivered() == []
    assert standing(scores)["s1", "drift_severity"] == "MAJOR"


class TestCommand:
    @pytest.fixture
    def run(self, server: Server, shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
        importlib.import_module("otel_drift.cli.audit")
        server.observations.add_recorded(shared / "recorded/langfuse/sessions-all-fields")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", server.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", server.secret_key)
        monkeypatch.setenv("LANGFUSE_BASE_URL", server.url)
        return lambda *words: CliRunner().invoke(app, [*words, "--ledger", str(tmp_path / "l.sqlite3")])

    def test_sessions_in_and_scores_there_twice_the_same(
        self, server: Server, scores: Scores, run: Callable[..., Any]
    ) -> None:
        words = ("audit", "langfuse", "--since", "2026-11-27", "--until", "2026-11-28", "--min-turns", "3")
        first = run(*words)
        assert first.exit_code in (0, 5), first.output
        written = standing(scores)
        assert ("sess-telecom-7f31-langfuse-observe", "drift_severity") in written
        posts = server.count(INGESTION, "POST")
        second = run(*words)
        assert second.exit_code == first.exit_code, second.output
        assert standing(scores) == written
        assert server.count(INGESTION, "POST") == posts + 1, "a check's empty batch, and nothing else"

    def test_a_dry_run_writes_nothing(self, server: Server, scores: Scores, run: Callable[..., Any]) -> None:
        done = run("audit", "langfuse", "--since", "2026-11-27", "--until", "2026-11-28", "--dry-run")
        assert done.exit_code == 0, done.output
        assert scores.events == {}
