"""What people work with in Langfuse, over HTTP to the strict fake: review queue, set-up, comments; each made once."""

from __future__ import annotations

import copy
import importlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langfuse_desk import Desk
from langfuse_observations import recorded
from langfuse_scores import Scores
from langfuse_server import Limit, Reply, Server, langfuse_server
from ledger_desk_contract import commit, drifted
from ledger_samples import ref
from otel_drift import findings, retry, review_sync
from otel_drift.cli import app
from otel_drift.errors import ConfigError, PlatformError
from otel_drift.ledger import Ledger
from otel_drift.testing import sample_annotations, sample_spans
from otel_drift_connectors.langfuse.sink import LangfuseSink

OPENAPI = "contracts/langfuse-openapi-4.16.yml"
ROWS = "recorded/langfuse/sessions-all-fields/otel-genai-openai-hrleave-doctext.json"
ITEMS = "/api/public/annotation-queues/{queueId}/items"
AUDITS = ("factual_drift", "longform_drift")


@pytest.fixture
def server(shared: Path) -> Iterator[Server]:
    with retry.testing(), langfuse_server(shared / OPENAPI) as server:
        yield server


@pytest.fixture
def scores(server: Server) -> Scores:
    return Scores(server)


@pytest.fixture
def desk(server: Server, scores: Scores) -> Desk:
    return Desk(server, scores)


@pytest.fixture
def row(shared: Path) -> dict[str, Any]:
    """An observation as a real server gave it."""
    exchanges = recorded(shared / ROWS)["exchanges"]
    found: dict[str, Any] = next(e for e in exchanges if e["response"]["body"]["data"])["response"]["body"]["data"][0]
    return found


@pytest.fixture
def sink(server: Server) -> Iterator[LangfuseSink]:
    made = LangfuseSink(server.url, public_key=server.public_key, secret_key=server.secret_key)
    yield made
    made.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.sqlite3") as ledger:
        yield ledger


def holds(server: Server, row: dict[str, Any], *refs: str, session_id: str = "s1") -> None:
    """Put observations of these references on the server."""
    for one in refs:
        trace_id, _, span_id = one.partition(":")
        server.observations.add([{**copy.deepcopy(row), "traceId": trace_id, "id": span_id, "sessionId": session_id}])


