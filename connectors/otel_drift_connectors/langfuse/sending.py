"""Sending scores by the route the server has: batches of a size it takes, and what it says of each score."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from otel_drift.errors import ConfigError
from otel_drift.model import Rejection
from otel_drift.platform import RETRYABLE, Answer
from otel_drift_connectors.langfuse.connection import Connection
from otel_drift_connectors.langfuse.scores import WRITTEN_AT, Value, Write, moment

INGESTION = "/api/public/ingestion"
"""Takes ``score-create`` events on every v4 server tried (4.16), and says of each whether it is accepted."""
LIST = "/api/public/scores"
"""Takes a list of scores since 4.59 (SDK 5's route). A server before it refuses the list, so it is never sent one."""
LIST_SINCE = (4, 59, 0)

BATCH = 100
"""Scores a request: 1.1 s on the server (measured), counted as one by its rate limits."""
LARGEST = {INGESTION: 4_000_000, LIST: 900_000}
"""Bytes a request; the server's limits are 4.5 MB and 1 MB (413), and it takes no gzip (400)."""
SECONDS, SECONDS_EACH = 60.0, 0.05
"""Time-out: measured are 13 ms a score on an idle server, in one go."""

WRONGEST_CLOCK = 3_600_000
"""Milliseconds that another writer's clock may be ahead for its times to be outdone; beyond, they are not believed."""
_TOO_LARGE = 413
_SAID = 300
_EVENTS = uuid.UUID("5c9f0a52-6b0e-5d5b-9c4e-1d1d6d1b7a10")

Timed = tuple[Mapping[str, Any], str]
"""A body with its time of writing in its metadata, and the time the score shows."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent of a score, to be found again."""

    id: str
    value: Value
    written_at: str


class Sender:
    """Sends scores to one project. `clock` gives seconds since the epoch."""

    def __init__(self, connection: Connection, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._clock = clock
        self._route = INGESTION
        self._last = 0

    def probe(self) -> str:
        """The route this server takes scores by, found by an empty batch, which writes nothing.

        Raises:
            ConfigError: it has none we know, or the keys are refused.
            PlatformError: it cannot be reached.
        """
        if self._route == INGESTION:
            self._ingested([])
        return self._route

    def send(self, writes: Sequence[Write], floor: str = "") -> tuple[dict[str, Sent], dict[str, Rejection]]:
        """Send scores; each gets a time of writing later than any before it.

        Args:
            writes: Each of another id.
            floor: The latest time of writing that stands there already, as `moment` writes it.

        Returns:
            By score id: what was sent, and what was refused (rejections that name the score's id).

        Raises:
            ConfigError: the keys are refused, or the server takes no scores.
            PlatformError: the server failed; what was sent before is not told, and is found there next time.
        """
        self._last = max(self._last, min(_milliseconds(floor), int(self._clock() * 1000) + WRONGEST_CLOCK))
        timed = [self._timed(write) for write in writes]
        refused: dict[str, Rejection] = {}
        for batch in self._batches(timed):
            refused |= self._sent(batch)
        return {body["id"]: Sent(body["id"], body["value"], body["metadata"][WRITTEN_AT]) for body, _ in timed}, refused

    def _timed(self, write: Write) -> Timed:
        """The body with its time of writing, and the time the score shows."""
        # An older time than the stored one is accepted and loses; of equal ones in a batch the first stays (measured).
        self._last = max(int(self._clock() * 1000), self._last + 1)
        now = moment(datetime.fromtimestamp(self._last / 1000, UTC))
        body = {**write.body, "metadata": {**write.body["metadata"], WRITTEN_AT: now}}
        return body, moment(write.stands_since) if write.stands_since is not None else now

    def _batches(self, timed: Sequence[Timed]) -> Iterator[list[Timed]]:
        batch: list[Timed] = []
        size = 0
        for one in timed:
            bytes_of = len(orjson.dumps(one[0])) + 200
            if batch and (len(batch) >= BATCH or size + bytes_of > LARGEST[self._route]):
                yield batch
                batch, size = [], 0
            batch.append(one)
            size += bytes_of
        if batch:
            yield batch

    def _sent(self, batch: list[Timed]) -> dict[str, Rejection]:
        answer = self._post(batch)
        if answer.status == 400 and len(batch) > 1:  # a list with one score that does not fit is refused whole
            return {key: one for single in batch for key, one in self._sent([single]).items()}
        if answer.status == _TOO_LARGE:
            if len(batch) == 1:
                key = batch[0][0]["id"]
                return {key: Rejection(key, "the server takes no score of this size (413)")}
            middle = len(batch) // 2
            return self._sent(batch[:middle]) | self._sent(batch[middle:])
        if self._route == LIST:
            return _refused_of_list(batch, answer)
        return _refused_events(batch, answer.json())

    def _post(self, batch: list[Timed]) -> Answer:
        if self._route == INGESTION and (answer := self._ingested(batch)) is not None:
            return answer
        # Updates find the row they mean by id and time (SDK 5), so a score keeps the time of its first write.
        body = [{**score, "timestamp": shown} for score, shown in batch]
        return self._connection.http.request(
            "POST", LIST, json=body, accept=(400, _TOO_LARGE), timeout=SECONDS + SECONDS_EACH * len(batch)
        )

    def _ingested(self, batch: list[Timed]) -> Answer | None:
        """The answer to a batch of events; None where the server has no such route any more, from now on."""
        events = [
            {"id": _event_id(body), "type": "score-create", "timestamp": body["metadata"][WRITTEN_AT], "body": body}
            for body, _ in batch
        ]
        answer = self._connection.http.request(
            "POST",
            INGESTION,
            json={"batch": events},
            accept=(404, _TOO_LARGE),
            timeout=SECONDS + SECONDS_EACH * len(batch),
        )
        if answer.status != 404:
            return answer
        version = self._connection.version
        if version and version < LIST_SINCE:
            raise ConfigError(
                f"langfuse: {self._connection.base_url} answers 404 to {INGESTION}, and takes lists of scores only "
                f"since {'.'.join(map(str, LIST_SINCE))}; let the route through its proxy, or upgrade the server"
            )
        self._route = LIST
        return None


def _refused_events(batch: Sequence[Timed], said: Any) -> dict[str, Rejection]:
    """Of each event its fate is told (207); one that is not mentioned may come again."""
    events = {_event_id(body): body["id"] for body, _ in batch}
    successes, errors = (_rows(said, key) for key in ("successes", "errors"))
    refused = {
        key: Rejection(key, "the server said nothing of it", retryable=True)
        for event, key in events.items()
        if event not in {one.get("id") for one in successes}
    }
    for error in errors:
        if (key := events.get(str(error.get("id")))) is not None:
            refused[key] = Rejection(key, _reason(error), retryable=error.get("status") in RETRYABLE)
    return refused


def _refused_of_list(batch: Sequence[Timed], answer: Answer) -> dict[str, Rejection]:
    """A list is answered as a whole: 202, or 207 with messages that name no score.

    What is missing then, the reading back finds; of a score sent alone the message is its own.
    """
    said = answer.json()
    errors = _rows(said, "errors")
    if answer.status == 400 or (errors and len(batch) == 1):
        reason = _reason(errors[0] if errors else said)
        return {body["id"]: Rejection(body["id"], reason) for body, _ in batch}
    return {}


def _rows(said: Any, key: str) -> list[Mapping[str, Any]]:
    rows = said.get(key) if isinstance(said, Mapping) else None
    return [one for one in rows if isinstance(one, Mapping)] if isinstance(rows, list) else []


def _reason(error: Mapping[str, Any]) -> str:
    """The server's words without the value it complains about, which may be trace text."""
    words = [str(error.get("message") or "refused")]
    detail = error.get("error")
    if isinstance(detail, str):  # in a 207, JSON as text
        try:
            detail = orjson.loads(detail)
        except orjson.JSONDecodeError:
            words.append(detail)
    if isinstance(detail, list):
        for issue in detail[:3]:
            if isinstance(issue, Mapping):
                place = ".".join(map(str, issue.get("path") or ()))
                words.append(f"{place}: {issue.get('message') or issue.get('code')}")
    return "; ".join(words)[:_SAID]


def _event_id(body: Mapping[str, Any]) -> str:
    return str(uuid.uuid5(_EVENTS, f"{body['id']} {body['metadata'][WRITTEN_AT]}"))


def _milliseconds(written: str) -> int:
    try:
        return int(datetime.fromisoformat(written).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
