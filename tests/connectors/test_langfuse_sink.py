"""Writing to Langfuse, over HTTP to the strict fake: one current value, read back; each trap we touch is a test."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from langfuse_scores import Scores
from langfuse_server import Limit, Reply, Server, langfuse_server, rate_limited
from otel_drift import retry
from otel_drift.errors import ConfigError, PlatformError
from otel_drift.model import Annotation, WriteReport
from otel_drift.testing import SinkCase, check_sink, sample_annotations, sample_spans
from otel_drift_connectors.langfuse.scores import SUPERSEDED
from otel_drift_connectors.langfuse.sink import LangfuseSink

OPENAPI = "contracts/langfuse-openapi-4.16.yml"
INGESTION, LIST, READ = "/api/public/ingestion", "/api/public/scores", "/api/public/v3/scores"
TRACE, SPAN = "a" * 32, "b" * 16
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def waits() -> Iterator[list[float]]:
    with retry.testing() as waits:
        yield waits


@pytest.fixture
def server(shared: Path, waits: list[float]) -> Iterator[Server]:
    with langfuse_server(shared / OPENAPI) as server:
        yield server


@pytest.fixture
def scores(server: Server) -> Scores:
    return Scores(server)


class Clock:
    """The wall clock of the machine that writes."""

    def __init__(self) -> None:
        self.at = START.timestamp()

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_sink(server: Server, clock: Clock) -> Iterator[Callable[..., LangfuseSink]]:
    opened: list[LangfuseSink] = []

    def make(**options: Any) -> LangfuseSink:
        keys = {"public_key": server.public_key, "secret_key": server.secret_key, "clock": clock}
        opened.append(LangfuseSink(server.url, **{**keys, **options}))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def finding(label: str = "MAJOR", name: str = "drift_severity", **other: Any) -> Annotation:
    given: dict[str, Any] = {
        "id": hashlib.sha256(f"{name} {other.get('target')}".encode()).hexdigest()[:32],
        "revision": 1,
        "name": name,
        "target": "span",
        "trace_id": TRACE,
        "span_id": SPAN,
        "session_id": "session-1",
        "label": label,
        "score": 0.7,
        "explanation": "Turn 3 contradicts turn 1.",
        "audit": "factual_drift",
        "start": 1_790_000_000_000_000_000,
        "end": 1_790_000_005_000_000_000,
        "metadata": {"event_ids": ["e1"], "severity": label, "types": ["CONTRADICTION"]},
        "environment": "production",
    }
    return Annotation(**{**given, **other})


def withdrawn(one: Annotation, revision: int = 2) -> Annotation:
    """As the ledger hands it out."""
    return replace(one, revision=revision, label="withdrawn", score=None, explanation=None, withdrawn=True, metadata={})


def deliver(sink: LangfuseSink, *annotations: Annotation) -> WriteReport:
    report = sink.write(annotations)
    accepted = [one for one in annotations if one.id in report.written]
    read_back = sink.confirm(accepted) if accepted else WriteReport()
    return WriteReport(read_back.written, report.unchanged, (*report.rejected, *read_back.rejected))


def values(scores: Scores) -> dict[str, Any]:
    return {row["id"]: row["value"] for row in scores.rows()}


def current(scores: Scores) -> list[dict[str, Any]]:
    return [row for row in scores.rows() if row["value"] != SUPERSEDED]


def test_a_finding_becomes_a_score_of_its_place(scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    one = finding()
    assert deliver(open_sink(), one).written == (one.id,)
    (row,) = scores.rows()
    assert (row["id"], row["name"], row["dataType"], row["value"]) == (one.id, one.name, "CATEGORICAL", "MAJOR")
    assert row["subject"] == {"kind": "observation", "id": SPAN, "traceId": TRACE}
    assert row["comment"] == one.explanation
    assert row["environment"] == "production"
    assert row["configId"] is None
    assert row["metadata"]["event_ids"] == ["e1"]
    assert row["metadata"]["turn_started"] == "2026-09-21T14:13:20.000Z"
    assert row["timestamp"] == "2026-11-30T12:00:00.000Z", "the time of writing: a monitor's window is about that"


def test_targets_are_exactly_one_each(server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    """A session's score carries only its session id, a trace's only its trace id."""
    made = [finding(target=target) for target in ("span", "trace", "session")]
    deliver(open_sink(), *made)
    sent = [event["body"] for one in server.requests if one.path == INGESTION for event in one.body["batch"]]
    keys = [sorted(set(body) & {"traceId", "observationId", "sessionId", "datasetRunId"}) for body in sent]
    assert keys == [["observationId", "traceId"], ["traceId"], ["sessionId"]]


def test_without_the_id_of_its_target_it_is_refused_alone(
    scores: Scores, open_sink: Callable[..., LangfuseSink]
) -> None:
    lost, other = finding(span_id=None), finding(name="factual_drift")
    report = deliver(open_sink(), lost, other)
    assert report.written == (other.id,)
    assert [(one.annotation_id, one.retryable) for one in report.rejected] == [(lost.id, False)]


def test_a_raw_score_is_numeric_and_withdrawn_to_zero(scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    """The data type of a name never changes: numbers and labels are different views in charts."""
    one = finding("severe", "longform_drift.score", score=0.62, audit="longform_drift")
    deliver(open_sink(), one)
    assert [(row["dataType"], row["value"]) for row in scores.rows()] == [("NUMERIC", 0.62)]
    deliver(open_sink(), withdrawn(one))
    assert [(row["dataType"], row["value"]) for row in scores.rows()] == [("NUMERIC", 0.0)]


def test_written_twice_is_sent_once(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock
) -> None:
    """Also by a process that remembers nothing."""
    one = finding()
    deliver(open_sink(), one)
    clock.at += 3600
    assert deliver(open_sink(), one).unchanged == (one.id,)
    assert server.count(INGESTION, "POST") == 1


def test_a_crash_before_settling_leaves_one_value(scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    """What was accepted cannot be read yet when the next process writes it again."""
    one = finding()
    open_sink().write([one])
    assert scores.rows() == []
    assert deliver(open_sink(), one).written == (one.id,)
    assert values(scores) == {one.id: "MAJOR"}


def test_a_worse_value_is_a_new_score_with_a_time_of_its_own(
    scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock
) -> None:
    """An update never moves a score's time, so that a monitor over the last 15 minutes would not count it."""
    one = finding("MINOR")
    deliver(open_sink(), one)
    clock.at += 7200
    worse = replace(one, revision=2, label="CRITICAL", score=1.0)
    deliver(open_sink(), worse)
    counted = [r for r in scores.rows() if r["value"] == "CRITICAL" and r["timestamp"] >= "2026-11-30T13:45"]
    assert len(counted) == 1
    assert values(scores) == {one.id: SUPERSEDED, f"{one.id}-1": "CRITICAL"}
    assert deliver(open_sink(), worse).unchanged == (one.id,)