class TestQueue:
    @pytest.fixture(autouse=True)
    def _queue(self, desk: Desk, sink: LangfuseSink) -> None:
        list(sink.set_up(AUDITS, queue="otel-drift"))

    def test_items_are_queued_once(self, server: Server, desk: Desk, sink: LangfuseSink, row: dict[str, Any]) -> None:
        """The server takes an item twice; two findings on one answer are one; done ones do not come again."""
        holds(server, row, ref(2), ref(3))
        items = [{"span_ref": ref(2)}, {"span_ref": ref(2)}, {"span_ref": ref(3)}]
        assert sink.review_queue().push(items) == (2, 0)
        desk.items[0]["status"] = "COMPLETED"
        assert sink.review_queue().push(items) == (0, 0)
        assert {(one["objectType"], one["objectId"]) for one in desk.items} == {
            ("OBSERVATION", ref(n).partition(":")[2]) for n in (2, 3)
        }

    def test_all_pages_of_a_queue_are_read(
        self, server: Server, desk: Desk, sink: LangfuseSink, row: dict[str, Any]
    ) -> None:
        refs = [f"{number:032x}:{number:016x}" for number in range(1, 231)]
        holds(server, row, *refs)
        assert sink.review_queue().push({"span_ref": one} for one in refs) == (230, 0)
        assert sink.review_queue().push({"span_ref": one} for one in refs) == (0, 0)
        assert len(desk.items) == 230

    def test_what_the_project_does_not_hold_stays_out(
        self, server: Server, desk: Desk, sink: LangfuseSink, row: dict[str, Any]
    ) -> None:
        """The server takes any id; the ledger holds results of other places too."""
        holds(server, row, ref(2))
        items = [{"span_ref": ref(2)}, {"span_ref": ref(9)}, {"session_id": "s1"}, {"session_id": "other"}]
        assert sink.review_queue().push(items) == (2, 2)
        assert {one["objectId"] for one in desk.items} == {ref(2).partition(":")[2], "s1"}

    def test_a_lost_answer_does_not_double_an_item(
        self, server: Server, desk: Desk, sink: LangfuseSink, row: dict[str, Any]
    ) -> None:
        holds(server, row, ref(2))

        def lose(request: Any) -> Reply | None:
            if request.method == "POST" and request.path.endswith("/items"):
                desk._item(replace(request, names={"queueId": desk.queues[0]["id"]}))
                return Reply(0)
            return None

        server.fault = lose
        with pytest.raises(PlatformError):
            sink.review_queue().push([{"span_ref": ref(2)}])
        server.fault = lambda _request: None
        assert sink.review_queue().push([{"span_ref": ref(2)}]) == (0, 0)
        assert len(desk.items) == 1

    def test_a_rate_limit_is_waited_for(
        self, server: Server, desk: Desk, sink: LangfuseSink, row: dict[str, Any]
    ) -> None:
        """A 429 was not done, so it is sent again; Hobby allows 100 a minute here."""
        refs = [f"{number:032x}:{number:016x}" for number in range(1, 31)]
        holds(server, row, *refs)
        server.limits[ITEMS] = Limit(allowed=20, seconds=60.0)
        assert sink.review_queue().push({"span_ref": one} for one in refs) == (30, 0)

    def test_verdicts_are_peoples_only(self, scores: Scores, desk: Desk, sink: LangfuseSink) -> None:
        trace_id, _, span_id = ref(2).partition(":")
        place = {"traceId": trace_id, "observationId": span_id}
        desk.decide("otel-drift", "factual_drift.review", "rejected", place, comment="The handbook says so.")
        scores.add(id="ours", name="factual_drift.review", value="confirmed", dataType="CATEGORICAL", **place)
        scores.add(id="else", name="helpful", value="yes", queueId=desk.queues[0]["id"], source="ANNOTATION", **place)
        (verdict,) = sink.review_queue().verdicts()
        assert (verdict.audit, verdict.span_ref, verdict.decision) == ("factual_drift", ref(2), "rejected")
        assert (verdict.by, verdict.why) == ("user-1", "The handbook says so.")
        assert abs(verdict.at - time.time_ns()) < 60e9

    def test_verdicts_come_in_pages(self, desk: Desk, sink: LangfuseSink) -> None:
        for number in range(120):
            place = {"traceId": f"{number:032x}", "observationId": f"{number:016x}"}
            desk.decide("otel-drift", "factual_drift.review", "confirmed", place)
        assert len(list(sink.review_queue().verdicts())) == 120

    def test_without_a_queue_it_says_how_to_make_one(self, sink: LangfuseSink) -> None:
        with pytest.raises(ConfigError, match="otel-drift setup langfuse --queue 'nope'"):
            sink.review_queue("nope").push([])


