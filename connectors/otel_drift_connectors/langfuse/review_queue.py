"""People's review in Langfuse: items into an annotation queue, once each, and reviewers' verdicts back out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from otel_drift.errors import ConfigError
from otel_drift.protocols import ReviewVerdict
from otel_drift_connectors.langfuse.connection import Connection

QUEUE = "otel-drift"
"""The name of the queue, where no other is given."""
SUFFIX = ".review"
"""A reviewer's score is called ``<audit>.review``; its values:"""
CONFIRMED, REJECTED = "confirmed", "rejected"
LONGEST_NAME = 35
PAGE = 100
SOUGHT = 50
"""Ids sought at once."""
ROWS = 1_000

Place = tuple[str, str]
"""``OBSERVATION`` or ``SESSION``, and its id."""


class ReviewQueue:
    """One annotation queue of a project.

    A queue item is an observation or a session; it has no text, so the reviewer reads why in the scores on it. Several
    findings on one answer are one item, and a verdict is about all of an audit's findings there.

    Args:
        connection: The project.
        name: The queue's name.
    """

    def __init__(self, connection: Connection, name: str = QUEUE) -> None:
        self.name = name
        self._connection = connection
        self._id: str | None = None

    def push(self, items: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
        """Put review items into the queue that are not in it, done ones included.

        The server takes an item twice and takes ids that do not exist, so the queue is read whole, and what is new is
        looked up first.

        Args:
            items: As the ledger lists them: `span_ref` (``trace_id:span_id``), else `session_id`.

        Returns:
            How many places were added, and how many were left out because this project does not hold them.

        Raises:
            ConfigError: there is no such queue, or the keys are refused.
            PlatformError: the server failed; the next time goes on where this one stopped.
        """
        wanted = dict.fromkeys(place for one in items if (place := _place(one)) is not None)
        queued = set(self._queued())
        new = [place for place in wanted if place not in queued]
        held = self._held(new)
        for kind, of in (there := [place for place in new if place in held]):
            body = {"objectType": kind, "objectId": of}
            # Not sent again where the answer is lost: it may be there, which the next time sees.
            path = f"/api/public/annotation-queues/{self._queue_id()}/items"
            self._connection.http.request("POST", path, json=body, retried=False)
        return len(there), len(new) - len(there)

    def verdicts(self) -> Iterator[ReviewVerdict]:
        """What reviewers of the queue decided, newest first; values other than confirmed and rejected are no verdicts.

        Raises:
            ConfigError: there is no such queue, or the keys are refused.
            PlatformError: the server failed.
        """
        api, cursor = self._connection.api, None
        while True:
            page = self._connection.ask(
                api.scores.get_many,
                source="ANNOTATION",
                queue_id=self._queue_id(),
                fields="details,subject,annotation",
                limit=PAGE,
                cursor=cursor,
            )
            for row in page.data:
                if (verdict := _verdict(row)) is not None:
                    yield verdict
            cursor = page.meta.cursor
            if not cursor:
                return

    def _queue_id(self) -> str:
        if self._id is None:
            found = named(self._connection, self._connection.api.annotation_queues.list_queues, self.name)
            if found is None:
                raise ConfigError(
                    f"langfuse: project {self._connection.project.name!r} has no annotation queue {self.name!r}; "
                    f"`otel-drift setup langfuse --queue {self.name!r}` makes it"
                )
            self._id = found.id
        return self._id

    def _queued(self) -> Iterator[Place]:
        route = self._connection.api.annotation_queues.list_queue_items
        for one in pages(self._connection, lambda **page: route(self._queue_id(), **page)):
            yield str(one.object_type.value), one.object_id

    def _held(self, places: Sequence[Place]) -> set[Place]:
        """Those that this project holds: a ledger may hold results of other platforms, and of files."""
        held: set[Place] = set()
        for kind, column, attribute in (("OBSERVATION", "id", "id"), ("SESSION", "sessionId", "session_id")):
            ids = [of for of_kind, of in places if of_kind == kind]
            for start in range(0, len(ids), SOUGHT):
                held |= {(kind, one) for one in self._found(column, attribute, ids[start : start + SOUGHT])}
        return held

    def _found(self, column: str, attribute: str, ids: Sequence[str]) -> set[str]:
        condition = {"type": "stringOptions", "column": column, "operator": "any of", "value": list(ids)}
        query = orjson.dumps([condition]).decode()
        found: set[str] = set()
        cursor = None
        while len(found) < len(ids):
            page = self._connection.ask(
                self._connection.api.observations.get_many,
                fields="core,basic",
                filter=query,
                limit=ROWS,
                cursor=cursor,
            )
            found.update(of for row in page.data if (of := getattr(row, attribute)) in ids)
            cursor = page.meta.cursor
            if not cursor:
                break
        return found


def named(connection: Connection, route: Callable[..., Any], name: str) -> Any:
    """The row of a paged list that has this name and is not archived, None if none has."""
    rows = pages(connection, route)
    return next((one for one in rows if one.name == name and not getattr(one, "is_archived", False)), None)


def pages(connection: Connection, route: Callable[..., Any]) -> Iterator[Any]:
    """All rows of a list that is paged by number."""
    number = 1
    while True:
        page = connection.ask(route, page=number, limit=PAGE)
        yield from page.data
        if number >= page.meta.total_pages or not page.data:
            return
        number += 1


def _place(item: Mapping[str, Any]) -> Place | None:
    span_id = str(item.get("span_ref") or "").partition(":")[2]
    if span_id:
        return "OBSERVATION", span_id
    return ("SESSION", str(item["session_id"])) if item.get("session_id") else None


def _verdict(row: Any) -> ReviewVerdict | None:
    said = {True: CONFIRMED, False: REJECTED}.get(row.value) if isinstance(row.value, bool) else row.value
    decision = said.casefold() if isinstance(said, str) else None
    if decision not in (CONFIRMED, REJECTED) or not row.name.endswith(SUFFIX) or row.subject is None:
        return None
    kind = row.subject.kind
    if kind not in ("observation", "session"):
        return None
    return ReviewVerdict(
        audit=row.name.removesuffix(SUFFIX),
        span_ref=f"{row.subject.trace_id}:{row.subject.id}" if kind == "observation" else None,
        session_id=row.subject.id if kind == "session" else None,
        decision="confirmed" if decision == CONFIRMED else "rejected",
        by=row.author_user_id or "a reviewer in Langfuse",
        why=(row.comment or "").strip() or "Decided in Langfuse.",
        at=int(row.updated_at.timestamp() * 1_000_000_000),
    )