def test_a_milder_value_is_an_update_in_place(
    scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock
) -> None:
    """Nobody is alerted again, and it keeps its time."""
    one = finding("CRITICAL")
    deliver(open_sink(), one)
    clock.at += 7200
    deliver(open_sink(), replace(one, revision=2, label="MINOR"))
    (row,) = scores.rows()
    assert (row["value"], row["timestamp"]) == ("MINOR", "2026-11-30T12:00:00.000Z")


def test_up_and_down_and_up_again_is_seen_each_time(
    scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock
) -> None:
    one = finding()
    for revision, label in enumerate(("NONE", "CRITICAL", "NONE", "MINOR", "CRITICAL", "NONE", "MAJOR"), 1):
        clock.at += 3600
        deliver(open_sink(), replace(one, revision=revision, label=label))
        (row,) = current(scores)
        assert row["value"] == label
        if label not in ("NONE",):
            assert row["timestamp"] == datetime.fromtimestamp(clock.at, UTC).isoformat(timespec="milliseconds").replace(
                "+00:00", "Z"
            )


def test_another_type_is_news_too(scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock) -> None:
    one = finding("DROPPED_QUALIFICATION", "contradiction_type", score=None)
    deliver(open_sink(), one)
    clock.at += 3600
    deliver(open_sink(), replace(one, revision=2, label="CONTRADICTION"))
    assert [(row["value"], row["timestamp"]) for row in current(scores)] == [
        ("CONTRADICTION", "2026-11-30T13:00:00.000Z")
    ]


