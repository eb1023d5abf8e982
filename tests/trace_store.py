"""Spans as a store holds them, in OTLP JSON by trace, for the servers of Tempo and Jaeger in the tests."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from otel_drift.model import Span


@dataclass
class Stored:
    """A span with its resource and scope, each as in OTLP JSON (hex ids, times as text)."""

    resource: dict[str, Any]
    scope: dict[str, Any]
    span: dict[str, Any]

    @property
    def start(self) -> int:
        return int(self.span["startTimeUnixNano"])

    def value(self, key: str, where: str = "") -> Any:
        """An attribute of the span or of its resource."""
        for part, items in (("span", self.span.get("attributes", [])), ("resource", self.resource["attributes"])):
            if where in ("", part):
                for item in items:
                    if item["key"] == key:
                        return plain(item["value"])
        return None


@dataclass
class TraceStore:
    """Traces by id (hex, whole)."""

    traces: dict[str, list[Stored]] = field(default_factory=dict)

    def add_capture(self, folder: Path, name: str) -> None:
        """Take the spans of a capture as its file has them."""
        for path in sorted((folder / "traces").glob(name + ".json*")):
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
            decoder, at = json.JSONDecoder(), 0
            while at < len(text.rstrip()):
                document, at = decoder.raw_decode(text, at)
                at += len(text[at:]) - len(text[at:].lstrip())
                self.add(document)

    def add(self, document: dict[str, Any]) -> None:
        """Take an export request."""
        for entry in document["resourceSpans"]:
            resource = {"attributes": entry.get("resource", {}).get("attributes", [])}
            for scoped in entry["scopeSpans"]:
                for span in scoped["spans"]:
                    self._add(Stored(resource, scoped.get("scope", {}), _with_texts_for_integers(copy.deepcopy(span))))

    def add_spans(self, spans: Iterable[Span]) -> None:
        """Take spans of ours."""
        for one in spans:
            span = {
                "traceId": one.trace_id,
                "spanId": one.span_id,
                "parentSpanId": one.parent_id or "",
                "name": one.name,
                "kind": one.kind or 1,
                "startTimeUnixNano": str(one.start),
                "endTimeUnixNano": str(one.end),
                "attributes": [{"key": key, "value": any_value(value)} for key, value in one.attributes.items()],
            }
            resource = {"attributes": [{"key": k, "value": any_value(v)} for k, v in one.resource.items()]}
            self._add(Stored(resource, {"name": one.scope}, span))

    def add_exported(self, arrived: Iterable[tuple[str, dict[str, Any], str, Any]]) -> None:
        """Take what the OTLP receiver of the tests got."""
        for signal, resource, scope, message in arrived:
            if signal == "traces":
                assert isinstance(message, SpanMessage)
                span = MessageToDict(message)
                span |= {"traceId": message.trace_id.hex(), "spanId": message.span_id.hex(), "kind": message.kind}
                span["parentSpanId"] = message.parent_span_id.hex()
                span.pop("links", None)
                attributes = [{"key": key, "value": any_value(value)} for key, value in resource.items()]
                self._add(Stored({"attributes": attributes}, {"name": scope}, span))

    def cut(self, limit: int) -> None:
        """Cut every text at so many bytes, as Tempo does on taking it in: in the middle of a character if need be."""
        for stored in self.spans():
            for item in stored.span.get("attributes", []):
                text = item["value"].get("stringValue")
                if text is not None and len(text.encode()) > limit:
                    cut = text.encode()[:limit]
                    kept = cut.decode(errors="ignore")
                    item["value"]["stringValue"] = kept + "\ufffd" * (limit - len(kept.encode()))

    def spans(self) -> Iterator[Stored]:
        for stored in self.traces.values():
            yield from stored

    def _add(self, stored: Stored) -> None:
        own = self.traces.setdefault(stored.span["traceId"], [])
        if all(other.span["spanId"] != stored.span["spanId"] for other in own):  # merged on reading
            own.append(stored)


def plain(value: dict[str, Any]) -> Any:
    """An OTLP value as Python's."""
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return [plain(one) for one in value["arrayValue"].get("values", [])]
    return next(iter(value.values()), None)


def any_value(value: Any) -> dict[str, Any]:
    """Python's value as OTLP's."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(one) for one in value]}}
    return {"stringValue": str(value)}


def _with_texts_for_integers(value: Any) -> Any:
    """64-bit integers as protobuf's JSON has them: as text (exporters in JavaScript write numbers)."""
    if isinstance(value, dict):
        return {k: str(v) if k == "intValue" else _with_texts_for_integers(v) for k, v in value.items()}
    return [_with_texts_for_integers(one) for one in value] if isinstance(value, list) else value
