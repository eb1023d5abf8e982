"""The LLM judge against a real server: what it sends, what it records, how it fails, and what it never gives away."""

from __future__ import annotations

import email.utils
import gc
import json
import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer, Reply, Request
from otel_drift import retry
from otel_drift.cli.wiring import open_judge
from otel_drift.config import load_settings
from otel_drift.errors import ConfigError, JudgeError, PermanentJudgeError, RetryableJudgeError
from otel_drift.judges import litellm_library
from otel_drift.judges.litellm import DEFAULT_OUTPUT_LIMIT, LiteLLMJudge
from otel_drift.model import JudgeAnswer, JudgeTask, Message, PromptRef
from otel_drift.protocols import Judge
from otel_drift.retry import NO_RETRY, RetryPolicy

KEY = "sk-test-4f1d0c9b8a7e6d5c"
SECRET_TEXT = "The patient's ward is called Zolmarin"
SCHEMA = {
    "type": "object",
    "title": "Answer",
    "properties": {"verdict": {"type": "string", "minLength": 1, "enum": ["yes", "no"]}},
}


def task(text: str = SECRET_TEXT, **changes: Any) -> JudgeTask:
    fields: dict[str, Any] = {
        "audit": "factual_drift",
        "step": "session",
        "prompt": PromptRef("factual_drift/session", "v1", "0" * 64),
        "messages": (Message("system", "Judge."), Message("user", text)),
        "schema_name": "verdict",
        "schema": SCHEMA,
        "fingerprint": "f" * 64,
    }
    return JudgeTask(**{**fields, **changes})


def judge_of(server: ModelServer, model: str = "openai/scripted", **options: Any) -> LiteLLMJudge:
    return LiteLLMJudge(model, **{"api_base": server.url, "api_key": KEY, "timeout": 20.0, **options})


def failing(server: ModelServer, **options: Any) -> JudgeError:
    """The error of one ask, waits skipped."""
    with retry.testing(), pytest.raises(JudgeError) as caught:
        judge_of(server, **options).ask(task())
    return caught.value


def test_it_is_a_judge() -> None:
    assert isinstance(LiteLLMJudge("openai/scripted", api_base="http://127.0.0.1:9/v1"), Judge)


# What is sent


def test_messages_options_schema_and_key_go_out_once() -> None:
    with ModelServer([Reply({"verdict": "yes"})]) as server:
        judge_of(server).ask(task())
        (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.messages == [{"role": "system", "content": "Judge."}, {"role": "user", "content": SECRET_TEXT}]
    sent = {name: request.body[name] for name in request.body if name != "messages"}
    assert sent == {
        "model": "scripted",
        "temperature": 0.0,
        "seed": 7,
        "max_tokens": DEFAULT_OUTPUT_LIMIT,
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "verdict",
                "strict": True,
                "schema": {
                    "type": "object",
                    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
                    "required": ["verdict"],
                    "additionalProperties": False,
                },
            },
        },
    }


@pytest.mark.filterwarnings("ignore:.*ReadOnly")  # litellm's own filter does not survive into a test
def test_temperature_and_seed_go_only_where_the_model_takes_them() -> None:
    with ModelServer([Reply("{}")]) as server:
        judge_of(server, "openai/gpt-5-mini").ask(task())
        judge_of(server, temperature=None, seed=None).ask(task())
    reasoning, unset = (request.body for request in server.requests)
    assert "temperature" not in reasoning
    assert reasoning["seed"] == 7
    assert "max_tokens" not in reasoning
    assert reasoning["max_completion_tokens"] > 0
    assert "temperature" not in unset
    assert "seed" not in unset
    assert not litellm_library.takes("anthropic", "claude-sonnet-4-5", seed=7)
    assert litellm_library.takes("mistral", "mistral-small-latest", seed=7)


@pytest.mark.parametrize(
    ("options", "wanted", "sent"),
    [({}, 900, 900), ({"max_output_tokens": 500}, 900, 500), ({"output_limit": 700}, None, 700), ({}, 10**6, 16384)],
)
def test_an_answer_is_asked_to_stay_within_every_limit(options: dict[str, Any], wanted: int | None, sent: int) -> None:
    with ModelServer([Reply("{}")]) as server:
        judge_of(server, **options).ask(task(max_output_tokens=wanted))
    assert server.requests[0].body["max_tokens"] == sent