def test_what_is_withdrawn_becomes_none(scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock) -> None:
    one = finding()
    deliver(open_sink(), one)
    clock.at += 60
    assert deliver(open_sink(), withdrawn(one)).written == (one.id,)
    (row,) = scores.rows()
    assert row["value"] == "NONE"
    assert "Withdrawn" in row["comment"], "a comment that is left out would keep saying what was found"
    assert row["metadata"]["withdrawn"] is True


def test_metadata_of_an_older_value_do_not_shine_through(
    scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock
) -> None:
    """The server merges metadata and never drops a key."""
    one = finding()
    deliver(open_sink(), one)
    clock.at += 60
    deliver(open_sink(), withdrawn(one))
    left = {key for key, value in scores.rows()[0]["metadata"].items() if value is not None}
    assert left.isdisjoint({"event_ids", "types", "severity", "score"})


def test_a_clock_behind_that_of_the_last_writer_still_wins(
    scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock
) -> None:
    """An update with an older time is accepted and loses (measured)."""
    one = finding("CRITICAL")
    deliver(open_sink(), one)
    clock.at -= 600
    milder = replace(one, revision=2, label="MINOR")
    assert deliver(open_sink(), milder).written == (one.id,)
    assert values(scores) == {one.id: "MINOR"}


def test_a_time_far_ahead_is_not_believed(scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    """Or one wrong clock would put every later score where no monitor looks; that this value stays is told."""
    one = finding("CRITICAL")
    deliver(open_sink(clock=lambda: START.timestamp() + 90 * 86_400), one)
    report = deliver(open_sink(), replace(one, revision=2, label="MINOR"))
    assert [(r.retryable, "another value" in r.reason) for r in report.rejected] == [(True, True)]


def test_times_of_writing_rise_within_a_batch(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
) -> None:
    """Of equal times in one batch the first stays (measured); the clock here stands still."""
    deliver(open_sink(), *(finding(name=f"name-{number}") for number in range(5)))
    times = [event["timestamp"] for one in server.requests if one.path == INGESTION for event in one.body["batch"]]
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("Production", "production"),
        ("LangfuseX", "x"),
        ("e" * 41, "e" * 40),
        ("my env", "default"),
        ("langfuse", "default"),
        (None, "default"),
    ],
)
def test_the_environment_is_what_the_server_makes_of_it(
    given: str | None, stored: str, server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
) -> None:
    deliver(open_sink(), finding(environment=given))
    assert scores.rows()[0]["environment"] == stored
    sent = next(one.body["batch"][0]["body"] for one in server.requests if one.path == INGESTION)
    assert sent.get("environment", "default") == stored