class TestExchange:
    """Review on the platform and in the ledger brought together."""

    @pytest.fixture(autouse=True)
    def _queue(self, desk: Desk, sink: LangfuseSink) -> None:
        list(sink.set_up(AUDITS, queue="otel-drift"))

    def decided(self, desk: Desk, item: dict[str, Any], value: str) -> None:
        trace_id, _, span_id = item["span_ref"].partition(":")
        desk.decide("otel-drift", "factual_drift.review", value, {"traceId": trace_id, "observationId": span_id})

    def test_there_and_back(
        self, server: Server, desk: Desk, sink: LangfuseSink, ledger: Ledger, row: dict[str, Any]
    ) -> None:
        commit(ledger, drifted())
        (item, *_) = ledger.review_items(("open",))
        holds(server, row, item["span_ref"])
        first = review_sync.exchange(ledger, sink.review_queue())
        assert (first.added, first.decided) == (1, ())
        time.sleep(0.002)
        self.decided(desk, item, "rejected")
        (decided,) = review_sync.exchange(ledger, sink.review_queue()).decided
        assert (decided["item_id"], decided["status"]) == (item["item_id"], "rejected")
        assert decided["resolved"]["by"] == "user-1"
        again = review_sync.exchange(ledger, sink.review_queue())
        assert (again.added, again.decided) == (0, ())

    def test_a_later_decision_here_stands(self, desk: Desk, sink: LangfuseSink, ledger: Ledger) -> None:
        commit(ledger, drifted())
        (item, *_) = ledger.review_items(("open",))
        self.decided(desk, item, "rejected")
        time.sleep(0.002)
        ledger.resolve(item["item_id"], "confirmed", by="me", why="looked again")
        assert review_sync.exchange(ledger, sink.review_queue()).decided == ()
        assert ledger.review_item(item["item_id"])["status"] == "confirmed"

    def test_a_verdict_about_nothing_known_is_counted(self, desk: Desk, sink: LangfuseSink, ledger: Ledger) -> None:
        self.decided(desk, {"span_ref": ref(77)}, "confirmed")
        assert review_sync.exchange(ledger, sink.review_queue()).unmatched == 1


def test_set_up_twice_changes_nothing(server: Server, desk: Desk, sink: LangfuseSink) -> None:
    """Configs, widgets and dashboards of one name could be made again and again."""
    first = list(sink.set_up(AUDITS, queue="otel-drift", dashboard=True))
    posts = [one.path for one in server.requests if one.method == "POST"]
    second = list(sink.set_up(AUDITS, queue="otel-drift", dashboard=True))
    assert [one.path for one in server.requests if one.method == "POST"] == posts
    assert sum(line.endswith(": made") for line in first) == 3 + 1 + 1 + 4
    assert not [line for line in second if line.endswith(": made")]
    assert len(desk.boards[0]["definition"]["widgets"]) == 4
    assert desk.queues[0]["scoreConfigIds"] == [one["id"] for one in reversed(desk.configs[:2])]
    assert any("value any of CRITICAL" in line for line in second)


def test_configs_beyond_the_first_page_are_seen(server: Server, desk: Desk, sink: LangfuseSink) -> None:
    list(sink.set_up(AUDITS))
    kept = desk.configs[0]
    desk.configs[:0] = [{**kept, "id": f"c{number}", "name": f"other {number}"} for number in range(150)]
    assert next(iter(sink.set_up(AUDITS))) == "score config drift_severity: is there"


def test_a_queue_without_our_scores_is_told(desk: Desk, sink: LangfuseSink) -> None:
    """A queue cannot be changed by API."""
    list(sink.set_up(AUDITS[:1], queue="otel-drift"))
    (line,) = [one for one in sink.set_up(AUDITS, queue="otel-drift") if one.startswith("annotation queue")]
    assert "without the scores longform_drift.review" in line


def test_a_server_without_dashboards_says_so(server: Server, desk: Desk, sink: LangfuseSink) -> None:
    desk.dashboards = False
    assert any("by hand" in line for line in sink.set_up(AUDITS, dashboard=True))


