"""The LLM judge: any model litellm can reach, asked once a task, with limits, prices and failures made plain.

One ask is bounded in time whatever the server does, retried only by `otel_drift.retry`, and recorded with the model
the response names, its tokens and its cost. Nothing of a prompt or a key gets into errors or logs, and no key into an
answer, whatever the server says.
"""

from __future__ import annotations

import functools
import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from otel_drift import retry
from otel_drift.errors import ConfigError, JudgeError, PermanentJudgeError
from otel_drift.judges import litellm_address as address
from otel_drift.judges import litellm_library as library
from otel_drift.judges.litellm_failures import BAD_RESPONSE, TIMED_OUT, Failure, failure_of, readable_code
from otel_drift.judges.litellm_lines import Lines, OutOfTimeError
from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask
from otel_drift.retry import RetryPolicy

DEFAULT_OUTPUT_LIMIT = 16_384
"""Tokens an answer may have of a model nothing is known about: a session's claims take some thousands."""
_OWN_OPTIONS = frozenset(
    {"model", "messages", "api_base", "base_url", "api_key", "client", "timeout", "num_retries", "max_retries"}
    | {"temperature", "seed", "max_tokens", "max_completion_tokens", "response_format", "stream", "n"}
    | {"drop_params", "no-log", "mock_response"}
)
_LIMIT_KEYS = frozenset({"max_tokens", "max_completion_tokens"})
_GUESSED_LIMIT = "guessed limit"
_SECRET = re.compile(r"key|secret|token|password|credential|header|auth", re.IGNORECASE)


