"""The fake Langfuse's read model: observations, and what ``GET /api/public/v2/observations`` makes of them."""

from __future__ import annotations

import base64
import copy
import gzip
import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_drift import retry

if TYPE_CHECKING:
    from langfuse_server import Reply, Request

Row = dict[str, Any]

GROUPS = {
    "core": "id traceId startTime endTime projectId parentObservationId type",
    "basic": "name level statusMessage version environment bookmarked public userId sessionId isRootObservation",
    "time": "completionStartTime createdAt updatedAt",
    "io": "input output",
    "metadata": "metadata",
    "model": "model internalModelId modelParameters",
    "usage": "usageDetails inputUsage outputUsage totalUsage costDetails inputCost outputCost totalCost "
    "usagePricingTierId usagePricingTierName",
    "prompt": "promptId promptName promptVersion",
    "metrics": "",
    "trace_context": "tags release traceName",
}
OF_THE_MODEL = ("modelId", "inputPrice", "outputPrice", "totalPrice")
ALWAYS = frozenset({"latency", "timeToFirstToken", *OF_THE_MODEL})
"""Keys that come with every row; those of the model are null unless its group is asked for."""
TYPES = ("GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL")
COLUMNS = {
    *("id", "type", "name", "traceId", "startTime", "endTime", "environment", "level", "statusMessage", "version"),
    *("userId", "sessionId", "isRootObservation", "traceName", "traceTags", "tags", "latency", "timeToFirstToken"),
    *("tokensPerSecond", "inputTokens", "outputTokens", "totalTokens", "inputCost", "outputCost", "totalCost"),
    *("model", "promptName", "promptVersion", "input", "output", "metadata"),
}
CUT = 200
MERGED_AFTER = 15.0
"""Seconds for which a span that was sent again shows once per version (measured)."""


class Observations:
    """Observations by (trace, id), every version of them until they are merged."""

    def __init__(self) -> None:
        self.heaviest: timedelta | None = None
        """The longest time range a request may span before it is answered with 422; None = any."""
        self.cuts_always = False
        """Whether metadata are cut even where input and output are asked for, as published (4.16 does not)."""
        self.reads = 0
        self._versions: dict[tuple[str, str], list[Row]] = {}
        self._merged_at: dict[tuple[str, str], float] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Store rows as they come back with all field groups."""
        for row in rows:
            self._versions[row["traceId"], row["id"]] = [row]

    def resend(self, rows: Iterable[Row]) -> None:
        """Store a further version of rows: for a while they show doubled."""
        for row in rows:
            key = row["traceId"], row["id"]
            self._versions.setdefault(key, []).append(row)
            self._merged_at[key] = retry.now() + MERGED_AFTER

    def add_recorded(self, folder: Path) -> dict[str, dict[str, Any]]:
        """Store every recorded session of a folder (``sessions-all-fields``); returns the files by name."""
        files = {path.name.split(".")[0]: recorded(path) for path in sorted(folder.iterdir())}
        for file in files.values():
            for exchange in file["exchanges"]:
                if dict(exchange["request"]["query"]).get("traceId"):
                    self.add(copy.deepcopy(exchange["response"]["body"]["data"]))
        return files

    def answer(self, request: Request) -> tuple[int, Any] | Reply:
        """Answer a read as the server does, refusals included."""
        try:
            limit = _limit(request.one("limit"))
            after = _cursor(request.one("cursor"))
            matches = _conditions(request)
            fields = _fields(request.one("fields"))
        except Refused as refused:
            return 400, {"message": refused.message, "error": refused.error}
        if self._too_heavy(request):
            return 422, {"message": "Request timed out", "error": "Request timed out"}
        self.reads += 1
        shown = sorted((row for row in self._shown() if all(ok(row) for ok in matches)), key=_order, reverse=True)
        shown = [row for row in shown if after is None or _order(row) < after]
        page = shown[:limit]
        meta = {"cursor": _cursor_of(page[-1])} if page and len(shown) > limit else {}
        expanded = set((request.one("expandMetadata") or "").split(","))
        return 200, {"data": [self._selected(row, fields, expanded) for row in page], "meta": meta}

    def _shown(self) -> Iterable[Row]:
        """Each row once per version while it is unmerged; then all copies have the text of one, any, version."""
        for key, versions in self._versions.items():
            if len(versions) > 1 and retry.now() < self._merged_at[key]:
                texts = versions[self.reads % len(versions)]
                yield from ({**row, "input": texts["input"], "output": texts["output"]} for row in versions)
            else:
                yield versions[-1]

    def _selected(self, row: Row, fields: frozenset[str], expanded: set[str]) -> Row:
        shown = {key: value for key, value in row.items() if key in fields}
        if "model" not in fields:
            shown |= dict.fromkeys(OF_THE_MODEL)
        if "metadata" in shown and (self.cuts_always or "input" not in fields):
            sdk = row["metadata"].get("scope.name") == "langfuse-sdk"
            shown["metadata"] = {
                key: value if key in expanded else _cut(value, as_json=sdk and not key.startswith(PLAIN))
                for key, value in shown["metadata"].items()
            }
        return shown

    def _too_heavy(self, request: Request) -> bool:
        if self.heaviest is None:
            return False
        since, until = request.one("fromStartTime"), request.one("toStartTime")
        return since is None or until is None or _time(until) - _time(since) > self.heaviest


class Refused(Exception):
    """A 400, with its body."""

    def __init__(self, message: str, error: Any = "InvalidRequestError") -> None:
        super().__init__(message)
        self.message, self.error = message, error


def recorded(path: Path) -> dict[str, Any]:
    """A recorded file."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)  # type: ignore[no-any-return]


