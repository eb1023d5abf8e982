"""An annotation as OpenTelemetry says it: an evaluation event (log record) or an audit span.

Source: the event ``gen_ai.evaluation.result`` of the GenAI semantic conventions (since v1.38.0). Evaluator version,
severity and targets other than a span have no standard attribute; those are ours, under ``otel_drift.``.
"""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

import otel_drift
from otel_drift.model import Annotation

EVENT_NAME = "gen_ai.evaluation.result"
SPAN_NAME = "otel_drift.audit"

EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_LABEL = "gen_ai.evaluation.score.label"
EVALUATION_SCORE = "gen_ai.evaluation.score.value"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"
CONVERSATION_ID = "gen_ai.conversation.id"
ERROR_TYPE = "error.type"
SPAN_KIND = "openinference.span.kind"

RESULT_ID = "otel_drift.result.id"
RESULT_REVISION = "otel_drift.result.revision"
RESULT_WITHDRAWN = "otel_drift.result.withdrawn"
AUDIT = "otel_drift.audit"
TARGET = "otel_drift.target"

_LOG_SEVERITIES = {"CRITICAL": SeverityNumber.ERROR, "MAJOR": SeverityNumber.WARN, "MINOR": SeverityNumber.WARN}
_SCOPE = InstrumentationScope("otel_drift", otel_drift.__version__)
_LONGEST_SPAN = 1_000_000
"""Nanoseconds an audit span covers, at the end of the answer or the beginning of trace and session: more would stretch
the trace."""


def resource() -> Resource:
    """Who writes: us, not the audited service (``OTEL_RESOURCE_ATTRIBUTES`` adds to it)."""
    return Resource.create({SERVICE_NAME: "otel-drift", SERVICE_VERSION: otel_drift.__version__})


def log_record(annotation: Annotation, writer: Resource) -> ReadableLogRecord:
    """The evaluation event, parented to the judged span by its trace and span id."""
    now = time.time_ns()
    severity = _LOG_SEVERITIES.get(str(annotation.metadata.get("severity")), SeverityNumber.INFO)
    context = _context(annotation.trace_id, annotation.span_id)
    record = LogRecord(
        timestamp=now,
        observed_timestamp=now,
        context=set_span_in_context(NonRecordingSpan(context)) if context else set_span_in_context(_NO_SPAN),
        severity_number=severity,
        severity_text=severity.name,
        attributes=attributes(annotation),
        event_name=EVENT_NAME,
    )
    if context is None and (trace_id := _hex(annotation.trace_id, 32)):
        record.trace_id = trace_id  # a value of a whole trace whose root span is unknown
    return ReadableLogRecord(record, writer, _SCOPE)


def audit_span(annotation: Annotation, writer: Resource) -> ReadableSpan | None:
    """The audit span in the audited trace; None where the trace has no OpenTelemetry id.

    Its id follows from result id and revision, so that one sent again is recognised.
    """
    trace_id = _hex(annotation.trace_id, 32)
    if not trace_id:
        return None
    digest = hashlib.sha256(f"{annotation.id}:{annotation.revision}".encode()).digest()
    span_id = int.from_bytes(digest[:8], "big") or 1
    parent = _context(annotation.trace_id, annotation.span_id)
    earlier = [context for ref in annotation.links if (context := _context(*ref.split(":", 1)))]
    start, end = annotation.start, max(annotation.end, annotation.start)
    if annotation.target == "span":
        start = max(start, end - _LONGEST_SPAN)
    else:  # a session ends long after its first trace, in which this span is
        end = min(end, start + _LONGEST_SPAN)
    return ReadableSpan(
        SPAN_NAME,
        context=SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)),
        parent=parent,
        resource=writer,
        attributes={**attributes(annotation), SPAN_KIND: "EVALUATOR"},
        links=[Link(context) for context in earlier],
        kind=SpanKind.INTERNAL,
        start_time=start,
        end_time=end,
        instrumentation_scope=_SCOPE,
    )


def attributes(annotation: Annotation) -> dict[str, Any]:
    """The attributes that event and span share."""
    values: dict[str, Any] = {
        EVALUATION_NAME: annotation.name,
        EVALUATION_LABEL: annotation.label,
        EVALUATION_SCORE: annotation.score,
        EVALUATION_EXPLANATION: annotation.explanation,
        ERROR_TYPE: annotation.error_type,
        CONVERSATION_ID: annotation.session_id,
        RESULT_ID: annotation.id,
        RESULT_REVISION: annotation.revision,
        RESULT_WITHDRAWN: annotation.withdrawn or None,
        AUDIT: annotation.audit,
        TARGET: annotation.target,
        "otel_drift.links": list(annotation.links) or None,
    }
    values |= {f"otel_drift.{key}": _attribute(value) for key, value in annotation.metadata.items()}
    return {key: _encodable(value) for key, value in values.items() if value is not None}


def _attribute(value: Any) -> Any:
    """A metadata value as an attribute: scalars as they are, lists as strings, prompts as ``id@version:hash``."""
    if isinstance(value, (list, tuple)):
        if all(isinstance(one, int) and not isinstance(one, bool) for one in value):
            return list(value) or None
        return [_text(one) for one in value] or None
    return value if isinstance(value, (str, bool, int, float)) or value is None else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dict) and {"id", "version", "sha256"} <= value.keys():
        return f"{value['id']}@{value['version']}:{str(value['sha256'])[:12]}"
    return str(value)


def _encodable(value: Any) -> Any:
    """Protobuf refuses lone surrogates, and the encoder would drop the whole attribute without a word."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return [_encodable(one) for one in value] if isinstance(value, list) else value


def _context(trace_id: str | None, span_id: str | None = None) -> SpanContext | None:
    trace, span = _hex(trace_id, 32), _hex(span_id, 16)
    if not trace or not span:
        return None
    return SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _hex(text: str | None, digits: int) -> int:
    """An id as a number; 0, which is no id, for anything but `digits` hex digits."""
    return int(text, 16) if text and re.fullmatch(f"[0-9a-fA-F]{{{digits}}}", text) else 0


_NO_SPAN = NonRecordingSpan(SpanContext(0, 0, is_remote=True))
