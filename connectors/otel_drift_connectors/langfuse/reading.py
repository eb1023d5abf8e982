"""Reading observations and scores page by page: cursors, many ids a request, and time ranges that are not too heavy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from otel_drift.errors import PlatformError, RecordError
from otel_drift.platform import fitting
from otel_drift_connectors.langfuse.connection import Connection, UnreadableAnswerError

if TYPE_CHECKING:
    from langfuse.api.commons.types.observation_v2 import ObservationV2
    from langfuse.api.scores.types.score_v3 import ScoreV3

LARGEST_PAGE = 1000
"""Observations; the server's limit."""
LARGEST_SCORE_PAGE = 100
MOST_IDS = 100
"""Ids in one request; together with `LONGEST_LIST` this keeps the URL below the 8 KB that proxies allow."""
LONGEST_LIST = 5_000
"""Characters of the ids in a URL."""

_TOO_HEAVY = 422
_SHORTEST = timedelta(minutes=1)
_BEGINNING = datetime(2023, 1, 1, tzinfo=UTC)
"""No trace in Langfuse is older than Langfuse."""

Filter = dict[str, Any]


def any_of(column: str, values: Sequence[str]) -> Filter:
    """A filter on a column that is one of `values`."""
    return {"type": "stringOptions", "column": column, "operator": "any of", "value": list(values)}


def all_tags(tags: Sequence[str]) -> Filter:
    """A filter on traces that have all of `tags`."""
    return {"type": "arrayOptions", "column": "tags", "operator": "all of", "value": list(tags)}


def metadata_is(key: str, value: str, operator: str = "=") -> Filter:
    """A filter on a metadata key, which matches the text that was sent."""
    return {"type": "stringObject", "column": "metadata", "key": key, "operator": operator, "value": value}


def in_lists(ids: Iterable[str], most: int = MOST_IDS) -> Iterator[list[str]]:
    """Ids in lists that fit a URL."""
    # As it stands in a filter: JSON, then percent-encoded, with quotes and a comma.
    return fitting(ids, lambda one: len(quote(json.dumps(one))) + 6, largest=LONGEST_LIST, most=most)


def observations(
    connection: Connection,
    fields: str,
    filters: Sequence[Filter] = (),
    *,
    report: Callable[[RecordError], None],
    since: datetime | None = None,
    until: datetime | None = None,
    **more: Any,
) -> Iterator[list[ObservationV2]]:
    """Yield pages of observations that began in [`since`, `until`), newest first.

    Where the server finds a range too heavy (422, a query that timed out), it is read in halves.

    Args:
        connection: To the server.
        fields: Field groups, comma-separated.
        filters: All must match.
        report: Told of each observation that cannot be read.
        since: None = from the beginning.
        until: None = to the end.
        more: Parameters of the SDK's ``observations.get_many``.

    Raises:
        PlatformError: the server cannot be read.
    """
    query = {"fields": fields, "limit": LARGEST_PAGE, **more}
    if filters:
        query["filter"] = json.dumps(list(filters), ensure_ascii=False, separators=(",", ":"))
    ranges: list[tuple[datetime | None, datetime | None]] = [(since, until)]
    last_moment: set[tuple[str | None, str]] = set()
    while ranges:
        since, until = ranges.pop()
        oldest: datetime | None = None
        try:
            for page in _pages(connection, {**query, "from_start_time": since, "to_start_time": until}, report):
                fresh = [row for row in page if (row.trace_id, row.id) not in last_moment]
                yield fresh
                oldest = page[-1].start_time if page else oldest
                last_moment = {(row.trace_id, row.id) for row in page if row.start_time == oldest}
        except PlatformError as error:
            if error.status != _TOO_HEAVY:
                raise
            # Cut in the middle of its pages, a range goes on at the last moment seen, which may hold more.
            if oldest is not None:
                until = oldest + timedelta(milliseconds=1)
            ranges += _halves(since, until, error)


def scores(connection: Connection, **filters: Any) -> Iterator[ScoreV3]:
    """Yield scores with comment, metadata, subject and author, newest first.

    Raises:
        PlatformError: the server cannot be read.
    """
    cursor: str | None = None
    while True:
        answer = connection.ask(
            connection.api.scores.get_many,
            limit=LARGEST_SCORE_PAGE,
            fields="details,subject,annotation",
            cursor=cursor,
            **filters,
        )
        yield from answer.data
        cursor = answer.meta.cursor
        if not cursor:
            return


def _pages(
    connection: Connection, query: Mapping[str, Any], report: Callable[[RecordError], None]
) -> Iterator[list[ObservationV2]]:
    cursor: str | None = None
    while True:
        asked = {**query, "cursor": cursor}
        try:
            answer = connection.ask(connection.api.observations.get_many, **asked)
            page, cursor = answer.data, answer.meta.cursor
        except UnreadableAnswerError:
            page, cursor = _readable(connection, asked, report)
        yield page
        if not cursor:
            return


def _readable(
    connection: Connection, query: Mapping[str, Any], report: Callable[[RecordError], None]
) -> tuple[list[ObservationV2], str | None]:
    """The observations of a page that the SDK can read, where it refuses the page for one that it cannot."""
    from langfuse.api.commons.types.observation_v2 import ObservationV2
    from langfuse.api.core.pydantic_utilities import parse_obj_as
    from pydantic import ValidationError

    params = [(_camel(name), one) for name, value in query.items() for one in _words(value)]
    answer = connection.http.get("/api/public/v2/observations", params).json()
    page: list[ObservationV2] = []
    for row in answer["data"]:
        try:
            page.append(parse_obj_as(ObservationV2, row))
        except ValidationError as error:
            places = {".".join(map(str, one["loc"])) for one in error.errors(include_input=False)}
            record = f"{row.get('traceId')}:{row.get('id')}" if isinstance(row, dict) else ""
            report(RecordError(f"an observation in an unknown form (at {', '.join(sorted(places))})", record=record))
    return page, answer["meta"].get("cursor")


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _words(value: Any) -> list[str]:
    """A parameter of the SDK's as it goes into the query."""
    if value is None:
        return []
    if isinstance(value, list):
        return [word for one in value for word in _words(one)]
    if isinstance(value, datetime):
        return [value.isoformat().replace("+00:00", "Z")]
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def _halves(
    since: datetime | None, until: datetime | None, error: PlatformError
) -> list[tuple[datetime | None, datetime | None]]:
    """The halves of a range, the newer one last, which is the one to read first."""
    first = since or _BEGINNING
    # One without an end gets one: observations may begin a little ahead of this machine's clock.
    last = until or datetime.now(UTC) + timedelta(days=1)
    if last - first <= _SHORTEST:
        raise PlatformError(
            f"{error}: even {_SHORTEST.seconds} seconds of {first:%Y-%m-%d %H:%M} UTC are too heavy a query for the "
            "server; give its ClickHouse more resources, or narrow by user, tag or environment",
            status=error.status,
        ) from None
    middle = first + (last - first) / 2
    middle = middle.replace(microsecond=middle.microsecond // 1000 * 1000)
    return [(first, middle), (middle, last)]