def _invalid(place: str, message: str) -> Refused:
    return Refused("Invalid request data", [{"code": "custom", "path": [place], "message": message}])


def _limit(text: str | None) -> int:
    if text is None:
        return 50
    if not text.isdigit():
        raise _invalid("limit", "Invalid input: expected number, received NaN")
    if int(text) > 1000:
        raise _invalid("limit", "Too big: expected number to be <=1000")
    return int(text)


def _cursor(text: str | None) -> tuple[datetime, str, str] | None:
    if text is None:
        return None
    try:
        value = json.loads(base64.b64decode(text, validate=True))
        return _time(value["lastStartTimeTo"]), value["lastTraceId"], value["lastId"]
    except (ValueError, KeyError, TypeError):
        raise Refused("Invalid cursor format") from None


def _cursor_of(row: Row) -> str:
    value = {"lastStartTimeTo": row["startTime"], "lastTraceId": row["traceId"], "lastId": row["id"]}
    return base64.b64encode(json.dumps(value, separators=(",", ":")).encode()).decode()


def _order(row: Row) -> tuple[datetime, str, str]:
    return _time(row["startTime"]), row["traceId"], row["id"]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _fields(text: str | None) -> frozenset[str]:
    """The keys of the groups asked for; an unknown group is ignored."""
    groups = {"core", *(text.split(",") if text is not None else ("basic",))}
    return frozenset(key for name in groups for key in GROUPS.get(name, "").split()) | ALWAYS


PLAIN = ("attributes.", "resourceAttributes.", "scope.")


def _stored(value: Any, *, as_json: bool) -> str:
    """The text ClickHouse holds: the SDK encodes its metadata as JSON, texts too."""
    return value if isinstance(value, str) and not as_json else json.dumps(value, ensure_ascii=False)


def _cut(value: Any, *, as_json: bool) -> Any:
    text = _stored(value, as_json=as_json)
    if len(text) <= CUT:
        return value
    try:
        return json.loads(text[:CUT])
    except ValueError:
        return text[:CUT]


