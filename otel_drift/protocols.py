"""The extension points. Structural: nothing to subclass, nothing to register beyond an entry point."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel

from otel_drift.model import (
    Annotation,
    Finding,
    JudgeAnswer,
    JudgeLimits,
    JudgeTask,
    Record,
    Session,
    WriteReport,
)


@dataclass(frozen=True, slots=True)
class Window:
    """Which sessions to read: those with a span in [`since`, `until`) (nanoseconds since the epoch), each whole.

    `sessions` names session ids instead: these are read whole, whenever they were. The others narrow what the
    platform is asked for where it can tell; whatever else comes is left out by the pipeline.
    """

    since: int
    until: int
    sessions: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """All of them."""


@runtime_checkable
class Source(Protocol):
    """Where spans come from. `name` identifies it in the ledger and for people: no secrets in it.

    Optional besides:

    * ``windowed = True``: it holds more than one wants to read, and `read` is always given a `Window` (a platform;
      files are read whole). Its constructor is given what follows ``NAME:`` on the command line, then as keywords the
      options of ``[connectors.NAME]`` in the settings, and ``on_problem``, to be told of each `RecordError`.
    * ``check() -> str``: raises `ConfigError` or `SourceError` where reading cannot succeed (wrong key, project, URL, a
      server too old), else says in a line what is there. Called before anything is paid for.
    * ``trace_url`` and ``session_url``: where a person sees them, with ``{trace_id}`` and, if it can, ``{span_id}``,
      or ``{session_id}``.
    * ``close()``.
    """

    name: str

    def read(
        self, cursor: str | None = None, window: Window | None = None
    ) -> Iterator[tuple[Sequence[Record], str | None]]:
        """Yield pages of spans and log records, each with the cursor that follows it (None where there is none).

        A session that has a span in the window is read whole, also what lies before it; a record that comes twice
        does no harm. `cursor` goes on after the page it came with, in the same window.

        Raises:
            SourceError: the source cannot be read on. One broken record is no such case: it is told to ``on_problem``.
        """
        ...


@runtime_checkable
class Sink(Protocol):
    """Where annotations go. `upserts` says whether a second write replaces the first; `name` as of a source.

    Optional besides: ``check() -> str`` as of a source, and ``confirm(annotations) -> WriteReport`` where what `write`
    reports as written was only accepted: it reads back, waits within reason, and says what is really there; what it
    does not mention or rejects as retryable stays owed.
    """

    name: str
    upserts: bool

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Write the annotations.

        Raises:
            SinkError: nothing could be written now; all stay owed.
        """
        ...

    def close(self) -> None:
        """Release what the sink holds."""
        ...


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """What a person decided on a platform about an audit's findings on an answer, or about a session as a whole.

    `span_ref` is ``trace_id:span_id``; `at` nanoseconds since the epoch.
    """

    audit: str
    span_ref: str | None
    session_id: str | None
    decision: Literal["confirmed", "rejected"]
    by: str
    why: str
    at: int