class LiteLLMJudge:
    """Asks a language model through litellm.

    Args:
        model: litellm's name, ``provider/NAME``; a NAME alone at an `api_base` is an OpenAI-compatible server's.
        api_base: Where the provider's API is, if not where litellm looks by itself.
        api_key: The key; None = from the environment, by litellm's rules (``OPENAI_API_KEY``, ...).
        temperature: Sent where the model takes it; None = never.
        seed: Sent where the model takes it; None = never.
        timeout: Seconds for one request, from the first byte sent to the last one read.
        max_concurrency: Requests in flight at the same time.
        max_output_tokens: Most tokens to ask for in an answer; None = the model's output limit.
        input_window: Tokens; overrides litellm's table. Unknown models have none: nothing is split for them.
        output_limit: Tokens; overrides litellm's table.
        input_price: US dollars a token; overrides litellm's table.
        output_price: US dollars a token; overrides litellm's table.
        retry: How often and how long a failed request is tried again.
        extra: Further arguments for litellm, such as ``api_version`` or ``extra_headers``.
        allow_plain_http: Let a key travel over http to a host that is not this machine.

    Raises:
        ConfigError: a setting cannot work, or would send a key in the clear.
    """

    embedded = False

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        seed: int | None = 7,
        timeout: float = 120.0,
        max_concurrency: int = 4,
        max_output_tokens: int | None = None,
        input_window: int | None = None,
        output_limit: int | None = None,
        input_price: float | None = None,
        output_price: float | None = None,
        retry: RetryPolicy = RetryPolicy(),
        extra: Mapping[str, Any] | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        if not model.strip() or not timeout > 0 or max_concurrency < 1:
            raise ConfigError("judge: model must be named, timeout and max_concurrency must be above 0")
        if clash := sorted(_OWN_OPTIONS.intersection(extra or {})):
            raise ConfigError(f"judge: extra may not set {', '.join(clash)}; there are settings for these")
        self._provider, self._name = _split(model, bool(api_base))
        self.model = f"{self._provider}/{self._name}" if api_base and "/" not in model else model
        self._api_base = address.base_url(api_base or address.base_from_environment(self._provider))
        self._api_key = address.checked_key(api_key or os.environ.get(f"{self._provider.upper()}_API_KEY") or None)
        if self._api_base and self._api_key and not allow_plain_http:
            address.refuse_plain_http(self._api_base)
        self._temperature, self._seed, self._timeout = temperature, seed, float(timeout)
        self._max_output_tokens = max_output_tokens
        self._overrides = JudgeLimits(input_window, output_limit, input_price, output_price)
        self._retry, self._extra = retry, dict(extra or {})
        self._lines = Lines(max_concurrency)
        self._rejected: set[str] = set()
        self._lock = threading.Lock()
        self.name = self.model
        self.endpoint = address.shown(self._api_base) if self._api_base else f"provider {self._provider}"
        self.note = f"Judged by the language model {self.model} at {self.endpoint}; every finding is a suspicion."

    def __repr__(self) -> str:
        return f"LiteLLMJudge({self.model!r}, endpoint={self.endpoint!r})"

    def parameters(self) -> Mapping[str, Any]:
        """What was configured to decide the answer; what one request really sent is in its `JudgeAnswer`.

        Independent of litellm's table and of what an endpoint turns out to refuse: a cache key made of it stays valid.
        """
        return {
            "judge": "litellm",
            "model": self.model,
            "api_base": address.shown(self._api_base) if self._api_base else None,
            "temperature": self._temperature,
            "seed": self._seed,
            "response_format": "json_schema",
            "max_output_tokens": self._max_output_tokens,
            "extra": {k: v for k, v in sorted(self._extra.items()) if not _SECRET.search(k)},
        }

    def limits(self) -> JudgeLimits:
        """Limits and prices from litellm's bundled table, where not overridden. Loads litellm (seconds), no network."""
        entry, own = self._entry, self._overrides
        table_output = _positive(entry.get("max_output_tokens")) or _positive(entry.get("max_tokens"))
        output = own.output_tokens or table_output or DEFAULT_OUTPUT_LIMIT
        if self._max_output_tokens:
            output = min(output, self._max_output_tokens)
        return JudgeLimits(
            input_tokens=own.input_tokens or _positive(entry.get("max_input_tokens")),
            output_tokens=output,
            input_price=own.input_price if own.input_price is not None else entry.get("input_cost_per_token"),
            output_price=own.output_price if own.output_price is not None else entry.get("output_cost_per_token"),
        )

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` by a bundled encoding: an estimate for most models. No network."""
        return library.count_tokens(text)

    def check(self) -> None:
        """Make sure, without a call, that there is such a provider and that its key is set.

        Raises:
            ConfigError: unknown provider, or no key where one is needed.
        """
        library.provider_of(self.model)
        if self._api_key or self._api_base:
            return
        if missing := library.missing_key(self.model, self._provider):
            raise ConfigError(f"judge {self.model}: no key; set {missing} in the environment")

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        """Answer one task with one request, or as many as the retry policy allows.

        Takes at most the policy's total time (or one `timeout`, if that is longer) once a connection is free.

        Raises:
            ConfigError: see `check`; nothing was sent.
            RetryableJudgeError: ``rate_limited``, ``overloaded``, ``transport`` or ``timeout``, for as long as retried.
            PermanentJudgeError: ``auth``, ``quota_exhausted``, ``unknown_model``, ``bad_request``, ``context_window``,
                ``bad_response``; ``refused`` and ``content_filter`` with the `answer` that was paid for.
        """
        self.check()
        with self._lines.one() as line:
            deadline = retry.now() + max(self._retry.total_seconds, self._timeout)
            try:
                return retry.call(self._retry, lambda: self._attempt(line, task, deadline), what="judge")
            except JudgeError as error:
                final = self._final(error)
        try:
            raise final
        finally:
            del final  # else traceback and frame hold each other, and with them this judge

    def close(self) -> None:
        """Close idle connections."""
        self._lines.close()

    def _attempt(self, line: Any, task: JudgeTask, deadline: float) -> JudgeAnswer:
        """One attempt of the retry policy: one request, and one more per option the endpoint turns out to refuse."""
        while True:
            sent = self._options(task)
            started = time.monotonic()
            seconds = min(self._timeout, deadline - retry.now())
            outcome = self._request(line, task, sent, seconds) if seconds > 0 else TIMED_OUT
            if not isinstance(outcome, Failure):
                return self._read(task, outcome, sent, time.monotonic() - started)
            if not self._learns(outcome, sent):
                raise outcome.error(self._who)

    def _request(self, line: Any, task: JudgeTask, sent: Mapping[str, Any], seconds: float) -> Any:
        """Send; return litellm's response, or the `Failure` it came to."""
        arguments = {
            **self._extra,
            **sent,
            "model": self.model,
            "messages": [{"role": m.role, "content": _encodable(m.content)} for m in task.messages],
            "timeout": seconds,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
            "no-log": True,
        }
        if self._api_base:
            arguments["api_base"] = self._api_base
        if self._api_key or (self._api_base and self._provider == "openai"):
            arguments["api_key"] = self._api_key or "none"  # servers without keys still want the header
        own_client = self._provider == "openai" and bool(self._api_base)
        try:
            return line.complete(arguments, seconds, own_client=own_client)
        except OutOfTimeError:
            return TIMED_OUT
        except Exception as error:  # whatever litellm and the SDKs below it raise
            return failure_of(error)

    def _options(self, task: JudgeTask) -> dict[str, Any]:
        """The options the model takes, as far as litellm's table knows and the endpoint has not refused them."""
        with self._lock:
            rejected = frozenset(self._rejected)
        sent = {name: value for name, value in self._taken.items() if name not in rejected}
        if _GUESSED_LIMIT not in rejected:
            limit = self.limits().output_tokens or DEFAULT_OUTPUT_LIMIT
            key = "max_completion_tokens" if "max_tokens" in rejected else "max_tokens"
            sent[key] = min(limit, task.max_output_tokens or limit)
        kind = next(kind for kind in self._kinds if kind not in rejected)
        if kind == "json_schema":
            schema = {"name": task.schema_name, "strict": True, "schema": library.portable_schema(task.schema)}
            sent["response_format"] = {"type": kind, "json_schema": schema}
        elif kind == "json_object":
            sent["response_format"] = {"type": kind}
        return sent

    def _learns(self, failure: Failure, sent: Mapping[str, Any]) -> bool:
        """Remember an option the endpoint refused; true if the request can be made again without it."""
        option = next((option for option in failure.rejected if option in sent), None)
        asked = not sent.keys().isdisjoint(_LIMIT_KEYS)
        if failure.reason == "context_window" and failure.status == 400 and asked and self._limit_is_guessed:
            option = _GUESSED_LIMIT  # servers count the tokens asked for against their window
        if option is None:
            return False
        with self._lock:
            self._rejected.add(sent[option]["type"] if option == "response_format" else option)
        return True

    def _read(self, task: JudgeTask, response: Any, sent: Mapping[str, Any], seconds: float) -> JudgeAnswer:
        choices = getattr(response, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise BAD_RESPONSE.error(self._who)
        message, finish = choices[0].message, readable_code(choices[0].finish_reason)
        text = message.content if isinstance(message.content, str) else ""
        answer = self._account(task, response, sent, text, finish, seconds)
        reason = _unusable(text, finish, getattr(message, "refusal", None))
        if reason is not None:
            error = PermanentJudgeError(f"{self._who}: {_UNUSABLE[reason]}", reason=reason)
            error.answer = answer
            raise error
        return answer

    def _account(
        self, task: JudgeTask, response: Any, sent: Mapping[str, Any], text: str, finish: str | None, seconds: float
    ) -> JudgeAnswer:
        usage = getattr(response, "usage", None)
        tokens = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        parameters = {k: v for k, v in sent.items() if k != "response_format"}
        parameters["response_format"] = sent["response_format"]["type"] if "response_format" in sent else "text"
        if tokens == (0, 0):
            tokens = sum(self.count_tokens(m.content) for m in task.messages), self.count_tokens(text)
            parameters["usage"] = "estimated"
        keys = self._keys()
        return JudgeAnswer(
            text=address.without_keys(text, keys),
            model=address.without_keys(str(getattr(response, "model", None) or self.model), keys)[:200],
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            cost=self._cost(response, *tokens, estimated="usage" in parameters),
            seconds=seconds,
            finish_reason=None if finish is None else address.without_keys(finish, keys),
            parameters=MappingProxyType(parameters),
        )

    def _cost(self, response: Any, input_tokens: int, output_tokens: int, *, estimated: bool) -> float | None:
        overridden = self._overrides.input_price is not None or self._overrides.output_price is not None
        counted = getattr(response, "_hidden_params", {}).get("response_cost")
        if self._entry and not overridden and not estimated and isinstance(counted, int | float):
            return float(counted)  # knows the discount for cached tokens
        limits = self.limits()
        if limits.input_price is None or limits.output_price is None:
            return None
        return input_tokens * limits.input_price + output_tokens * limits.output_price

    def _final(self, error: JudgeError) -> JudgeError:
        """The same error, with why it was the last in its message, and without a traceback into other libraries."""
        message = address.without_keys("; ".join([str(error), *getattr(error, "__notes__", ())]), self._keys())
        final = type(error)(message, reason=error.reason, retry_after=error.retry_after)
        final.answer = error.answer
        return final

    def _keys(self) -> tuple[str, ...]:
        """Everything secret a request of this judge may carry; read anew, as litellm reads the environment anew."""
        secret = (text for name, value in self._extra.items() if _SECRET.search(name) for text in _texts(value))
        return address.known_keys((self._api_key, *secret))

    @property
    def _who(self) -> str:
        return f"judge {self.model} at {self.endpoint}"

    @property
    def _limit_is_guessed(self) -> bool:
        return not (self._entry or self._overrides.output_tokens or self._max_output_tokens)

    @functools.cached_property
    def _entry(self) -> Mapping[str, Any]:
        return library.table_entry(self._provider, self._name)

    @functools.cached_property
    def _taken(self) -> Mapping[str, Any]:
        wanted = {"temperature": self._temperature, "seed": self._seed}
        set_ones = {name: value for name, value in wanted.items() if value is not None}
        return {n: v for n, v in set_ones.items() if library.takes(self._provider, self._name, **{n: v})}

    @functools.cached_property
    def _kinds(self) -> tuple[str, ...]:
        return library.response_kinds(self._provider, self._name, unknown_endpoint=bool(self._api_base))


_UNUSABLE: Mapping[str, str] = {
    "refused": "the model refused to answer",
    "content_filter": "the answer was blocked by the provider's content filter",
}


def _unusable(text: str, finish: str | None, refusal: Any) -> str | None:
    """Why there is nothing to mend in an answer; one that is merely empty or cut off can be asked for again."""
    if finish == "content_filter":
        return "content_filter"
    return "refused" if refusal and not text.strip() else None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, str):
        yield value
        yield value.removeprefix("Bearer ")


def _split(model: str, has_base: bool) -> tuple[str, str]:
    provider, slash, name = model.strip().partition("/")
    if slash:
        return provider, name
    return ("openai", provider) if has_base else library.provider_of(provider)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _positive(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) and value > 0 else None


def _count(usage: Any, name: str) -> int:
    value = getattr(usage, name, 0)
    return value if isinstance(value, int) and 0 < value < 1_000_000_000 else 0
