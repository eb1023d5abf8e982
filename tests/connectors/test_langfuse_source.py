"""Reading from Langfuse, over HTTP from the strict fake that replays a real server: sessions whole, spans as sent."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langfuse.api.commons.types.observation_v2 import ObservationV2
from langfuse.api.core.pydantic_utilities import parse_obj_as

from captures import spans_of as spans_of_capture
from langfuse_observations import Row, recorded
from langfuse_scores import Scores
from langfuse_server import Limit, Reply, Server, langfuse_server, rate_limited
from otel_drift import retry
from otel_drift.errors import ConfigError, PlatformError, RecordError
from otel_drift.model import Session, Span
from otel_drift.protocols import Window
from otel_drift.sessions import reconstruct, session_json
from otel_drift.spool import SpanSpool
from otel_drift.testing import SourceCase, check_source
from otel_drift_connectors.langfuse import LangfuseSource
from otel_drift_connectors.langfuse.connection import Connection
from otel_drift_connectors.langfuse.observations import spans_of

OPENAPI = "contracts/langfuse-openapi-4.16.yml"
RECORDED = "recorded/langfuse/sessions-all-fields"
READ = "/api/public/v2/observations"
SESSIONS = (
    "langfuse-langchain-telecom-rewrite",
    "langfuse-observe-cloudlimits-nosession",
    "langfuse-observe-medleaflet-onetrace",
    "langfuse-observe-telecom-tool",
    "litellm-otel-medleaflet-parent-error",
    "mlflow-langchain-telecom-otlp",
    "openinference-langchain-cloudlimits-one-trace",
    "openinference-langchain-telecom-per-turn",
    "openinference-llamaindex-medleaflet-query-engine-rerank",
    "openinference-openai-medleaflet-responses-rerank",
    "openlit-openai-telecom-chroma",
    "otel-genai-langchain-telecom-spans",
    "otel-genai-openai-hrleave-doctext",
    "pydantic-ai-telecom-agent",
    "traceloop-langchain-hrleave-per-turn",
    "traceloop-openai-hrleave-chroma",
    "vercel-ai-medleaflet-rag",
)
TOOL, ONE_TRACE, TRACELOOP = SESSIONS[3], SESSIONS[6], SESSIONS[14]
NOT_OF_THE_TURN = {"started", "ended", "environment"}
"""The recordings were sent two days earlier, and Langfuse calls an environment that was not named ``default``."""
LOST = {
    # Langfuse reads `gen_ai.prompt.variable.*` as the messages, and then keeps neither messages nor answer.
    "otel-genai-langchain-telecom-spans": {"answer", "answer_state", "hints"},
    # The vector store's span events are not kept: the same passages come from the span around it, scores rounded.
    "traceloop-openai-hrleave-chroma": {"score", "span"},
}
"""What Langfuse itself does not keep of a session: keys of it, its turns or its passages."""


def at(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * 1_000_000_000


DAY = Window(at("2026-11-27T23:00:00"), at("2026-11-28T00:00:00"))


@pytest.fixture(autouse=True)
def waits() -> Iterator[list[float]]:
    with retry.testing() as waits:
        yield waits


@pytest.fixture
def server(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made: list[Connection] = []
    whole = Connection.__init__

    def noted(self: Connection, *given: Any) -> None:
        made.append(self)
        whole(self, *given)

    monkeypatch.setattr(Connection, "__init__", noted)
    with langfuse_server(shared / OPENAPI) as server:
        Scores(server, delay=0.0)
        yield server
        for connection in made:
            connection.close()


@pytest.fixture
def load(shared: Path, server: Server) -> Callable[..., list[Row]]:
    """Put recorded sessions on the server; returns their rows."""

    def load(*names: str) -> list[Row]:
        rows = []
        for name in names:
            (path,) = (shared / RECORDED).glob(name + ".json*")
            for exchange in recorded(path)["exchanges"]:
                rows += exchange["response"]["body"]["data"]
        server.observations.add(copy.deepcopy(rows))
        return rows

    return load


def source(server: Server, target: str = "", **options: Any) -> LangfuseSource:
    return LangfuseSource(server.url + target, public_key=server.public_key, secret_key=server.secret_key, **options)


def read(reader: LangfuseSource, window: Window = DAY) -> list[Span]:
    return [record for page, _ in reader.read(None, window) for record in page if isinstance(record, Span)]


def refs(rows: list[Row]) -> set[str]:
    return {f"{row['traceId']}:{row['id']}" for row in rows}


def started(row: Row) -> int:
    return at(row["startTime"][:19])


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recorded_session_is_the_same_through_the_api_and_through_otlp(
    shared: Path, server: Server, load: Callable[..., list[Row]], name: str
) -> None:
    """Turns with their texts, passages, tools, errors and refs; session ids; what is said to be missing."""
    rows = load(name)
    spans = read(source(server))
    assert {span.ref for span in spans} == refs(rows)
    assert len(spans) == len(rows)
    (path,) = (shared / RECORDED).glob(name + ".json*")
    library, _, rest = recorded(path)["capture"].removeprefix("shared/traces/").partition("/")
    sent = reconstruct(spans_of_capture(shared, f"{library}/{rest.partition('.')[0]}"))
    found = reconstruct(spans)
    lost = LOST.get(name, set())
    assert [comparable(one, library, lost) for one in found] == [comparable(one, "", lost) for one in sent]
    assert all(session.turns for session in found)


def comparable(session: Session, suffix: str, lost: set[str]) -> dict[str, Any]:
    shown = session_json(session)
    for turn in shown["turns"]:
        turn["passages"] = [{key: one[key] for key in one if key not in lost} for one in turn["passages"]]
    return {
        "session_id": (shown["session_id"] or "").removesuffix(f"-{suffix}") or None,
        "hints": shown["hints"] if "hints" not in lost else None,
        "conventions": shown["conventions"],
        "turns": [{key: turn[key] for key in turn if key not in NOT_OF_THE_TURN | lost} for turn in shown["turns"]],
    }


def test_every_recorded_session_is_among_those_compared(shared: Path) -> None:
    assert {path.name.partition(".")[0] for path in (shared / RECORDED).iterdir()} == set(SESSIONS)


def test_sessions_are_read_in_bulk(server: Server, load: Callable[..., list[Row]]) -> None:
    """Seventeen sessions of 574 observations take eight requests, and two for each kind that has to be asked alone."""
    rows = load(*SESSIONS)
    assert {span.ref for span in read(source(server))} == refs(rows)
    asked = [request for request in server.requests if request.template == READ]
    alone = [request for request in asked if "stringObject" in (request.one("filter") or "")]
    assert len(alone) == 4  # two traceloop sessions, before and after the window
    assert len(server.requests) - len(alone) == 9  # health, project, roots, calls, traces, 2 of scores, before, after


@pytest.mark.parametrize("name", [TOOL, TRACELOOP, ONE_TRACE])
def test_a_session_that_crosses_the_window_is_read_whole(
    server: Server, load: Callable[..., list[Row]], name: str
) -> None:
    """Traces before and after it, by Langfuse's session or by one that only metadata know; a root before the window."""
    rows = load(name)
    marked = {row["traceId"] for row in rows if row["sessionId"] or "session_id" in json.dumps(row["metadata"])}
    rows = [row for row in rows if row["traceId"] in marked]
    calls = sorted(started(row) for row in rows if row["type"] == "GENERATION")
    middle = calls[len(calls) // 2]
    found = {span.ref for span in read(source(server), Window(middle, middle + 1_000_000_000))}
    assert refs(rows) <= found


def test_a_session_that_only_the_sdks_metadata_name_is_read_whole(
    server: Server, load: Callable[..., list[Row]]
) -> None:
    """The SDK's metadata are stored as JSON, so that they are looked for as a part; another thread is none of it."""
    rows = load(SESSIONS[1])
    for row in rows:
        indexing = row["type"] == "EMBEDDING" and row["isRootObservation"]
        row["metadata"]["thread_id"] = "thread-10" if indexing else "thread-1"
    server.observations.add(rows)
    of_thread = [row for row in rows if row["metadata"]["thread_id"] == "thread-1"]
    first = min(row["startTime"] for row in of_thread if row["type"] == "GENERATION")
    moment = int(datetime.fromisoformat(first).timestamp() * 1000) * 1_000_000
    spans = read(source(server), Window(moment, moment + 1_000_000))
    traces = {row["traceId"] for row in of_thread}
    assert {span.trace_id for span in spans} == traces


def test_an_observation_that_cannot_be_read_is_reported_and_the_rest_goes_on(
    server: Server, load: Callable[..., list[Row]]
) -> None:
    """A level, say, that a later server has and the SDK does not know."""
    rows = load(TOOL)
    broken = min((row for row in rows if row["type"] == "RETRIEVER"), key=lambda row: row["startTime"])
    server.observations.add([{**broken, "level": "FATAL"}])
    problems: list[RecordError] = []
    found = {span.ref for span in read(source(server, on_problem=problems.append))}
    assert found == refs(rows) - refs([broken])
    assert [problem.record for problem in problems] == list(refs([broken]))
    assert "level" in problems[0].reason


def test_how_far_back_a_session_is_followed_is_a_setting(server: Server, load: Callable[..., list[Row]]) -> None:
    rows = load(TOOL)
    moved = [row for row in rows if row["traceId"] == rows[1]["traceId"]]
    for row in moved:
        for key in ("startTime", "endTime"):
            row[key] = row[key].replace("2026-11-27", "2026-10-01")
    server.observations.add(moved)
    near = {span.ref for span in read(source(server))}
    assert near == refs(rows) - refs(moved)
    assert {span.ref for span in read(source(server, history_days=90))} == refs(rows)
    assert {span.ref for span in read(source(server, history_days=0))} == refs(rows)


def test_sessions_named_are_read_whenever_they_were(server: Server, load: Callable[..., list[Row]]) -> None:
    rows = load(TOOL, TRACELOOP)
    later = (at("2027-01-01T00:00:00"), at("2027-01-02T00:00:00"))
    ids = ("sess-telecom-7f31-langfuse-observe", "sess-hr-55ce-traceloop-langchain")
    found = {span.ref for span in read(source(server), Window(*later, sessions=ids))}
    assert found == refs([row for row in rows if not row["isRootObservation"] or row["type"] != "EMBEDDING"])
    assert read(source(server), Window(*later, sessions=("no such session",))) == []


def test_filters_narrow_what_the_server_is_asked_for(server: Server, load: Callable[..., list[Row]]) -> None:
    """User, tags (all of them) and environment: sessions come whole although only some spans say it."""
    rows = load(TOOL, TRACELOOP, SESSIONS[2])
    of_tool = {row["traceId"] for row in rows if "rag" in row["tags"]}

    def traces(**filters: tuple[str, ...]) -> set[str]:
        return {span.trace_id for span in read(source(server), Window(DAY.since, DAY.until, **filters))}

    assert of_tool
    assert traces(tags=("rag",)) == of_tool
    assert traces(tags=("rag", "other")) == set()
    assert traces(users=("user-ada",)) == of_tool
    assert traces(users=("user-ada", "nobody"), environments=("default",)) == of_tool
    assert traces(environments=("production",)) == set()


def test_observations_sent_again_are_read_until_each_shows_once(
    server: Server, load: Callable[..., list[Row]], waits: list[float]
) -> None:
    """While they are doubled the text is of any version: the newest row may carry the oldest output."""
    rows = load(TOOL)
    root = next(row for row in rows if row["name"] == "chat-turn")
    server.observations.resend([{**root, "output": "the corrected answer", "updatedAt": "2026-11-30T01:00:00.000Z"}])
    found = {span.ref: span for span in read(source(server))}
    assert len(found) == len(rows)
    assert found[f"{root['traceId']}:{root['id']}"].attributes["langfuse.observation.output"] == "the corrected answer"
    assert sum(waits) > 10
    assert server.count(READ) < 15


def test_observations_that_stay_doubled_are_read_once_and_reported(
    server: Server, load: Callable[..., list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langfuse_observations.MERGED_AFTER", 1e9)
    rows = load(TOOL)
    root = next(row for row in rows if row["name"] == "chat-turn")
    server.observations.resend([{**root, "updatedAt": "2026-11-30T01:00:00.000Z"}])
    problems: list[RecordError] = []
    reader = source(server, on_problem=problems.append)
    assert len(read(reader)) == len(rows)
    assert [problem.record for problem in problems] == [root["traceId"]]
    assert reader.problem_count == 1


def test_a_range_too_heavy_is_read_in_parts(server: Server, load: Callable[..., list[Row]]) -> None:
    """422 is a query that timed out; each observation still comes once."""
    rows = load(*SESSIONS[:4])
    server.observations.heaviest = timedelta(hours=20)
    spans = read(source(server), Window(at("2026-11-25T00:00:00"), at("2026-11-29T00:00:00")))
    assert sorted(span.ref for span in spans) == sorted(refs(rows))
    server.observations.heaviest = timedelta(0)
    with pytest.raises(PlatformError, match="too heavy a query for the server"):
        read(source(server))


def test_a_range_that_gets_too_heavy_between_pages_goes_on(
    server: Server, load: Callable[..., list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where it is cut among observations of one millisecond, none is lost or doubled."""
    monkeypatch.setattr("otel_drift_connectors.langfuse.reading.LARGEST_PAGE", 7)
    rows = load(TOOL)
    for row in rows:
        row["startTime"] = row["startTime"][:22] + "0Z"
    server.observations.add(rows)
    refused = 0

    def third_page(request: Any) -> Reply | None:
        nonlocal refused
        if request.template == READ and request.one("cursor") and server.count(READ) % 3 == 0 and refused < 4:
            refused += 1
            return Reply(422, {"message": "Request timed out"})
        return None

    server.fault = third_page
    assert sorted(span.ref for span in read(source(server))) == sorted(refs(rows))
    assert refused


def test_a_short_rate_limit_is_waited_for(server: Server, load: Callable[..., list[Row]], waits: list[float]) -> None:
    rows = load(*SESSIONS)
    server.limits = dict.fromkeys((READ, "/api/public/v3/scores"), Limit(3, 60))
    assert {span.ref for span in read(source(server))} == refs(rows)
    assert any(wait > 30 for wait in waits)


def test_a_rate_limit_of_hours_is_an_error_at_once(server: Server, waits: list[float]) -> None:
    server.fault = lambda request: rate_limited(7200) if request.template == READ else None
    with pytest.raises(PlatformError, match=r"asks to slow down for 120 minutes \(429\)"):
        read(source(server))
    assert waits == []


def test_a_server_that_fails_for_a_while_delays(server: Server, load: Callable[..., list[Row]]) -> None:
    rows = load(TOOL)
    answers = iter([Reply(0), Reply(503, "busy"), Reply(500, {"message": "Internal Server Error"})])
    server.fault = lambda request: next(answers, None) if request.template == READ else None
    assert {span.ref for span in read(source(server))} == refs(rows)


def test_metadata_are_whole(server: Server, load: Callable[..., list[Row]]) -> None:
    """Also on a server that cuts them to 200 characters although input and output are asked for."""
    load(SESSIONS[8])
    whole = read(source(server))
    server.observations.cuts_always = True
    assert read(source(server)) == whole
    assert any(len(str(value)) > 200 for span in whole for value in span.attributes.values())


def test_what_people_said_is_on_the_roots(server: Server, load: Callable[..., list[Row]]) -> None:
    """Scores of people and of applications; not ours, a model's, a correction, or a reviewer's in a queue."""
    rows = load(TOOL)
    scores = Scores(server, delay=0.0)
    roots = sorted(
        (row for row in rows if row["name"] == "chat-turn" and row["isRootObservation"]),
        key=lambda row: row["startTime"],
    )
    session, first = roots[0]["sessionId"], roots[0]["traceId"]
    call = next(row["id"] for row in rows if row["traceId"] == first and row["type"] == "GENERATION")
    said: dict[str, Any] = {"name": "thumbs", "value": "down", "traceId": first}
    scores.add(id="1", **said, comment="wrong\nallowance")
    scores.add(id="2", **{**said, "name": "helpful", "value": 0}, dataType="BOOLEAN", observationId=call)
    scores.add(id="3", name="stars", value=2, sessionId=session, source="ANNOTATION")
    scores.add(id="4", **{**said, "name": "drift_severity"}, metadata={"written_by": "otel-drift"})
    scores.add(id="5", **{**said, "name": "judge"}, source="EVAL")
    scores.add(id="6", **{**said, "name": "verdict"}, source="ANNOTATION", queueId="q")
    found = {span.ref: span.attributes.get("user.feedback") for span in read(source(server))}
    of_first, of_last = f"{first}:{roots[0]['id']}", f"{roots[-1]['traceId']}:{roots[-1]['id']}"
    lines = (found[of_first] or "").splitlines()
    assert sorted(lines) == ["helpful: false", "thumbs comment: wrong allowance", "thumbs: down"]
    assert {ref for ref, feedback in found.items() if feedback} == {of_first, of_last}
    assert found[of_last] == "stars: 2"
    with SpanSpool() as spool:
        for span in read(source(server)):
            spool.add(span)
        (session_found,) = [one for one in reconstruct(spool.load(spool.trace_ids())) if one.session_id]
    assert [turn.feedback for turn in session_found.turns if turn.feedback][-1] == "stars: 2"


def test_spans_that_began_in_one_millisecond_are_in_order() -> None:
    """Parents before children, siblings by their end; a missing parent and a circle of parents do no harm."""

    def row(of_id: str, parent: str | None, milliseconds: int, *, root: bool = False) -> Any:
        start = datetime(2026, 11, 30, tzinfo=UTC)
        end = start + timedelta(milliseconds=milliseconds)
        given = {"id": of_id, "traceId": "t", "parentObservationId": parent, "projectId": "p", "type": "SPAN"}
        times = {"startTime": start.isoformat(), "endTime": end.isoformat()}
        return parse_obj_as(ObservationV2, {**given, **times, "isRootObservation": root})  # type: ignore[arg-type]

    rows = [row("z", "m", 9), row("m", "r", 9), row("a", "m", 3), row("r", "gone", 9, root=True)]
    assert [span.span_id for span in spans_of(rows)] == ["r", "m", "a", "z"]
    assert len({span.start for span in spans_of(rows)}) == 4
    assert all(span.start <= span.end for span in spans_of(rows))
    assert len(spans_of([row("a", "b", 1), row("b", "a", 1)])) == 2


def test_what_cannot_succeed_is_said_before_anything_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"public_key": server.public_key, "secret_key": server.secret_key}
    with pytest.raises(ConfigError, match=r"refused the credentials.*LANGFUSE_SECRET_KEY"):
        LangfuseSource(server.url, public_key="pk-lf-x", secret_key="sk-lf-y").check()
    with pytest.raises(ConfigError, match="belong to project 'lf-project', not to 'other'"):
        source(server, "?project=other").check()
    server.version = "3.112.0"
    with pytest.raises(ConfigError, match=r"is Langfuse 3\.112\.0; otel-drift needs 4\.0 or later"):
        source(server).check()
    server.version = None
    with pytest.raises(ConfigError, match="is no Langfuse server"):
        source(server).check()
    with pytest.raises(ConfigError, match="plain http"):
        LangfuseSource("http://langfuse.example.com", **keys)
    with pytest.raises(ConfigError, match="no option 'tag'"):
        LangfuseSource(server.url + "?tag=x", **keys)
    with pytest.raises(ConfigError, match="history_days"):
        source(server, history_days=-1)
    with pytest.raises(ConfigError, match="--since"):
        list(source(server).read())
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGFUSE_BASE_URL", "LANGFUSE_HOST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="LANGFUSE_PUBLIC_KEY is not set"):
        LangfuseSource()
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "sk-lf-x")
    with pytest.raises(ConfigError, match="begins with pk-lf-"):
        LangfuseSource()
    assert server.count(READ) == 0


def test_the_environment_is_read_where_nothing_is_given(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", server.public_key)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", server.secret_key)
    monkeypatch.delenv("LANGFUSE_BASE_URL", raising=False)
    monkeypatch.setenv("LANGFUSE_HOST", server.url + "/")
    assert LangfuseSource().check() == f"Langfuse 4.16.0 at {server.url}, project 'lf-project'"
    monkeypatch.delenv("LANGFUSE_HOST")
    assert LangfuseSource().name.startswith("langfuse:https://cloud.langfuse.com?key=")
    assert LangfuseSource("?project=shop").name == "langfuse:https://cloud.langfuse.com?project=shop"


def test_links_lead_to_span_and_session(server: Server) -> None:
    reader = source(server)
    assert reader.trace_url.format(trace_id="t", span_id="s").endswith("/project/lf-project/traces/t?observation=s")
    assert reader.session_url.format(session_id="x").endswith("/project/lf-project/sessions/x")


def test_it_does_what_any_source_must(server: Server, load: Callable[..., list[Row]]) -> None:
    rows = load(TOOL, SESSIONS[0], SESSIONS[13])
    whole = {row["sessionId"]: set[str]() for row in rows if row["sessionId"]}
    for row in rows:
        if row["sessionId"]:
            whole[row["sessionId"]] |= refs([row])
    older = [{**row, "sessionId": "older", "traceId": row["traceId"][::-1]} for row in load(SESSIONS[1])]
    for row in older:
        row["startTime"] = row["startTime"].replace("2026-11-27", "2026-11-20")
        row["endTime"] = row["endTime"].replace("2026-11-27", "2026-11-20")
    server.observations.add(older)

    check_source(
        SourceCase(
            open=lambda: source(server),
            window=DAY,
            sessions=whole,
            elsewhere=["older"],
            broken={
                "key": lambda: LangfuseSource(server.url, public_key=server.public_key, secret_key="sk-lf-WRONG"),
                "url": lambda: LangfuseSource("http://127.0.0.1:9", public_key="pk-lf-a", secret_key="sk-lf-WRONG"),
                "project": lambda: source(server, "?project=other"),
            },
            secrets=[server.secret_key, "sk-lf-WRONG"],
        )
    )
    server.fault = lambda request: Reply(500, {"message": "x"}) if request.one("filter") else None
    with pytest.raises(PlatformError, match=r"failed \(500\)"):
        read(source(server))


def test_the_command_line_reads_it(
    server: Server, load: Callable[..., list[Row]], otel_drift: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    load(TOOL)
    keys = {"LANGFUSE_PUBLIC_KEY": server.public_key, "LANGFUSE_SECRET_KEY": server.secret_key}
    said = otel_drift("check", "langfuse", env={**keys, "LANGFUSE_BASE_URL": server.url})
    assert said.returncode == 0, said.stderr
    assert "Langfuse 4.16.0" in said.stdout + said.stderr
    asked = ("--since", "2026-11-27T23:00:00Z", "--until", "2026-11-28T00:00:00Z", "--format", "json")
    done = otel_drift("inspect", f"langfuse:{server.url}", *asked, env=keys)
    assert done.returncode == 0, done.stderr
    assert "sess-telecom-7f31-langfuse-observe" in done.stdout
    assert server.secret_key not in done.stdout + done.stderr
    named = {**keys, "LANGFUSE_BASE_URL": server.url}
    tried = otel_drift("audit", "langfuse", *asked, "--min-turns", "3", "--dry-run", env=named)
    assert tried.returncode == 0, tried.stderr
    assert "sess-telecom-7f31-langfuse-observe" in tried.stdout
    written = [request.body for request in server.requests if request.method != "GET"]
    assert all(body in ([], {"batch": []}) for body in written), "no more than a probe of the route"


def test_the_sdk_is_imported_when_it_is_needed() -> None:
    """The command line starts fast although the SDK does not."""
    code = (
        "import sys, otel_drift_connectors.langfuse as lf;"
        "lf.LangfuseSource('https://x', public_key='pk-lf-a', secret_key='sk-lf-b');"
        "sys.exit('langfuse' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