class ReviewQueue(Protocol):
    """Where people review on a platform; a sink that has one offers ``review_queue(name=…)``."""

    name: str

    def push(self, items: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
        """Add review items (`span_ref`, else `session_id`), once each: how many were, and how many it does not hold."""
        ...

    def verdicts(self) -> Iterator[ReviewVerdict]:
        """What was decided there."""
        ...


@runtime_checkable
class Judge(Protocol):
    """Who answers a task. `name` goes into every result; `note` is the sentence shown wherever it speaks.

    Optional besides: ``check()`` raises `ConfigError` where no ask can succeed (a missing key), and is called before
    a run reads anything.
    """

    name: str
    note: str
    embedded: bool
    endpoint: str
    """Where the text goes, for people: a URL, or ``this process``."""

    def parameters(self) -> Mapping[str, Any]:
        """What else decides the answer (temperature, seed, model, endpoint): part of the cache key."""
        ...

    def limits(self) -> JudgeLimits:
        """Token limits and prices."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text`, estimated where the tokenizer is unknown."""
        ...

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        """Answer one task.

        Raises:
            JudgeError: no answer was to be had (after the retries that make sense).
        """
        ...


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Whether a session can be audited; `reason` when not; `flags` such as ``sparse`` go into the report."""

    eligible: bool
    reason: str | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """What an audit may be told. `limits` are the judge's; `taxonomy` and `severity_rules` extend the prompt."""

    limits: JudgeLimits = field(default_factory=JudgeLimits)
    domain: str | None = None
    taxonomy: tuple[str, ...] = ()
    severity_rules: Mapping[str, str] = field(default_factory=dict)
    retrieval_tools: tuple[str, ...] = ()
    prompts_dir: str | None = None
    prompt_versions: Mapping[str, str] = field(default_factory=dict)
    """Prompt id → version to use; others use the highest there is. Load prompts by `prompting.chosen`."""
    constraints: tuple[str, ...] = ()
    """The operator's further rules, one sentence each; `prompting.chosen` puts them after every prompt."""
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Prompt id → the operator's worked examples, written out (see `worked_examples`)."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What one audit alone is told, by its name: ``{"longform_drift": {"risk_level": "high"}}``."""
    count_tokens: Any = None
    """``Callable[[str], int]``, the judge's; None = four characters a token."""
    embedded_judge: bool = False
    ask_again: bool = False
    """Whether a stored answer that does not pass is asked for anew. Decides no result, only who pays for one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One ask of an audit: a prompt with its inputs, the model of the answer, and the checks on it."""

    name: str
    prompt_id: str
    inputs: Mapping[str, str]
    answer_model: type[BaseModel]
    check: Any
    """``Callable[[BaseModel], list[str]]``: what is wrong with a well-formed answer, one sentence each."""
    material: Any = None
    max_repairs: int = 1


@dataclass(frozen=True, slots=True)
class Forecast:
    """What one ask is expected to take, in tokens."""

    input_tokens: int
    output_tokens: int


@runtime_checkable
class Audit(Protocol):
    """One audit: stateless, no I/O.

    Optional besides: `version` (of its code) and ``prompt_inputs(settings) -> Mapping[str, Collection[str]]`` (its
    prompts and the names each is given), both part of a result's fingerprint; ``answer_models(settings) ->
    Mapping[str, type[BaseModel]]`` (the form of the answer to each prompt, so that worked examples can be checked);
    ``forecast(session, settings) -> Sequence[Forecast]`` for dry runs (else the first batch of steps is counted); and
    ``per_turn = True`` where the unit is one turn: the audit is then given sessions that hold just that turn, one after
    another; ``reads_options_of`` with the names of other audits whose options it heeds, for the fingerprint;
    ``finding_types(settings) -> Collection[str]``, so that each type's counter is there before the first finding; and
    checks of steps that return `faults.Fault` instead of mere sentences, for statistics by rule.
    """

    name: str

    def eligibility(self, session: Session, settings: AuditSettings) -> Eligibility:
        """Whether and why (not)."""
        ...

    def steps(
        self, session: Session, settings: AuditSettings
    ) -> Generator[Sequence[Step], Sequence[BaseModel], dict[str, Any]]:
        """Yield batches of steps, receive their validated answers, return the merged report."""
        ...

    def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
        """The findings of a report (already checked)."""
        ...


@runtime_checkable
class AnswerCache(Protocol):
    """Remembers judge answers by cache key, so that nothing is asked twice."""

    def lookup(self, cache_key: str) -> JudgeAnswer | None:
        """The stored answer, or None."""
        ...

    def remember(self, cache_key: str, task: JudgeTask, answer: JudgeAnswer, *, instead: bool = False) -> None:
        """Store an answer durably before it is used; `instead` of the one there is, or else the first stays."""
        ...


@dataclass(frozen=True, slots=True)
class Alert:
    """What leaves the trust domain: ids, type, severity and links; `quotes` are empty unless asked for.

    Ids and names are as the trace has them, and may be any text: `alerts.wording` makes them safe for people to read.
    Quotes are cut and safe for any chat already.

    `key` is the same each time the same finding is told of, also after a restart: receivers know a repetition by it.
    `state` is ``resolved`` once the finding was withdrawn or erased, or a person rejected it. Of `kind` ``action`` it
    is a long answer's recommended action, which is never resolved; `details` then has ``recommended_action``,
    ``drift_start_sentence_index``, ``drift_start_char``, ``drift_severity``, ``drift_severity_score`` and ``unit_id``.
    `holds_until` is set for alerters that repeat: not told again by then, the alert may be taken for resolved.
    Times are nanoseconds since the epoch.
    """

    key: str
    kind: Literal["finding", "action"]
    state: Literal["firing", "resolved"]
    audit: str
    type: str
    severity: str
    session_id: str | None
    span_ref: str
    started: int
    ended: int | None = None
    holds_until: int | None = None
    event_id: str | None = None
    application: str = ""
    environment: str | None = None
    judge: str = ""
    confidence: float | None = None
    link: str | None = None
    session_link: str | None = None
    quotes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Alerter(Protocol):
    """Who is told. `name` identifies it in the ledger: no secrets in it.

    `repeats` says whether it wants alerts that still fire to be told again and again (Alertmanager: else it takes
    them for resolved). Optional besides: ``check() -> str`` as of a source, ``close()``.
    """

    name: str
    repeats: bool

    def notify(self, alerts: Sequence[Alert]) -> None:
        """Tell of these alerts in one notification; it may come more than once.

        Raises:
            SinkError: nobody was told; all are told again later.
        """
        ...