def test_extra_arguments_reach_the_model_and_secret_ones_no_record() -> None:
    extra = {"top_p": 0.5, "extra_headers": {"X-Tenant": "t1"}}
    with ModelServer([Reply("{}")]) as server:
        judge = judge_of(server, extra=extra)
        judge.ask(task())
    assert server.requests[0].body["top_p"] == 0.5
    assert server.requests[0].headers["x-tenant"] == "t1"
    assert judge.parameters()["extra"] == {"top_p": 0.5}
    with pytest.raises(ConfigError, match="temperature"):
        LiteLLMJudge("openai/scripted", extra={"temperature": 1})


def test_a_server_without_keys_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ModelServer([Reply("{}")]) as server:
        LiteLLMJudge("scripted", api_base=server.url).ask(task())
    assert server.requests[0].headers["authorization"] == "Bearer none"


def test_key_and_url_come_from_the_environment_and_the_endpoint_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([Reply("{}")]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        judge = LiteLLMJudge("openai/scripted")
        judge.ask(task())
    assert judge.endpoint == server.url
    assert judge.parameters()["api_base"] == server.url
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_whole_completions_url_is_understood() -> None:
    with ModelServer([Reply("{}")]) as server:
        judge_of(server, api_base=f"{server.url}/chat/completions/").ask(task())
    assert server.requests[0].path == "/v1/chat/completions"


def test_half_a_character_in_a_prompt_does_not_stop_the_ask() -> None:
    with ModelServer([Reply("{}")]) as server:
        judge_of(server).ask(task("broken \ud800 emoji"))
    assert server.requests[0].messages[1]["content"] == "broken ? emoji"


# What is recorded


def test_the_answer_names_the_model_of_the_response_tokens_cost_and_what_was_sent() -> None:
    reply = Reply("{}", model="scripted-2026-01-15", usage={"prompt_tokens": 1000, "completion_tokens": 10})
    with ModelServer([reply]) as server:
        answer = judge_of(server, input_price=2e-6, output_price=1e-5).ask(task())
    assert answer.text == "{}"
    assert answer.model == "scripted-2026-01-15"
    assert (answer.input_tokens, answer.output_tokens) == (1000, 10)
    assert answer.cost == pytest.approx(0.0021)
    assert answer.finish_reason == "stop"
    assert answer.seconds > 0
    assert dict(answer.parameters) == {
        "temperature": 0.0,
        "seed": 7,
        "max_tokens": DEFAULT_OUTPUT_LIMIT,
        "response_format": "json_schema",
    }


def test_cost_is_unknown_without_a_price_and_from_the_table_with_one() -> None:
    with ModelServer([Reply("{}", model="gpt-4.1-mini")]) as server:
        unknown = judge_of(server).ask(task())
        known = judge_of(server, "openai/gpt-4.1-mini").ask(task())
    assert unknown.cost is None
    limits = LiteLLMJudge("openai/gpt-4.1-mini", api_base=server.url).limits()
    assert limits.input_price is not None
    assert limits.output_price is not None
    assert known.cost == pytest.approx(120 * limits.input_price + 30 * limits.output_price)


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": -5, "completion_tokens": 10**30}])
def test_tokens_a_server_does_not_count_are_estimated_and_marked(usage: dict[str, Any] | None) -> None:
    with ModelServer([Reply("one two three", usage=usage)]) as server:
        answer = judge_of(server, input_price=1.0, output_price=1.0).ask(task())
    assert 5 <= answer.input_tokens <= 20
    assert 2 <= answer.output_tokens <= 5
    assert answer.cost == answer.input_tokens + answer.output_tokens
    assert answer.parameters["usage"] == "estimated"


def test_a_cut_off_answer_shows_its_finish_reason() -> None:
    with ModelServer([Reply('{"verd', finish_reason="length"), Reply("", finish_reason="length")]) as server:
        judge = judge_of(server)
        assert (judge.ask(task()).text, judge.ask(task()).finish_reason) == ('{"verd', "length")


def test_parameters_are_what_was_configured_whatever_the_endpoint_refuses() -> None:
    with ModelServer([Reply(status=400, body=_refusing("response_format")), Reply("{}")]) as server:
        judge = judge_of(server)
        before = judge.parameters()
        judge.ask(task())
    assert judge.parameters() == before
    assert before["model"] == "openai/scripted"
    assert before["api_base"] == server.url
    assert before != judge_of(server, seed=8).parameters()
    assert before != LiteLLMJudge("openai/scripted", api_base="http://127.0.0.1:9/v1").parameters()


# How it fails


def _error(**fields: Any) -> str:
    return json.dumps({"error": {"message": f"{SECRET_TEXT} {KEY} rate limit", **fields}})


def _refusing(option: str) -> str:
    return _error(code="unsupported_parameter", param=option)


FAILURES: list[tuple[str, Reply, type[JudgeError], str]] = [
    ("429", Reply(status=429, body=_error(code="rate_limit_exceeded")), RetryableJudgeError, "rate_limited"),
    ("500", Reply(status=500, body=_error()), RetryableJudgeError, "overloaded"),
    ("503", Reply(status=503, body=_error()), RetryableJudgeError, "overloaded"),
    ("529", Reply(status=529, body=_error(type="overloaded_error")), RetryableJudgeError, "overloaded"),
    ("502 page", Reply(status=502, body="<html>", content_type="text/html"), RetryableJudgeError, "overloaded"),
    ("408", Reply(status=408, body=_error()), RetryableJudgeError, "timeout"),
    ("cut in the body", Reply("x" * 500, cut_after=100), RetryableJudgeError, "transport"),
    ("cut at once", Reply("x", cut_after=0), RetryableJudgeError, "transport"),
    ("error in a 200", Reply(body=_error(code=503)), RetryableJudgeError, "overloaded"),
    ("rate limit in a 200", Reply(body=_error(code="rate_limit_exceeded")), RetryableJudgeError, "rate_limited"),
    ("quota", Reply(status=429, body=_error(code="insufficient_quota")), PermanentJudgeError, "quota_exhausted"),
    ("402", Reply(status=402, body=_error()), PermanentJudgeError, "quota_exhausted"),
    ("401", Reply(status=401, body=_error(code="invalid_api_key")), PermanentJudgeError, "auth"),
    ("403", Reply(status=403, body=_error()), PermanentJudgeError, "auth"),
    ("404", Reply(status=404, body=_error(code="model_not_found")), PermanentJudgeError, "unknown_model"),
    ("400", Reply(status=400, body=_error(code="invalid_value")), PermanentJudgeError, "bad_request"),
    ("422", Reply(status=422, body=_error()), PermanentJudgeError, "bad_request"),
    ("window", Reply(status=400, body=_error(code="context_length_exceeded")), PermanentJudgeError, "context_window"),
    ("413", Reply(status=413, body=_error()), PermanentJudgeError, "context_window"),
    ("filtered prompt", Reply(status=400, body=_error(code="content_filter")), PermanentJudgeError, "content_filter"),
    ("filtered answer", Reply(None, finish_reason="content_filter"), PermanentJudgeError, "content_filter"),
    ("refusal", Reply(None, refusal=f"I can't discuss {SECRET_TEXT}"), PermanentJudgeError, "refused"),
    ("unknown error in a 200", Reply(body=_error()), PermanentJudgeError, "bad_response"),
    ("no JSON", Reply(body=f"{{{SECRET_TEXT}"), PermanentJudgeError, "bad_response"),
    ("HTML", Reply(body=f"<html>{SECRET_TEXT}</html>", content_type="text/html"), PermanentJudgeError, "bad_response"),
    ("array", Reply(body="[1, 2]"), PermanentJudgeError, "bad_response"),
    ("null", Reply(body="null"), PermanentJudgeError, "bad_response"),
    ("no choices", Reply(body='{"object": "chat.completion", "choices": []}'), PermanentJudgeError, "bad_response"),
    ("null choice", Reply(body='{"choices": [null]}'), PermanentJudgeError, "bad_response"),
    ("null message", Reply(body='{"choices": [{"message": null}]}'), PermanentJudgeError, "bad_response"),
    ("redirect", Reply(status=307, headers={"Location": "/v2/"}), PermanentJudgeError, "bad_response"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "kind", "reason"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES])
def test_each_failure_has_its_kind_and_reason_and_gives_nothing_away(
    reply: Reply,
    kind: type[JudgeError],
    reason: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Retried exactly as often as our policy says: the retries of litellm and of the SDK below it are off."""
    with ModelServer([reply]) as server, caplog.at_level(logging.INFO):
        error = failing(server, retry=RetryPolicy(attempts=3), output_limit=8000)
    assert type(error) is kind
    assert error.reason == reason
    assert len(server.requests) == (3 if kind is RetryableJudgeError else 1)
    assert "judge openai/scripted at http://127.0.0.1:" in str(error)
    shown = "".join(traceback.format_exception(error)) + caplog.text + "".join(capfd.readouterr())
    assert KEY not in shown
    assert "Zolmarin" not in shown


def test_no_key_comes_back_in_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says again what it was sent: given key, keys of the environment and secret headers alike."""
    other, header = "other-key-of-the-environment", "a-secret-header-value"
    monkeypatch.setenv("GEMINI_API_KEY", other)
    said = f'{{"verdict": "{KEY} and {other} and {header}, none of it"}}'
    extra = {"extra_headers": {"X-Auth": f"Bearer {header}"}}
    with ModelServer([Reply(said, model=f"m-{KEY}", finish_reason="stop")]) as server:
        answer = judge_of(server, extra=extra).ask(task())
        assert server.requests[0].headers["x-auth"].endswith(header)
    removed = "[key removed]"
    assert answer.text == f'{{"verdict": "{removed} and {removed} and {removed}, none of it"}}'
    assert answer.model == f"m-{removed}"


def test_no_key_comes_back_in_an_error_or_its_answer() -> None:
    """Not even one that looks like a code of the provider's, and not in what a refusal cost."""
    key = "sk_looks_like_a_code"
    with ModelServer([Reply(status=400, body=_error(code=key)), Reply(key, finish_reason="content_filter")]) as server:
        refused = failing(server, api_key=key)
        filtered = failing(server, api_key=key)
    assert key not in str(refused)
    assert "[key removed]" in str(refused)
    assert filtered.answer is not None
    assert filtered.answer.text == "[key removed]"


def test_a_placeholder_for_a_key_may_stand_in_an_answer() -> None:
    with ModelServer([Reply({"verdict": "none"})]) as server:
        assert "none" in judge_of(server, api_key="none").ask(task()).text


def test_nobody_home_is_a_transport_failure() -> None:
    with ModelServer([]) as server:
        pass
    assert failing(server, retry=NO_RETRY).reason == "transport"


def test_a_refusal_carries_the_answer_that_was_paid_for() -> None:
    with ModelServer([Reply(None, refusal="No.")]) as server:
        error = failing(server, input_price=1.0, output_price=1.0)
    assert isinstance(error.answer, JudgeAnswer)
    assert error.answer.cost == 150


@pytest.mark.parametrize("status", [429, 503])
def test_a_servers_retry_after_is_waited_for(status: int) -> None:
    replies = [
        Reply(status=status, headers={"Retry-After": "7"}),
        Reply(status=status, headers={"Retry-After": email.utils.formatdate(time.time() + 60, usegmt=True)}),
        Reply(status=status, headers={"retry-after-ms": "9000"}),
        Reply("{}"),
    ]
    with ModelServer(replies) as server, retry.testing() as waits:
        judge_of(server).ask(task())
    assert len(server.requests) == 4
    assert 7 <= waits[0] <= 7.5
    assert 55 <= waits[1] <= 60.5
    assert 9 <= waits[2] <= 9.5


def test_a_retry_after_of_hours_gives_up_at_once_and_says_so() -> None:
    with ModelServer([Reply(status=429, headers={"Retry-After": "7200"})]) as server:
        error = failing(server)
    assert len(server.requests) == 1
    assert error.retry_after == 7200
    assert "asked to wait 7200 s" in str(error)


@pytest.mark.parametrize(
    "reply",
    [
        Reply("{}", delay=60),
        Reply("{}", drip=0.05),
        Reply("{}", drip=0.05, drip_headers=True),
    ],
    ids=["stalls", "drips the body", "drips the headers"],
)
def test_a_request_ends_in_time_whatever_the_server_does_and_its_connection_is_closed(reply: Reply) -> None:
    litellm_library.load()
    with ModelServer([reply]) as server:
        started = time.monotonic()
        error = failing(server, timeout=0.4, retry=RetryPolicy(attempts=2))
        elapsed = time.monotonic() - started
        assert error.reason == "timeout"
        assert _soon(lambda: len(server.requests) == 2), "the server may hear of a request when it is over"
        assert 0.8 <= elapsed < 14  # the drips alone would take 15 s and more
        if not reply.delay:
            assert _soon(lambda: server.in_work == 0), "the server still drips into an open connection"


def test_the_total_time_bounds_the_last_attempt_too() -> None:
    """Nine attempts of a second each would take nine seconds; the second one is cut short."""
    litellm_library.load()
    with ModelServer([Reply("{}", delay=60)]) as server:
        started = time.monotonic()
        policy = RetryPolicy(attempts=9, total_seconds=1.4, initial=0.01, jitter=0)
        with pytest.raises(RetryableJudgeError, match=r"the 1 s allowed are used up") as caught:
            judge_of(server, timeout=1.0, retry=policy).ask(task())
        assert time.monotonic() - started < 8
    assert caught.value.reason == "timeout"
    assert len(server.requests) <= 2


def test_after_a_failure_the_next_ask_works() -> None:
    replies = [Reply("{}", drip=0.05), Reply("x", cut_after=3), Reply("{}")]
    with ModelServer(replies) as server, retry.testing():
        judge = judge_of(server, timeout=2, max_concurrency=1)
        assert judge.ask(task()).text == "{}"
        assert judge.ask(task()).text == "{}"
    assert len(server.requests) >= 4


def test_an_option_the_endpoint_refuses_is_left_out_from_then_on() -> None:
    replies = [
        Reply(status=400, body=_error(code="x", param="response_format.json_schema")),
        Reply(status=400, body='{"error": {"message": "this server has no JSON mode: response_format"}}'),
        Reply(status=400, body='{"error": {"message": "use max_completion_tokens instead of max_tokens"}}'),
        Reply(status=400, body=_refusing("temperature")),
        Reply("{}"),
    ]
    with ModelServer(replies) as server:
        judge = judge_of(server, retry=NO_RETRY)
        first, second = judge.ask(task()), judge.ask(task())
    assert len(server.requests) == 6
    formats = [request.body.get("response_format", {}).get("type") for request in server.requests]
    assert formats == ["json_schema", "json_object", None, None, None, None]
    assert "temperature" not in server.requests[-1].body
    assert server.requests[-1].body["max_completion_tokens"] == DEFAULT_OUTPUT_LIMIT
    assert first.parameters == second.parameters
    assert first.parameters["response_format"] == "text"


def test_a_refusal_that_never_ends_ends() -> None:
    with ModelServer([Reply(status=400, body='{"error": {"message": "response_format temperature seed"}}')]) as server:
        assert failing(server, retry=NO_RETRY).reason == "bad_request"
    assert len(server.requests) == 5


def test_a_window_smaller_than_our_guess_of_an_output_limit_is_asked_without_one() -> None:
    """vLLM adds the tokens asked for to the prompt's, and refuses what exceeds its window."""
    too_long = (
        '{"error": {"message": "This model\'s maximum context length is 8192 tokens. However, you requested more"}}'
    )
    with ModelServer([Reply(status=400, body=too_long), Reply("{}")]) as server:
        judge = judge_of(server, retry=NO_RETRY)
        judge.ask(task())
        judge.ask(task())
    assert [request.body.get("max_tokens") for request in server.requests] == [DEFAULT_OUTPUT_LIMIT, None, None]
    with ModelServer([Reply(status=400, body=too_long)]) as server:
        assert failing(server, output_limit=8000).reason == "context_window"
    assert len(server.requests) == 1


def test_a_redirect_takes_the_text_nowhere() -> None:
    with ModelServer([Reply("{}")]) as elsewhere:
        with ModelServer([Reply(status=307, headers={"Location": f"{elsewhere.url}/chat/completions"})]) as server:
            failing(server)
        assert elsewhere.requests == []


# Threads


def test_no_more_requests_in_flight_than_allowed() -> None:
    together = threading.Barrier(2)

    def in_pairs(request: Request) -> Reply:
        together.wait(timeout=20)
        return Reply("{}")

    with ModelServer(in_pairs) as server, ThreadPoolExecutor(6) as pool:
        judge = judge_of(server, max_concurrency=2)
        assert len(list(pool.map(lambda _: judge.ask(task()), range(6)))) == 6
    assert server.peak == 2


def test_a_judge_nobody_closes_leaves_no_open_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors tie judge and connection into cycles, which are cleared in any order."""
    complaints: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    with ModelServer([Reply("{}"), Reply(status=401)]) as server:
        judge = judge_of(server)
        judge.ask(task())
        judge.itself = judge  # type: ignore[attr-defined]
        with pytest.raises(PermanentJudgeError) as caught:
            judge.ask(task())
        del judge, caught
        gc.collect()
    assert complaints == []


# Configuration


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_base": "http://judge.example/v1", "api_key": KEY}, "unencrypted"),
        ({"api_base": "http://127.0.0.1.example/v1", "api_key": KEY}, "unencrypted"),
        ({"api_base": "http://0.0.0.0:8000/v1", "api_key": KEY}, "OTEL_DRIFT_JUDGE__ALLOW_PLAIN_HTTP"),
        ({"api_base": "http://[::]:8000/v1", "api_key": KEY}, "unencrypted"),
        ({"api_base": f"https://user:{KEY}@judge.example/v1"}, "credentials"),
        ({"api_base": "ftp://judge.example"}, "http"),
        ({"api_base": "judge.example:8000/v1"}, "http"),
        ({"api_base": "http://[::1/v1"}, "http"),
        ({"api_key": f"{KEY}\n"}, "key"),
        ({"timeout": 0}, "timeout"),
        ({"max_concurrency": 0}, "max_concurrency"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_without_showing_the_key(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        LiteLLMJudge("openai/scripted", **options)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:1/v1", "http://[::1]:1/v1", "http://127.1.2.3/v1", "https://x.example"]
)
def test_a_key_may_go_to_this_machine_and_over_https(url: str) -> None:
    judge = LiteLLMJudge("openai/scripted", api_base=url, api_key=KEY)
    assert judge.endpoint == url
    assert KEY not in repr(judge)
    assert KEY not in str(judge.parameters())
    assert KEY not in judge.note


def test_plain_http_elsewhere_needs_no_key_or_a_word() -> None:
    LiteLLMJudge("openai/scripted", api_base="http://judge.example/v1")
    LiteLLMJudge("openai/scripted", api_base="http://judge.example/v1", api_key=KEY, allow_plain_http=True)


def test_the_settings_can_allow_it_for_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    given = {"judge": {"model": "openai/scripted", "api_base": "http://judge.example/v1"}}
    with pytest.raises(ConfigError, match="allow_plain_http"):
        open_judge(load_settings(overrides=given).judge)
    monkeypatch.setenv("OTEL_DRIFT_JUDGE__ALLOW_PLAIN_HTTP", "true")
    assert open_judge(load_settings(overrides=given).judge).name == "openai/scripted"


@pytest.mark.parametrize(
    ("model", "names"),
    [("openai/gpt-4.1-mini", "OPENAI_API_KEY"), ("gpt-4.1-mini", "OPENAI_API_KEY"),
     ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"), ("gemini/gemini-2.5-flash", "GEMINI_API_KEY")],
)  # fmt: skip
def test_a_missing_key_is_one_clear_line_before_anything_is_sent(
    model: str, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in os.environ if n.endswith(("_API_KEY", "_BASE_URL", "_API_BASE"))]:
        monkeypatch.delenv(name)
    judge = LiteLLMJudge(model)
    with pytest.raises(ConfigError, match=names):
        judge.check()
    monkeypatch.setenv(names, " ")  # as a file of settings leaves it
    with pytest.raises(ConfigError, match=names):
        judge.check()
    assert os.environ[names] == " "
    with pytest.raises(ConfigError, match=names) as caught:
        judge.ask(task())
    assert "\n" not in str(caught.value)
    monkeypatch.setenv(names, KEY)
    LiteLLMJudge(model).check()


def test_the_command_line_stops_at_a_missing_key_before_it_reads_anything(
    otel_drift: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    run = otel_drift("audit", "no-such-file.json", "--model", "openai/gpt-4.1-mini", "--ledger", tmp_path / "l.db")
    assert (run.returncode, run.stdout) == (2, "")
    assert "set OPENAI_API_KEY" in " ".join(run.stderr.split())
    assert not (tmp_path / "l.db").exists()


def test_an_unknown_provider_is_named_with_the_way_out(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="openai/NAME with an api_base"):
        LiteLLMJudge("nobodys-model")
    with pytest.raises(ConfigError, match="unknown provider"):
        LiteLLMJudge("meta-llama/Llama-3", api_base="http://127.0.0.1:9/v1").check()
    assert capfd.readouterr() == ("", "")


def test_limits_and_prices_come_from_the_table_and_can_be_overridden() -> None:
    table = LiteLLMJudge("openai/gpt-4.1-mini").limits()
    assert (table.input_tokens, table.output_tokens) == (1047576, 32768)
    assert (table.input_price, table.output_price) == (4e-07, 1.6e-06)
    own = LiteLLMJudge("gpt-4.1-mini", input_window=1000, output_limit=100, input_price=0.0, output_price=1.0).limits()
    assert (own.input_tokens, own.output_tokens, own.input_price, own.output_price) == (1000, 100, 0.0, 1.0)
    assert LiteLLMJudge("openai/gpt-4.1-mini", max_output_tokens=50).limits().output_tokens == 50
    unknown = LiteLLMJudge("openai/scripted", api_base="http://127.0.0.1:9/v1").limits()
    assert (unknown.input_tokens, unknown.output_tokens, unknown.input_price) == (None, DEFAULT_OUTPUT_LIMIT, None)


def test_a_name_another_provider_has_in_the_table_takes_nothing_from_it() -> None:
    assert LiteLLMJudge("openai/claude-sonnet-4-5", api_base="http://127.0.0.1:9/v1").limits().input_price is None


def test_tokens_are_counted_even_of_special_and_broken_text() -> None:
    judge = LiteLLMJudge("openai/scripted", api_base="http://127.0.0.1:9/v1")
    assert judge.count_tokens("") == 0
    assert 150 <= judge.count_tokens("word " * 200) <= 250
    assert judge.count_tokens("<|endoftext|> <|im_start|>") > 0
    assert judge.count_tokens("half \ud800 a character") > 0


def test_the_schema_is_reduced_to_what_endpoints_accept() -> None:
    schema = {
        "$defs": {"Claim": {"type": "object", "properties": {"title": {"type": "string", "maxLength": 9}}}},
        "type": "object",
        "title": "Answer",
        "properties": {
            "claims": {"type": "array", "maxItems": 5000, "items": {"$ref": "#/$defs/Claim"}},
            "note": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}], "default": None},
        },
    }
    assert litellm_library.portable_schema(schema) == {
        "$defs": {
            "Claim": {
                "type": "object",
                "properties": {"title": {"type": "string"}},
                "required": ["title"],
                "additionalProperties": False,
            }
        },
        "type": "object",
        "properties": {
            "claims": {"type": "array", "items": {"$ref": "#/$defs/Claim"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["claims", "note"],
        "additionalProperties": False,
    }


# What it leaves alone


def test_neither_import_nor_table_nor_tokenizer_touches_the_network_or_a_dotenv_file(tmp_path: Path) -> None:
    """litellm would fetch its price list and read .env files; both are off."""
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=https://elsewhere.example/v1\nFROM_DOTENV=1\n")
    script = """
import os, socket, sys
tried = []
def refuse(*arguments, **options):
    tried.append(arguments)
    raise OSError("no network in this test")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
import otel_drift.judges.litellm as module
assert "litellm" not in sys.modules and "openai" not in sys.modules and "tenacity" not in sys.modules
judge = module.LiteLLMJudge("openai/gpt-5-mini", api_base="http://127.0.0.1:9/v1")
judge.parameters()
assert "litellm" not in sys.modules
for name in ("openai/gpt-5-mini", "anthropic/claude-sonnet-4-5", "groq/llama-3.3-70b-versatile", "ollama/llama3"):
    judge = module.LiteLLMJudge(name, api_base="http://127.0.0.1:9/v1")
    judge.check(), judge.limits(), judge.count_tokens("Hello world."), judge._kinds, judge._taken
assert not tried, tried
assert "FROM_DOTENV" not in os.environ
print("quiet")
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert (run.stdout, run.stderr, run.returncode) == ("quiet\n", "", 0)


def test_callbacks_of_the_application_around_us_never_see_a_prompt_of_ours() -> None:
    from openai import OpenAI

    litellm = litellm_library.load()
    seen: list[str] = []
    heard = threading.Event()

    def spy(call: dict[str, Any], response: Any, start: Any, end: Any) -> None:
        seen.append(str(call.get("messages")))
        heard.set()

    litellm.success_callback.append(spy)
    try:
        with ModelServer([Reply("{}")]) as server, OpenAI(base_url=server.url, api_key="app", max_retries=0) as own:
            judge_of(server).ask(task())
            said = [{"role": "user", "content": "the application's own"}]
            litellm.completion(model="openai/app", client=own, messages=said)  # its own client would never be closed
            assert heard.wait(60)
    finally:
        litellm.success_callback.remove(spy)
    assert len(seen) == 1
    assert "the application's own" in seen[0]


def _soon(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()
