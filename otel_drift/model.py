"""The nouns of the product: spans in, sessions reconstructed, units audited, annotations out.

Frozen data without logic beyond what a name needs. Times are nanoseconds since the Unix epoch.
A *ref* is ``trace_id:span_id`` in lower-case hex.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from otel_drift.passage_mark import PassageMark

Value: TypeAlias = str | bool | int | float | bytes | list[Any] | dict[str, Any] | None
"""An attribute value as OTLP's ``AnyValue`` allows (arrays and key-value lists become list and dict)."""

Attributes: TypeAlias = Mapping[str, Any]

Severity = Literal["CRITICAL", "MAJOR", "MINOR", "NONE"]
SEVERITY_SCORES: Mapping[str, float] = MappingProxyType({"CRITICAL": 1.0, "MAJOR": 0.7, "MINOR": 0.3, "NONE": 0.0})
"""Fixed numbers, because platforms chart means (DESIGN: severity, names, what is written)."""


def worst(severities: list[Severity] | tuple[Severity, ...]) -> Severity:
    """Return the most severe of `severities`; ``NONE`` for an empty list."""
    return max(severities, key=lambda s: SEVERITY_SCORES[s], default="NONE")


# --- telemetry as it arrives --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event on a span."""

    name: str
    time: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """An OTLP log record that belongs to a span (same trace and span id)."""

    trace_id: str
    span_id: str
    event_name: str
    time: int
    body: Any = None
    attributes: Attributes = field(default_factory=dict)
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """One span with its resource, scope, events and joined log records."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start: int
    end: int
    attributes: Attributes = field(default_factory=dict)
    resource: Attributes = field(default_factory=dict)
    scope: str = ""
    kind: int = 0
    status: Literal["unset", "ok", "error"] = "unset"
    status_message: str = ""
    events: tuple[SpanEvent, ...] = ()
    logs: tuple[LogRecord, ...] = ()

    @property
    def ref(self) -> str:
        """``trace_id:span_id``."""
        return f"{self.trace_id}:{self.span_id}"


Record: TypeAlias = Span | LogRecord
"""What a source yields: log records reach their span later, by trace and span id."""


# --- the reconstructed conversation -------------------------------------------------------------

RetrievalState = Literal["captured", "none", "no_retrieval", "not_captured", "ids_only", "partial"]
AnswerState = Literal["captured", "failed", "not_captured"]
ReadFrom = Literal["retriever", "reranker", "tool", "prompt"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved passage the model was given in one turn.

    `id` is the trace's own id, or ``tN.pM`` where the trace has none (`own_id` is then false).
    `text` is None where only the id was captured.
    """

    id: str
    text: str | None
    rank: int
    own_id: bool = True
    score: float | None = None
    title: str | None = None
    source: str | None = None
    author: str | None = None
    date: str | None = None
    document_type: str | None = None
    read_from: ReadFrom = "retriever"
    span_ref: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the assistant called in a turn."""

    name: str
    arguments: str | None = None
    result: str | None = None
    is_retrieval: bool = False
    span_ref: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message and what the assistant made of it."""

    turn_id: str
    number: int
    started: int
    ended: int
    user: str | None
    answer: str | None
    answer_state: AnswerState
    retrieval: RetrievalState
    passages: tuple[Passage, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    root_ref: str | None = None
    answer_ref: str | None = None
    trace_ids: tuple[str, ...] = ()
    model: str | None = None
    app_version: str | None = None
    prompt_name: str | None = None
    prompt_version: str | None = None
    environment: str | None = None
    tags: tuple[str, ...] = ()
    feedback: str | None = None
    error: str | None = None
    alternatives: tuple[Turn, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether the answer's text was captured."""
        return self.answer_state == "captured" and bool(self.answer)

    @property
    def ref(self) -> str:
        """The short reference a judge sees: ``t3``."""
        return f"t{self.number}"

    def passage_ref(self, index: int) -> str:
        """The short reference of ``passages[index]`` (0-based) that a judge sees: ``t3.p1``."""
        return f"t{self.number}.p{index + 1}"


@dataclass(frozen=True, slots=True)
class Hint:
    """Something a session lacks, and the setting of the instrumentation that would capture it."""

    code: str
    convention: str
    what: str
    remedy: str
    turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation, turn by turn.

    `session_id` is None where no span carries one; `key` is stable either way and never merges two customers:
    it is built from project (or service), environment, tenant and user where known, and session id (or the first
    trace id).
    """

    key: str
    session_id: str | None
    turns: tuple[Turn, ...]
    trace_ids: tuple[str, ...]
    project: str = ""
    environment: str | None = None
    user: str | None = None
    conventions: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()
    tenant: str | None = None

    @property
    def name(self) -> str:
        """What to show a person: the session id, else the first trace id."""
        return self.session_id or (self.trace_ids[0] if self.trace_ids else self.key)


# --- the judge's side ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PromptRef:
    """Which prompt text was used: ``factual_drift/session``, ``v1``, sha256 of the template file."""

    id: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message for a judge."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """One question for a judge.

    An LLM judge reads `messages` and `schema`; the embedded judge reads `material`, which holds the same content
    structured (for ``factual_drift`` the redacted `Session`) and answers in the same JSON.
    `fingerprint` is the sha256 of the rendered messages without the per-call nonce: the cache key's first part.
    """

    audit: str
    step: str
    prompt: PromptRef
    messages: tuple[Message, ...]
    schema_name: str
    schema: Mapping[str, Any]
    fingerprint: str
    material: Any = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """What a judge said, raw. `model` is the one the response reports; `cost` is US dollars, None if unknown."""

    text: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    finish_reason: str | None = None
    parameters: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgeLimits:
    """Token limits and price (US dollars per token) of a judge; None = unlimited or unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_price: float | None = None
    output_price: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One ask of one step, kept for the audit record whether it passed or not.

    Of `errors`, those that the validation found in the answer are `faults.Fault`, which names the rule.
    """

    step: str
    number: int
    prompt: PromptRef
    cache_key: str
    answer: JudgeAnswer | None
    errors: tuple[str, ...] = ()
    cached: bool = False
    messages: tuple[Message, ...] = ()


# --- results ------------------------------------------------------------------------------------

Outcome = Literal["findings", "clean", "not_applicable", "inconclusive"]
FindingStatus = Literal["suspected", "confirmed", "rejected"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A suspicion with evidence, ready to be written to a platform.

    `type` is the canonical type (``CONTRADICTION``); `span_ref` the answer it concerns; `earlier_ref` the earlier
    answer it conflicts with. `quotes` were checked verbatim against the trace. `status` and `muted` (why, where it is)
    are what people said of it, put in by the ledger.
    """

    event_id: str
    audit: str
    type: str
    severity: Severity
    confidence: float
    turn_number: int
    span_ref: str
    explanation: str
    earlier_turn: int | None = None
    earlier_ref: str | None = None
    quotes: tuple[str, ...] = ()
    likely_cause: str | None = None
    status: FindingStatus = "suspected"
    muted: str | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """The result of one audit of one session: what `--format json` prints and the ledger keeps.

    `report` is the audit's own JSON-ready report (None unless the outcome is findings or clean).
    `calls` counts judge calls really made in this run (cached answers are not counted).
    """

    unit_id: str
    audit: str
    session: Session
    outcome: Outcome
    reason: str | None
    severity: Severity
    report: Mapping[str, Any] | None
    findings: tuple[Finding, ...]
    judge: str
    judge_note: str = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    prompts: tuple[PromptRef, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    content_sha256: str = ""


Target = Literal["span", "trace", "session"]


@dataclass(frozen=True, slots=True)
class Annotation:
    """One value to write on a platform: exactly one current value per (`target`, target ids, `name`).

    `id` is derived from those and stays the same over revisions; `revision` counts from 1. `score` is None and
    `error_type` set for outcomes that are no verdict (inconclusive, not applicable). `start` and `end` are the
    audited span's times, so that an audit span can be placed inside the audited window. `environment` is the audited
    application's. `passages` are those it concerns, for platforms that annotate documents; a withdrawn one has them as
    they were.
    """

    id: str
    revision: int
    name: str
    target: Target
    trace_id: str | None
    span_id: str | None
    session_id: str | None
    label: str
    score: float | None
    explanation: str | None
    audit: str
    start: int
    end: int
    error_type: str | None = None
    withdrawn: bool = False
    links: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    environment: str | None = None
    passages: tuple[PassageMark, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """An annotation a sink refused, and why."""

    annotation_id: str
    reason: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What became of the annotations given to a sink."""

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    rejected: tuple[Rejection, ...] = ()
