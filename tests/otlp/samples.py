"""OTLP/JSON made for tests: requests from a few words, and every spelling of the same spans."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from otel_drift.errors import RecordError
from otel_drift.model import LogRecord, Record, Span
from otel_drift.otlp.limits import ReadLimits
from otel_drift_connectors.otlp_file import OtlpFileSource

TRACE = "5b8efff798038103d269b633813fc60c"
START = 1_795_994_878_039_736_703


def span_id(number: int) -> str:
    return f"{number + 0xEEE19B7EC3C1B000:016x}"


def attribute(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": text}}


def span(number: int = 1, parent: int | None = None, **fields: Any) -> dict[str, Any]:
    """One span as an OTLP exporter writes it."""
    item: dict[str, Any] = {
        "traceId": TRACE,
        "spanId": span_id(number),
        "name": f"span {number}",
        "kind": 1,
        "startTimeUnixNano": str(START + number),
        "endTimeUnixNano": str(START + number + 1000),
        "attributes": [attribute("input.value", f'text {number} with "quotes", äöü and {{"traceId": 1}}')],
        "status": {},
    }
    if parent is not None:
        item["parentSpanId"] = span_id(parent)
    return {**item, **fields}


def log(number: int = 1, event: str = "gen_ai.user.message", time: int = 0, **fields: Any) -> dict[str, Any]:
    """One log record that belongs to span `number`."""
    return {
        "timeUnixNano": str(START + time),
        "traceId": TRACE,
        "spanId": span_id(number),
        "eventName": event,
        "body": {"kvlistValue": {"values": [attribute("content", f"said {number}")]}},
        "attributes": [attribute("gen_ai.system", "openai")],
        **fields,
    }


def request(*spans: Any, resource: str = "policy-bot", scope: str = "tests") -> dict[str, Any]:
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [attribute("service.name", resource)]},
                "scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}],
            }
        ]
    }


def log_request(*logs: Any, scope: str = "tests") -> dict[str, Any]:
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": [attribute("service.name", "policy-bot")]},
                "scopeLogs": [{"scope": {"name": scope}, "logRecords": list(logs)}],
            }
        ]
    }


def dumped(document: Any, **options: Any) -> bytes:
    return json.dumps(document, **{"separators": (",", ":"), "ensure_ascii": False, **options}).encode()


def read(*paths: Path, limits: ReadLimits | None = None) -> tuple[list[Record], OtlpFileSource]:
    """All records of files, and the source that read them."""
    source = OtlpFileSource(paths, limits=limits or ReadLimits())
    return [record for page, _ in source.read() for record in page], source


def read_bytes(folder: Path, data: bytes, limits: ReadLimits | None = None) -> tuple[list[Record], list[RecordError]]:
    """All records of one file with that content, and its problems."""
    path = folder / "input"
    path.write_bytes(data)
    records, source = read(path, limits=limits)
    assert source.problem_count >= len(source.problems)
    return records, source.problems


def spans_of(records: list[Record]) -> list[Span]:
    return [record for record in records if isinstance(record, Span)]


def logs_of(records: list[Record]) -> list[LogRecord]:
    return [record for record in records if isinstance(record, LogRecord)]


def protobuf(document: dict[str, Any]) -> bytes:
    """The protobuf of an OTLP/JSON document (whose ids are hex; protobuf's own JSON wants base64)."""
    from google.protobuf import json_format
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    message = TracesData() if "resourceSpans" in document else LogsData()
    json_format.ParseDict(with_base64_ids(document), message)
    return message.SerializeToString()


def with_base64_ids(value: Any) -> Any:
    value = json.loads(json.dumps(value))
    for item in _objects(value):
        for key in ("traceId", "spanId", "parentSpanId"):
            if isinstance(item.get(key), str):
                item[key] = base64.b64encode(bytes.fromhex(item[key])).decode()
    return value


def with_snake_case(value: Any) -> Any:
    if isinstance(value, list):
        return [with_snake_case(member) for member in value]
    if not isinstance(value, dict):
        return value
    return {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key): with_snake_case(member)
        for key, member in value.items()
    }


def with_numbers(value: Any) -> Any:
    """64-bit integers as numbers, enums as names."""
    value = json.loads(json.dumps(value))
    for item in _objects(value):
        for key in ("startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "observedTimeUnixNano", "intValue"):
            if isinstance(item.get(key), str):
                item[key] = int(item[key])
        if isinstance(item.get("kind"), int) and "spanId" in item:
            item["kind"] = (
                f"SPAN_KIND_{('UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER')[item['kind']]}"
            )
        if isinstance(item.get("code"), int):
            item["code"] = ("STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR")[item["code"]]
    return value


def with_reversed_keys(value: Any) -> Any:
    """Every object's members the other way round: spans before their resource and scope."""
    if isinstance(value, list):
        return [with_reversed_keys(member) for member in value]
    if isinstance(value, dict):
        return {key: with_reversed_keys(value[key]) for key in reversed(value)}
    return value


def _objects(value: Any) -> list[dict[str, Any]]:
    found, todo = [], [value]
    while todo:
        current = todo.pop()
        if isinstance(current, dict):
            found.append(current)
            todo += current.values()
        elif isinstance(current, list):
            todo += current
    return found


def capture(path: Path) -> Any:
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
