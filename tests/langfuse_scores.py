"""The fake Langfuse's scores: written by ingestion or the scores endpoint, readable later, as 4.16 was measured.

    scores = Scores(server)          # registers its routes
    scores.rows()                    # what stands now, as v3/scores shows it
    scores.settle()                  # as if the queue had been worked off

What was accepted becomes readable after `delay` seconds of `otel_drift.retry.now`. The event's time decides which value
of an id wins; time, trace and environment stay those of the first write, metadata are merged, and a comment that is
left out is kept. A changed name leaves the old row. A value outside its config is accepted and never stored.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from otel_drift import retry

if TYPE_CHECKING:
    from langfuse_server import Request, Server

Row = dict[str, Any]

FIELDS = {
    "core": (),
    "details": ("comment", "configId", "metadata"),
    "subject": ("subject",),
    "annotation": ("authorUserId", "queueId"),
}
FILTERS = {
    *("id", "name", "source", "dataType", "environment", "configId", "queueId", "authorUserId", "traceId", "sessionId"),
    *("observationId", "experimentId", "value", "valueMin", "valueMax", "fromTimestamp", "toTimestamp"),
    *("limit", "cursor", "fields"),
}
TARGET = "Provide exactly one of the following: traceId (with optional observationId), sessionId or datasetRunId. "
LIST_SINCE = (4, 59, 0)


@dataclass
class Event:
    """An accepted write of a score."""

    body: Row
    at: datetime
    order: tuple[int, int]
    received: datetime
    visible: float


@dataclass
class Scores:
    """Scores of one project."""

    server: Server
    delay: float = 8.0
    """Seconds until what was accepted can be read; measured: 6 to 12, and 15 to 23 between 23:45 and 00:15 UTC."""
    ingestion: bool = True
    """Whether there is /ingestion: a future server may have none."""
    refuse_names: set[str] = field(default_factory=set)
    """Names of scores that are refused (400) each time."""
    overloaded_names: set[str] = field(default_factory=set)
    """Names of scores that fail on the server (500 in a 207)."""
    swallow_names: set[str] = field(default_factory=set)
    """Names of scores that are accepted and never stored."""
    configs: dict[str, Row] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._requests = itertools.count()
        self._seen, self._time = retry.now(), 0.0
        route = self.server.route
        route("POST", "/api/public/ingestion", self._ingest, lenient=True)
        route("POST", "/api/public/scores", self._post, lenient=True)
        route("DELETE", "/api/public/scores/{scoreId}", self._delete)
        route("GET", "/api/public/v3/scores", self._get, lenient=True)

    def now(self) -> float:
        """Seconds that never go back, whichever clock `retry` has."""
        now = retry.now()
        self._time += max(0.0, now - self._seen)
        self._seen = now
        return self._time

    def settle(self) -> None:
        """Make everything accepted readable."""
        for events in self.events.values():
            for event in events:
                event.visible = 0.0

    def add(self, **body: Any) -> None:
        """A score that somebody else wrote, readable at once."""
        self._accept(body, datetime.now(UTC), (next(self._requests), 0))
        self.events[body["id"]][-1].visible = 0.0

    def rows(self) -> list[Row]:
        """Every row that can be read now, newest first; an id whose name was changed has two."""
        now = self.now()
        made = [row for events in self.events.values() for row in _rows(events, now)]
        return sorted(made, key=lambda row: (row["timestamp"], row["id"]), reverse=True)

    def _ingest(self, request: Request) -> tuple[int, Any]:
        if not self.ingestion:
            return 404, {"message": "Not found"}
        body = request.body
        if not isinstance(body, dict) or not isinstance(body.get("batch"), list):
            return 400, {"message": "Invalid request data", "errors": ["Invalid input: expected array"]}
        successes, errors, number = [], [], next(self._requests)
        for index, event in enumerate(body["batch"]):
            problem = self._event_problem(event)
            if problem is None:
                self._accept(event["body"], _parsed(event["timestamp"]), (number, -index))
                successes.append({"id": event["id"], "status": 201})
            else:
                status, message, detail = problem
                errors.append({"id": event.get("id", "unknown"), "status": status, "message": message, "error": detail})
        return 207, {"successes": successes, "errors": errors}

    def _event_problem(self, event: Row) -> tuple[int, str, str] | None:
        if event.get("type") != "score-create":
            return 400, "Event type not accepted", f'Event type "{event.get("type")}" is not accepted by this route'
        issue = next((_issue(key) for key in ("id", "timestamp") if not isinstance(event.get(key), str)), None)
        issue = issue or self._problem(event["body"])
        if issue is None and event["body"]["name"] in self.overloaded_names:
            return 500, "Internal Server Error", "Internal Server Error"
        return None if issue is None else (400, "Invalid request data", json.dumps([issue], indent=2))

    def _problem(self, body: Row) -> Row | None:
        name, value, kind = body.get("name"), body.get("value"), body.get("dataType")
        if not isinstance(name, str) or not name:
            return _issue("body", "name")
        if name in self.refuse_names:
            return _issue("body", "value", code="custom", message="Refused")
        targets = [key for key in ("traceId", "sessionId", "datasetRunId") if body.get(key)]
        if len(targets) != 1 or (body.get("observationId") and targets != ["traceId"]):
            return _issue("body", "traceId", code="custom", message=TARGET + "ObservationId requires traceId.")
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        fits = {"NUMERIC": numeric, "BOOLEAN": numeric and value in (0, 1), None: numeric or isinstance(value, str)}
        if not fits.get(kind, isinstance(value, str)):
            return _issue("body", "value")
        if kind == "TEXT" and len(value) > 500:
            return _issue("body", "value", code="too_big", message="Too big: expected string to have <=500 characters")
        if body.get("comment") is not None and not isinstance(body["comment"], str):
            return _issue("body", "comment")
        return None

    def _post(self, request: Request) -> tuple[int, Any]:
        version = tuple(int(part) for part in (self.server.version or "0").split("."))
        body, number, now = request.body, next(self._requests), datetime.now(UTC)
        if isinstance(body, list) != (version >= LIST_SINCE):
            issue = {
                "expected": "object",
                "code": "invalid_type",
                "path": [],
                "message": "Invalid input: expected object",
            }
            return 400, {"message": "Invalid request data", "error": [issue]}
        if isinstance(body, dict):
            if issue := self._problem(body):
                return 400, {"message": "Invalid request data", "error": [issue]}
            body = {"id": str(uuid.uuid4()), **body}
            self._accept(body, now, (number, 0))
            return 200, {"id": body["id"]}
        issues = []
        for index, score in enumerate(body):
            if issue := self._problem(score):
                issues.append({"message": issue["message"]})
            else:
                self._accept(score, now, (number, index))  # a row is found by id and time: another time makes another
        if not issues:
            return 202, {"message": "Accepted"}
        return 207, {"accepted": len(body) - len(issues), "rejected": len(issues), "errors": issues}

    def _delete(self, request: Request) -> tuple[int, Any]:
        self.events.pop(request.names["scoreId"], None)
        return 202, {"message": "Score deletion queued successfully"}

    def _accept(self, body: Row, at: datetime, order: tuple[int, int]) -> None:
        body = {"id": str(uuid.uuid4()), **body}
        config = self.configs.get(body.get("configId") or "")
        if config is not None:
            labels = {one["label"] for one in config.get("categories") or ()}
            if config["dataType"] == "CATEGORICAL" and body["value"] not in labels:
                return
            body = {**body, "name": config["name"]}
        if body["name"] in self.swallow_names:
            return
        now = datetime.now(UTC)
        visible = self.now() + self.delay
        self.events.setdefault(body["id"], []).append(Event({"timestamp": None, **body}, at, order, now, visible))

    def _get(self, request: Request) -> tuple[int, Any]:
        query = dict(request.query)
        if unknown := [key for key in query if key not in FILTERS]:
            return _bad({"code": "unrecognized_keys", "keys": unknown, "path": [], "message": "Unrecognized key"})
        if int(query.get("limit", 50)) > 100:
            return _bad({"code": "too_big", "maximum": 100, "path": ["limit"], "message": "Too big"})
        groups = ["core", *filter(None, query.get("fields", "").split(","))]
        if any(group not in FIELDS for group in groups):
            return _bad({"code": "invalid_value", "path": ["fields", 1], "message": "Invalid option"})
        if "observationId" in query and "traceId" not in query:
            return _bad({"code": "custom", "path": [], "message": "observationId filter requires traceId"})
        if len({"traceId", "sessionId", "experimentId"} & set(query)) > 1:
            return _bad({"code": "custom", "path": [], "message": "At most one of traceId, sessionId, experimentId"})
        found = [row for row in self.rows() if _matches(row, query)]
        if "id" in query and "name" not in query:  # by id alone only the newest of an id is found
            found = [row for row in found if row["name"] == _newest_name(found, row["id"])]
        start = 0
        if "cursor" in query:
            try:
                last = json.loads(base64.urlsafe_b64decode(query["cursor"] + "=="))
            except ValueError:
                return 400, {"message": "Invalid cursor format", "error": "InvalidRequestError"}
            start = next(i for i, row in enumerate(found) if row["id"] == last["lastId"]) + 1
        limit = int(query.get("limit", 50))
        page = found[start : start + limit]
        meta: Row = {"limit": limit}
        if start + limit < len(found):
            last = {"v": 1, "lastTimestamp": page[-1]["timestamp"], "lastId": page[-1]["id"]}
            meta["cursor"] = base64.urlsafe_b64encode(json.dumps(last).encode()).decode().rstrip("=")
        hidden = {key for group, keys in FIELDS.items() if group not in groups for key in keys}
        return 200, {"data": [{k: v for k, v in row.items() if k not in hidden} for row in page], "meta": meta}


def _rows(events: list[Event], now: float) -> list[Row]:
    there = [event for event in events if event.visible <= now]
    if not there:
        return []
    first = min((one for one in there if one.order[0] == there[0].order[0]), key=lambda one: one.at)
    shared = {
        "timestamp": _text(_parsed(first.body["timestamp"]) if first.body["timestamp"] else first.at),
        "environment": _environment(first.body.get("environment")),
        "createdAt": _text(first.received.replace(microsecond=0)),
        "subject": _subject(first.body),
    }
    made: dict[tuple[str, Any], Row] = {}
    metadata: Row = {}
    comment = None
    for event in sorted(there, key=lambda one: (one.at, one.order)):
        body = event.body
        metadata = {**metadata, **(body.get("metadata") or {})}
        comment = body["comment"] if body.get("comment") is not None else comment
        value, kind = body["value"], body.get("dataType")
        kind = kind or ("CATEGORICAL" if isinstance(value, str) else "NUMERIC")
        own = {"timestamp": _text(_parsed(body["timestamp"]))} if body["timestamp"] else {}
        made[body["name"], body["timestamp"]] = {
            "id": body["id"],
            "projectId": "lf-project",
            "name": body["name"],
            "source": body.get("source", "API"),
            **shared,
            **own,
            "updatedAt": _text(max(one.received for one in there)),
            "comment": comment,
            "configId": body.get("configId"),
            "metadata": metadata,
            "authorUserId": body.get("authorUserId"),
            "queueId": body.get("queueId"),
            "dataType": kind,
            "value": bool(value) if kind == "BOOLEAN" else value,
        }
    return list(made.values())


def _matches(row: Row, query: dict[str, str]) -> bool:
    subject = row["subject"]
    trace = subject.get("traceId") or (subject["id"] if subject["kind"] == "trace" else None)
    known = {
        **row,
        "traceId": trace,
        "sessionId": subject["id"] if subject["kind"] == "session" else None,
        "observationId": subject["id"] if subject["kind"] == "observation" else None,
        "value": str(row["value"]).lower() if isinstance(row["value"], bool) else str(row["value"]),
    }
    exact = set(query) & FILTERS - {"limit", "cursor", "fields", "fromTimestamp", "toTimestamp"}
    return (
        all(known[key] in query[key].split(",") for key in exact)
        and row["timestamp"] >= query.get("fromTimestamp", "")
        and row["timestamp"] < query.get("toTimestamp", "~")
    )


def _newest_name(rows: list[Row], of_id: str) -> str:
    return str([row for row in rows if row["id"] == of_id][-1]["name"])


def _subject(body: Row) -> Row:
    if body.get("sessionId"):
        return {"kind": "session", "id": body["sessionId"]}
    if body.get("observationId"):
        return {"kind": "observation", "id": body["observationId"], "traceId": body["traceId"]}
    return {"kind": "trace", "id": body["traceId"]}


def _environment(given: str | None) -> str:
    name = (given or "default").lower()
    name = name.removeprefix("langfuse")[:40]
    return name if re.fullmatch(r"[a-z0-9_-]+", name) else "default"


def _issue(*path: str, code: str = "invalid_type", message: str = "Invalid input") -> Row:
    return {"code": code, "path": list(path), "message": message}


def _bad(issue: Row) -> tuple[int, Any]:
    return 400, {"message": "Invalid request data", "error": [issue]}


def _parsed(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
