"""The fake Langfuse's tables for people: score configs, comments, annotation queues and their items, dashboards.

Kept in a database beside the scores, so everything is there at once; and, as measured on 4.16, hardly anything is
made only once: configs, comments, items, widgets and dashboards may be made again and again, queues by name may not.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from langfuse_scores import Scores

if TYPE_CHECKING:
    from langfuse_server import Request, Server

Row = dict[str, Any]

OBJECTS = ("TRACE", "OBSERVATION", "SESSION", "PROMPT")
VIEWS = ("observations", "scores-numeric", "scores-boolean", "scores-categorical")
ITEMS = "/api/public/annotation-queues/{queueId}/items"
WIDGETS, BOARDS = "/api/public/unstable/dashboard-widgets", "/api/public/unstable/dashboards"


@dataclass
class Desk:
    """What people work with, of one project."""

    server: Server
    scores: Scores
    dashboards: bool = True
    """Whether there is the (unstable) dashboard API."""
    readable: set[str] = field(default_factory=set)
    """Ids of objects that can be commented on; others are not there (yet)."""
    configs: list[Row] = field(default_factory=list)
    comments: list[Row] = field(default_factory=list)
    queues: list[Row] = field(default_factory=list)
    items: list[Row] = field(default_factory=list)
    widgets: list[Row] = field(default_factory=list)
    boards: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        route = self.server.route
        route("GET", "/api/public/score-configs", lambda r: _page(r, self.configs))
        route("POST", "/api/public/score-configs", self._config)
        route("GET", "/api/public/comments", self._listed_comments)
        route("POST", "/api/public/comments", self._comment)
        route("GET", "/api/public/annotation-queues", lambda r: _page(r, self.queues))
        route("POST", "/api/public/annotation-queues", self._queue)
        route("GET", ITEMS, self._listed_items)
        route("POST", ITEMS, self._item)
        route("GET", WIDGETS, lambda r: self._unstable(r, self.widgets))
        route("POST", WIDGETS, self._widget)
        route("GET", BOARDS, lambda r: self._unstable(r, self.boards))
        route("POST", BOARDS, self._board)
        route("POST", BOARDS + "/{dashboardId}/placements", self._placement)

    def decide(self, queue: str, name: str, value: Any, subject: Row, *, by: str = "user-1", comment: str = "") -> None:
        """What the web interface does when a reviewer of a queue chooses a value."""
        config = next(one for one in self.configs if one["name"] == name and not one["isArchived"])
        queue_id = next(one["id"] for one in self.queues if one["name"] == queue)
        given = {"name": name, "value": value, "configId": config["id"], "queueId": queue_id, "authorUserId": by}
        place = "|".join(subject.values())
        self.scores.add(
            id=f"{queue_id}|{name}|{place}", source="ANNOTATION", comment=comment or None, **given, **subject
        )

    def _stamp(self, kind: str) -> Row:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"id": f"{kind}-{next(self._numbers)}", "createdAt": now, "updatedAt": now}

    def _config(self, request: Request) -> tuple[int, Any]:
        body = request.body
        if len(body["name"]) > 35:
            return _bad("name", "Too big: expected string to have <=35 characters")
        if not all(char.isalnum() or char in "_ .()-" for char in body["name"]):
            return _bad("name", "Name contains invalid characters")
        if body["dataType"] == "CATEGORICAL" and not body.get("categories"):
            return _bad("categories", "Invalid input")
        given = {"isArchived": False, "description": None, "minValue": None, "maxValue": None, "categories": None}
        made = {**given, **self._stamp("config"), "projectId": "lf-project", **body}
        if body["dataType"] == "BOOLEAN":
            made["categories"] = [{"label": "True", "value": 1}, {"label": "False", "value": 0}]
        self.configs.insert(0, made)
        self.scores.configs[made["id"]] = made
        return 200, made

    def _comment(self, request: Request) -> tuple[int, Any]:
        body = request.body
        if body["objectType"] not in OBJECTS:
            return _bad("objectType", "Invalid option")
        if not 1 <= len(body["content"]) <= 5000:
            return _bad("content", "Too big: expected string to have <=5000 characters")
        if body["objectId"] not in self.readable:
            kind, of = body["objectType"], body["objectId"]
            return 404, {"message": f"Reference object, {kind}: {of} not found.", "error": "LangfuseNotFoundError"}
        made = {**self._stamp("comment"), "authorUserId": None, **body, "projectId": "lf-project"}
        self.comments.append(made)
        return 200, {"id": made["id"]}

    def _listed_comments(self, request: Request) -> tuple[int, Any]:
        kind, of = request.one("objectType"), request.one("objectId")
        if of and not kind:
            return _bad("objectType", "objectType is required when objectId is provided")
        found = [one for one in self.comments if kind in (None, one["objectType"]) and of in (None, one["objectId"])]
        return _page(request, found)

    def _queue(self, request: Request) -> tuple[int, Any]:
        body = request.body
        if any(one["name"] == body["name"] for one in self.queues):
            return 400, {"message": "A queue with this name already exists.", "error": "InvalidRequestError"}
        if not body["scoreConfigIds"]:
            return _bad("scoreConfigIds", "Too small: expected array to have >=1 items")
        if not {one["id"] for one in self.configs}.issuperset(body["scoreConfigIds"]):
            message = "At least one of the score config IDs cannot be found for the given project."
            return 400, {"message": message, "error": "InvalidRequestError"}
        made = {"description": None, **body, **self._stamp("queue")}
        self.queues.insert(0, made)
        return 200, made

    def _item(self, request: Request) -> tuple[int, Any]:
        queue_id = request.names["queueId"]
        if not any(one["id"] == queue_id for one in self.queues):
            return 404, {"message": "Annotation queue not found", "error": "LangfuseNotFoundError"}
        given = {"status": "PENDING", "completedAt": None, "queueId": queue_id}
        made = {**given, **request.body, **self._stamp("item")}
        self.items.insert(0, made)
        return 200, made

    def _listed_items(self, request: Request) -> tuple[int, Any]:
        status = request.one("status")
        found = [one for one in self.items if one["queueId"] == request.names["queueId"]]
        return _page(request, [one for one in found if status in (None, one["status"])])

    def _widget(self, request: Request) -> tuple[int, Any]:
        if not self.dashboards:
            return 404, "<!DOCTYPE html>"
        if request.body["view"] not in VIEWS:
            return 400, {"message": "Invalid request body", "code": "invalid_body", "details": {"issues": []}}
        chart = {"chartConfig": {"type": request.body["chartType"]}, "description": ""}
        self.widgets.insert(0, {**chart, **request.body, **self._stamp("widget")})
        return 200, self.widgets[0]

    def _board(self, request: Request) -> tuple[int, Any]:
        if not self.dashboards:
            return 404, "<!DOCTYPE html>"
        made = {"description": "", **request.body, **self._stamp("board"), "definition": {"widgets": []}, "filters": []}
        self.boards.insert(0, made)
        return 200, made

    def _placement(self, request: Request) -> tuple[int, Any]:
        board = next((one for one in self.boards if one["id"] == request.names["dashboardId"]), None)
        if board is None or request.body["widgetId"] not in {one["id"] for one in self.widgets}:
            return 404, {"message": "Dashboard not found", "code": "resource_not_found"}
        made = {**request.body, "id": self._stamp("placement")["id"]}
        board["definition"]["widgets"].append(made)
        return 200, made

    def _unstable(self, request: Request, rows: list[Row]) -> tuple[int, Any]:
        return _page(request, rows) if self.dashboards else (404, "<!DOCTYPE html>")


def _page(request: Request, rows: list[Row]) -> tuple[int, Any]:
    limit, page = int(request.one("limit") or 50), int(request.one("page") or 1)
    if limit > 100:
        return _bad("limit", "Too big: expected number to be <=100")
    pages = -(-len(rows) // limit)
    meta = {"page": page, "limit": limit, "totalItems": len(rows), "totalPages": pages}
    return 200, {"data": rows[(page - 1) * limit : page * limit], "meta": meta}


def _bad(place: str, message: str) -> tuple[int, Any]:
    return 400, {"message": "Invalid request data", "error": [{"path": [place], "message": message}]}