class TestComments:
    @pytest.fixture
    def talking(self, server: Server, desk: Desk) -> Iterator[LangfuseSink]:
        keys = {"public_key": server.public_key, "secret_key": server.secret_key}
        made = LangfuseSink(server.url, comments=True, **keys)
        yield made
        made.close()

    def test_one_comment_an_answer_and_audit(self, desk: Desk, scores: Scores, talking: LangfuseSink) -> None:
        made = sample_annotations(sample_spans())
        answer = next(one for one in made if one.target == "span")
        desk.readable.add(answer.span_id or "")
        talking.write(made)
        scores.settle()
        talking.write(made)
        (comment,) = desk.comments
        assert (comment["objectType"], comment["objectId"]) == ("OBSERVATION", answer.span_id)

    def test_trace_text_is_only_text(self, desk: Desk, scores: Scores, talking: LangfuseSink) -> None:
        """No image to load, no link, no mention; at most 5,000 characters."""
        hostile = "![x](https://evil.example/a.png) <img src=x> @[me](user:1) www.evil.example " + "*" * 6000
        (answer, *_) = [replace(one, explanation=hostile) for one in sample_annotations(sample_spans())]
        desk.readable.add(answer.span_id or "")
        talking.write([answer])
        content = desk.comments[0]["content"]
        assert len(content) <= 5000
        body = content.split("\n\n")[1]
        assert re.sub(r"\\[^\w\s]", "", body).replace(" ", "").isalnum(), "punctuation that is not escaped"

    def test_an_answer_that_cannot_be_read_yet_stays_owed(
        self, desk: Desk, scores: Scores, talking: LangfuseSink
    ) -> None:
        (answer, *others) = sample_annotations(sample_spans())
        report = talking.write([answer, *others])
        assert [(one.annotation_id, one.retryable) for one in report.rejected] == [(answer.id, True)]
        desk.readable.add(answer.span_id or "")
        scores.settle()
        assert set(talking.write([answer]).unchanged) == {answer.id}
        assert len(desk.comments) == 1

    def test_none_unless_asked_for(self, server: Server, desk: Desk, sink: LangfuseSink) -> None:
        sink.write(sample_annotations(sample_spans()))
        assert server.count("/api/public/comments", "POST") == 0


class TestCommands:
    @pytest.fixture
    def run(self, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
        for command in ("setup", "review_sync"):
            importlib.import_module(f"otel_drift.cli.{command}")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", server.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", server.secret_key)
        monkeypatch.setenv("LANGFUSE_BASE_URL", server.url)
        return lambda *words: CliRunner().invoke(app, words)

    def test_setup_and_review_sync(
        self,
        server: Server,
        desk: Desk,
        scores: Scores,
        sink: LangfuseSink,
        run: Callable[..., Any],
        tmp_path: Path,
        row: dict[str, Any],
    ) -> None:
        """A rejection made in Langfuse sets what the machine said there to NONE."""
        said = run("setup", "langfuse", "--queue", "otel-drift", "--dashboard")
        assert said.exit_code == 0, said.output
        assert "annotation queue otel-drift: made" in said.stdout
        file = str(tmp_path / "l.sqlite3")
        with Ledger.open(file) as ledger:
            ledger.commit_unit(None, drifted(), findings.annotations, [sink.name])
            items = ledger.review_items(("open", "triage"))
        holds(server, row, *(one["span_ref"] for one in items if one["span_ref"]))
        first = run("review", "sync", "langfuse", "--ledger", file, "--triage")
        assert first.exit_code == 0, first.output
        assert "added to the queue, 0 decided there" in first.output
        time.sleep(0.002)
        for one in items:
            if one["span_ref"]:
                trace_id, _, span_id = one["span_ref"].partition(":")
                place = {"traceId": trace_id, "observationId": span_id}
                desk.decide("otel-drift", "factual_drift.review", "rejected", place)
        second = run("review", "sync", "langfuse", "--ledger", file)
        assert second.exit_code == 0, second.output
        assert "rejected by user-1" in second.output
        severities = [r["value"] for r in scores.rows() if r["name"] == "drift_severity" and r["source"] == "API"]
        assert severities
        assert set(severities) == {"NONE"}

    def test_a_platform_without_review_says_so(self, run: Callable[..., Any]) -> None:
        assert run("review", "sync", "jsonl:x.jsonl").exit_code == 2
        assert run("setup", "jsonl:x.jsonl").exit_code == 2
