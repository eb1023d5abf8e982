"""The reason codes of units that have no verdict, and what to tell a person about each."""

from __future__ import annotations

from collections.abc import Mapping

RECONSTRUCTION_FAILED = "reconstruction_failed"
"""Why a session whose spans could not be put together is inconclusive; also the code of the hint on that session."""

SESSION_CHANGED = "session_changed"
"""Why a session has no result any more that had one."""

REASONS: Mapping[str, str] = {
    "single_turn": "only one answered turn: drift needs two; the audit citation_conflict looks at a single answer",
    "no_answers": "no turn was answered",
    "no_passages_captured": "no answered turn has its passages whole in the trace; see `otel-drift inspect`",
    "single_source": "the turn has one passage, or copies of one: nothing can contradict it",
    "content_not_captured": "the instrumentation leaves out the texts; `otel-drift inspect` says which setting helps",
    "tool_grounded": "most answers rest on tools that are no retrieval, so there are no passages to check against",
    "short_form": "the answer has fewer than 200 words; its drift shows over the turns, see factual_drift",
    "conflicting_sources": "its passages contradict each other, so no answer can follow them; see source_conflict",
    "source_exceeds_window": "the source alone is larger than the judge can read beside the answer; it is never cut",
    "turn_exceeds_window": "one turn alone is larger than the judge can read or answer",
    "comparison_exceeds_window": "the claims of the session are more than the judge can compare in one call",
    "session_changed": "its traces turned out to belong to another session, which has the result now",
    "answer_empty": "the judge answered nothing, twice",
    "answer_not_json": "the judge's answer was no JSON, also when asked again",
    "answer_ambiguous": "the judge's answer held more than one JSON object, also when asked again",
    "answer_copied": "the judge repeated JSON that stands in the trace instead of judging",
    "answer_too_long": "the judge's answer was too long to be read",
    "answer_truncated": "the judge's answer was cut at its output limit, also when asked again",
    "answer_schema": "the judge's answer did not have the asked-for form, also when asked again",
    "answer_checks": "quotes or references in the judge's answer did not hold, also when asked again",
    "rate_limited": "the judge's rate limit held on; run again later, or lower judge.max_concurrency",
    "quota_exhausted": "the account with the judge's provider has no quota left",
    "overloaded": "the judge's server was overloaded or failing, also when asked again; run again later",
    "transport": "the judge could not be reached, also when tried again; run again later",
    "timeout": "the judge took longer than judge.timeout, also when asked again",
    "auth": "the judge's provider refused the key",
    "unknown_model": "the judge's provider does not know this model",
    "bad_request": "the judge's server refused the request",
    "bad_response": "the judge's server answered something that is no chat completion",
    "context_window": "the session is larger than the model's window; set judge.input_window to have it cut",
    "refused": "the model refused to judge this text",
    "content_filter": "the provider's content filter blocked the text",
    "unsupported_task": "the embedded judge has no rules for this; name a model with --model",
    "language_not_supported": "the embedded judge reads English only; name a model with --model",
    "session_too_long": "the session has more claims than one answer may list; name a model with --model",
    "reconstruction_failed": "the session's spans could not be put together; run with debug logging and report it",
    "budget_exhausted": "the limit of calls or cost was reached; run again to go on",
    "redaction_failed": "the redaction hook failed, so nothing of this session was sent or shown",
    "config_error": "a prompt or setting of the audit is wrong",
    "internal_error": "a fault in otel-drift; run with debug logging and report it",
}
"""What the reason codes mean, for people. Another judge's own codes may come besides."""


def explain(reason: str) -> str:
    """Return the sentence for a reason code, or the code itself where there is none."""
    return REASONS.get(reason.split(":")[0], reason)


PASSING = frozenset(
    {
        "rate_limited",
        "quota_exhausted",
        "overloaded",
        "transport",
        "timeout",
        "auth",
        "unknown_model",
        "budget_exhausted",
    }
)
"""Reasons of an inconclusive result that may be gone in a later run."""