def test_what_others_wrote_stays(scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    """People's scores of the same name on the same observation are no values of ours."""
    place = {"traceId": TRACE, "observationId": SPAN}
    scores.add(id="theirs", name="drift_severity", value="MINOR", source="ANNOTATION", **place)
    scores.add(id="rating", name="helpful", value=1, dataType="BOOLEAN", **place)
    before = [row for row in scores.rows() if row["id"] in ("theirs", "rating")]
    one = finding()
    for revision, label in enumerate(("MINOR", "CRITICAL", "MAJOR"), 1):
        deliver(open_sink(), replace(one, revision=revision, label=label))
    deliver(open_sink(), withdrawn(one, 4))
    assert [row for row in scores.rows() if row["id"] in ("theirs", "rating")] == before


def test_of_a_batch_only_what_is_refused_is_refused(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
) -> None:
    """207: each event has its own fate; what failed on the server may come again."""
    good, bad, busy = finding(), finding(name="bad"), finding(name="busy")
    scores.refuse_names, scores.overloaded_names = {"bad"}, {"busy"}
    report = deliver(open_sink(), good, bad, busy)
    assert report.written == (good.id,)
    assert {(one.annotation_id, one.retryable) for one in report.rejected} == {(bad.id, False), (busy.id, True)}
    assert "body.value: Refused" in next(one.reason for one in report.rejected if not one.retryable)


def test_accepted_and_never_stored_is_owed(
    scores: Scores, open_sink: Callable[..., LangfuseSink], waits: list[float]
) -> None:
    """201 says nothing about being stored: what cannot be read in time is tried again."""
    one, lost = finding(), finding(name="lost")
    scores.swallow_names = {"lost"}
    report = deliver(open_sink(), one, lost)
    assert report.written == (one.id,)
    assert [(r.annotation_id, r.retryable) for r in report.rejected] == [(lost.id, True)]
    assert 80 < sum(waits) <= 90


def test_around_midnight_it_waits_twice_as_long(
    scores: Scores, open_sink: Callable[..., LangfuseSink], waits: list[float], clock: Clock
) -> None:
    for hour, minute in ((23, 46), (0, 14)):
        waits.clear()
        clock.at = START.replace(hour=hour, minute=minute).timestamp()
        scores.swallow_names = {"lost"}
        deliver(open_sink(), finding(name="lost"))
        assert 165 < sum(waits) <= 180
        scores.delay = 23.0
        assert len(deliver(open_sink(), finding(name=f"at-{hour}")).written) == 1


def test_reading_back_asks_only_for_what_is_missing(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
) -> None:
    """A thousand values: eleven batches of a hundred at most, and ten reads a look."""
    made = [finding(name=f"name-{number}") for number in range(250)]
    assert len(deliver(open_sink(), *made).written) == 250
    assert server.count(INGESTION, "POST") == 3
    assert server.count(READ) == 3 + 2 * 3, "looked up once, and read back at 5 and 15 s"
    assert max(len(dict(one.query)["id"].split(",")) for one in server.requests if one.path == READ) == 100


def test_batches_stay_under_the_servers_limit(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
) -> None:
    made = [finding(name=f"name-{number}", explanation="ä" * 60_000) for number in range(60)]
    assert len(deliver(open_sink(), *made).written) == 60
    sizes = [len(one.raw) for one in server.requests if one.path == INGESTION]
    assert len(sizes) == 2
    assert max(sizes) < 4_500_000


def test_a_batch_that_is_too_large_after_all_is_halved(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
) -> None:
    """A proxy may allow less; one score that is too large alone is refused alone."""
    server.fault = lambda r: Reply(413, "too large") if r.path == INGESTION and len(r.raw) > 20_000 else None
    made = [finding(name=f"name-{number}") for number in range(40)]
    report = deliver(open_sink(), *made, huge := finding(name="huge", explanation="x" * 30_000))
    assert set(report.written) == {one.id for one in made}
    assert [(one.annotation_id, one.retryable) for one in report.rejected] == [(huge.id, False)]


def test_no_body_is_compressed(server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    """Gzip is answered with 400 (measured)."""
    deliver(open_sink(), *(finding(name=f"name-{number}") for number in range(100)))
    assert not any("content-encoding" in one.headers for one in server.requests)


def test_a_rate_limit_is_waited_for(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink], waits: list[float]
) -> None:
    """Hobby: 30 requests a minute for reads; each is counted, so they go a hundred ids at once."""
    server.limits[READ] = Limit(allowed=3, seconds=60.0)
    made = [finding(name=f"name-{number}") for number in range(400)]
    assert len(deliver(open_sink(), *made).written) == 400
    assert max(waits) > 40


def test_a_limit_of_hours_is_not_waited_for(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink], waits: list[float]
) -> None:
    server.fault = lambda r: rate_limited(40_000) if r.path == INGESTION else None
    with pytest.raises(PlatformError, match="slow down"):
        open_sink().write([finding()])
    assert sum(waits) < 120


