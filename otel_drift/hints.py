"""What a session lacks, and which setting of which instrumentation would capture it.

The settings were read in the instrumentations' own sources and seen to work on captures of real libraries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from otel_drift.model import Hint, Turn
from otel_drift.normalise import Step
from otel_drift.normalise.builtin_search import builtin_search
from otel_drift.reasons import RECONSTRUCTION_FAILED

_CONTENT = {
    "gen_ai": "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY with "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental (older opentelemetry-instrumentation-*: =true, and "
    "export the log records too)",
    "google_adk": "set OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental and "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY, or export the log records too: by default the "
    "content is only there",
    "pydantic_ai": "use InstrumentationSettings(include_content=True), or "
    "logfire.instrument_pydantic_ai(include_content=True)",
    "traceloop": "set TRACELOOP_TRACE_CONTENT=true, and leave the instrumentors at use_attributes=True: as events the "
    "content needs a logs exporter",
    "openlit": "call openlit.init(capture_message_content=True)",
    "openinference": "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and the other "
    "OPENINFERENCE_HIDE_* settings",
    "langfuse": "leave capture_input and capture_output of @observe on "
    "(LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=true)",
    "vercel_ai": "leave recordInputs and recordOutputs of experimental_telemetry on",
    "litellm": "set litellm.turn_off_message_logging=False",
    "haystack": "set HAYSTACK_CONTENT_TRACING_ENABLED=true",
    "langsmith": "leave LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS unset",
    "mlflow": "leave mlflow.autolog(log_traces=True) on, and record the inputs and outputs of your own spans",
}
_SESSION = {
    "openinference": "wrap each turn in using_session(session_id) of openinference-instrumentation "
    "(trace(group_id=…) of the OpenAI Agents SDK is not exported)",
    "traceloop": 'call Traceloop.set_association_properties({"session_id": …}) or set_conversation_id(…) before each '
    "turn",
    "langfuse": "wrap each turn in propagate_attributes(session_id=…)",
    "mlflow": 'call mlflow.update_current_trace(metadata={"mlflow.trace.session": …}) and read MLflow\'s own traces: '
    "the OTLP export drops it",
    "vercel_ai": "give experimental_telemetry a metadata.sessionId (AI SDK 7: OpenTelemetry({runtimeContext: true}) "
    "with telemetry.includeRuntimeContext and a sessionId in the runtime context)",
    "pydantic_ai": "pass conversation_id=… to agent.run",
    "openlit": 'wrap each turn in openlit.using_attributes({"session.id": …})',
    "litellm": "start a span of your own with session.id around each call: LiteLLM drops metadata and "
    "litellm_session_id",
    "haystack": "start a span of your own with session.id around Pipeline.run",
    "langsmith": 'give the run metadata={"session_id": …} (or conversation_id, thread_id)',
    "google_adk": "run with a session service: gen_ai.conversation.id is then on every span",
    "gen_ai": "set gen_ai.conversation.id on the span of the turn, or session.id on a span around it",
}
_DOCUMENTS = {
    "mlflow": "unset MLFLOW_ENABLE_OTEL_GENAI_SEMCONV: it drops inputs and outputs of retriever and chain spans",
    "openlit": "record the passages yourself: OpenLIT's vector store spans have no documents, and its retrieval spans "
    "only the first three",
    "gen_ai": "give gen_ai.retrieval.documents the text too (an extra key `content`): the convention has only id "
    "and score",
    "vercel_ai": "make the search a tool, so that its result is on a span, or record a span for it",
    "litellm": "record a retriever span: LiteLLM sees only the model call",
    "traceloop": "decorate the function that retrieves with @task, or turn on the vector store's instrumentation",
    "openinference": "record a RETRIEVER span with retrieval.documents.N.document.content",
}
_ANY_DOCUMENTS = "record a span for the retrieval that holds the documents it returned"
_LIMIT = (
    "raise or unset OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT (and the limits of "
    "collectors on the way; in Grafana Tempo max_attribute_bytes, 2,048 by default): values were cut"
)


@dataclass(frozen=True, slots=True)
class _Rule:
    code: str
    what: str
    applies: Callable[[Turn], bool]
    remedies: dict[str, str]
    otherwise: str


_RULES = (
    _Rule(
        "content_not_captured",
        "neither the user's message nor the answer is in the trace",
        lambda t: t.user is None and t.answer_state == "not_captured",
        _CONTENT,
        "turn on the capture of message content in the instrumentation",
    ),
    _Rule(
        "user_not_captured",
        "the user's message is not in the trace",
        lambda t: t.user is None and t.answer_state != "not_captured",
        _CONTENT,
        "turn on the capture of inputs in the instrumentation",
    ),
    _Rule(
        "answer_not_captured",
        "the answer is not in the trace",
        lambda t: t.user is not None and t.answer_state == "not_captured",
        _CONTENT,
        "turn on the capture of outputs in the instrumentation",
    ),
    _Rule(
        "passages_not_captured",
        "something was retrieved, but not what",
        lambda t: t.retrieval == "not_captured" and not (t.user is None and t.answer_state == "not_captured"),
        _DOCUMENTS,
        _ANY_DOCUMENTS,
    ),
    _Rule(
        "passage_ids_only",
        "the ids of the passages are in the trace, their texts are not",
        lambda t: t.retrieval == "ids_only",
        _DOCUMENTS,
        _ANY_DOCUMENTS,
    ),
    _Rule(
        "passages_from_prompt",
        "no span holds the passages; they were read from the prompt, without scores",
        lambda t: bool(t.passages) and all(p.read_from == "prompt" for p in t.passages),
        _DOCUMENTS,
        _ANY_DOCUMENTS,
    ),
)


def hints_for(turns: Sequence[Turn], steps: Sequence[Step], *, named: bool) -> tuple[Hint, ...]:
    """The hints of one session.

    Args:
        turns: the session's turns as rebuilt.
        steps: everything its traces held.
        named: whether a span names the session.
    """
    lacking = [turn for turn in turns if not _is_whole(turn)]
    missing = [(r, which) for r in _RULES if (which := tuple([t.number for t in lacking if r.applies(t)]))]
    hints = list(_from_steps(turns, steps))
    if not missing and named:
        return tuple(hints)
    main = main_convention(steps)
    found = [
        Hint(rule.code, main, rule.what, rule.remedies.get(main, rule.otherwise), which) for rule, which in missing
    ]
    if not named:
        what = "no span names a session" + ("; its turns were linked by their history" if len(turns) > 1 else "")
        hints.append(Hint("no_session_id", main, what, _SESSION.get(main, _SESSION["gen_ai"])))
    return (*found, *hints)


def _is_whole(turn: Turn) -> bool:
    """Whether no rule can apply to a turn."""
    return (
        turn.user is not None
        and turn.answer_state != "not_captured"
        and turn.retrieval not in ("not_captured", "ids_only")
        and not (turn.passages and turn.passages[0].read_from == "prompt")
    )


def main_convention(steps: Iterable[Step]) -> str:
    """The convention whose settings decide what is captured: the most specific one of the model calls, else of any."""
    best = (0, "")
    for scope, kind, shape in {(s.span.scope, s.kind, s.shape) for s in steps}:
        if _OPENLLMETRY.fullmatch(scope):
            best = max(best, (100 + _ORDER["traceloop"], "traceloop"))
        weight = 100 if kind == "llm" else 10 if kind != "other" else 1
        for reader in shape.readers:
            rank = _ORDER.get(reader.name)
            if rank is not None and (weight + rank, reader.name) > best:
                best = (weight + rank, reader.name)
    return best[1] or "app"


_OPENLLMETRY = re.compile(
    r"opentelemetry\.instrumentation\.(?:openai\.v[01]|langchain|llamaindex|anthropic|bedrock|cohere|groq|mistralai|ollama"
    r"|together|watsonx|replicate|crewai|haystack|chromadb|pinecone|qdrant|weaviate|milvus|lancedb|marqo)"
)


_ORDER = {
    "gen_ai": 1,
    "litellm": 2,
    "vectordb": 0,
    "google_adk": 3,
    "vercel_ai": 4,
    "mlflow": 5,
    "openlit": 6,
    "traceloop": 6,
    "langsmith": 6,
    "haystack": 6,
    "pydantic_ai": 7,
    "openinference": 8,
    "langfuse": 9,
}


def _from_steps(turns: Sequence[Turn], steps: Sequence[Step]) -> Iterable[Hint]:
    kinds = {s.kind for s in steps}
    shapes = {s.shape for s in steps}
    circles = {s.span.trace_id for s in steps if s.cut_loose}
    partial = any(shape.part_of_trace for shape in shapes)
    parts = {s.span.trace_id for s in steps if partial and s.shape.part_of_trace}
    cut = {s.span.trace_id for s in steps if s.truncated}
    limited = {s.span.trace_id for s in steps if s.kind == "retriever" and not s.truncated and s.incomplete}
    around_raw = {s.span.parent_id for s in steps if s.kind == "llm" and s.shape.raw and s.span.parent_id}
    if not kinds & {"llm", "agent"}:
        yield Hint(
            "no_model_call",
            main_convention(steps),
            "no model call is in the trace",
            "instrument the model's client (opentelemetry-instrumentation-openai-v2 does not see the Responses API; "
            "opentelemetry-instrumentation-genai-openai and OpenInference do)",
            _numbers(turns, None),
        )
    if cut:
        yield Hint(
            "truncated",
            main_convention(steps),
            "attribute values were cut in the middle",
            _LIMIT,
            _numbers(turns, cut),
        )
    if parts:
        yield Hint(
            "trace_incomplete",
            main_convention(steps),
            "the store gave only a part of a trace; a retrieval may be missing",
            "raise the store's limit for one trace (in Grafana Tempo max_bytes_per_trace, 5 MB by default), or start a "
            "trace per turn",
            _numbers(turns, parts),
        )
    if any(t.retrieval == "not_captured" for t in turns) and any(
        builtin_search(step) is None for step in steps if step.kind == "llm"
    ):
        yield Hint(
            "search_results_not_included",
            main_convention(steps),
            "the model's built-in file search ran, but its results were not asked for",
            'pass include=["file_search_call.results"] to the Responses API',
            _numbers(turns, None),
        )
    if circles:
        yield Hint(
            "parent_circle",
            main_convention(steps),
            "spans name each other, or themselves, as parent; the circle was cut, and turns may be put together wrong",
            "see to it that each span has an id of its own and names the span it was started in: a proxy, an exporter "
            "or code of your own changes these ids",
            _numbers(turns, circles),
        )
    if limited:
        yield Hint(
            "first_documents_only",
            "openlit",
            "OpenLIT reports at most three documents of a retrieval",
            "record the documents yourself, or use another instrumentation for retrieval",
            _numbers(turns, limited),
        )
    if around_raw and _any_other(steps, around_raw):
        yield Hint(
            "litellm_parent_race",
            "litellm",
            "LiteLLM wrote its attributes onto spans that had ended; its raw request spans were read instead",
            "set USE_OTEL_LITELLM_REQUEST_SPAN=true, or start no span of your own around LiteLLM calls",
            _numbers(turns, None),
        )
    if any(shape.scrubbed for shape in shapes):
        yield Hint(
            "scrubbed",
            "pydantic_ai",
            "logfire replaced attribute values whose name or text looks secret (session, password, auth, …)",
            "use gen_ai.conversation.id for the session, or adapt logfire.ScrubbingOptions",
            _numbers(turns, None),
        )


def _any_other(steps: Sequence[Step], span_ids: set[str]) -> bool:
    """Whether one of these spans is no model call."""
    kinds: dict[str, str] = {}
    for step in steps:
        if step.span.span_id in span_ids:
            kinds.setdefault(step.span.span_id, step.kind)
    return any(kind != "llm" for kind in kinds.values())


def _numbers(turns: Sequence[Turn], traces: set[str] | None) -> tuple[int, ...]:
    """The turns in these traces, all of them where none is or None is given."""
    every = tuple(t.number for t in turns)
    return every if traces is None else tuple(t.number for t in turns if traces & set(t.trace_ids)) or every


def failed_hint(error: Exception) -> Hint:
    """The hint on a session whose spans could not be put together; it names the kind of error and no text."""
    what = f"its spans could not be put together ({type(error).__name__})"
    return Hint(RECONSTRUCTION_FAILED, "", what, "run with debug logging and report it")