def _conditions(request: Request) -> list[Callable[[Row], bool]]:
    found: list[Callable[[Row], bool]] = []
    for key in ("name", "userId", "sessionId", "traceId", "level", "version", "type"):
        value = request.one(key)
        if value is not None:
            if key == "type" and value not in TYPES:
                raise _invalid("type", f"Invalid option: expected one of {'|'.join(TYPES)}")
            found.append(lambda row, key=key, value=value: row[key] == value)
    if (parent := request.one("parentObservationId")) is not None:
        found.append(lambda row: (row["parentObservationId"] or "") == parent)
    if (root := request.one("isRootObservation")) is not None:
        found.append(lambda row: row["isRootObservation"] is (root == "true"))
    if environments := request.all("environment"):
        found.append(lambda row: row["environment"] in environments)
    for key, op in (("fromStartTime", ">="), ("toStartTime", "<")):
        if (text := request.one(key)) is not None:
            try:
                limit = _time(text)
            except ValueError:
                raise _invalid(key, "Invalid ISO datetime") from None
            if limit.tzinfo is None:
                raise _invalid(key, "Invalid ISO datetime")
            found.append(_compare("startTime", op, limit, _time))
    if request.one("parseIoAsJson") == "true":
        raise _invalid("parseIoAsJson", "parseIoAsJson=true is no longer supported on the v2 observations endpoint.")
    return found + _filters(request.one("filter"))


def _filters(text: str | None) -> list[Callable[[Row], bool]]:
    if text is None:
        return []
    try:
        filters = json.loads(text)
    except ValueError:
        raise Refused("Invalid JSON in filter parameter") from None
    for one in filters:
        if one.get("column") not in COLUMNS:
            raise Refused(f"Column {one.get('column')} does not match a UI / CH table mapping.")
    operators = [one["operator"] for one in filters if one["column"] in ("input", "output")]
    if operators and not {"matches", "="} & set(operators):
        raise Refused("Input/output filters require at least one `matches` or `=` operator.")
    return [_filter(one) for one in filters]


def _filter(one: dict[str, Any]) -> Callable[[Row], bool]:
    kind, column, op, value = one["type"], one["column"], one["operator"], one.get("value")
    column = "tags" if column == "traceTags" else column
    if kind == "stringOptions":
        return lambda row: (row[column] in value) is (op == "any of")
    if kind == "arrayOptions":
        test = {"all of": set.issuperset, "any of": lambda a, b: bool(a & b), "none of": set.isdisjoint}[op]
        return lambda row: test(set(row[column]), set(value))
    if kind == "boolean":
        return lambda row: (row[column] is value) is (op == "=")
    if kind == "datetime":
        return _compare(column, op, _time(value), _time)
    if kind == "string":
        return lambda row: _text_test(row[column] or "", op, value)
    if kind == "stringObject":
        key = one["key"]
        return lambda row: key in row["metadata"] and _text_test(_metadata_text(row, key), op, value)
    raise AssertionError(f"the fake knows no filter of type {kind}")


def _metadata_text(row: Row, key: str) -> str:
    sdk = row["metadata"].get("scope.name") == "langfuse-sdk"
    return _stored(row["metadata"][key], as_json=sdk and not key.startswith(PLAIN))


def _text_test(text: str, op: str, value: str) -> bool:
    if op == "=":
        return text == value
    if op == "matches":
        return value.lower() in text.lower()
    tests = {"contains": value in text, "starts with": text.startswith(value), "ends with": text.endswith(value)}
    return value not in text if op == "does not contain" else tests[op]


def _compare(column: str, op: str, limit: Any, read: Callable[[Any], Any]) -> Callable[[Row], bool]:
    tests: dict[str, Callable[[Any], bool]] = {
        ">=": lambda value: value >= limit,
        ">": lambda value: value > limit,
        "<": lambda value: value < limit,
        "<=": lambda value: value <= limit,
    }
    return lambda row: tests[op](read(row[column]))