def test_text_no_server_takes_is_made_plain(scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    one = finding(explanation="a\ud800b\x00c", metadata={"x": float("nan"), "y": ("\udfff", {1: 2}), "z": b"q"})
    assert deliver(open_sink(), one).written == (one.id,)
    (row,) = scores.rows()
    assert row["comment"] == "a?bc"
    assert row["metadata"]["y"] == ["?", {"1": 2}]
    assert deliver(open_sink(), one).unchanged == (one.id,)


class TestRoutes:
    """SDK 5 sends a list, which a server before 4.59 refuses while the SDK says nothing: never that way."""

    def test_no_list_to_a_server_of_today(
        self, server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
    ) -> None:
        for version in ("4.0.0", "4.16.0", "4.58.9", "4.59.0"):
            server.version = version
            deliver(open_sink(), finding(name=f"on-{version}"))
        assert server.count(LIST, "POST") == 0
        assert len(scores.rows()) == 4

    def test_a_list_where_there_is_no_ingestion_any_more(
        self, server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink], clock: Clock
    ) -> None:
        server.version, scores.ingestion = "4.61.0", False
        one = finding("MINOR")
        assert open_sink().check().endswith("POST /api/public/scores")
        assert deliver(open_sink(), one).written == (one.id,)
        clock.at += 7200
        milder = replace(one, revision=2, label="NONE")
        assert deliver(open_sink(), milder).written == (one.id,)
        assert values(scores) == {one.id: "NONE"}
        assert len(scores.rows()) == 1, "an update names the row by its id and its first time"
        clock.at += 7200
        deliver(open_sink(), replace(one, revision=3, label="CRITICAL"))
        assert [(row["value"], row["timestamp"]) for row in current(scores)] == [
            ("CRITICAL", "2026-11-30T16:00:00.000Z")
        ]
        server.complaints.clear()  # the OpenAPI of 4.16 knows no list

    def test_what_a_list_says_of_one_score(
        self, server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
    ) -> None:
        """207 names no score: alone it is the one, among others the reading back finds it."""
        server.version, scores.ingestion, scores.refuse_names = "4.61.0", False, {"bad"}
        (alone,) = deliver(open_sink(), finding(name="bad")).rejected
        assert (alone.reason, alone.retryable) == ("Refused", False)
        report = deliver(open_sink(), finding(), finding(name="bad"))
        assert len(report.written) == 1
        assert [one.retryable for one in report.rejected] == [True]
        server.complaints.clear()

    def test_an_old_server_without_ingestion_is_an_error(
        self, server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
    ) -> None:
        scores.ingestion = False
        for ask in (lambda: open_sink().check(), lambda: open_sink().write([finding()])):
            with pytest.raises(ConfigError, match=r"404 to /api/public/ingestion.*since 4\.59\.0"):
                ask()
        assert server.count(LIST, "POST") == 0


