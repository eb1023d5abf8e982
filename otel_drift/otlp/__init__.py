"""Decodes OTLP (and MLflow's trace JSON) into spans and log records; shared by all connectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from otel_drift.errors import RecordError
from otel_drift.model import LogRecord, Record, Span
from otel_drift.otlp.limits import ProblemLog, ReadLimits

OnProblem = Callable[[RecordError], None]

__all__ = [
    "ProblemLog",
    "ReadLimits",
    "decode_logs_json",
    "decode_logs_protobuf",
    "decode_mlflow_json",
    "decode_traces_json",
    "decode_traces_protobuf",
]


def decode_traces_json(
    payload: bytes | Mapping[str, Any], *, limits: ReadLimits | None = None, on_problem: OnProblem | None = None
) -> list[Span]:
    """Return the spans of an OTLP/JSON trace request (or of several, one after the other).

    Broken spans are left out and given to `on_problem`.

    Raises:
        RecordError: there was nothing but problems.
    """
    return [record for record in _from_json(payload, limits, on_problem) if isinstance(record, Span)]


def decode_logs_json(
    payload: bytes | Mapping[str, Any], *, limits: ReadLimits | None = None, on_problem: OnProblem | None = None
) -> list[LogRecord]:
    """Return the log records of an OTLP/JSON log request; those that belong to no span are left out.

    Raises:
        RecordError: there was nothing but problems.
    """
    return [record for record in _from_json(payload, limits, on_problem) if isinstance(record, LogRecord)]


def decode_mlflow_json(
    payload: bytes | Mapping[str, Any], *, limits: ReadLimits | None = None, on_problem: OnProblem | None = None
) -> list[Span]:
    """Return the spans of one MLflow trace (``Trace.to_json()``), or of a list or lines of them.

    Raises:
        RecordError: there was nothing but problems.
    """
    return decode_traces_json(payload, limits=limits, on_problem=on_problem)


def decode_traces_protobuf(
    payload: bytes, *, limits: ReadLimits | None = None, on_problem: OnProblem | None = None
) -> list[Span]:
    """Return the spans of an ``ExportTraceServiceRequest``.

    Raises:
        RecordError: there was nothing but problems.
    """
    return [record for record in _from_protobuf(payload, limits, on_problem) if isinstance(record, Span)]


def decode_logs_protobuf(
    payload: bytes, *, limits: ReadLimits | None = None, on_problem: OnProblem | None = None
) -> list[LogRecord]:
    """Return the log records of an ``ExportLogsServiceRequest``; those that belong to no span are left out.

    Raises:
        RecordError: there was nothing but problems.
    """
    return [record for record in _from_protobuf(payload, limits, on_problem) if isinstance(record, LogRecord)]


def _from_json(
    payload: bytes | Mapping[str, Any], limits: ReadLimits | None, on_problem: OnProblem | None
) -> list[Record]:
    from otel_drift.otlp.json_walk import JsonWalk, whole_document
    from otel_drift.otlp.values import Decoding
    from otel_drift.otlp.window import ByteWindow

    limits = limits or ReadLimits()
    log = ProblemLog(limits, on_problem)
    decoding = Decoding(limits, log)
    if isinstance(payload, bytes):
        return _all(chain.from_iterable(JsonWalk(ByteWindow.over(payload), decoding).records()), log)
    return _all(whole_document(payload, decoding), log)


def _from_protobuf(payload: bytes, limits: ReadLimits | None, on_problem: OnProblem | None) -> list[Record]:
    from otel_drift.otlp.protobuf_walk import ProtobufWalk
    from otel_drift.otlp.values import Decoding
    from otel_drift.otlp.window import ByteWindow

    limits = limits or ReadLimits()
    log = ProblemLog(limits, on_problem)
    return _all(chain.from_iterable(ProtobufWalk(ByteWindow.over(payload), Decoding(limits, log)).records()), log)


def _all(found: Iterable[Record], log: ProblemLog) -> list[Record]:
    records = list(found)
    if log.kept and not records:
        raise log.kept[0]
    return records