class TestCheck:
    """One clear line, before a judge call is paid for."""

    def test_what_is_right(self, server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
        said = open_sink().check()
        assert said == (
            f"Langfuse 4.16.0 at {server.url}, project 'lf-project'; scores are written by POST /api/public/ingestion"
        )
        assert scores.events == {}, "a check writes nothing"

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"secret_key": "sk-lf-other"}, "refused the credentials"),
            ({"public_key": "pk-lf-other"}, "LANGFUSE_PUBLIC_KEY"),
        ],
    )
    def test_wrong_keys(
        self, options: dict[str, str], words: str, scores: Scores, open_sink: Callable[..., LangfuseSink]
    ) -> None:
        with pytest.raises(ConfigError, match=words) as caught:
            open_sink(**options).check()
        assert "other" not in str(caught.value)

    def test_a_server_too_old(self, server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
        server.version = "3.140.0"
        with pytest.raises(ConfigError, match=r"3\.140\.0; otel-drift needs 4\.0"):
            open_sink().check()

    @pytest.mark.parametrize("options", [{"comments": "yes"}, {"confirm_seconds": 0}, {"confirm_seconds": "90"}])
    def test_wrong_options(self, options: dict[str, Any], open_sink: Callable[..., LangfuseSink]) -> None:
        with pytest.raises(ConfigError, match=r"\[connectors\.langfuse\]"):
            open_sink(**options)


def test_a_server_that_is_down_loses_nothing(
    server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]
) -> None:
    server.fault = lambda r: Reply(0)
    with pytest.raises(PlatformError, match="cannot be reached"):
        open_sink().write([finding()])
    server.fault = lambda _r: None
    one = finding()
    assert deliver(open_sink(), one).written == (one.id,)


def test_it_is_a_good_sink(server: Server, scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    """The conformance checks of every sink."""
    scores.add(id="theirs", name="drift_severity", value="MINOR", source="ANNOTATION", traceId=TRACE)

    @contextmanager
    def fault(answer: Callable[[Any], Reply | None]) -> Iterator[None]:
        server.fault = answer
        yield
        server.fault = lambda _request: None
        scores.settle()  # a real server works its queue off while nobody asks

    lost: list[str] = []

    def answers_lost(request: Any) -> Reply | None:
        """The first answer of each kind is lost after the work was done."""
        if request.method == "POST" and request.path not in lost:
            lost.append(request.path)
            server._routes["POST", request.path][0](request)
            return Reply(0)
        return None

    def standing() -> Iterator[tuple[tuple[str, str, str], str]]:
        for row in current(scores):
            if row["id"] == "theirs":
                continue
            subject = row["subject"]
            target = {"observation": "span"}.get(subject["kind"], subject["kind"])
            key = f"{subject['traceId']}:{subject['id']}" if target == "span" else subject["id"]
            yield (target, key, row["name"]), row["value"]

    check_sink(
        SinkCase(
            open=open_sink,
            annotations=sample_annotations(sample_spans()),
            standing=standing,
            foreign=lambda: [row for row in scores.rows() if row["id"] == "theirs"],
            failing={
                "down": lambda: fault(lambda _r: Reply(0)),
                "overloaded": lambda: fault(lambda _r: rate_limited(30)),
                "failing reads": lambda: fault(lambda r: Reply(503, "") if r.path == READ else None),
                "answers lost": lambda: fault(answers_lost),
            },
            refused=replace(finding(name="nowhere"), trace_id=None),
            broken={
                "a wrong key": lambda: open_sink(secret_key="sk-lf-wrong"),
                "another project": lambda: LangfuseSink(
                    f"{server.url}?project=other", public_key=server.public_key, secret_key=server.secret_key
                ),
                "nothing there": lambda: LangfuseSink(
                    "http://127.0.0.1:9", public_key=server.public_key, secret_key=server.secret_key
                ),
            },
            secrets=[server.secret_key, "sk-lf-wrong"],
        )
    )


def test_ids_are_the_same_in_every_process(scores: Scores, open_sink: Callable[..., LangfuseSink]) -> None:
    one = finding(id="0123456789abcdef0123456789abcdef")
    deliver(open_sink(), one)
    assert [row["id"] for row in scores.rows()] == ["0123456789abcdef0123456789abcdef"]
    assert re.fullmatch(r"langfuse:http://127\.0\.0\.1:\d+\?key=[0-9a-f]{8}", open_sink().name)
